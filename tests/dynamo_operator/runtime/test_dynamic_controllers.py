"""Controllers and watches that are added and removed while a manager runs."""

import asyncio

import pytest

from dynamo_operator.runtime.builtin_kinds import ConfigMap, Secret
from dynamo_operator.runtime.cache import NotCachedError
from dynamo_operator.runtime.client.http import HttpRequest
from dynamo_operator.runtime.controller import Controller
from dynamo_operator.runtime.enqueue import by_label
from dynamo_operator.runtime.http_server import HttpServer
from dynamo_operator.runtime.manager import Manager
from dynamo_operator.runtime.reconciler import Result
from dynamo_operator.runtime.sources import Watch
from tests.dynamo_operator.runtime.widgets import (
    HeldWatches,
    Widget,
    key,
    widget,
    widget_cluster,
)

pytestmark = pytest.mark.virtual_time


def now():
    return asyncio.get_running_loop().time()


@pytest.fixture
async def cluster():
    async with widget_cluster() as cluster:
        yield cluster


class Recorder:
    def __init__(self):
        self.keys = []

    async def reconcile(self, wanted):
        self.keys.append(str(wanted))
        return Result.done()


def watching_widgets(recorder, **options):
    return Controller(Widget, reconciler=recorder, **options)


async def test_a_watch_added_while_running_delivers_what_is_there_and_what_comes(cluster):
    recorder = Recorder()
    for name in ("s1", "s2"):
        secret = Secret.new(name, namespace="default", labels={"lab/widget": name})
        await cluster.client.create(secret)

    async with cluster.manager() as manager:
        running = manager.add(watching_widgets(recorder))
        declaration = running.watch(Watch(Secret, enqueue=by_label("lab/widget")))
        await declaration.wait_synced()
        await asyncio.sleep(1)
        assert recorder.keys == ["default/s1", "default/s2"]

        late = Secret.new("s3", namespace="default", labels={"lab/widget": "s3"})
        await cluster.client.create(late)
        await asyncio.sleep(1)
        found = await manager.reader.list(Secret)

    assert recorder.keys[2:] == ["default/s3"]
    assert len(found) == 3


async def test_a_watch_that_is_closed_is_heard_no_more_and_ends_on_the_server(cluster):
    transport, recorder = HeldWatches(cluster), Recorder()
    async with cluster.manager(client=transport.client) as manager:
        running = manager.add(watching_widgets(recorder))
        declaration = running.watch(Watch(Secret, enqueue=by_label("lab/widget")))
        await declaration.wait_synced()
        declaration.close()
        declaration.close()
        await asyncio.sleep(1)
        before = transport.count("secrets")
        secret = Secret.new("s", namespace="default", labels={"lab/widget": "x"})
        await cluster.client.create(secret)
        await asyncio.sleep(3600)

        assert transport.count("secrets") == before
        with pytest.raises(NotCachedError, match="secrets"):
            await manager.reader.list(Secret)

    assert recorder.keys == []


async def test_a_stopped_controller_finishes_its_reconciles_and_hears_no_more(cluster):
    ended = []

    class Slow:
        async def reconcile(self, wanted):
            await asyncio.sleep(20)
            ended.append((str(wanted), now()))
            return Result.requeue(after=1)

    await cluster.client.create(widget("a"))
    async with cluster.manager() as manager:
        running = manager.add(watching_widgets(Slow()))
        await asyncio.sleep(1)
        await running.stop()
        assert [name for name, _ in ended] == ["default/a"]
        assert running.is_stopped
        await cluster.client.create(widget("b"))
        await asyncio.sleep(3600)

    assert len(ended) == 1


async def test_informers_stop_with_the_last_who_needs_them(cluster):
    transport = HeldWatches(cluster)
    async with cluster.manager(client=transport.client) as manager:
        first = manager.add(watching_widgets(Recorder(), name="first", owns=[ConfigMap]))
        second = manager.add(watching_widgets(Recorder(), name="second"))
        await asyncio.sleep(1)
        await first.stop()
        assert await manager.reader.list(Widget) == []
        with pytest.raises(NotCachedError, match="configmaps"):
            await manager.reader.list(ConfigMap)

        await second.stop()
        with pytest.raises(NotCachedError, match="widgets"):
            await manager.reader.list(Widget)
        before = transport.count("WATCH")
        await asyncio.sleep(3600)

    assert transport.count("WATCH") == before


async def test_a_kind_that_is_needed_again_has_a_new_watch(cluster):
    transport = HeldWatches(cluster)
    async with cluster.manager(client=transport.client) as manager:
        declaration = manager.cache.declare(Widget)
        await declaration.wait_synced()
        declaration.close()
        await cluster.client.create(widget("a"))
        again = manager.cache.declare(Widget)
        found = await manager.reader.list(Widget)
        again.close()

    assert [w.key.name for w in found] == ["a"]
    assert transport.count("WATCH /apis/lab.test/v1/widgets") == 2


async def test_the_name_of_a_stopped_controller_is_free_again(cluster):
    first, second = Recorder(), Recorder()
    await cluster.client.create(widget("a"))

    async with cluster.manager() as manager:
        running = manager.add(watching_widgets(first))
        await asyncio.sleep(1)
        with pytest.raises(ValueError, match="the manager has one of that name"):
            manager.add(watching_widgets(second))
        await running.stop()
        manager.add(watching_widgets(second))
        await asyncio.sleep(1)

    assert first.keys == second.keys == ["default/a"]


