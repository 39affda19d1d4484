"""Relays beside a graph: served, rolled, withdrawn, and not written to without need."""

from __future__ import annotations

import asyncio

import pytest

from dynamo_operator.api.conditions import ConditionType, ReadyReason
from dynamo_operator.api.v1alpha1 import DynamoPoolRelay
from dynamo_operator.runtime.builtin_kinds import (
    ConfigMap,
    Deployment,
    Pod,
    PodDisruptionBudget,
    Service,
)
from reconcilers.pool_relay.graphs import ServedComponent, ServedGraph
from tests.reconcilers.pool_relay.relays import (
    CHILD,
    CHILDREN,
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


async def test_relays_are_ready_once_one_of_them_serves(cluster):
    await cluster.client.create(RELAY)
    assert (await condition(cluster)).reason == ReadyReason.DGD_NOT_FOUND

    await cluster.client.create(GRAPH)
    assert (await condition(cluster)).reason == ReadyReason.NO_AVAILABLE_RELAY
    assert (await condition(cluster, ConditionType.PUBLISHED)).status == "True"
    pods = await relay_pods(cluster.client)
    assert len(pods) == 2

    await make_ready(cluster.client, pods[0])
    assert (await condition(cluster)).status == "True"
    relay = await the_relay(cluster)
    assert relay.status.endpoint == "aurora-pool-relay.default.svc:5561"
    assert (relay.status.replicas, relay.status.ready_replicas) == (2, 1)
    assert relay.status.sources == 1

    await make_ready(cluster.client, pods[0], ready=False)
    assert (await condition(cluster)).reason == ReadyReason.NO_AVAILABLE_RELAY


async def test_without_its_graph_the_service_and_the_sources_go_and_nothing_else(cluster):
    await serve(cluster)

    await cluster.client.delete(ServedGraph, KEY)
    assert (await condition(cluster)).reason == ReadyReason.DGD_NOT_FOUND
    assert (await condition(cluster, ConditionType.PUBLISHED)).status == "False"
    assert await cluster.client.find(Service, CHILD) is None
    sources = await cluster.client.get(ConfigMap, SOURCES)
    assert '"sources":[]' in sources.data["sources.json"]
    for kind in CHILDREN.keys() - {Service}:
        assert await cluster.client.find(kind, CHILDREN[kind]) is not None

    await cluster.client.create(GRAPH)
    assert (await condition(cluster)).status == "True", "the relays had never gone"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {"metadata": {"annotations": {"nvidia.com/dynamo-discovery-backend": "etcd"}}},
            ReadyReason.INCOMPATIBLE_DISCOVERY,
        ),
        ({"spec": {"components": [{"name": "F", "type": "frontend"}]}}, ReadyReason.NO_WORKERS),
    ],
)
async def test_a_graph_that_turns_incompatible_is_withdrawn_until_it_turns_back(
    cluster, change, reason
):
    await serve(cluster)

    await cluster.client.patch(ServedGraph, KEY, change)
    assert (await condition(cluster)).reason == reason
    assert await cluster.client.find(Service, CHILD) is None

    back = {"metadata": {"annotations": None}, "spec": GRAPH.spec}
    await cluster.client.patch(ServedGraph, KEY, back)
    assert (await condition(cluster)).status == "True"


async def test_a_graph_of_the_same_name_is_relayed_with_its_own_components_only(cluster):
    await serve(cluster)
    old = await cluster.client.get(ServedGraph, KEY)
    labels = {"nvidia.com/dynamo-graph-deployment-name": KEY.name}
    component = ServedComponent.new(
        "old",
        namespace=KEY.namespace,
        labels={**labels, "nvidia.com/dynamo-worker-hash": "0ld"},
        spec={"type": "decode"},
    )
    component.metadata.finalizers = ["lab.test/held"]
    await cluster.client.create(component, owner=old)
    await asyncio.sleep(5.0)
    sources = await cluster.client.get(ConfigMap, SOURCES)
    assert "default-aurora-0ld" in sources.data["sources.json"]

    await cluster.client.delete(ServedGraph, KEY)
    await cluster.client.create(GRAPH)
    assert (await condition(cluster)).status == "True"

    assert await cluster.client.find(ServedComponent, component.key) is not None
    sources = await cluster.client.get(ConfigMap, SOURCES)
    assert "0ld" not in sources.data["sources.json"]


