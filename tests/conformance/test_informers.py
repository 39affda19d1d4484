"""What informers do with a server's lists and watches, also when those are disturbed."""

import asyncio
from contextlib import asynccontextmanager
from random import Random

import pytest

from dynamo_operator.runtime.builtin_kinds import ConfigMap
from dynamo_operator.runtime.client.codec import resource_type_of
from dynamo_operator.runtime.enqueue import enqueue_self
from dynamo_operator.runtime.sources import enqueue_handler
from informers.errors import (
    AccessDeniedError,
    ConnectionLostError,
    ExpiredError,
    ListWatchError,
    SyncTimeoutError,
)
from informers.events import Added, Deleted, ObjectEvent, Updated
from informers.objects import ObjectKey
from informers.observers import InformerObserver
from informers.shared_informer import SharedInformer
from informers.work_queue import WorkQueue
from tests.conformance.tampered import Asked, TamperedListWatch

pytestmark = pytest.mark.asyncio(loop_scope="session")

OURS = {"made-by": "the-test"}  # the cluster's own controllers make a ConfigMap here, too
EXPIRED = ExpiredError(410, "Expired", "too old resource version")
PATIENCE_SECONDS = 20.0


def line(event):
    name = event.object.key.name
    match event:
        case Added():
            return f"added {name}{' (initial)' if event.initial else ''}"
        case Updated():
            return f"updated {name}"
        case Deleted():
            return f"deleted {name}{' (unknown)' if event.final_state_unknown else ''}"


class Stage:
    """One informer of the ConfigMaps that a test makes."""

    def __init__(self, cluster, namespace):
        self._client = cluster.client
        self.namespace = namespace
        self.list_watch = TamperedListWatch(
            cluster.client.list_watch(ConfigMap, namespace=namespace, labels=OURS)
        )
        self.told: list[ObjectEvent] = []

    @property
    def lines(self):
        return [line(event) for event in self.told]

    @property
    def asked(self):
        return self.list_watch.asked

    @asynccontextmanager
    async def informer(self, **options):
        informer = SharedInformer(self.list_watch, random=Random(3), **options)
        informer.add_handler(self.told.append)
        async with asyncio.timeout(PATIENCE_SECONDS), asyncio.TaskGroup() as group:
            running = group.create_task(informer.run())
            await informer.wait_synced()
            yield informer
            running.cancel()

    def key(self, name):
        return ObjectKey(self.namespace, name)

    async def make(self, name, **data):
        config_map = ConfigMap.new(name, namespace=self.namespace, labels=OURS, data=data)
        return await self._client.create(config_map)

    async def change(self, name, **data):
        return await self._client.patch(ConfigMap, self.key(name), {"data": data})

    async def delete(self, name):
        await self._client.delete(ConfigMap, self.key(name))


@pytest.fixture
def stage(cluster, namespace):
    return Stage(cluster, namespace)


async def seen(informer, obj):
    await informer.wait_seen(obj.key, obj.resource_version)


async def test_what_the_first_list_brings_is_initial_and_low_in_priority(stage):
    await stage.make("a")
    await stage.make("b")
    queue: WorkQueue[ObjectKey] = WorkQueue()

    async with stage.informer() as informer:
        handle = enqueue_handler(queue, resource_type_of(ConfigMap), enqueue_self, ())
        informer.add_handler(handle)
        assert queue.statistics().ready == {-100: 2}
        await seen(informer, await stage.make("c"))
        await seen(informer, await stage.change("b", x="1"))

    assert stage.lines == ["added a (initial)", "added b (initial)", "added c", "updated b"]
    assert queue.statistics().ready == {0: 2, -100: 1}


async def test_a_relist_tells_what_was_missed_deletions_first(stage):
    for name in "abc":
        await stage.make(name)

    async with stage.informer() as informer:
        last_seen = informer.lister.get(stage.key("a"))
        stage.list_watch.hold()
        await stage.delete("a")
        await stage.change("b", x="1")
        new = await stage.make("d")
        stage.told.clear()
        stage.list_watch.end_streams(EXPIRED)
        await seen(informer, new)

    assert stage.lines == ["deleted a (unknown)", "updated b", "added d"]
    assert stage.told[0].object == last_seen


