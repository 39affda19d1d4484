"""Two real relays beside a graph: Dynamo's own process, run by the node of a local cluster."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from dynamo_operator.api.conditions import ConditionType, is_condition_true
from dynamo_operator.api.relay_contract import SYSTEM_PORT
from dynamo_operator.api.v1alpha1 import DynamoPoolRelay
from dynamo_operator.cli.crds import apply_crds
from dynamo_operator.cli.graph_crds import GRAPH_CRDS
from dynamo_operator.cli.local import image_map, operated
from dynamo_operator.images import PUBLIC_PLANNER_IMAGE
from dynamo_operator.local_cluster.cluster import ClusterOptions, LocalCluster, local_cluster
from dynamo_operator.planner.install import install
from dynamo_operator.runtime.builtin_kinds import (
    ConfigMap,
    CustomResourceDefinition,
    Deployment,
    Service,
)
from dynamo_operator.runtime.client import Client
from dynamo_operator.testing import eventually, ready_endpoints
from dynamo_operator.testing.endpoints import Endpoint
from informers.objects import ObjectKey
from reconcilers.pool_relay.graphs import ServedComponent, ServedGraph
from tests.control_planes import CONTROL_PLANES, control_plane

pytestmark = [
    pytest.mark.planner,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(300),
]

KEY = ObjectKey("default", "aurora")
SERVICE = ObjectKey("default", "aurora-pool-relay")
SOURCES = ObjectKey("default", "aurora-pool-relay-sources")
MODULE = "dynamo.kv_dc_relay"  # as the planner's release calls it
START_SECONDS = 90.0
FOLLOW_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Relayed:
    """A cluster with a graph and its relays."""

    cluster: LocalCluster

    @property
    def client(self) -> Client:
        """An administrator's client."""
        return self.cluster.client

    async def relay(self) -> DynamoPoolRelay:
        """The relay now."""
        return await self.client.get(DynamoPoolRelay, KEY)

    async def endpoints(self) -> list[Endpoint]:
        """Who answers for the Service."""
        return await ready_endpoints(self.client, SERVICE, "grpc")

    async def states(self) -> dict[str, dict[str, Any]]:
        """What each relay behind the Service says of itself, by the UID of its Pod."""
        found = {}
        async with aiohttp.ClientSession() as session:
            for endpoint in await self.endpoints():
                url = f"http://{endpoint.address}:{SYSTEM_PORT}/engine/state"
                with suppress(aiohttp.ClientConnectionError):  # one that is just being stopped
                    async with session.get(url) as response:
                        state = await response.json(content_type=None)  # text/plain
                        found[state["podUID"]] = state
        return found

    async def states_that(
        self, holds: Callable[[dict[str, Any]], object], *, within: float = FOLLOW_SECONDS
    ) -> dict[str, dict[str, Any]]:
        """Wait until both relays are like that."""
        return await eventually(
            self.states,
            lambda states: len(states) == 2 and all(map(holds, states.values())),
            timeout=within,
        )

    async def add_workers(self, generation: str) -> None:
        """Make the component of one generation of the graph's workers."""
        graph = await self.client.get(ServedGraph, KEY)
        await self.client.create(
            ServedComponent.new(
                f"aurora-decode-{generation}",
                namespace=KEY.namespace,
                labels={
                    "nvidia.com/dynamo-graph-deployment-name": KEY.name,
                    "nvidia.com/dynamo-worker-hash": generation,
                },
                spec={"type": "decode"},
            ),
            owner=graph,
        )

    async def remove_workers(self, generation: str) -> None:
        """Delete that component."""
        key = ObjectKey(KEY.namespace, f"aurora-decode-{generation}")
        await self.client.delete(ServedComponent, key)

    async def make_graph(self) -> None:
        """Make the graph with its first generation of workers."""
        components = [
            {"name": "Frontend", "type": "frontend"},
            {"name": "Decode", "type": "decode"},
        ]
        graph = ServedGraph.new(KEY.name, namespace=KEY.namespace, spec={"components": components})
        await self.client.create(graph)
        await self.add_workers("aaaa1111")


def sees(revision: str | None) -> Callable[[dict[str, Any]], bool]:
    """A predicate on states: that document is applied."""
    return lambda state: state["sources"]["appliedRevision"] == revision


def is_ready(relay: DynamoPoolRelay) -> bool:
    """Whether subscribers are served by all relays."""
    return is_condition_true(relay.status.conditions, ConditionType.READY) and (
        relay.status.ready_replicas == 2
    )


