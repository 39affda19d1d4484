import json
import sys
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dynamo_operator.runtime.builtin_kinds import ConfigMap, Pod, RoleBinding
from dynamo_operator.runtime.client import DecodeError, codec
from dynamo_operator.runtime.models import KubeModel
from informers.events import WatchEventType, WatchStatus
from informers.objects import ObjectKey, OwnerReference, ResourceType

POD = {
    "metadata": {
        "name": "p",
        "namespace": "n",
        "uid": "u",
        "resourceVersion": "15",
        "generation": 3,
        "labels": {"a": "b"},
        "annotations": {"c": "d"},
        "deletionTimestamp": "2030-01-01T00:00:00Z",
        "finalizers": ["lab.test/x"],
        "ownerReferences": [
            {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "ju", "controller": True}
        ],
    },
    "status": {"containerStatuses": None, "conditions": None},
}


def list_of(*items, **metadata):
    return json.dumps({"kind": "PodList", "metadata": metadata, "items": list(items)}).encode()


def line_of(kind, obj):
    return json.dumps({"type": kind, "object": obj}).encode()


def test_a_list_item_keeps_its_bytes_and_the_fields_that_the_machinery_reads():
    page = codec.decode_list(list_of(POD, resourceVersion="20", **{"continue": "next"}))

    (item,) = page.items
    assert (page.resource_version, page.continue_token) == ("20", "next")
    assert (item.key, item.uid, item.resource_version) == (ObjectKey("n", "p"), "u", "15")
    assert (item.generation, item.labels, item.annotations) == (3, {"a": "b"}, {"c": "d"})
    assert item.owner_references == (OwnerReference("batch/v1", "Job", "j", "ju", True),)
    assert item.is_deleting
    assert json.loads(item.data) == POD


def test_a_kept_item_does_not_hold_the_whole_list_in_memory():
    body = list_of(POD, {"metadata": {"name": "x" * 1_000_000}})

    page = codec.decode_list(body)

    assert type(page.items[0].data) is bytes
    assert len(page.items[0].data) < 1000


def test_metadata_only_keeps_no_bytes():
    (item,) = codec.decode_list(list_of(POD), keep_data=False).items

    assert item.data == b""
    assert item.labels == {"a": "b"}


@pytest.mark.parametrize("body", [{"metadata": {"resourceVersion": "12"}, "items": None}, {}])
def test_a_list_without_items_is_an_empty_snapshot(body):
    assert codec.decode_list(json.dumps(body).encode()).items == ()


def test_null_where_a_list_or_a_map_belongs_means_empty():
    metadata = {
        "name": "x",
        "namespace": None,
        "labels": None,
        "annotations": None,
        "ownerReferences": None,
        "generation": None,
        "deletionTimestamp": None,
    }
    binding = {"metadata": metadata, "roleRef": {"kind": "Role", "name": "x"}, "subjects": None}

    (item,) = codec.decode_list(list_of(binding)).items
    model = codec.decode(RoleBinding, item.data)

    assert (item.labels, item.annotations, item.owner_references) == ({}, {}, ())
    assert not item.is_deleting
    assert (model.subjects, model.labels, model.owner_references) == ([], {}, ())


@pytest.mark.parametrize("kind", [Pod, Pod.resource_type], ids=["model", "dict"])
def test_an_item_of_a_list_gets_the_identity_that_lists_leave_out(kind):
    (item,) = codec.decode_list(list_of(POD)).items

    found = codec.decode(kind, item.data)

    found = found if isinstance(found, dict) else found.to_dict()
    assert (found["apiVersion"], found["kind"]) == ("v1", "Pod")


def test_a_dict_keeps_its_nulls():
    found = codec.decode(Pod.resource_type, json.dumps(POD).encode())

    assert found["status"] == {"containerStatuses": None, "conditions": None}


def test_every_decode_is_fresh():
    data = json.dumps({"metadata": {"name": "a"}, "data": {"k": "v"}}).encode()

    codec.decode(ConfigMap, data).data["k"] = "changed"

    assert codec.decode(ConfigMap, data).data == {"k": "v"}