async def test_a_recreation_is_told_as_it_was_seen(stage):
    first = await stage.make("a")

    async with stage.informer() as informer:
        await stage.delete("a")
        second = await stage.make("a")
        await seen(informer, second)
        stage.list_watch.hold()
        await stage.delete("a")
        third = await stage.make("a")
        stage.list_watch.end_streams(EXPIRED)
        await seen(informer, third)

    assert stage.lines == ["added a (initial)", "deleted a", "added a", "updated a"]
    assert [event.object.uid for event in stage.told] == [
        first.uid,
        first.uid,
        second.uid,
        third.uid,
    ]


async def test_a_watch_goes_on_from_the_list_and_then_from_the_last_event(stage):
    await stage.make("a")

    async with stage.informer(use_watch_list=False) as informer:
        listed = informer.lister.resource_version
        new = await stage.make("b")
        await seen(informer, new)
        stage.list_watch.end_streams()
        await seen(informer, await stage.make("c"))

    assert stage.asked == [
        Asked("list", "0", limit=500),
        Asked("watch", listed),
        Asked("watch", new.resource_version),
    ]
    assert stage.lines == ["added a (initial)", "added b", "added c"]


async def test_a_bookmark_moves_the_version_and_tells_nobody(stage, cluster):
    made = await stage.make("a")
    stage.list_watch.watch_seconds = 3

    async with stage.informer(use_watch_list=False) as informer:
        elsewhere = ConfigMap.new("x", namespace="default", labels=OURS)
        other = await cluster.client.create(elsewhere)
        await cluster.client.delete(ConfigMap, other.key)
        await informer.wait_until(
            lambda lister: int(lister.resource_version) > int(other.resource_version)
        )
        so_far = len(stage.asked)
        await stage.list_watch.wait_asked(so_far + 1)  # the server ends the watch

    assert [request.verb for request in stage.asked] == ["list"] + ["watch"] * so_far
    assert int(stage.asked[so_far].resource_version) > int(other.resource_version)
    assert [event.object.resource_version for event in stage.told] == [made.resource_version]


async def test_a_watch_that_cannot_start_begins_again_where_it_was(stage):
    async with stage.informer(use_watch_list=False) as informer:
        made = await stage.make("a")
        await seen(informer, made)
        stage.list_watch.answers = [ConnectionLostError("connection refused")]
        stage.list_watch.end_streams()
        await seen(informer, await stage.make("b"))

    assert stage.asked[2:] == [Asked("watch", made.resource_version)] * 2
    assert stage.lines == ["added a", "added b"]


async def test_a_watch_that_ends_at_once_is_opened_again_after_a_wait(stage):
    async with stage.informer(use_watch_list=False) as informer:
        await stage.list_watch.wait_asked(2)
        stage.list_watch.end_streams()
        await seen(informer, await stage.make("a"))

    assert stage.asked[2] == stage.asked[1]
    assert stage.list_watch.times[2] - stage.list_watch.times[1] >= 0.8


async def test_a_list_that_fails_is_told_and_tried_again_after_a_wait(stage):
    class Failures(InformerObserver):
        def failed(self, resource_type, error, retry_in_seconds):
            waits.append(retry_in_seconds)

    waits: list[float] = []
    await stage.make("a")
    stage.list_watch.answers = [ListWatchError(500, "InternalError")]

    async with stage.informer(use_watch_list=False, observer=Failures()):
        pass

    assert stage.lines == ["added a (initial)"]
    assert [request.verb for request in stage.asked][:2] == ["list", "list"]
    (wait,) = waits
    assert 0.8 <= wait <= 1.6
    assert stage.list_watch.times[1] - stage.list_watch.times[0] >= wait


async def test_one_stream_brings_the_present_and_the_changes(stage):
    await stage.make("a")

    async with stage.informer() as informer:
        await seen(informer, await stage.make("b"))

    assert stage.asked == [Asked("watch", "", initial=True)]
    assert stage.lines == ["added a (initial)", "added b"]


