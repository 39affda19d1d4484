import asyncio
import itertools
from typing import Any

import pytest

from dynamo_operator.runtime.builder import ControllerParts, build
from dynamo_operator.runtime.builtin_kinds import ConfigMap, Event, Secret
from dynamo_operator.runtime.cache import CacheSyncError
from dynamo_operator.runtime.controller import Controller
from dynamo_operator.runtime.enqueue import by_label
from dynamo_operator.runtime.manager import Manager
from dynamo_operator.runtime.predicates import generation_changed, label_selector
from dynamo_operator.runtime.reconciler import Result, object_reconciler
from dynamo_operator.runtime.sources import Channel, Watch
from informers.work_queue import Priority
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


def parts_of(manager):
    """What a manager gives to its controllers, for one that it does not run."""
    return ControllerParts(
        manager.cache,
        manager.reader,
        manager.client,
        manager.metrics,
        manager.clock,
        manager.random,
    )


class Recorder:
    """Remembers which keys it was called with."""

    def __init__(self):
        self.keys = []

    async def reconcile(self, widget_key):
        self.keys.append(str(widget_key))
        return Result.done()


class MakesConfigMap:
    """The reconciler of a tutorial: a ConfigMap for each widget, and a status."""

    def __init__(self, reader, client):
        self.reader, self.client = reader, client

    async def reconcile(self, widget_key):
        parent = await self.reader.find(Widget, widget_key)
        if parent is None or parent.is_deleting:
            return Result.done()
        config_map = ConfigMap.new(
            parent.key.name,
            namespace=parent.key.namespace,
            data={"size": str(parent.spec.get("size"))},
        )
        await self.client.apply(config_map, owner=parent, force=True)
        await self.client.apply_status(parent, {"size": parent.spec.get("size")})
        return Result.done()