async def test_new_workers_change_the_sources_and_roll_nothing(cluster):
    await serve(cluster)
    graph = await cluster.client.get(ServedGraph, KEY)
    before = await cluster.client.get(Deployment, CHILD)
    written = len(cluster.audit.writes())

    for generation in ("aa", "bb"):
        component = ServedComponent.new(
            f"aurora-d-{generation}",
            namespace=KEY.namespace,
            labels={
                "nvidia.com/dynamo-graph-deployment-name": KEY.name,
                "nvidia.com/dynamo-worker-hash": generation,
            },
            spec={"type": "decode"},
        )
        await cluster.client.create(component, owner=graph)
        await asyncio.sleep(5.0)

    sources = await cluster.client.get(ConfigMap, SOURCES)
    listed = '[{"namespace":"default-aurora-aa"},{"namespace":"default-aurora-bb"}]'
    assert listed in sources.data["sources.json"]
    assert (await cluster.client.get(Deployment, CHILD)).generation == before.generation
    by_us = [
        entry.resource
        for entry in cluster.audit.writes()[written:]
        if "dynamo-operator-pool-relay" in entry.request_uri
    ]
    assert set(by_us) == {"configmaps", "dynamopoolrelays"}


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


async def test_another_image_is_rolled_with_the_same_connection(cluster):
    await serve(cluster)
    before = await the_relay(cluster)

    await cluster.client.patch(DynamoPoolRelay, KEY, {"spec": {"image": "registry.lab/relay:2"}})

    after = await the_relay(cluster)
    assert after.status.connection_revision == before.status.connection_revision
    deployment = await cluster.client.get(Deployment, CHILD)
    (container,) = deployment.spec["template"]["spec"]["containers"]
    assert container["image"] == "registry.lab/relay:2"
    assert len(await relay_pods(cluster.client)) == 3, "one more than wanted, none less"


async def test_a_variable_that_is_taken_away_leaves_the_deployment(cluster):
    await serve(cluster)

    await cluster.client.patch(DynamoPoolRelay, KEY, {"spec": {"env": []}})
    await asyncio.sleep(5.0)

    deployment = await cluster.client.get(Deployment, CHILD)
    (container,) = deployment.spec["template"]["spec"]["containers"]
    assert "LAB_MODE" not in [variable["name"] for variable in container["env"]]


async def test_a_budget_is_kept_for_several_relays_only(cluster):
    await serve(cluster)
    assert await cluster.client.find(PodDisruptionBudget, CHILD) is not None

    await cluster.client.patch(DynamoPoolRelay, KEY, {"spec": {"replicas": 1}})
    await asyncio.sleep(5.0)
    assert await cluster.client.find(PodDisruptionBudget, CHILD) is None

    await cluster.client.patch(DynamoPoolRelay, KEY, {"spec": {"replicas": 0}})
    assert (await condition(cluster)).reason == ReadyReason.SCALED_TO_ZERO
    assert (await condition(cluster, ConditionType.PUBLISHED)).status == "True"


async def test_nothing_is_written_once_all_is_there(cluster):
    await serve(cluster)
    before = len(cluster.audit.writes())

    await cluster.client.patch(ServedGraph, KEY, {"metadata": {"labels": {"a": "b"}}})
    await cluster.client.patch(DynamoPoolRelay, KEY, {"metadata": {"labels": {"a": "b"}}})
    await asyncio.sleep(3600.0)

    assert len(cluster.audit.writes()) == before + 2


@pytest.mark.parametrize("kind", CHILDREN)
async def test_a_child_that_is_deleted_comes_back(cluster, kind):
    await serve(cluster)
    before = await cluster.client.get(kind, CHILDREN[kind])

    await cluster.client.delete(kind, CHILDREN[kind])
    await asyncio.sleep(5.0)

    assert (await cluster.client.get(kind, CHILDREN[kind])).uid != before.uid


async def test_with_the_relay_everything_goes(cluster):
    await serve(cluster)

    await cluster.client.delete(DynamoPoolRelay, KEY)
    await asyncio.sleep(60.0)

    for kind, key in CHILDREN.items():
        assert await cluster.client.find(kind, key) is None
    left = await cluster.client.list(Pod, namespace=KEY.namespace)
    assert all(pod.is_deleting for pod in left)  # no kubelet is here to end them