async def test_a_stopped_controller_takes_no_watch_and_may_be_stopped_again(cluster):
    async with cluster.manager() as manager:
        running = manager.add(watching_widgets(Recorder()))
        await running.stop()
        await running.stop()
        with pytest.raises(RuntimeError, match="controller 'widget': is stopped"):
            running.watch(Watch(Secret))


async def test_a_controller_stopped_before_it_ran_never_runs(cluster):
    recorder = Recorder()
    await cluster.client.create(widget("a"))
    async with cluster.manager() as manager:
        running = manager.add(watching_widgets(recorder))
        await running.stop()
        await asyncio.sleep(1)

    assert recorder.keys == []


async def test_what_one_stopping_controller_declared_can_be_read_until_all_have_stopped(cluster):
    read = []

    class ReadsLate:
        def __init__(self, reader, client):
            self.reader = reader

        async def reconcile(self, wanted):
            await asyncio.sleep(10)
            read.append(await self.reader.list(ConfigMap))
            return Result.done()

    await cluster.client.create(widget("a"))
    async with cluster.manager(
        watching_widgets(ReadsLate),
        Controller(ConfigMap, reconciler=Recorder()),
    ):
        await asyncio.sleep(1)

    assert read == [[]]


async def test_a_watch_of_metadata_shares_the_watch_of_whole_objects(cluster):
    transport = HeldWatches(cluster)
    await cluster.client.create(ConfigMap.new("c", namespace="default", data={"k": "v"}))
    metadata = watching_widgets(
        Recorder(), name="metadata", watches=[Watch(ConfigMap, metadata_only=True)]
    )
    whole = watching_widgets(Recorder(), name="whole", watches=[Watch(ConfigMap)])

    async with cluster.manager(metadata, whole, client=transport.client) as manager:
        found = await manager.reader.get(ConfigMap, key("c"))
        view = await manager.reader.find_metadata(ConfigMap, key("c"))

    assert transport.count("WATCH /api/v1/configmaps") == 1
    assert found.data == {"k": "v"}
    assert view is not None
    assert view.uid == found.uid


async def test_who_waits_for_metadata_is_served_by_whole_objects_declared_after_that(cluster):
    manager = Manager(cluster.client, clock=cluster.clock, random=cluster.random)
    metadata = manager.cache.declare(ConfigMap, metadata_only=True)

    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(metadata.wait_synced())
        await asyncio.sleep(1)
        manager.cache.declare(ConfigMap)
        async with manager.running():
            await asyncio.sleep(1)
            assert waiting.done()


async def test_a_watch_that_is_closed_in_the_same_breath_leaves_nothing_behind(cluster):
    async with cluster.manager() as manager:
        tasks = len(asyncio.all_tasks())
        declaration = manager.cache.declare(ConfigMap)
        declaration.close()
        await declaration.wait_synced()
        await asyncio.sleep(1)
        assert len(asyncio.all_tasks()) == tasks
        assert [cache for cache in manager.cache] == []


async def test_metadata_can_be_read_where_nothing_else_is_cached(cluster):
    labels = {"l": "1"}
    await cluster.client.create(ConfigMap.new("c", namespace="default", labels=labels))
    await cluster.client.create(ConfigMap.new("d", namespace="default"))
    controller = watching_widgets(Recorder(), watches=[Watch(ConfigMap, metadata_only=True)])

    async with cluster.manager(controller) as manager:
        listed = await manager.reader.list_metadata(ConfigMap, labels="l")
        missing = await manager.reader.find_metadata(ConfigMap, key("nobody"))
        await manager.client.create(ConfigMap.new("e", namespace="default"))
        own = await manager.reader.find_metadata(ConfigMap, key("e"))

    assert [(obj.key.name, obj.labels, obj.data) for obj in listed] == [("c", labels, b"")]
    assert missing is None
    assert own is not None


async def test_what_an_informer_held_counts_no_more_when_it_is_gone(cluster):
    def sizes(manager):
        lines = manager.metrics.render().decode().splitlines()
        wanted = 'informer_objects{namespace="",resource="widgets.v1.lab.test'
        return [line.removeprefix(wanted) for line in lines if line.startswith(wanted)]

    await cluster.client.create(widget("a", labels={"l": "1"}))
    async with cluster.manager() as manager:
        whole, some = manager.cache.declare(Widget), manager.cache.declare(Widget, labels="l=1")
        for declaration in (whole, some):
            await declaration.wait_synced()
        assert sizes(manager) == ['"} 1.0', '[l=1]"} 1.0']
        some.close()
        assert sizes(manager) == ['"} 1.0', '[l=1]"} 0.0']


async def test_what_is_declared_after_the_start_takes_readiness_away_from_nobody(cluster):
    transport, server = HeldWatches(cluster, "configmaps"), HttpServer("127.0.0.1:0")

    async def readiness():
        return (await server.handle(HttpRequest("GET", "/readyz", (), {}))).status

    async with cluster.manager(client=transport.client) as manager:
        manager.readyz.mount(server)
        transport.hold()
        declaration = manager.cache.declare(ConfigMap)
        await asyncio.sleep(10)
        assert not declaration.is_synced
        assert await readiness() == 200
        transport.release()
    assert await readiness() == 500
