"""Many relays: what they cost at rest, and how soon a change of one graph is followed."""

from __future__ import annotations

import asyncio

import pytest

from dynamo_operator.api.labels import GRAPH_NAME_LABEL, WORKER_HASH_LABEL
from dynamo_operator.api.v1alpha1 import DynamoPoolRelay
from dynamo_operator.cli.graph_crds import GRAPH_CRDS
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.runtime import Manager
from dynamo_operator.runtime.builtin_kinds import ConfigMap
from dynamo_operator.testing import Interceptor
from dynamo_operator.testing.cluster import Cluster
from informers.objects import ObjectKey
from reconcilers import pool_relay
from reconcilers.pool_relay.graphs import ServedComponent, ServedGraph
from tests.reconcilers.pool_relay.relays import GRAPH, RELAY

pytestmark = pytest.mark.virtual_time

RELAYS = 200
CHANGES = 100


def sources(number: int) -> ObjectKey:
    return ObjectKey("default", f"g{number}-pool-relay-sources")


async def make(cluster: Cluster, number: int) -> ServedGraph:
    name = f"g{number}"
    await cluster.client.create(
        DynamoPoolRelay.new(name, namespace="default", spec=RELAY.spec.to_dict())
    )
    graph = ServedGraph.new(name, namespace="default", spec=GRAPH.spec)
    return await cluster.client.create(graph)


async def told(cluster: Cluster, number: int, generation: str) -> None:
    """Wait until the relays of a graph are told of a generation of its workers."""
    await cluster.eventually(
        lambda: cluster.client.get(ConfigMap, sources(number)),
        lambda found: generation in found.data["sources.json"],
    )


async def test_two_hundred_relays_cost_nothing_at_rest_and_follow_at_once():
    crds = [*custom_resource_definitions(), *GRAPH_CRDS]
    async with Cluster.start(crds=crds) as cluster:
        interceptor = Interceptor(cluster.clock)
        client = interceptor.around(cluster.client)
        manager = Manager(client, clock=cluster.clock, random=cluster.random)
        pool_relay.add_to(manager)
        async with manager.running():
            graphs = [await make(cluster, number) for number in range(RELAYS)]
            await asyncio.sleep(60.0)
            assert len(await cluster.client.list(ConfigMap, namespace="default")) == RELAYS

            before = len(interceptor.requests)
            await asyncio.sleep(3600.0)
            asked = interceptor.requests[before:]
            assert [str(request) for request in asked if not request.is_watch] == []

            took = []
            for number in range(CHANGES):
                component = ServedComponent.new(
                    f"d{number}",
                    namespace="default",
                    labels={GRAPH_NAME_LABEL: f"g{number}", WORKER_HASH_LABEL: "aaaa"},
                    spec={"type": "decode"},
                )
                began = cluster.clock.monotonic()
                await cluster.client.create(component, owner=graphs[number])
                await told(cluster, number, "-aaaa")
                took.append(cluster.clock.monotonic() - began)
            assert sorted(took)[CHANGES * 99 // 100 - 1] < 1.0
