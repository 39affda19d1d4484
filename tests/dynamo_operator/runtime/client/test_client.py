import json

import pytest

from dynamo_operator.runtime.builtin_kinds import ClusterRole, ConfigMap, Job, Namespace
from dynamo_operator.runtime.client import (
    Client,
    NotFoundError,
    PatchType,
    TransportError,
    UncachedReader,
    UnknownOutcomeError,
    Write,
)
from dynamo_operator.runtime.owner_references import OwnershipError
from dynamo_operator.testing.virtual_time import VirtualClock
from informers.objects import ObjectKey
from tests.dynamo_operator.runtime.client.scripted_transport import (
    ScriptedTransport,
    answer,
    refusal,
)

pytestmark = pytest.mark.virtual_time

KEY = ObjectKey("lab", "a")
STORED = {"metadata": {"name": "a", "namespace": "lab", "uid": "u", "resourceVersion": "7"}}
OWNER = ConfigMap.model_validate({"metadata": {"name": "o", "namespace": "lab", "uid": "ou"}})


def client_on(*steps):
    transport = ScriptedTransport(*steps)
    return transport, Client.over(transport, default_namespace="lab", clock=VirtualClock())


def sent(transport):
    (request,) = transport.requests
    return request.method, request.path, dict(request.query), json.loads(request.body or b"null")


async def test_get_decodes_into_the_model_asked_for():
    transport, client = client_on(answer(200, {**STORED, "data": {"k": "v"}}))

    found = await client.get(ConfigMap, KEY)

    assert isinstance(found, ConfigMap)
    assert (found.data, found.kind, found.api_version) == ({"k": "v"}, "ConfigMap", "v1")
    assert sent(transport)[:2] == ("GET", "/api/v1/namespaces/lab/configmaps/a")


async def test_get_gives_plain_data_for_a_resource_type():
    _, client = client_on(answer(200, STORED))

    found = await client.get(ConfigMap.resource_type, KEY)

    assert found == {"apiVersion": "v1", "kind": "ConfigMap", **STORED}


async def test_a_key_without_a_namespace_is_looked_for_in_the_default_one():
    transport, client = client_on(answer(200, STORED))

    await client.get(ConfigMap, ObjectKey("", "a"))

    assert transport.requests[0].path == "/api/v1/namespaces/lab/configmaps/a"


async def test_find_gives_none_where_get_raises():
    _, client = client_on(refusal(404, "NotFound"))

    assert await client.find(ConfigMap, KEY) is None
    with pytest.raises(NotFoundError):
        await client.get(ConfigMap, KEY)


async def test_a_page_of_html_is_a_transport_error():
    _, client = client_on(answer(200, b"<html>login</html>"))

    with pytest.raises(TransportError, match="not JSON"):
        await client.get(ConfigMap, KEY)
    with pytest.raises(TransportError, match="not a list"):
        await client.list(ConfigMap)


def page(*names, token=""):
    items = [{"metadata": {"name": name, "namespace": "lab"}} for name in names]
    return answer(200, {"metadata": {"continue": token}, "items": items})


async def test_list_follows_the_pages_and_sorts_by_key():
    transport, client = client_on(page("c", "b", token="next"), page("a"))

    found = await client.list(ConfigMap, namespace="lab", labels={"x": "y"})

    assert [item.key.name for item in found] == ["a", "b", "c"]
    assert [dict(request.query) for request in transport.requests] == [
        {"labelSelector": "x=y", "limit": "500"},
        {"labelSelector": "x=y", "limit": "500", "continue": "next"},
    ]


async def test_list_begins_again_undivided_when_its_snapshot_is_gone():
    transport, client = client_on(page("z", token="t"), refusal(410, "Expired"), page("b", "a"))

    found = await client.list(ConfigMap)

    assert [item.key.name for item in found] == ["a", "b"]
    assert dict(transport.requests[2].query) == {}


