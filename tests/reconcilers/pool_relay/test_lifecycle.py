"""Relays beside a graph in virtual time: what takes minutes or hours, and what takes many cases.

Their whole life on every control plane is in tests/conformance/test_pool_relay.py.
"""

from __future__ import annotations

import asyncio

import pytest

from dynamo_operator.api.conditions import ReadyReason
from dynamo_operator.api.v1alpha1 import DynamoPoolRelay
from dynamo_operator.cli.graph_crds import GRAPH_CRDS
from dynamo_operator.runtime.builtin_kinds import (
    ConfigMap,
    CustomResourceDefinition,
    Event,
    Service,
)
from informers.objects import ObjectKey
from reconcilers.pool_relay.graphs import ServedGraph
from tests.reconcilers.pool_relay.relays import (
    CHILD,
    GRAPH,
    KEY,
    RELAY,
    SOURCES,
    condition,
    make_ready,
    relay_pods,
    serve,
    the_relay,
)

pytestmark = pytest.mark.virtual_time


@pytest.mark.parametrize(
    "change",
    [
        {"clusterID": "dc-b"},
        {"env": [{"name": "DYN_EVENT_PLANE", "value": "zmq"}]},
        {"env": [{"name": "LAB_MODE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
    ],
)
async def test_another_connection_is_rolled_and_only_new_relays_count(cluster, change):
    await serve(cluster)
    old = {pod.uid for pod in await relay_pods(cluster.client)}
    before = await the_relay(cluster)

    await cluster.client.patch(DynamoPoolRelay, KEY, {"spec": change})
    assert (await condition(cluster)).reason == ReadyReason.ROLLING_OUT
    after = await the_relay(cluster)
    assert after.status.connection_revision != before.status.connection_revision
    assert after.status.ready_replicas == 2, "the old ones serve on"
    sources = await cluster.client.get(ConfigMap, SOURCES)
    assert str(after.status.connection_revision) in sources.data["sources.json"]

    new = [pod for pod in await relay_pods(cluster.client) if pod.uid not in old]
    await make_ready(cluster.client, *new)
    assert (await condition(cluster)).status == "True"


async def test_nothing_is_written_once_all_is_there(cluster):
    await serve(cluster)
    before = len(cluster.audit.writes())

    await cluster.client.patch(ServedGraph, KEY, {"metadata": {"labels": {"a": "b"}}})
    await cluster.client.patch(DynamoPoolRelay, KEY, {"metadata": {"labels": {"a": "b"}}})
    await asyncio.sleep(3600.0)

    assert len(cluster.audit.writes()) == before + 2


async def test_definitions_of_graphs_may_come_and_go(cluster, interceptor):
    names = [ObjectKey("", crd["metadata"]["name"]) for crd in GRAPH_CRDS]
    for name in names:
        await cluster.client.delete(CustomResourceDefinition, name)
    await cluster.client.create(RELAY)
    assert (await condition(cluster)).reason == ReadyReason.DGD_NOT_FOUND

    for crd in GRAPH_CRDS:
        await cluster.install(crd)
    await cluster.client.create(GRAPH)
    await asyncio.sleep(5.0)
    await make_ready(cluster.client, *await relay_pods(cluster.client))
    assert (await condition(cluster)).status == "True"

    for name in names:
        await cluster.client.delete(CustomResourceDefinition, name)
    assert (await condition(cluster)).reason == ReadyReason.DGD_NOT_FOUND
    assert await cluster.client.find(Service, CHILD) is None
    before = len(interceptor.requests_of("dynamographdeployments"))
    written = len(cluster.audit.writes())
    await asyncio.sleep(3600.0)
    assert len(interceptor.requests_of("dynamographdeployments")) == before
    assert len(cluster.audit.writes()) == written


async def test_a_relay_that_flaps_is_told_in_one_series(cluster):
    await serve(cluster)

    pods = await relay_pods(cluster.client)
    for _ in range(20):
        for ready in (False, True):
            await make_ready(cluster.client, *pods, ready=ready)
            await asyncio.sleep(5.0)
    await asyncio.sleep(120.0)

    events = await cluster.client.list(Event, namespace=KEY.namespace)
    ours = [event for event in events if event.to_dict()["regarding"]["kind"] == "DynamoPoolRelay"]
    told = {(event.to_dict()["reason"], event.to_dict()["type"]) for event in ours}
    assert told >= {("Ready", "Normal"), ("NoAvailableRelay", "Warning")}
    assert len(ours) < 10
