import json
from typing import Any

import pytest

from dynamo_operator.runtime.apply import ensure, matches, parse_quantity
from dynamo_operator.runtime.builtin_kinds import ConfigMap, Job
from dynamo_operator.runtime.client.errors import ConflictError
from dynamo_operator.runtime.owner_references import controller_reference
from dynamo_operator.testing.cluster import Cluster
from informers.objects import ObjectKey

CONTAINER = {
    "name": "main",
    "image": "i:1",
    "args": ["a", "b"],
    "env": [{"name": "A", "value": "1"}],
    "ports": [{"containerPort": 80}],
    "resources": {"limits": {"cpu": "0.5", "memory": "1024Mi"}},
}
LIVE_CONTAINER = {
    "name": "main",
    "image": "i:1",
    "imagePullPolicy": "Always",
    "args": ["a", "b"],
    "env": [{"name": "INJECTED", "value": "x"}, {"name": "A", "value": "1"}],
    "ports": [{"containerPort": 80, "protocol": "TCP"}],
    "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
}
SIDECAR = {"name": "sidecar", "image": "s:1"}


def pod(*containers, **spec):
    return {"spec": {"template": {"spec": {"containers": list(containers), **spec}}}}


def changed(**fields):
    return {**CONTAINER, **fields}


def test_what_the_server_added_is_no_difference():
    live = pod(SIDECAR, LIVE_CONTAINER, restartPolicy="Never")

    assert matches(live, pod(CONTAINER))


@pytest.mark.parametrize(
    "container",
    [
        changed(image="i:2"),
        changed(args=["b", "a"]),
        changed(args=["a"]),
        changed(env=[{"name": "A", "value": "2"}]),
        changed(env=[{"name": "B", "value": "1"}]),
        changed(ports=[{"containerPort": 80, "protocol": "UDP"}]),
        changed(ports=[{"containerPort": 81}]),
        changed(resources={"limits": {"cpu": "501m"}}),
        changed(name="other"),
        changed(workingDir="/x"),
    ],
)
def test_a_field_with_another_value_is_a_difference(container):
    assert not matches(pod(SIDECAR, LIVE_CONTAINER), pod(container))


@pytest.mark.parametrize(
    ("live", "desired", "same"),
    [
        ({}, {"spec": {}}, True),
        ({}, {"spec": None}, True),
        ({}, {"spec": []}, True),
        ({"spec": ""}, {}, True),
        ({"spec": {"a": 1}}, {"spec": {}}, True),
        ({"spec": ["a"]}, {"spec": []}, False),
        ({"spec": "a"}, {"spec": ""}, False),
        ({"spec": {"a": {"b": 1}}}, {"spec": {"a": {"b": 1}}}, True),
        ({"spec": 0}, {"spec": False}, False),
        ({}, {"spec": False}, False),
        ({"spec": True}, {"spec": 1}, False),
        ({"spec": 1}, {"spec": 1.0}, True),
        ({"spec": {"value": "1"}}, {"spec": {"value": "1000m"}}, False),
        ({"spec": "80"}, {"spec": 80}, False),
        ({"metadata": {"finalizers": ["b", "a"]}}, {"metadata": {"finalizers": ["a"]}}, True),
        ({"metadata": {"finalizers": ["b"]}}, {"metadata": {"finalizers": ["a"]}}, False),
        ({"spec": [{"a": 1, "default": 2}]}, {"spec": [{"a": 1}]}, True),
        ({"spec": [{"a": 1}, {"a": 2}]}, {"spec": [{"a": 1}]}, False),
        ({"capacity": {"storage": "1Gi"}}, {"capacity": {"storage": 2**30}}, True),
    ],
)
def test_values_are_compared_as_the_server_means_them(live, desired, same):
    assert matches(live, desired) is same


def test_models_are_compared_by_the_fields_that_are_set():
    live = ConfigMap.model_validate(
        {"metadata": {"name": "a", "uid": "u", "labels": {"x": "y"}}, "data": {"k": "v", "l": "w"}}
    )

    assert matches(live, ConfigMap(data={"k": "v"}))
    assert not matches(live, ConfigMap(data={"k": "x"}))
    assert not matches(live, ConfigMap(immutable=True))


OWNED = {
    "f:metadata": {"f:labels": {"f:x": {}}},
    "f:spec": {
        "f:template": {
            "f:spec": {
                "f:containers": {
                    'k:{"name":"main"}': {
                        ".": {},
                        "f:name": {},
                        "f:args": {},
                        "f:env": {'k:{"name":"A"}': {".": {}, "f:name": {}, "f:value": {}}},
                        "f:ports": {
                            'k:{"containerPort":80,"protocol":"TCP"}': {"f:containerPort": {}}
                        },
                    }
                }
            }
        }
    },
}