async def test_initial_events_without_their_end_are_dropped(stage):
    await stage.make("a")
    stage.list_watch.lose_end_of_initial_events = True

    async with stage.informer():
        pass

    assert stage.asked == [Asked("watch", "", initial=True)] * 2
    assert stage.lines == ["added a (initial)"]


async def test_a_server_without_initial_events_is_listed_in_the_same_round(stage):
    await stage.make("a")
    stage.list_watch.answers = [ListWatchError(422, "Invalid", "sendInitialEvents: Forbidden")]

    async with stage.informer() as informer:
        await seen(informer, await stage.make("b"))

    assert [(request.verb, request.initial) for request in stage.asked] == [
        ("watch", True),
        ("list", False),
        ("watch", False),
    ]
    assert stage.list_watch.times[1] - stage.list_watch.times[0] < 0.5
    assert stage.lines == ["added a (initial)", "added b"]


async def test_a_long_list_comes_in_pages_of_one_moment(stage):
    for name in "abcde":
        await stage.make(name)
    stage.list_watch.page_size = 2
    stage.list_watch.answers = [EXPIRED]  # the next list is of the latest, which has pages

    async with stage.informer(use_watch_list=False):
        pass

    assert stage.asked[1:4] == [
        Asked("list", "", limit=2),
        Asked("list", "", limit=2, is_continued=True),
        Asked("list", "", limit=2, is_continued=True),
    ]
    assert stage.lines == [f"added {name} (initial)" for name in "abcde"]


async def test_pages_that_expire_are_followed_by_one_whole_list(stage):
    for name in "abc":
        await stage.make(name)
    stage.list_watch.page_size = 2
    stage.list_watch.answers = [EXPIRED, None, EXPIRED]

    async with stage.informer(use_watch_list=False):
        stage.list_watch.page_size = 0

    lists = [request for request in stage.asked if request.verb == "list"]
    assert [request.is_continued for request in lists[:4]] == [False, False, True, False]
    assert stage.lines == [f"added {name} (initial)" for name in "abc"]


async def test_changes_of_an_object_come_in_order_and_each_on_its_own(stage):
    made = await stage.make("a")

    async with stage.informer() as informer:
        changes = [await stage.change("a", x=str(number)) for number in range(5)]
        await seen(informer, changes[-1])

    versions = [event.object.resource_version for event in stage.told]
    assert versions == [obj.resource_version for obj in (made, *changes)]


async def test_a_kind_that_may_not_be_listed_is_named_or_ends_the_informer(cluster, namespace):
    stranger = cluster.client_of("a-stranger")
    list_watch = stranger.list_watch(ConfigMap, namespace=namespace)
    patient = SharedInformer(list_watch)
    strict = SharedInformer(list_watch, fail_when_forbidden=True)

    with pytest.raises(AccessDeniedError, match=r"v1 ConfigMap: 403 Forbidden.*a-stranger"):
        await strict.run()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(patient.run())
        with pytest.raises(SyncTimeoutError, match=r"configmaps\.v1 .*403 Forbidden.*a-stranger"):
            await patient.wait_synced(2)
        running.cancel()


async def test_metadata_alone_follows_every_change(cluster, namespace):
    list_watch = cluster.client.list_watch(
        ConfigMap, namespace=namespace, labels=OURS, metadata_only=True
    )
    informer = SharedInformer(list_watch)
    told: list[ObjectEvent] = []
    informer.add_handler(told.append)
    stage = Stage(cluster, namespace)
    await stage.make("a", x="1")

    async with asyncio.timeout(PATIENCE_SECONDS), asyncio.TaskGroup() as group:
        running = group.create_task(informer.run())
        await informer.wait_synced()
        await seen(informer, await stage.change("a", x="2"))
        await stage.delete("a")
        await informer.wait_until(lambda lister: len(lister) == 0)
        running.cancel()

    assert [line(event) for event in told] == ["added a (initial)", "updated a", "deleted a"]
    assert {event.object.data for event in told} == {b""}
