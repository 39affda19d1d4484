"""The client and the embedded API server, which share no code, over HTTPS."""

import asyncio

import pytest

from dynamo_operator.apiserver import ApiServer, HttpsServer
from dynamo_operator.runtime.apply import matches
from dynamo_operator.runtime.builtin_kinds import ConfigMap, Job, Namespace
from dynamo_operator.runtime.client import (
    AlreadyExistsError,
    Client,
    ClientConfig,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    PatchType,
    UnauthorizedError,
    Write,
)
from dynamo_operator.runtime.client.credentials import StaticCredentials
from dynamo_operator.runtime.client.discovery import Discovery
from dynamo_operator.runtime.finalizers import ensure_finalizer, remove_finalizer
from informers.events import WatchEventType
from informers.objects import ObjectKey

KEY = ObjectKey("default", "a")


@pytest.fixture
async def kubeconfig(tmp_path):
    async with HttpsServer(ApiServer(), host="127.0.0.1", port=0, directory=tmp_path) as https:
        path = tmp_path / "kubeconfig"
        https.write_kubeconfig(path, user="admin")
        yield path


@pytest.fixture
async def client(kubeconfig):
    async with Client.connect(ClientConfig.load(kubeconfig, environ={})) as client:
        yield client


async def test_an_object_lives_its_life(client):
    created = await client.create(ConfigMap.new("a", data={"k": "v"}))
    assert (created.key, created.data) == (KEY, {"k": "v"})
    with pytest.raises(AlreadyExistsError):
        await client.create(ConfigMap.new("a"))

    patched = await client.patch(ConfigMap, KEY, {"data": {"l": "w"}})
    assert patched.data == {"k": "v", "l": "w"}
    with pytest.raises(ConflictError):
        await client.replace(created)
    patched.data["k"] = "x"
    replaced = await client.replace(patched)
    assert (await client.get(ConfigMap, KEY)).data == {"k": "x", "l": "w"}
    operations = [{"op": "remove", "path": "/data/l"}]
    await client.patch(ConfigMap, KEY, operations, patch_type=PatchType.JSON)
    assert (await client.get(ConfigMap, KEY)).data == {"k": "x"}

    with pytest.raises(ConflictError):
        await client.delete(ConfigMap, KEY, uid="another")
    await client.delete(ConfigMap, KEY, uid=replaced.uid)
    assert await client.find(ConfigMap, KEY) is None
    with pytest.raises(NotFoundError):
        await client.delete(ConfigMap, KEY)


async def test_apply_owns_what_was_set_and_nothing_else(client):
    mine, other = client.with_field_manager("mine"), client.with_field_manager("other")
    first = await mine.apply(ConfigMap.new("a", data={"k": "v", "old": "x"}))
    await other.apply(ConfigMap.new("a", data={"theirs": "y"}))

    second = await mine.apply(ConfigMap.new("a", data={"k": "v"}))

    assert second.data == {"k": "v", "theirs": "y"}
    assert second.uid == first.uid
    with pytest.raises(ConflictError):
        await mine.apply(ConfigMap.new("a", data={"theirs": "z"}))
    taken = await mine.apply(ConfigMap.new("a", data={"theirs": "z"}), force=True)
    assert taken.data == {"theirs": "z"}


async def test_a_live_object_tells_whether_an_apply_would_change_it(client):
    owner = await client.create(ConfigMap.new("owner"))
    desired = ConfigMap.new("a", data={"k": "v", "l": "w"})
    live = await client.apply(desired, owner=owner)
    manager = client.field_manager

    assert matches(live, desired, owner=owner, field_manager=manager)
    assert (await client.apply(desired, owner=owner)).resource_version == live.resource_version
    less = ConfigMap.new("a", data={"k": "v"})
    assert not matches(live, less, owner=owner, field_manager=manager)