async def test_create_posts_what_was_set_into_the_namespace():
    transport, client = client_on(answer(201, STORED))

    created = await client.create(ConfigMap.new("a", data={"k": "v"}))

    method, path, query, body = sent(transport)
    assert (method, path) == ("POST", "/api/v1/namespaces/lab/configmaps")
    assert query == {"fieldManager": "operator-runtime", "fieldValidation": "Strict"}
    assert body == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a"},
        "data": {"k": "v"},
    }
    assert created.resource_version == "7"


async def test_create_takes_plain_json_with_its_type():
    transport, client = client_on(answer(201, STORED))

    created = await client.create(
        {"metadata": {"name": "a"}, "data": None}, kind=ConfigMap.resource_type, dry_run=True
    )

    _, _, query, body = sent(transport)
    assert query["dryRun"] == "All"
    assert body["kind"] == "ConfigMap"
    assert body["data"] is None
    assert created["metadata"]["uid"] == "u"


async def test_create_makes_the_owner_the_controller():
    transport, client = client_on(answer(201, STORED))
    desired = Job.new("a", namespace="lab")

    await client.create(desired, owner=OWNER)

    assert sent(transport)[3]["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "o",
            "uid": "ou",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert desired.owner_references == ()


@pytest.mark.parametrize(
    "desired", [Job.new("a", namespace="other"), ClusterRole.new("a")], ids=["elsewhere", "wider"]
)
async def test_an_owner_of_another_namespace_is_refused_before_anything_is_sent(desired):
    transport, client = client_on(answer())

    with pytest.raises(OwnershipError):
        await client.create(desired, owner=OWNER)
    with pytest.raises(OwnershipError):
        await client.apply(desired, owner=OWNER)

    assert transport.requests == []


async def test_apply_sends_exactly_the_fields_that_were_set():
    transport, client = client_on(answer(200, STORED))

    await client.with_field_manager("widget").apply(
        ConfigMap.new("a", data={}), force=True, uid="u", owner=OWNER
    )

    (request,) = transport.requests
    assert (request.method, request.path) == ("PATCH", "/api/v1/namespaces/lab/configmaps/a")
    assert request.headers["Content-Type"] == "application/apply-patch+yaml"
    assert dict(request.query) == {
        "fieldManager": "widget",
        "force": "true",
        "fieldValidation": "Strict",
    }
    body = json.loads(request.body or b"")
    assert body["data"] == {}
    assert body["metadata"]["uid"] == "u"
    assert body["metadata"]["ownerReferences"][0]["uid"] == "ou"
    assert "immutable" not in body


@pytest.mark.parametrize("name", ["managedFields", "resourceVersion"])
async def test_apply_refuses_an_object_that_was_read(name):
    transport, client = client_on(answer())
    value = [{"manager": "x"}] if name == "managedFields" else "7"
    read = ConfigMap.model_validate({"metadata": {"name": "a", name: value}})

    with pytest.raises(ValueError, match=rf"metadata\.{name} is set"):
        await client.apply(read)

    assert transport.requests == []


async def test_apply_status_sends_identity_and_status_alone():
    transport, client = client_on(answer(200, STORED))
    job = Job.model_validate({**STORED, "spec": {"x": 1}})

    await client.apply_status(job, {"ready": 1}, resource_version="7", field_manager="f")

    method, path, query, body = sent(transport)
    assert (method, path) == ("PATCH", "/apis/batch/v1/namespaces/lab/jobs/a/status")
    assert (query["fieldManager"], query["force"]) == ("f", "true")
    assert body == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "a", "namespace": "lab", "resourceVersion": "7"},
        "status": {"ready": 1},
    }


async def test_replace_puts_the_whole_object():
    transport, client = client_on(answer(200, STORED))

    await client.replace(ConfigMap.model_validate(STORED), subresource="status")

    method, path, _, body = sent(transport)
    assert (method, path) == ("PUT", "/api/v1/namespaces/lab/configmaps/a/status")
    assert body["metadata"]["resourceVersion"] == "7"