async def prepare(client: Client) -> None:
    """Install our kinds, and the upstream operator's."""
    await apply_crds(client)
    for crd in GRAPH_CRDS:
        await client.create(CustomResourceDefinition.model_validate(crd))


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=CONTROL_PLANES)
async def relayed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Relayed]:
    """Two Ready relays beside a graph with one generation of workers."""
    planner = await asyncio.to_thread(install, os.environ)
    options = ClusterOptions(
        directory=tmp_path_factory.mktemp("relays"), images=image_map(planner, offline=True)
    )
    async with (
        local_cluster(options, control_plane(request.param), prepare=prepare) as cluster,
        operated(cluster, pool_relay={"module": MODULE}),
    ):
        made = Relayed(cluster)
        await made.client.create(
            DynamoPoolRelay.new(
                KEY.name,
                namespace=KEY.namespace,
                spec={
                    "image": PUBLIC_PLANNER_IMAGE,
                    "clusterID": "dc-a",
                    "env": [{"name": "DYN_EVENT_PLANE", "value": "zmq"}],
                    "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}},
                },
            )
        )
        await made.make_graph()
        await eventually(made.relay, is_ready, timeout=START_SECONDS)
        yield made


async def test_each_relay_says_what_the_status_says(relayed: Relayed):
    relay = await relayed.relay()
    states = await relayed.states_that(sees(relay.status.source_revision))

    assert len(await relayed.endpoints()) == 2
    for state in states.values():
        assert state["mode"] == "from-file"
        assert state["ready"] is True
        assert state["connectionRevision"] == relay.status.connection_revision
        assert state["sources"]["count"] == relay.status.sources == 1


async def test_new_workers_are_followed_without_a_restart_and_without_a_rollout(relayed: Relayed):
    before = await relayed.states()
    deployment = await relayed.client.get(Deployment, SERVICE)

    await relayed.add_workers("bbbb2222")
    relay = await eventually(relayed.relay, lambda relay: relay.status.sources == 2)
    states = await relayed.states_that(sees(relay.status.source_revision))
    assert states.keys() == before.keys()

    await relayed.remove_workers("aaaa1111")
    relay = await eventually(relayed.relay, lambda relay: relay.status.sources == 1)
    states = await relayed.states_that(sees(relay.status.source_revision))
    assert states.keys() == before.keys()
    after = await relayed.client.get(Deployment, SERVICE)
    assert after.generation == deployment.generation


async def test_a_document_of_another_connection_leaves_the_last_good_one(relayed: Relayed):
    relay = await relayed.relay()
    good = relay.status.source_revision
    foreign = '{"version":1,"connectionRevision":"another","sources":[]}'
    states = await relayed.states_that(sees(good))

    async def with_error() -> dict[str, dict[str, Any]]:
        # The operator mends the document at once: it is spoilt again until both have seen it.
        change = {"data": {"sources.json": foreign}}
        await relayed.client.patch(ConfigMap, SOURCES, change)
        return await relayed.states()

    spoilt = await eventually(
        with_error,
        lambda found: any(state["sources"]["lastError"] for state in found.values()),
        timeout=START_SECONDS,
    )
    for state in spoilt.values():
        assert state["sources"]["appliedRevision"] == good
        assert state["sources"]["count"] == 1
    again = await relayed.states_that(
        lambda state: sees(good)(state) and not state["sources"]["lastError"]
    )
    assert again.keys() == states.keys()


async def test_another_connection_rolls_the_relays_and_two_always_serve(relayed: Relayed):
    before = await relayed.states()
    fewest = len(before)
    await relayed.client.patch(DynamoPoolRelay, KEY, {"spec": {"clusterID": "dc-b"}})

    async def replaced() -> bool:
        nonlocal fewest
        fewest = min(fewest, len(await relayed.endpoints()))
        relay = await relayed.relay()
        states = await relayed.states()
        return (
            len(states) == 2
            and not states.keys() & before.keys()
            and all(
                state["connectionRevision"] == relay.status.connection_revision
                for state in states.values()
            )
        )

    await eventually(replaced, timeout=START_SECONDS)
    assert fewest == 2
    relay = await eventually(relayed.relay, is_ready, timeout=START_SECONDS)
    await relayed.states_that(sees(relay.status.source_revision))


async def test_without_its_graph_no_relay_answers_and_with_it_all_do_again(relayed: Relayed):
    before = await relayed.states()
    await relayed.client.delete(ServedGraph, KEY)  # and with it its component, sooner or later
    await eventually(lambda: relayed.client.find(Service, SERVICE), lambda service: service is None)
    await eventually(relayed.endpoints, lambda found: not found, timeout=START_SECONDS)
    relay = await eventually(
        relayed.relay, lambda relay: not is_condition_true(relay.status.conditions, "Published")
    )
    assert relay.status.conditions[0].reason == "DGDNotFound"

    await relayed.make_graph()
    await eventually(relayed.relay, is_ready, timeout=START_SECONDS)

    async def serving_again() -> bool:
        revision = (await relayed.relay()).status.source_revision
        states = await relayed.states()
        return states.keys() == before.keys() and all(map(sees(revision), states.values()))

    await eventually(serving_again, timeout=START_SECONDS)
