import base64

import pytest

from dynamo_operator.apiserver.protobuf_bodies import MEDIA_TYPE, parse_protobuf
from dynamo_operator.apiserver.status import StatusError
from tests.dynamo_operator.apiserver.api import CORE, Api


def field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return bytes([number << 3, value])
    data = value.encode() if isinstance(value, str) else value
    return bytes([number << 3 | 2, len(data)]) + data


def envelope(kind: str, raw: bytes, api_version: str = "v1") -> bytes:
    type_meta = field(1, api_version) + field(2, kind)
    return b"k8s\x00" + field(1, type_meta) + field(2, raw)


NAMESPACE = envelope("Namespace", field(1, field(1, "ns") + field(3, "")) + field(2, b""))


def test_an_object_is_decoded_without_what_is_empty():
    assert parse_protobuf(NAMESPACE) == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "ns"},
    }


def test_maps_lists_numbers_and_bytes_are_decoded():
    metadata = field(11, field(1, "a") + field(2, "b")) + field(14, "x/one") + field(14, "x/two")
    entry = field(1, "key") + field(2, b"\x00\xff")
    secret = field(1, metadata) + field(2, entry) + field(3, "Opaque") + field(5, 1)

    obj = parse_protobuf(envelope("Secret", secret))

    assert obj["metadata"] == {"labels": {"a": "b"}, "finalizers": ["x/one", "x/two"]}
    assert obj["data"] == {"key": base64.b64encode(b"\x00\xff").decode()}
    assert (obj["type"], obj["immutable"]) == ("Opaque", True)


def test_an_empty_group_in_a_list_stays():
    rule = field(1, "get") + field(2, "") + field(3, "pods")

    obj = parse_protobuf(envelope("Role", field(2, rule), "rbac.authorization.k8s.io/v1"))

    assert obj["rules"] == [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]


def test_zero_is_nothing_unless_the_field_tells_them_apart():
    container = field(1, "main") + field(2, "image") + field(6, field(2, 0) + field(3, 80))
    volume = field(1, "scratch") + field(2, field(2, field(1, "")))
    template = field(2, field(2, container) + field(1, volume))
    deployment = field(2, field(1, 0) + field(3, template) + field(7, 0))

    spec = parse_protobuf(envelope("Deployment", deployment, "apps/v1"))["spec"]

    assert spec == {
        "replicas": 0,
        "template": {
            "spec": {
                "containers": [
                    {"name": "main", "image": "image", "ports": [{"containerPort": 80}]}
                ],
                "volumes": [{"name": "scratch", "emptyDir": {}}],
            }
        },
    }


def test_quantities_percentages_times_and_raw_json_are_what_json_has():
    quota = field(2, field(1, field(1, "cpu") + field(2, field(1, "4"))))
    budget = field(2, field(1, field(1, 1) + field(3, "50%")) + field(3, field(1, 0) + field(2, 2)))
    lease = field(2, field(4, field(1, 100) + field(2, 7)))
    revision = field(2, field(1, b'{"a": 1}'))

    assert parse_protobuf(envelope("ResourceQuota", quota))["spec"] == {"hard": {"cpu": "4"}}
    parsed = parse_protobuf(envelope("PodDisruptionBudget", budget, "policy/v1"))
    assert parsed["spec"] == {"minAvailable": "50%", "maxUnavailable": 2}
    parsed = parse_protobuf(envelope("Lease", lease, "coordination.k8s.io/v1"))
    assert parsed["spec"] == {"renewTime": "1970-01-01T00:01:40.000000Z"}
    assert parse_protobuf(envelope("ControllerRevision", revision, "apps/v1"))["data"] == {"a": 1}


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"{}", 400),
        (b"k8s\x00\x0a\xff", 400),
        (envelope("Gadget", b""), 415),
        (envelope("PodSpec", b""), 415),
    ],
    ids=["json", "broken-off", "no-table", "no-object"],
)
def test_what_cannot_be_decoded_is_refused(data, code):
    with pytest.raises(StatusError) as refused:
        parse_protobuf(data)

    assert refused.value.code == code


@pytest.mark.virtual_time
async def test_a_protobuf_body_creates_an_object():
    api = Api()

    answer = await api.ask("POST", f"{CORE}/namespaces", NAMESPACE, content_type=MEDIA_TYPE)

    assert answer.status == 201
    assert answer.body["status"]["phase"] == "Active"