# Declaring


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"max_concurrent_reconciles": 0}, "max_concurrent_reconciles=0: must be at least 1"),
        ({"poll_every_seconds": 0}, "poll_every_seconds=0: must be a positive number"),
        ({"reconcile_timeout_seconds": -1}, "reconcile_timeout_seconds=-1: must be"),
        ({"owns": [ConfigMap, ConfigMap]}, "owns: names a kind twice"),
        ({"panic_limit": 0}, "panic_limit=0: must be at least 1, or None"),
        ({"owns": [Widget]}, "is the controller's own kind"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_declaration_that_cannot_work_is_refused(options, problem):
    with pytest.raises(ValueError, match=problem):
        Controller(Widget, reconciler=Recorder(), **options)


def test_a_controller_is_called_by_its_kind_unless_named():
    assert Controller(Widget, reconciler=Recorder()).name == "widget"
    named = Controller(Widget, reconciler=Recorder(), name="w", field_manager="fm")
    assert (named.name, named.field_manager) == ("w", "fm")


# Reconciling


async def test_what_is_owned_follows_its_owner_and_is_repaired(cluster):
    async with cluster.manager(Controller(Widget, owns=[ConfigMap], reconciler=MakesConfigMap)):
        await cluster.client.create(widget("a", spec={"size": 1}))

        def config_map():
            return cluster.client.get(ConfigMap, key("a"))

        made = await cluster.eventually(config_map)
        await cluster.client.patch(Widget, key("a"), {"spec": {"size": 2}})
        await cluster.eventually(config_map, lambda c: c.data == {"size": "2"})
        await cluster.client.delete(ConfigMap, key("a"))
        again = await cluster.eventually(config_map, lambda c: c.uid != made.uid)
        await cluster.client.patch(ConfigMap, key("a"), {"data": {"size": "9"}})
        await cluster.eventually(config_map, lambda c: c.data == {"size": "2"})

    assert again.owner_references[0].controller
    assert again.metadata.model_extra["managedFields"][0]["manager"] == "widget"


async def test_a_settled_object_is_not_written_again(cluster):
    transport = HeldWatches(cluster)
    controller = Controller(Widget, owns=[ConfigMap], reconciler=MakesConfigMap)
    async with cluster.manager(controller, client=transport.client):
        created = await cluster.client.create(widget("a", spec={"size": 1}))
        await asyncio.sleep(3600)
        settled = await cluster.client.get(Widget, key("a"))

    assert transport.count("PATCH") == 4  # each of two writes once, and once more on its echo
    assert int(settled.resource_version) - int(created.resource_version) == 2


@pytest.mark.parametrize("form", ["instance", "class", "function"])
async def test_a_reconciler_is_an_instance_or_made_from_reader_and_client(cluster, form):
    made = []

    class Made(Recorder):
        def __init__(self, reader, client):
            super().__init__()
            made.append((self, client.field_manager, reader))

    instance = Recorder()
    forms: dict[str, Any] = {
        "instance": instance,
        "class": Made,
        "function": lambda reader, client: Made(reader, client),
    }
    controller = Controller(Widget, reconciler=forms[form], field_manager="fm")

    await cluster.client.create(widget("a"))
    async with cluster.manager(controller) as manager:
        await asyncio.sleep(1)

    if form == "instance":
        assert instance.keys == ["default/a"]
    else:
        ((reconciler, field_manager, reader),) = made
        assert reconciler.keys == ["default/a"]
        assert (field_manager, reader) == ("fm", manager.reader)


async def test_a_function_may_get_the_object_and_is_not_called_without_one(cluster):
    seen = []

    async def label(found, reader, client):
        seen.append((found.key.name, found.spec))
        patch = {"metadata": {"labels": {"seen": "yes"}}}
        await client.patch(Widget, found.key, patch)
        assert (await reader.get(Widget, found.key)).labels == {"seen": "yes"}
        return Result.done()

    channel = Channel()
    controller = Controller(
        Widget,
        reconciler=object_reconciler(Widget, label),
        predicates=[generation_changed],
        channels=[channel],
    )
    async with cluster.manager(controller) as manager:
        channel.send(key("nobody"))
        await cluster.client.create(widget("a", spec={"size": 1}))
        await asyncio.sleep(1)
        shown = manager.metrics.render().decode()

    assert seen == [("a", {"size": 1})]
    assert 'reconcile_total{controller="widget",result="success"} 2.0' in shown


async def test_a_watch_maps_another_kind_and_its_old_state_too(cluster):
    recorder = Recorder()
    controller = Controller(
        Widget,
        reconciler=recorder,
        watches=[Watch(Secret, enqueue=by_label("lab/widget"))],
    )
    async with cluster.manager(controller):
        secret = Secret.new("s", namespace="default", labels={"lab/widget": "a"})
        await cluster.client.create(secret)
        await asyncio.sleep(1)
        relabel = {"metadata": {"labels": {"lab/widget": "b"}}}
        await cluster.client.patch(Secret, key("s"), relabel)
        await asyncio.sleep(1)
        await cluster.client.delete(Secret, key("s"))
        await asyncio.sleep(1)

    assert recorder.keys == ["default/a", "default/a", "default/b", "default/b"]


async def test_predicates_are_for_their_watch_and_event_filters_for_all(cluster):
    recorder = Recorder()
    controller = Controller(
        Widget,
        owns=[ConfigMap],
        reconciler=recorder,
        predicates=[generation_changed],
        event_filters=[label_selector("lab/on")],
    )
    async with cluster.manager(controller):
        parent = await cluster.client.create(widget("on", labels={"lab/on": ""}))
        await cluster.client.create(widget("off"))
        await asyncio.sleep(1)
        await cluster.client.apply_status(parent, {"x": 1})
        await asyncio.sleep(1)
        assert recorder.keys == ["default/on"]

        child = ConfigMap.new("c", namespace="default", labels={"lab/on": ""})
        await cluster.client.create(child, owner=parent)
        await asyncio.sleep(1)
        await cluster.client.patch(ConfigMap, key("c"), {"data": {"x": "1"}})
        await asyncio.sleep(1)

    assert recorder.keys == ["default/on"] * 3


async def test_two_controllers_of_one_kind_share_a_watch(cluster):
    transport = HeldWatches(cluster)
    first, second = Recorder(), Recorder()
    await cluster.client.create(widget("a"))

    async with cluster.manager(
        Controller(Widget, reconciler=first, name="first"),
        Controller(Widget, reconciler=second, name="second"),
        client=transport.client,
    ):
        await cluster.client.create(widget("b"))
        await asyncio.sleep(1)

    assert transport.count("WATCH /apis/lab.test/v1/widgets") == 1
    assert first.keys == second.keys == ["default/a", "default/b"]


async def test_a_controller_that_comes_late_gets_what_is_there(cluster):
    recorder = Recorder()
    await cluster.client.create(widget("a"))
    await cluster.client.create(ConfigMap.new("c", namespace="default", labels={"w": "x"}))

    async with cluster.manager(Controller(Widget, reconciler=Recorder())) as manager:
        manager.add(
            Controller(
                Widget,
                reconciler=recorder,
                name="late",
                watches=[Watch(ConfigMap, enqueue=by_label("w"))],
            )
        )
        await cluster.client.create(widget("b"))
        await asyncio.sleep(1)

    assert sorted(recorder.keys) == ["default/a", "default/b", "default/x"]


async def test_after_a_restart_every_object_is_looked_at_again(cluster):
    for name in ("a", "b"):
        await cluster.client.create(widget(name))
    controller_of = lambda recorder: Controller(Widget, reconciler=recorder)  # noqa: E731 - local
    first, second = Recorder(), Recorder()

    async with cluster.manager(controller_of(first)):
        await asyncio.sleep(1)
    await cluster.client.create(widget("while-away"))
    async with cluster.manager(controller_of(second)):
        await asyncio.sleep(1)

    assert first.keys == ["default/a", "default/b"]
    assert second.keys == ["default/a", "default/b", "default/while-away"]


async def test_news_overtake_the_initial_list(cluster):
    for number in range(5):
        await cluster.client.create(widget(f"old-{number}"))
    order = []

    class Slow:
        async def reconcile(self, widget_key):
            order.append(widget_key.name)
            await asyncio.sleep(1)
            return Result.done()

    async with cluster.manager(Controller(Widget, reconciler=Slow())):
        await asyncio.sleep(0.5)
        await cluster.client.create(widget("new"))
        await cluster.client.patch(Widget, key("old-4"), {"spec": {"size": 1}})
        await asyncio.sleep(10)

    assert order == ["old-0", "new", "old-4", "old-1", "old-2", "old-3"]


async def test_polling_reconciles_every_object_again_at_low_priority(cluster):
    await cluster.client.create(widget("a"))
    times = []

    class Timed:
        async def reconcile(self, widget_key):
            times.append(now())
            return Result.done()

    controller = Controller(Widget, reconciler=Timed(), poll_every_seconds=100)
    async with cluster.manager(controller) as manager:
        await asyncio.sleep(1000)
        depth = manager.metrics.render().decode()

    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert 9 <= len(gaps) <= 11
    assert all(90 <= gap <= 110 for gap in gaps)
    assert len(set(gaps)) > 1
    assert 'workqueue_depth{controller="widget",name="widget",priority="-100"}' in depth
    assert 'priority="0"' not in depth


async def test_a_channel_triggers_from_outside_of_the_cluster(cluster):
    channel, recorder = Channel(), Recorder()
    channel.send(key("early"))

    async with cluster.manager(Controller(Widget, reconciler=recorder, channels=[channel])):
        channel.send(key("later"), priority=Priority.HIGH)
        await asyncio.sleep(1)
    channel.send(key("nobody-listens"))

    assert recorder.keys == ["default/later", "default/early"]


async def test_a_predicate_that_raises_loses_its_event_and_nothing_else(cluster):
    def picky(event):
        if event.object.key.name == "bad":
            raise RuntimeError("cannot judge")
        return True

    recorder = Recorder()
    controller = Controller(Widget, reconciler=recorder, predicates=[picky])
    async with cluster.manager(controller) as manager:
        for name in ("bad", "good"):
            await cluster.client.create(widget(name))
        await asyncio.sleep(1)
        shown = manager.metrics.render().decode()

    assert recorder.keys == ["default/good"]
    assert "informer_handler_errors_total" in shown
    assert 'resource="widgets.v1.lab.test"} 1.0' in shown


async def test_watches_that_break_off_lose_no_trigger(cluster):
    recorder = Recorder()
    async with cluster.manager(Controller(Widget, reconciler=recorder)):
        for number in range(20):
            await cluster.client.create(widget(f"w{number}"))
            if number % 3 == 0:
                cluster.server.close()
            await asyncio.sleep(0.1)
        await asyncio.sleep(120)

    assert sorted(set(recorder.keys)) == sorted(f"default/w{number}" for number in range(20))


async def test_a_controller_is_started_once(cluster):
    async with cluster.manager(Controller(Widget, reconciler=Recorder())) as manager:
        running = build(Controller(Widget, reconciler=Recorder(), name="w"), parts_of(manager))
        async with asyncio.TaskGroup() as group:
            task = group.create_task(running.run())
            await asyncio.sleep(1)
            with pytest.raises(RuntimeError, match="'w': was started already"):
                await running.run()
            task.cancel()


async def test_nothing_is_reconciled_before_every_source_is_here_and_nothing_is_lost(cluster):
    transport, recorder = HeldWatches(cluster, "configmaps"), Recorder()
    await cluster.client.create(widget("a"))
    transport.hold()
    controller = Controller(Widget, owns=[ConfigMap], reconciler=recorder)
    manager = Manager(transport.client, clock=cluster.clock, random=cluster.random)
    manager.add(controller)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(manager.run())
        await asyncio.sleep(10)
        await cluster.client.create(widget("b"))
        await asyncio.sleep(10)
        assert recorder.keys == []
        transport.release()
        await manager.wait_synced()
        await asyncio.sleep(1)
        task.cancel()

    assert sorted(recorder.keys) == ["default/a", "default/b"]


async def test_a_stop_while_caches_fill_is_no_error(cluster):
    transport = HeldWatches(cluster, "widgets")
    transport.hold()
    manager = Manager(transport.client, clock=cluster.clock, random=cluster.random)
    manager.add(Controller(Widget, reconciler=Recorder()))

    async with asyncio.TaskGroup() as group:
        task = group.create_task(manager.run())
        await asyncio.sleep(10)
        task.cancel()

    assert task.cancelled()


async def test_a_source_that_does_not_come_fails_the_start_in_time(cluster):
    class Silent(Channel):
        async def wait_synced(self):
            await asyncio.Event().wait()

    controller = Controller(
        Widget, reconciler=Recorder(), channels=[Silent()], cache_sync_timeout_seconds=30
    )
    with pytest.raises(CacheSyncError, match=r"'widget': caches not synced after 30 s: a source"):
        async with cluster.manager(controller):
            pass

    assert now() == pytest.approx(30, abs=1)


async def test_the_queue_fills_before_the_controller_runs_and_sources_start_once(cluster):
    transport, recorder = HeldWatches(cluster), Recorder()
    await cluster.client.create(widget("a"))
    async with cluster.manager(client=transport.client) as manager:
        # As it is for a controller that waits to lead.
        running = build(Controller(Widget, reconciler=recorder), parts_of(manager))
        await running.wait_synced()
        await cluster.client.create(widget("b"))
        await asyncio.sleep(60)
        assert (len(running.queue), recorder.keys) == (2, [])

        async with asyncio.TaskGroup() as group:
            task = group.create_task(running.run())
            await asyncio.sleep(1)
            task.cancel()

    assert sorted(recorder.keys) == ["default/a", "default/b"]
    assert transport.count("WATCH /apis/lab.test/v1/widgets") == 1


async def test_a_key_that_panics_too_often_is_told_of_by_an_event(cluster):
    class Broken:
        async def reconcile(self, widget_key):
            raise KeyError("size")

    made = await cluster.client.create(widget("a"))
    controller = Controller(Widget, reconciler=Broken(), panic_limit=3)
    async with cluster.manager(controller, name="lab.test/widgets") as manager:
        await asyncio.sleep(60)
        shown = manager.metrics.render().decode()

    (event,) = await cluster.client.list(Event, namespace="default")
    assert (event.type, event.reason, event.regarding["uid"]) == (
        "Warning",
        "ReconcilePanicked",
        made.uid,
    )
    assert event.note == (
        "controller 'widget' failed 3 times in a row by a defect, KeyError: 'size'; it tries again "
        "every 10 minutes, and when something changes"
    )
    assert 'controller_runtime_reconcile_panics_total{controller="widget"} 3.0' in shown


async def test_what_follows_errors_of_a_class_is_the_controllers_choice(cluster):
    times = []

    class Refused:
        async def reconcile(self, widget_key):
            times.append(round(now(), 1))
            raise PermissionError("not yet")

    await cluster.client.create(widget("a"))
    controller = Controller(
        Widget, reconciler=Refused(), on_error={OSError: Result.requeue(after=300)}
    )
    started = now()
    async with cluster.manager(controller):
        await asyncio.sleep(1000)

    assert [round(at - started) for at in times] == [0, 300, 600, 900]