@pytest.mark.parametrize(
    ("patch", "patch_type"),
    [
        ({"data": {"k": None}}, PatchType.MERGE),
        ([{"op": "remove", "path": "/data/k"}], PatchType.JSON),
        ({"data": {}}, PatchType.STRATEGIC),
    ],
)
async def test_a_patch_is_sent_as_what_it_is(patch, patch_type):
    transport, client = client_on(answer(200, STORED))

    await client.patch(ConfigMap, KEY, patch, patch_type=patch_type)

    assert transport.requests[0].headers["Content-Type"] == patch_type.value
    assert sent(transport)[3] == patch


async def test_a_patch_of_the_wrong_form_is_refused():
    _, client = client_on(answer())

    with pytest.raises(ValueError, match="list of operations"):
        await client.patch(ConfigMap, KEY, {}, patch_type=PatchType.JSON)
    with pytest.raises(ValueError, match="list of operations"):
        await client.patch(ConfigMap, KEY, [])


async def test_delete_says_which_instance_and_how():
    transport, client = client_on(answer(200, {"kind": "Status"}))

    await client.delete(
        ConfigMap,
        KEY,
        uid="u",
        resource_version="7",
        propagation="Foreground",
        grace_period_seconds=0,
    )

    method, path, _, body = sent(transport)
    assert (method, path) == ("DELETE", "/api/v1/namespaces/lab/configmaps/a")
    assert body == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u", "resourceVersion": "7"},
        "propagationPolicy": "Foreground",
        "gracePeriodSeconds": 0,
    }


GONE = {"kind": "Status", "status": "Success", "details": {"uid": "u"}}
GOING = {"metadata": {**STORED["metadata"], "deletionTimestamp": "2030-01-01T00:00:00Z"}}


@pytest.mark.parametrize(
    ("body", "version", "uid"),
    [(GONE, "", "u"), (GOING, "7", "u"), (STORED, "", "u"), ({"kind": "Status"}, "", "")],
    ids=["gone", "held by a finalizer", "last state", "nothing said"],
)
async def test_observers_of_writes_learn_what_a_delete_left(body, version, uid):
    seen: list[Write] = []
    _, client = client_on(answer(200, body))

    await client.with_write_observer(seen.append).delete(ConfigMap, KEY)

    assert seen == [Write(ConfigMap.resource_type, KEY, version, True, uid)]


async def test_observers_of_writes_learn_the_version_of_every_write_but_of_a_dry_run():
    seen: list[Write] = []
    _, client = client_on(answer(200, STORED))
    observed = client.with_write_observer(seen.append)

    await observed.create(ConfigMap.new("a"), dry_run=True)
    await observed.create(ConfigMap.new("a"))
    await observed.with_field_manager("x").patch(ConfigMap, KEY, {})
    await client.patch(ConfigMap, KEY, {})

    assert seen == [Write(ConfigMap.resource_type, KEY, "7")] * 2


@pytest.mark.parametrize(
    "garbage", [b"<html>", b"", b"[]", b'{"metadata": {"name": "a"}, "data": {"k": "\xff"}}']
)
async def test_a_write_answered_with_garbage_has_an_unknown_outcome(garbage):
    _, client = client_on(answer(201, garbage))

    with pytest.raises(UnknownOutcomeError):
        await client.create(ConfigMap.new("a"))


async def test_the_uncached_reader_reads_what_the_client_reads_and_cannot_write():
    _, client = client_on(answer(200, {"metadata": {"name": "n"}}))
    reader = UncachedReader(client)

    assert (await reader.get(Namespace, ObjectKey("", "n"))).key == ObjectKey("", "n")
    assert not hasattr(reader, "create")


async def test_closing_the_client_closes_the_transport():
    transport, client = client_on(answer())

    async with client.with_field_manager("x"):
        pass

    assert transport.closed


async def test_a_stream_yields_the_chunks_as_they_arrive():
    _, client = client_on(answer(200, b"line one\nline two\n"))

    async with client.stream("GET", "/log", query=[("follow", "true")]) as chunks:
        assert b"".join([chunk async for chunk in chunks]) == b"line one\nline two\n"
