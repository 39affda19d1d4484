"""Objects that have a child's name and are another's: a relay waits for them to go."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dynamo_operator.api.conditions import ReadyReason
from dynamo_operator.runtime.builtin_kinds import (
    ConfigMap,
    Deployment,
    PodDisruptionBudget,
    RoleBinding,
    Service,
)
from dynamo_operator.runtime.models import KubeModel
from tests.reconcilers.pool_relay.relays import (
    CHILDREN,
    GRAPH,
    RELAY,
    condition,
)

pytestmark = pytest.mark.virtual_time

_POD = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "lab:1"}]},
}
_FIELDS: dict[type[KubeModel], dict[str, Any]] = {
    RoleBinding: {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "another"}
    },
    ConfigMap: {"data": {"theirs": "1"}},
    Deployment: {
        "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": _POD}
    },
    PodDisruptionBudget: {"spec": {"minAvailable": 1}},
    Service: {"spec": {"ports": [{"port": 80}]}},
}


@pytest.mark.parametrize("kind", CHILDREN, ids=lambda kind: kind.__name__)
async def test_once_what_is_not_ours_has_gone_all_is_made(cluster, kind):
    key = CHILDREN[kind]
    foreign = kind.new(key.name, namespace=key.namespace, **_FIELDS.get(kind, {}))
    foreign = await cluster.client.create(foreign)
    await cluster.client.create(RELAY)
    await cluster.client.create(GRAPH)

    ready = await condition(cluster)
    assert ready.reason == ReadyReason.OWNERSHIP_CONFLICT
    assert f"{kind.resource_type.kind} {key.name}" in ready.message
    assert (await cluster.client.get(kind, key)).uid == foreign.uid

    await cluster.client.delete(kind, key)
    await asyncio.sleep(60.0)
    assert (await condition(cluster)).reason == ReadyReason.NO_AVAILABLE_RELAY
