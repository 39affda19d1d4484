"""A relay, its graph, and what can be done with them in a test."""

from __future__ import annotations

import asyncio
from typing import Any

from dynamo_operator.api.conditions import Condition, ConditionType, find_condition
from dynamo_operator.api.labels import RELAY_UID_LABEL
from dynamo_operator.api.v1alpha1 import DynamoPoolRelay
from dynamo_operator.runtime.builtin_kinds import (
    ConfigMap,
    Deployment,
    Pod,
    PodDisruptionBudget,
    Role,
    RoleBinding,
    Service,
    ServiceAccount,
)
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.models import KubeModel
from dynamo_operator.testing.cluster import Cluster
from informers.objects import ObjectKey
from reconcilers.pool_relay.graphs import ServedGraph

KEY = ObjectKey("default", "aurora")
CHILD = ObjectKey("default", "aurora-pool-relay")
SOURCES = ObjectKey("default", "aurora-pool-relay-sources")
CHILDREN: dict[type[KubeModel], ObjectKey] = {
    ServiceAccount: CHILD,
    Role: CHILD,
    RoleBinding: CHILD,
    ConfigMap: SOURCES,
    Deployment: CHILD,
    PodDisruptionBudget: CHILD,
    Service: CHILD,
}
RELAY = DynamoPoolRelay.new(
    KEY.name,
    namespace=KEY.namespace,
    spec={
        "image": "registry.lab/relay:1.6.0",
        "clusterID": "dc-a",
        "env": [{"name": "LAB_MODE", "value": "a"}],
    },
)
_COMPONENTS = [{"name": "Frontend", "type": "frontend"}, {"name": "D", "type": "decode"}]
GRAPH = ServedGraph.new(KEY.name, namespace=KEY.namespace, spec={"components": _COMPONENTS})


async def the_relay(cluster: Cluster, *, after: float = 5.0) -> DynamoPoolRelay:
    """The relay, some seconds later."""
    await asyncio.sleep(after)
    return await cluster.client.get(DynamoPoolRelay, KEY)


async def condition(cluster: Cluster, kind: ConditionType = ConditionType.READY) -> Condition:
    """What the relay's condition says, once everything has settled."""
    relay = await the_relay(cluster)
    assert relay.status.observed_generation == relay.generation
    found = find_condition(relay.status.conditions, kind)
    assert found is not None
    assert found.observed_generation == relay.generation
    return found


async def relay_pods(client: Client) -> list[Pod]:
    """The relays' Pods."""
    return await client.list(Pod, namespace=KEY.namespace, labels=RELAY_UID_LABEL)


async def make_ready(client: Client, *pods: Pod, ready: bool = True) -> None:
    """Say of Pods what a kubelet would."""
    status = {"type": "Ready", "status": "True" if ready else "False"}
    for pod in pods:
        change: dict[str, Any] = {"status": {"phase": "Running", "conditions": [status]}}
        await client.patch(Pod, pod.key, change, subresource="status")


async def serve(cluster: Cluster) -> None:
    """Make a relay and its graph, with all relays Ready."""
    await cluster.client.create(RELAY)
    await cluster.client.create(GRAPH)
    await asyncio.sleep(5.0)
    await make_ready(cluster.client, *await relay_pods(cluster.client))
    assert (await condition(cluster)).status == "True"
