"""What the CRD of DynamoPoolRelay alone refuses: there is no webhook of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dynamo_operator.api.v1alpha1 import DynamoPoolRelay
from dynamo_operator.runtime.client.errors import InvalidError

pytestmark = pytest.mark.asyncio(loop_scope="session")

SPEC: dict[str, Any] = {"image": "registry.lab/relay:1.6.0", "clusterID": "dc-a"}
PATH = "/apis/nvidia.com/v1alpha1/namespaces/{}/dynamopoolrelays"


async def create(cluster, namespace, **spec) -> dict[str, Any]:
    """POST plain JSON: the models would refuse some of it themselves."""
    body = {
        "apiVersion": "nvidia.com/v1alpha1",
        "kind": "DynamoPoolRelay",
        "metadata": {"generateName": "aurora-", "namespace": namespace},
        "spec": {**SPEC, **spec},
    }
    answer = await cluster.client.request(
        "POST", PATH.format(namespace), body=json.dumps(body).encode()
    )
    made: dict[str, Any] = json.loads(answer.body)
    return made


def variable(name: str, value: str = "a") -> dict[str, str]:
    return {"name": name, "value": value}


POD_UID = {"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
TWO_SOURCES = {
    "configMapKeyRef": {"name": "a", "key": "b"},
    "fieldRef": {"fieldPath": "metadata.name"},
}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"clusterID": ""}, "spec.clusterID"),
        ({"clusterID": " dc-a"}, "spec.clusterID"),
        ({"clusterID": "dc-a\n"}, "spec.clusterID"),
        ({"clusterID": "x" * 254}, "spec.clusterID"),
        ({"clusterID": None}, "spec.clusterID"),
        ({"image": ""}, "spec.image"),
        ({"image": "a b"}, "spec.image"),
        ({"replicas": -1}, "spec.replicas"),
        ({"replicas": 101}, "spec.replicas"),
        ({"replicas": "2"}, "spec.replicas"),
        ({"env": [variable("A"), variable("A")]}, "spec.env[1]"),
        ({"env": [variable("POD_NAME")]}, "spec.env[0].name"),
        ({"env": [POD_UID]}, "spec.env[0].name"),
        ({"env": [variable("DYN_RELAY_CONNECTION_REVISION", "forged")]}, "spec.env[0].name"),
        ({"env": [variable("A=B")]}, "spec.env[0].name"),
        ({"env": [{**variable("A"), "valueFrom": {}}]}, "spec.env[0]"),
        ({"env": [{"name": "A", "valueFrom": TWO_SOURCES}]}, "spec.env[0].valueFrom"),
        ({"imagePullSecrets": [{"name": "a"}, {"name": "a"}]}, "spec.imagePullSecrets[1]"),
        ({"resources": {"limits": {"memory": "lots"}}}, "spec.resources.limits.memory"),
    ],
)
async def test_what_cannot_be_run_is_refused_with_its_field(cluster, namespace, spec, field):
    with pytest.raises(InvalidError) as refused:
        await create(cluster, namespace, **spec)

    assert field in refused.value.message


async def test_every_wrong_variable_is_named_at_once(cluster, namespace):
    env = [variable("LAB_MODE"), variable("DYN_RELAY_CONNECTION_REVISION", "forged"), POD_UID]

    with pytest.raises(InvalidError) as refused:
        await create(cluster, namespace, env=env)

    assert "spec.env[1].name" in refused.value.message
    assert "spec.env[2].name" in refused.value.message


async def test_what_can_be_run_is_stored_without_a_default(cluster, namespace):
    spec = {
        "replicas": 0,
        "env": [variable("DYN_EVENT_PLANE", "zmq"), {"name": "EMPTY"}],
        "imagePullSecrets": [{"name": "a"}],
        "resources": {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"memory": "4Gi"}},
    }

    stored = await create(cluster, namespace, **spec)
    plain = await create(cluster, namespace)

    assert stored["spec"] == {**SPEC, **spec}
    assert plain["spec"] == SPEC


async def test_another_cluster_id_is_a_change_like_any_other(cluster, namespace):
    relay = DynamoPoolRelay.new("aurora", namespace=namespace, spec=SPEC)
    made = await cluster.client.create(relay)

    changed = await cluster.client.patch(DynamoPoolRelay, made.key, {"spec": {"clusterID": "dc-b"}})

    assert (changed.spec.cluster_id, changed.generation) == ("dc-b", 2)