def test_an_object_that_does_not_fit_its_model_is_named_without_its_values():
    class Widget(KubeModel):
        resource_type = ResourceType("lab.test", "v1", "Widget", "widgets")
        size: int = 0

    data = json.dumps({"metadata": {"name": "w", "namespace": "n"}, "size": "s3cret"}).encode()

    with pytest.raises(DecodeError, match=r"widgets\.v1\.lab\.test n/w .* size: ") as caught:
        codec.decode(Widget, data)

    assert "s3cret" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b'{"items": [', b'{"items": 1}', b"\xff", b'{"items": [1]}']
)
def test_what_is_no_list_is_said_to_be_none(body):
    with pytest.raises(codec.MalformedJsonError):
        codec.decode_list(body)


@pytest.mark.parametrize(
    "line",
    [
        b"Too many requests",
        b"{}",
        b'{"type": "ADDED"}',
        b'{"type": "WEIRD", "object": {}}',
        b'{"type": "ADDED", "object": {"metadata"',
        b'{"type": "ADDED", "object": []}',
        b"\xff\xfe",
    ],
)
def test_what_is_no_watch_event_is_said_to_be_none(line):
    with pytest.raises(codec.MalformedJsonError):
        codec.decode_watch_line(line)


def nested(levels):
    return '{"a":' * levels + "1" + "}" * levels


def test_what_is_nested_deeper_than_python_calls_is_read_and_written():
    """API servers take 10000 levels; such an object must not stop the reading of the others."""
    deep = '{"metadata":{"name":"deep"},"spec":' + nested(5_000) + "}"
    plain = '{"metadata":{"name":"plain"}}'
    limit = sys.getrecursionlimit()

    page = codec.decode_list(b'{"metadata":{},"items":[' + f"{plain},{deep}".encode() + b"]}")
    event = codec.decode_watch_line(b'{"type":"ADDED","object":' + deep.encode() + b"}")
    value = codec.decode(Pod.resource_type, deep.encode())

    assert [item.key.name for item in page.items] == ["plain", "deep"]
    assert event.object is not None
    assert event.object.key.name == "deep"
    assert codec.encode(value["spec"]).decode() == nested(5_000)
    assert sys.getrecursionlimit() == limit


def test_deeply_nested_json_is_malformed_rather_than_fatal():
    depth = 100_000

    with pytest.raises(codec.MalformedJsonError):
        codec.decode_json(b"[" * depth + b"]" * depth)


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
def test_a_watch_line_becomes_an_event_with_a_cached_object(kind):
    event = codec.decode_watch_line(line_of(kind, POD))

    assert event.type is WatchEventType(kind)
    assert event.object is not None
    assert event.object.key == ObjectKey("n", "p")
    assert json.loads(event.object.data) == POD


def test_a_bookmark_carries_a_version_and_may_end_the_initial_events():
    annotations = {"k8s.io/initial-events-end": "true"}

    plain = codec.decode_watch_line(line_of("BOOKMARK", {"metadata": {"resourceVersion": "9"}}))
    last = codec.decode_watch_line(
        line_of("BOOKMARK", {"metadata": {"resourceVersion": "9", "annotations": annotations}})
    )

    assert (plain.resource_version, plain.initial_events_end) == ("9", False)
    assert (last.resource_version, last.initial_events_end) == ("9", True)


def test_an_error_line_carries_the_status():
    status = {"code": 410, "reason": "Expired", "message": "too old", "details": None}
    throttled = {"code": 429, "details": {"retryAfterSeconds": 2}}

    expired = codec.decode_watch_line(line_of("ERROR", status))
    slow = codec.decode_watch_line(line_of("ERROR", throttled))

    assert expired.status == WatchStatus(410, "Expired", "too old")
    assert slow.status == WatchStatus(429, retry_after_seconds=2.0)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_lines_are_cut_the_same_whatever_the_chunks(size):
    text = b'{"a":1}\n\n{"b":2}\r\n{"c":3}\n{"rest'
    splitter = codec.LineSplitter(longest=100)

    lines: list[bytes] = []
    for start in range(0, len(text), size):
        lines += splitter.feed(text[start : start + size])

    assert [line.strip() for line in lines] == [b'{"a":1}', b'{"b":2}', b'{"c":3}']
    assert splitter.has_rest


def test_a_line_without_end_is_cut_off():
    splitter = codec.LineSplitter(longest=100)
    splitter.feed(b"x" * 60)

    with pytest.raises(codec.MalformedJsonError, match="longer than 100 bytes"):
        splitter.feed(b"x" * 60)


