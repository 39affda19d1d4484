import pytest

from dynamo_operator.local_cluster.container_environment import (
    ContainerConfigError,
    decoded_data,
    expand,
    pod_field,
    resolve_variables,
)

POD = {
    "metadata": {
        "name": "a",
        "namespace": "lab",
        "uid": "u1",
        "labels": {"x": "1", "a/b": "two"},
        "annotations": {"note": 'say "hi"'},
    },
    "spec": {
        "nodeName": "n1",
        "containers": [{"name": "main", "resources": {"limits": {"cpu": "1500m"}}}],
    },
    "status": {"podIP": "127.0.0.1"},
}
DATA = {
    ("ConfigMap", "settings"): {"LEVEL": b"3", "MODE": b"fast"},
    ("Secret", "token"): {"value": b"s3cret"},
}


async def read(kind, name):
    return DATA.get((kind, name))


async def resolve(container, base=None):
    return await resolve_variables(
        POD, container, base=base or {}, read=read, allocatable={"cpu": "8", "memory": "1Gi"}
    )


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)/x", "1/x"),
        ("$(B)", "$(B)"),
        ("$$(A)", "$(A)"),
        ("$A", "$A"),
        ("$(A)$(A)", "11"),
    ],
)
def test_references_are_expanded_and_unknown_ones_stay(text, expanded):
    assert expand(text, {"A": "1"}) == expanded


async def test_later_variables_see_earlier_ones():
    container = {"env": [{"name": "A", "value": "x"}, {"name": "B", "value": "$(A)-$(HOME)"}]}

    assert await resolve(container, {"HOME": "/"}) == {"HOME": "/", "A": "x", "B": "x-/"}


async def test_env_wins_over_env_from_and_prefixes_are_applied():
    container = {
        "envFrom": [
            {"configMapRef": {"name": "settings"}, "prefix": "P_"},
            {"configMapRef": {"name": "settings"}},
        ],
        "env": [{"name": "MODE", "value": "slow"}],
    }

    assert await resolve(container) == {
        "P_LEVEL": "3",
        "P_MODE": "fast",
        "LEVEL": "3",
        "MODE": "slow",
    }


async def test_values_come_from_fields_resources_config_maps_and_secrets():
    container = {
        "resources": {"requests": {"memory": "100Mi"}},
        "env": [
            {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a/b']"}}},
            {
                "name": "MEMORY",
                "valueFrom": {
                    "resourceFieldRef": {"resource": "requests.memory", "divisor": "1Mi"}
                },
            },
            {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            {
                "name": "OTHER",
                "valueFrom": {
                    "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu"}
                },
            },
            {"name": "L", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "LEVEL"}}},
            {"name": "T", "valueFrom": {"secretKeyRef": {"name": "token", "key": "value"}}},
        ],
    }

    assert await resolve(container) == {
        "NAME": "a",
        "LABEL": "two",
        "MEMORY": "100",
        "CPU": "8",
        "OTHER": "2",
        "L": "3",
        "T": "s3cret",
    }


@pytest.mark.parametrize(
    ("container", "text"),
    [
        ({"envFrom": [{"secretRef": {"name": "absent"}}]}, 'secret "absent" not found'),
        (
            {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "token", "key": "no"}}}]},
            "couldn't find key no in Secret token",
        ),
        (
            {
                "env": [
                    {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "absent", "key": "k"}}}
                ]
            },
            'configmap "absent" not found',
        ),
        (
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.hostname"}}}]},
            "unsupported fieldPath: spec.hostname",
        ),
    ],
    ids=["secret", "key", "config map", "field"],
)
async def test_what_is_missing_is_named(container, text):
    with pytest.raises(ContainerConfigError, match=text):
        await resolve(container)


async def test_optional_sources_may_be_missing():
    container = {
        "envFrom": [{"secretRef": {"name": "absent", "optional": True}}],
        "env": [
            {
                "name": "A",
                "valueFrom": {"secretKeyRef": {"name": "token", "key": "no", "optional": True}},
            }
        ],
    }

    assert await resolve(container) == {}


def test_all_labels_are_one_line_each():
    assert pod_field(POD, "metadata.labels") == 'a/b="two"\nx="1"'
    assert pod_field(POD, "metadata.annotations") == 'note="say \\"hi\\""'


def test_data_is_decoded_to_bytes():
    assert decoded_data("Secret", {"data": {"a": "eA=="}}) == {"a": b"x"}
    assert decoded_data("ConfigMap", {"data": {"a": "ä"}, "binaryData": {"b": "AA=="}}) == {
        "a": "ä".encode(),
        "b": b"\0",
    }