def owned_by(manager, fields=None, **entry):
    entry = {"manager": manager, "operation": "Apply", "fieldsV1": fields or OWNED, **entry}
    live = pod(LIVE_CONTAINER)
    live["metadata"] = {"labels": {"x": "y"}, "managedFields": [entry]}
    return live


def desired(container=CONTAINER, labels=True):
    return {**pod(container), "metadata": {"labels": {"x": "y"} if labels else {}}}


def test_a_field_that_an_earlier_apply_set_and_this_one_does_not_is_a_difference():
    live = owned_by("me")

    assert matches(live, desired(), field_manager="me")
    assert not matches(live, desired(labels=False), field_manager="me")
    assert not matches(live, desired(changed(env=[])), field_manager="me")
    assert not matches(live, desired(changed(ports=[])), field_manager="me")


@pytest.mark.parametrize(
    "entry", [{"manager": "other"}, {"operation": "Update"}, {"subresource": "status"}]
)
def test_what_others_set_is_left_to_them(entry):
    live = owned_by(**{"manager": "me", **entry})

    assert matches(live, desired(labels=False), field_manager="me")


def test_an_owned_finalizer_that_is_wanted_no_longer_is_a_difference():
    fields: dict[str, Any] = {"f:metadata": {"f:finalizers": {'v:"lab.test/x"': {}}}}
    live = {
        "metadata": {
            "finalizers": ["lab.test/x", "other"],
            "managedFields": [{"manager": "me", "operation": "Apply", "fieldsV1": fields}],
        }
    }

    assert matches(live, {"metadata": {"finalizers": ["lab.test/x"]}}, field_manager="me")
    assert not matches(live, {"metadata": {"finalizers": []}}, field_manager="me")


def test_the_controller_that_an_apply_sets_counts():
    owner = Job.model_validate({"metadata": {"name": "j", "namespace": "lab", "uid": "ju"}})
    key = 'k:{"uid":"ju"}'
    fields: dict[str, Any] = {"f:metadata": {"f:ownerReferences": {key: {}}}}
    reference = controller_reference(owner)
    live = {
        "metadata": {
            "ownerReferences": [reference],
            "managedFields": [{"manager": "me", "operation": "Apply", "fieldsV1": fields}],
        }
    }

    assert matches(live, {}, owner=owner, field_manager="me")
    assert not matches(live, {}, field_manager="me")
    assert not matches({"metadata": {}}, {}, owner=owner)


def test_the_jobs_own_json_matches_itself():
    job = Job.new("a", namespace="lab", spec={"template": pod(CONTAINER)["spec"]["template"]})

    assert matches(json.loads(json.dumps(job.to_dict())), job)


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("1", 1),
        ("1000m", 1),
        ("0.5", "500m"),
        ("1Gi", 2**30),
        ("1G", 10**9),
        ("1k", "1000"),
        ("1e3", "1000"),
        ("12E", "12e18"),
        ("-1", -1),
        ("100n", "0.1u"),
    ],
)
def test_quantities_of_the_same_size_are_equal(text, other):
    assert parse_quantity(text) == parse_quantity(other) is not None


@pytest.mark.parametrize(
    "text",
    ["", "a", "1Q", "Gi", "1 Gi x", None, True, [], "nan", "inf", "1e999999999", "1e9" + "9" * 50],
)
def test_what_is_no_quantity_is_none(text):
    assert parse_quantity(text) is None


@pytest.mark.virtual_time
async def test_what_is_desired_is_applied_once_and_repaired_when_it_drifts():
    async with Cluster.start() as cluster:
        client = cluster.client.with_field_manager("me")
        key = ObjectKey("default", "a")

        def desired():
            return ConfigMap.new("a", namespace="default", data={"k": "v"})

        made = await ensure(client, desired(), live=None)
        assert await ensure(client, desired(), live=made) is made
        await cluster.client.patch(ConfigMap, key, {"data": {"k": "other", "more": "1"}})
        drifted = await client.get(ConfigMap, key)
        repaired = await ensure(client, desired(), live=drifted)
        assert repaired.data == {"k": "v", "more": "1"}

        await client.delete(ConfigMap, key)
        await client.create(ConfigMap.new("a", namespace="default"))
        with pytest.raises(ConflictError):
            await ensure(client, desired(), live=drifted)