async def test_apply_to_one_instance_touches_no_other(client):
    with pytest.raises(ConflictError):
        await client.apply(ConfigMap.new("a"), uid="gone")
    live = await client.create(ConfigMap.new("a"))

    with pytest.raises(ConflictError):
        await client.apply(ConfigMap.new("a", data={"k": "v"}), uid="gone")
    with pytest.raises(ValueError, match="a uid would not be looked at"):
        await client.apply(ConfigMap.new("a"), uid=live.uid, subresource="status")
    assert (await client.apply(ConfigMap.new("a"), uid=live.uid)).uid == live.uid


async def test_a_status_is_applied_apart_from_the_spec(client):
    spec = {
        "template": {
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
        }
    }
    job = await client.create(Job.new("j", spec=spec))

    after = await client.apply_status(
        job, {"active": 1}, resource_version=job.resource_version, field_manager="status"
    )

    assert after.status["active"] == 1
    assert after.generation == job.generation
    with pytest.raises(ConflictError):
        await client.apply_status(job, {"active": 2}, resource_version=job.resource_version)


async def test_a_dry_run_stores_nothing(client):
    await client.create(ConfigMap.new("a"), dry_run=True)

    assert await client.find(ConfigMap, KEY) is None


async def test_a_finalizer_holds_an_object_until_it_is_removed(client):
    writes: list[Write] = []
    client = client.with_write_observer(writes.append)
    obj = await ensure_finalizer(client, await client.create(ConfigMap.new("a")), "lab.test/x")

    await client.delete(ConfigMap, KEY)
    held = await client.get(ConfigMap, KEY)
    await remove_finalizer(client, held, "lab.test/x")

    assert held.is_deleting
    assert (writes[2].deleted, writes[2].deleted_uid) == (True, obj.uid)
    assert writes[2].resource_version == held.resource_version
    assert await client.find(ConfigMap, KEY) is None


async def test_lists_select_and_come_in_pages(client):
    async with asyncio.TaskGroup() as tasks:
        for number in range(12):
            labels = {"half": "even" if number % 2 == 0 else "odd"}
            tasks.create_task(client.create(ConfigMap.new(f"n{number:02}", labels=labels)))

    even = await client.list(ConfigMap, namespace="default", labels={"half": "even"})
    one = await client.list(ConfigMap, fields={"metadata.name": "n07"})

    assert [item.key.name for item in even] == ["n00", "n02", "n04", "n06", "n08", "n10"]
    assert [item.key.name for item in one] == ["n07"]
    list_watch = client.list_watch(ConfigMap, namespace="default", labels="half=odd")
    first = await list_watch.list(limit=4)
    rest = await list_watch.list(limit=4, continue_token=first.continue_token)
    assert (len(first.items), len(rest.items), rest.continue_token) == (4, 2, "")


async def test_a_watch_begins_with_the_present_and_goes_on(client):
    await client.create(ConfigMap.new("a"))
    seen = []

    async with client.list_watch(ConfigMap, namespace="default").watch(
        resource_version="", timeout_seconds=60, send_initial_events=True
    ) as batches:
        async for batch in batches:
            seen += batch
            if seen[-1].initial_events_end:
                await client.create(ConfigMap.new("b"))
            if seen[-1].object is not None and seen[-1].object.key.name == "b":
                break

    added = [e.object.key.name for e in seen if e.type is WatchEventType.ADDED]
    assert added == ["a", "b"]


async def test_discovery_finds_what_is_served(client):
    discovery = Discovery(client)

    assert await discovery.supports(Job, verb="watch")
    found = await discovery.find("Namespace")
    assert found is not None
    assert found.resource_type == Namespace.resource_type


async def test_a_stranger_is_not_let_in(kubeconfig):
    config = ClientConfig.load(kubeconfig, environ={})
    nobody = ClientConfig(config.server, tls=config.tls)
    forger = ClientConfig(config.server, tls=config.tls, credentials=StaticCredentials.token("x"))

    async with Client.connect(nobody) as client:
        with pytest.raises(ForbiddenError, match="system:anonymous"):
            await client.get(ConfigMap, KEY)
    async with Client.connect(forger) as client:
        with pytest.raises(UnauthorizedError):
            await client.get(ConfigMap, KEY)
