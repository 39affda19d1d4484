"""The clients that a client makes of itself, and the calls that are about many objects."""

import pytest

from dynamo_operator.apiserver import ApiServer
from dynamo_operator.runtime.builtin_kinds import ConfigMap, Job, Namespace, Pod
from dynamo_operator.runtime.client import (
    BadRequestError,
    Client,
    GoneError,
    InvalidError,
    NotFoundError,
    PatchType,
    ServerError,
    Write,
)
from dynamo_operator.testing import InProcessTransport
from informers.objects import ObjectKey, ResourceType

KEY = ObjectKey("default", "a")
DEPLOYMENT = ResourceType("apps", "v1", "Deployment", "deployments")
CONTAINER = {"name": "c", "image": "i"}


@pytest.fixture
def server():
    return ApiServer()


@pytest.fixture
async def client(server):
    async with Client.over(InProcessTransport(server)) as client:
        yield client


def names(objects):
    return [obj.key.name for obj in objects]


async def test_a_dry_run_goes_for_every_write_and_stores_nothing(client, server):
    await client.create(ConfigMap.new("a", data={"k": "v"}))
    template = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
    job = await client.create(Job.new("j", spec={"template": template}))
    live = await client.get(ConfigMap, KEY)
    told: list[Write] = []
    trying = client.with_dry_run().with_write_observer(told.append)

    created = await trying.create(ConfigMap.new("b"))
    applied = await trying.apply(ConfigMap.new("a", data={"l": "w"}))
    patched = await trying.patch(ConfigMap, KEY, {"data": {"k": "x"}})
    replaced = await trying.replace(live.model_copy(update={"data": {}}))
    status = await trying.apply_status(job, {"active": 1})
    await trying.delete(ConfigMap, KEY)
    await trying.delete_all(ConfigMap, namespace="default")

    assert created.uid
    assert (applied.data, patched.data, replaced.data) == ({"k": "v", "l": "w"}, {"k": "x"}, {})
    assert status.status["active"] == 1
    assert await client.get(ConfigMap, KEY) == live
    assert await client.get(Job, job.key) == job
    assert await client.find(ConfigMap, ObjectKey("default", "b")) is None
    assert told == []


async def test_a_dry_run_of_one_write_leaves_the_next_as_it_is(client):
    live = await client.create(ConfigMap.new("a"))

    await client.replace(live.model_copy(update={"data": {"k": "v"}}), dry_run=True)
    await client.patch(ConfigMap, KEY, {"data": {"k": "v"}}, dry_run=True)
    await client.delete(ConfigMap, KEY, dry_run=True)

    assert await client.get(ConfigMap, KEY) == live
    await client.delete(ConfigMap, KEY)
    assert await client.find(ConfigMap, KEY) is None


async def test_unknown_fields_are_refused_unless_a_warning_is_enough(client):
    warnings: list[str] = []
    client = client.with_warning_observer(warnings.append)
    wrong = {"metadata": {"name": "a"}, "datum": {"k": "v"}}

    with pytest.raises(BadRequestError, match="datum"):
        await client.create(wrong, kind=ConfigMap.resource_type)
    lenient = client.with_field_validation("Ignore")
    with pytest.raises(ServerError, match="datum"):  # as a real server answers an apply
        await lenient.apply(wrong, kind=ConfigMap.resource_type)
    assert warnings == []
    warned = client.with_field_validation("Warn")
    stored = await warned.create(wrong, kind=ConfigMap.resource_type)

    assert "datum" not in stored
    assert warnings == ['unknown field "datum"']