def test_values_without_a_json_form_are_refused():
    with pytest.raises(ValueError, match="JSON"):
        codec.encode({"a": object()})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["metadata", "items", "type", "object", "labels", "name", "code"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@example(b'{"metadata":{"name":true}}')
@given(st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()))
def test_whatever_a_server_sends_is_decoded_or_called_malformed(data):
    for decode in (codec.decode_list, codec.decode_watch_line, codec.decode_cached):
        with suppress(codec.MalformedJsonError):
            decode(data)
    with suppress(codec.MalformedJsonError, DecodeError):
        codec.decode(Pod, data)
    codec.decode_status(data)


@given(st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b""))), st.data())
def test_lines_survive_any_cut(lines, data):
    text = b"".join(line + b"\n" for line in lines)
    splitter = codec.LineSplitter(longest=100)
    found: list[bytes] = []

    while text:
        size = data.draw(st.integers(1, len(text)))
        found += splitter.feed(text[:size])
        text = text[size:]

    assert found == [line for line in lines if line and not line.isspace()]
    assert not splitter.has_rest


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b'{"type":"ADDED","object":%s}', id="as-servers-write-it"),
        pytest.param(b' {"type": "ADDED", "object": %s} ', id="with-blanks"),
        pytest.param(b'{"object":%s,"type":"ADDED"}', id="object-first"),
        pytest.param(b'{"type":"ADDED","object":%s,"more":{}}', id="with-a-further-field"),
    ],
)
def test_an_event_is_the_same_however_it_is_written(line):
    data = json.dumps(POD, separators=(",", ":")).encode()

    event = codec.decode_watch_line(line % data)

    assert event.type is WatchEventType.ADDED
    assert event.object == codec.decode_cached(data)
    assert event.object.data == data


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"ADDED","object":null}',
        b'{"type":"ADDED","object":{}}}',
        b'{"type":"ADDED","object":{"metadata":{}}',
        b'{"type":"ODD","object":{}}',
    ],
)
def test_what_only_begins_like_an_event_is_refused(line):
    with pytest.raises(codec.MalformedJsonError):
        codec.decode_watch_line(line)


def managed_by(*managers):
    entries = [
        {"manager": name, "operation": operation, "fieldsV1": {"f:data": {}}}
        for name, operation in managers
    ]
    return {"metadata": {"name": "a", "managedFields": entries, "uid": "u"}, "data": {"x": "y"}}


@pytest.mark.parametrize(
    ("managers", "kept"),
    [
        ([("kubelet", "Update")], None),
        ([("kubelet", "Update"), ("me", "Apply"), ("Apply", "Update")], ["me"]),
        ([("me", "Apply")], ["me"]),
    ],
)
def test_a_cache_keeps_of_the_managed_fields_those_of_applies(managers, kept):
    stored = managed_by(*managers)
    line = b'{"type":"ADDED","object":' + codec.encode(stored) + b"}"
    page = b'{"items":[' + codec.encode(stored) + b"]}"

    watched = codec.decode_watch_line(line).object
    (listed,) = codec.decode_list(page, for_cache=True).items

    assert watched == listed
    left = codec.decode_json(watched.data)
    entries = left["metadata"].pop("managedFields", None)
    assert kept == (None if entries is None else [entry["manager"] for entry in entries])
    del stored["metadata"]["managedFields"]
    assert left == stored


def test_a_live_list_has_all_managed_fields():
    stored = managed_by(("kubelet", "Update"), ("me", "Apply"))

    (listed,) = codec.decode_list(b'{"items":[' + codec.encode(stored) + b"]}").items

    assert codec.decode_json(listed.data) == stored


@pytest.mark.parametrize(
    "text",
    [
        b'{"metadata":{"name":"a", "managedFields": [{"operation": "Update"}]}}',
        b'{"metadata":{"managedFields":[{"operation":"Update"}],"name":"a"}}',
        b'{"metadata":{"name":"a","managedFields":["Apply"]}}',
    ],
    ids=["spaces", "first", "no-entries"],
)
def test_managed_fields_in_another_spelling_stay(text):
    (cached,) = codec.decode_list(b'{"items":[' + text + b"]}", for_cache=True).items

    assert codec.decode_json(cached.data) == codec.decode_json(text)
