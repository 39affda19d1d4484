"""Objects that have a child's name and are another's: untouched, and named in the status."""

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
    CHILD,
    CHILDREN,
    GRAPH,
    KEY,
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


def planted(kind: type[KubeModel], *owners: dict[str, Any]) -> KubeModel:
    """An object with the name of a child."""
    key = CHILDREN[kind]
    made = kind.new(key.name, namespace=key.namespace, **_FIELDS.get(kind, {}))
    return kind.model_validate(
        {**made.to_dict(), "metadata": {**made.metadata.to_dict(), "ownerReferences": [*owners]}}
    )


def owner(uid: str, **more: Any) -> dict[str, Any]:
    """A controller reference to a relay of our name."""
    return {
        "apiVersion": "nvidia.com/v1alpha1",
        "kind": "DynamoPoolRelay",
        "name": KEY.name,
        "uid": uid,
        "controller": True,
        **more,
    }


@pytest.mark.parametrize("whose", ["nobody's", "an older relay's", "another's"])
@pytest.mark.parametrize("kind", CHILDREN, ids=lambda kind: kind.__name__)
async def test_what_is_not_ours_stays_as_it_is_and_is_named(cluster, kind, whose):
    others = await cluster.client.create(ConfigMap.new("other", namespace=KEY.namespace))
    # Held, or the collector would clear away what an older relay left.
    owners = {
        "nobody's": [],
        "an older relay's": [owner("0ld")],
        "another's": [owner(others.uid, apiVersion="v1", kind="ConfigMap", name=others.key.name)],
    }[whose]
    foreign = planted(kind, *owners)
    foreign.metadata.finalizers = ["lab.test/held"]
    foreign = await cluster.client.create(foreign)
    await cluster.client.create(RELAY)
    await cluster.client.create(GRAPH)

    ready = await condition(cluster)

    assert ready.reason == ReadyReason.OWNERSHIP_CONFLICT
    assert kind.resource_type.kind in ready.message
    assert CHILDREN[kind].name in ready.message
    found = await cluster.client.get(kind, foreign.key)
    assert found.uid == foreign.uid
    assert found.to_dict().get("spec") == foreign.to_dict().get("spec")
    ours = [other for other in CHILDREN if other is not kind]
    for other in ours:
        assert await cluster.client.find(other, CHILDREN[other]) is None, "nothing was half made"

    await cluster.client.patch(kind, foreign.key, {"metadata": {"finalizers": None}})
    if await cluster.client.find(kind, foreign.key):
        await cluster.client.delete(kind, foreign.key)
    await asyncio.sleep(60.0)
    assert (await condition(cluster)).reason == ReadyReason.NO_AVAILABLE_RELAY


async def test_a_foreign_service_is_not_withdrawn(cluster):
    foreign = await cluster.client.create(planted(Service))
    await cluster.client.create(RELAY)
    await asyncio.sleep(60.0)

    assert (await condition(cluster)).reason == ReadyReason.DGD_NOT_FOUND
    assert (await cluster.client.get(Service, CHILD)).uid == foreign.uid