async def test_a_client_of_one_namespace_refuses_others(client):
    await client.create(Namespace.new("lab"))
    await client.create(ConfigMap.new("elsewhere"))
    inside = client.in_namespace("lab")

    await inside.create(ConfigMap.new("a"))
    assert names(await inside.list(ConfigMap)) == ["a"]
    assert [names(page) async for page in inside.pages(ConfigMap)] == [["a"]]
    assert names((await inside.list_watch(ConfigMap).list()).items) == ["a"]
    assert (await inside.get(ConfigMap, ObjectKey("lab", "a"))).key == ObjectKey("lab", "a")
    assert await inside.find(ConfigMap, ObjectKey("", "a")) is not None
    assert (await inside.get(Namespace, ObjectKey("", "default"))).key.name == "default"
    for refused in (
        inside.get(ConfigMap, KEY),
        inside.list(ConfigMap, namespace="default"),
        inside.create(ConfigMap.new("b", namespace="default")),
        inside.delete(ConfigMap, KEY),
        inside.delete_all(ConfigMap, namespace="default"),
    ):
        with pytest.raises(ValueError, match="'default' is not that of this client, 'lab'"):
            await refused


async def test_delete_all_deletes_what_matches_and_tells_of_each(client):
    for name, color in (("a", "red"), ("b", "blue"), ("c", "red")):
        await client.create(ConfigMap.new(name, labels={"color": color}))
    held = ConfigMap.new("d", labels={"color": "red"})
    held.metadata.finalizers = ["lab.test/x"]
    await client.create(held)
    told: list[Write] = []
    watched = client.with_write_observer(told.append)

    await watched.delete_all(ConfigMap, namespace="default", labels={"color": "red"})

    assert names(await client.list(ConfigMap, namespace="default")) == ["b", "d"]
    assert [(write.key.name, write.deleted) for write in told] == [
        ("a", True),
        ("c", True),
        ("d", True),
    ]
    assert all(write.in_doubt for write in told)
    with pytest.raises(ValueError, match="delete_all needs a namespace"):
        await client.delete_all(ConfigMap, namespace="")


async def test_pages_come_one_by_one_until_the_list_is_forgotten(client, server):
    for number in range(5):
        await client.create(ConfigMap.new(f"n{number}", labels={"a": "b"}))

    pages = client.pages(ConfigMap, namespace="default", labels="a=b", limit=2)
    assert [names(page) async for page in pages] == [["n0", "n1"], ["n2", "n3"], ["n4"]]
    plain = client.pages(ConfigMap.resource_type, limit=4, fields={"metadata.name": "n3"})
    assert [[item["metadata"]["name"] for item in page] async for page in plain] == [["n3"]]

    late = client.pages(ConfigMap, limit=2)
    await anext(late)
    await client.create(ConfigMap.new("new"))
    server.storage.compact(server.storage.resource_version)
    with pytest.raises(GoneError):
        await anext(late)


async def test_subresources_that_are_objects_of_their_own_are_plain_json(client):
    labels = {"app": "a"}
    deployment = {
        "metadata": {"name": "a"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [CONTAINER]}},
        },
    }
    await client.create(deployment, kind=DEPLOYMENT)

    scale = await client.get_subresource(DEPLOYMENT, KEY, "scale")
    scale["spec"]["replicas"] = 3
    scaled = await client.patch(
        DEPLOYMENT, KEY, {"spec": {"replicas": 3}}, subresource="scale", patch_type=PatchType.MERGE
    )

    assert (scale["kind"], scaled["kind"], scaled["spec"]["replicas"]) == ("Scale", "Scale", 3)
    assert (await client.get(DEPLOYMENT, KEY))["spec"]["replicas"] == 3
    with pytest.raises(NotFoundError):
        await client.get_subresource(ConfigMap, KEY, "scale")


async def test_a_pod_is_evicted_by_its_subresource(client):
    await client.create(Pod.new("a", spec={"containers": [CONTAINER]}))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}

    answer = await client.create_subresource(Pod, KEY, "eviction", eviction, dry_run=True)
    assert answer["status"] == "Success"
    assert await client.find(Pod, KEY) is not None
    await client.create_subresource(Pod, KEY, "eviction", eviction)

    assert await client.find(Pod, KEY) is None


async def test_what_the_server_finds_invalid_is_refused_in_a_dry_run_too(client):
    with pytest.raises(InvalidError):
        await client.with_dry_run().create(ConfigMap.new("Not_A_Name"))
