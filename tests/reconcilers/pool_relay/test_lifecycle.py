"""Relays beside a graph: served, withdrawn, and not written to without need."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from dynamo_operator.api.conditions import ConditionType, ReadyReason, find_condition
from dynamo_operator.api.v1alpha1 import DynamoPoolRelay
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.runtime import Manager
from dynamo_operator.runtime.builtin_kinds import ConfigMap, Deployment, Service
from dynamo_operator.testing.cluster import Cluster
from informers.objects import ObjectKey
from reconcilers import pool_relay
from reconcilers.pool_relay.graphs import ServedGraph
from tests.graph_kinds import GRAPH_CRDS

pytestmark = pytest.mark.virtual_time

KEY = ObjectKey("default", "aurora")
CHILD = ObjectKey("default", "aurora-pool-relay")
SOURCES = ObjectKey("default", "aurora-pool-relay-sources")
RELAY = DynamoPoolRelay.new(
    KEY.name,
    namespace=KEY.namespace,
    spec={
        "image": "registry.lab/relay:1.6.0",
        "clusterID": "dc-a",
        "env": [{"name": "LAB_MODE", "value": "a"}],
    },
)
GRAPH = ServedGraph.new(
    KEY.name,
    namespace=KEY.namespace,
    spec={
        "components": [{"name": "Frontend", "type": "frontend"}, {"name": "D", "type": "decode"}]
    },
)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    crds = [*custom_resource_definitions(), *GRAPH_CRDS]
    async with Cluster.start(crds=crds, controllers=["gc"]) as cluster:
        manager = Manager(cluster.client, clock=cluster.clock, random=cluster.random)
        pool_relay.add_to(manager)
        async with manager.running():
            yield cluster


async def ready_reason(cluster: Cluster) -> str:
    await asyncio.sleep(5.0)
    relay = await cluster.client.get(DynamoPoolRelay, KEY)
    condition = find_condition(relay.status.conditions, ConditionType.READY)
    assert condition is not None
    return condition.reason


async def test_relays_are_made_for_a_graph_and_withdrawn_without_it(cluster):
    await cluster.client.create(RELAY)
    assert await ready_reason(cluster) == ReadyReason.DGD_NOT_FOUND

    await cluster.client.create(GRAPH)
    assert await ready_reason(cluster) == ReadyReason.ROLLING_OUT
    assert await cluster.client.find(Service, CHILD) is not None
    sources = await cluster.client.get(ConfigMap, SOURCES)
    assert '"sources":[{"namespace":"default-aurora"}]' in sources.data["sources.json"]

    await cluster.client.delete(ServedGraph, KEY)
    assert await ready_reason(cluster) == ReadyReason.DGD_NOT_FOUND
    assert await cluster.client.find(Service, CHILD) is None
    assert await cluster.client.find(Deployment, CHILD) is not None
    sources = await cluster.client.get(ConfigMap, SOURCES)
    assert '"sources":[]' in sources.data["sources.json"]


async def test_a_variable_that_is_taken_away_leaves_the_deployment(cluster):
    await cluster.client.create(RELAY)
    await cluster.client.create(GRAPH)
    await ready_reason(cluster)

    await cluster.client.patch(DynamoPoolRelay, KEY, {"spec": {"env": []}})
    await ready_reason(cluster)

    deployment = await cluster.client.get(Deployment, CHILD)
    (container,) = deployment.spec["template"]["spec"]["containers"]
    assert "LAB_MODE" not in [variable["name"] for variable in container["env"]]


async def test_nothing_is_written_once_all_is_there(cluster):
    await cluster.client.create(RELAY)
    await cluster.client.create(GRAPH)
    await ready_reason(cluster)
    before = len(cluster.audit.writes())

    await cluster.client.patch(ServedGraph, KEY, {"metadata": {"labels": {"a": "b"}}})
    await asyncio.sleep(3600.0)

    assert len(cluster.audit.writes()) == before + 1
