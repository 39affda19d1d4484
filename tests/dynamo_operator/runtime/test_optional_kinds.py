"""Custom resources that may come and go while a manager runs."""

import asyncio
from contextlib import asynccontextmanager

import pytest
import structlog

from dynamo_operator.runtime.builtin_kinds import ConfigMap, CustomResourceDefinition, Namespace
from dynamo_operator.runtime.cache import CacheSyncError, NotCachedError
from dynamo_operator.runtime.client.errors import ForbiddenError
from dynamo_operator.runtime.controller import Controller
from dynamo_operator.runtime.enqueue import by_label
from dynamo_operator.runtime.reconciler import Result
from dynamo_operator.runtime.served_kinds import DISCOVERY_POLL_SECONDS, definition_permission
from dynamo_operator.runtime.sources import Channel, Watch
from dynamo_operator.testing import Interceptor
from dynamo_operator.testing.cluster import Cluster
from dynamo_operator.testing.faults import Answer, Point
from informers.errors import UnwatchableError
from informers.objects import ObjectKey
from tests.dynamo_operator.runtime.widgets import (
    WIDGET_CRD,
    HeldWatches,
    Widget,
    key,
    widget,
)

pytestmark = pytest.mark.virtual_time

DEFINITION = ObjectKey("", "widgets.lab.test")


@pytest.fixture
async def cluster():
    async with Cluster.start() as cluster:
        yield cluster


class Recorder:
    def __init__(self):
        self.keys = []

    async def reconcile(self, wanted):
        self.keys.append(str(wanted))
        return Result.done()


async def test_a_controller_waits_for_the_definition_of_its_kind_and_then_starts(cluster):
    widgets, config_maps = Recorder(), Recorder()
    await cluster.client.create(ConfigMap.new("c", namespace="default"))

    async with cluster.manager(
        Controller(Widget, reconciler=widgets, optional=True),
        Controller(ConfigMap, reconciler=config_maps),
    ):
        await asyncio.sleep(3600)
        assert config_maps.keys == ["default/c"]
        await cluster.install(WIDGET_CRD)
        await cluster.client.create(widget("a"))
        await asyncio.sleep(5)

    assert widgets.keys == ["default/a"]


async def test_it_stops_when_the_definition_goes_and_starts_again_with_a_new_one(cluster):
    transport, recorder = HeldWatches(cluster), Recorder()
    await cluster.install(WIDGET_CRD)
    await cluster.client.create(widget("first"))
    controller = Controller(Widget, reconciler=recorder, optional=True)

    async with cluster.manager(controller, client=transport.client) as manager:
        await cluster.client.delete(CustomResourceDefinition, DEFINITION)
        await asyncio.sleep(5)
        recorder.keys.clear()
        before = transport.count("widgets")
        await asyncio.sleep(3600)
        assert transport.count("lab.test/v1/widgets") == before
        assert await manager.reader.find(Widget, key("first")) is None
        assert await manager.reader.list(Widget) == []

        await cluster.install(WIDGET_CRD)
        await cluster.client.create(widget("second"))
        await asyncio.sleep(5)
        found = await manager.reader.list(Widget)

    assert recorder.keys == ["default/second"]
    assert [w.key.name for w in found] == ["second"]


async def test_a_single_watch_may_be_optional(cluster):
    recorder = Recorder()
    controller = Controller(
        ConfigMap,
        reconciler=recorder,
        watches=[Watch(Widget, enqueue=by_label("lab/for"), optional=True)],
    )
    async with cluster.manager(controller):
        await cluster.client.create(ConfigMap.new("c", namespace="default"))
        await asyncio.sleep(1)
        await cluster.install(WIDGET_CRD)
        await cluster.client.create(widget("w", labels={"lab/for": "x"}))
        await asyncio.sleep(5)

    assert recorder.keys == ["default/c", "default/x"]


async def test_objects_that_go_with_their_definition_are_deleted_for_those_who_watch_them(cluster):
    transport, recorder = HeldWatches(cluster, "widgets"), Recorder()
    await cluster.install(WIDGET_CRD)
    await cluster.client.create(widget("w", labels={"lab/for": "x"}))
    controller = Controller(
        ConfigMap,
        reconciler=recorder,
        watches=[Watch(Widget, enqueue=by_label("lab/for"), optional=True)],
    )
    async with cluster.manager(controller, client=transport.client):
        await asyncio.sleep(1)
        transport.hold()  # the deletions themselves are never seen
        await cluster.client.delete(CustomResourceDefinition, DEFINITION)
        await asyncio.sleep(1)

    assert recorder.keys == ["default/x", "default/x"]


async def test_reads_of_a_kind_that_is_not_defined_find_nothing(cluster):
    controller = Controller(Widget, reconciler=Recorder(), optional=True)
    async with cluster.manager(controller) as manager:
        assert await manager.reader.find(Widget, key("a")) is None
        assert await manager.reader.list(Widget, namespace="default") == []
        assert await manager.reader.list_metadata(Widget) == []


async def test_a_key_of_a_kind_that_is_not_defined_is_reconciled_and_finds_nothing(cluster):
    channel, found = Channel(), []

    class Looks:
        def __init__(self, reader, client):
            self.reader = reader

        async def reconcile(self, wanted):
            found.append(await self.reader.find(Widget, wanted))
            return Result.done()

    controller = Controller(Widget, reconciler=Looks, channels=[channel], optional=True)
    async with cluster.manager(controller):
        channel.send(key("a"))
        await asyncio.sleep(1)

    assert found == [None]


async def test_the_deletion_of_an_object_that_goes_with_its_definition_is_reconciled(cluster):
    transport, recorder = HeldWatches(cluster, "widgets"), Recorder()
    await cluster.install(WIDGET_CRD)
    await cluster.client.create(widget("a"))
    controller = Controller(Widget, reconciler=recorder, optional=True)

    async with cluster.manager(controller, client=transport.client):
        await asyncio.sleep(1)
        transport.hold()  # the deletion itself is never seen
        await cluster.client.delete(CustomResourceDefinition, DEFINITION)
        await asyncio.sleep(1)

    assert recorder.keys == ["default/a", "default/a"]


async def test_another_version_of_the_definition_is_not_the_kind(cluster):
    class NewWidget(Widget):
        resource_type = Widget.resource_type.__class__("lab.test", "v2", "Widget", "widgets")

    await cluster.install(WIDGET_CRD)
    async with cluster.manager(Controller(NewWidget, reconciler=Recorder(), optional=True)) as m:
        assert await m.reader.list(NewWidget) == []


async def test_definitions_that_may_not_be_watched_fail_the_start_and_are_named(cluster):
    client = cluster.client_of("nobody")
    with pytest.raises(ForbiddenError):
        await client.list(CustomResourceDefinition)

    controller = Controller(Widget, reconciler=Recorder(), optional=True)
    with pytest.raises(CacheSyncError, match=r"customresourcedefinitions\.v1.*403"):
        async with cluster.manager(controller, client=client):
            pass


async def test_only_a_custom_resource_can_be_optional(cluster):
    async with cluster.manager() as manager:
        with pytest.raises(ValueError, match=r"configmaps\.v1: optional is for custom resources"):
            manager.cache.declare(ConfigMap, optional=True)


async def test_an_object_with_a_finalizer_is_still_seen_while_its_definition_goes(cluster):
    await cluster.install(WIDGET_CRD)
    body = {"metadata": {"name": "w", "namespace": "default", "finalizers": ["lab.test/keep"]}}
    await cluster.client.create(Widget.model_validate(body))
    seen = []

    class Finishes:
        def __init__(self, reader, client):
            self.reader, self.client = reader, client

        async def reconcile(self, wanted):
            found = await self.reader.find(Widget, wanted)
            seen.append(found is not None and found.is_deleting)
            if found is not None and found.is_deleting:
                await self.client.patch(Widget, wanted, {"metadata": {"finalizers": None}})
            return Result.done()

    async with cluster.manager(Controller(Widget, reconciler=Finishes, optional=True)):
        await cluster.client.delete(CustomResourceDefinition, DEFINITION)
        await asyncio.sleep(10)
        assert await cluster.client.find(CustomResourceDefinition, DEFINITION) is None

    assert True in seen


class Unwatchable(HeldWatches):
    """Refuses to watch widgets, as servers do that only list a kind."""

    @asynccontextmanager
    async def stream(self, request):
        async with super().stream(request) as stream:
            yield _NotAllowed() if request.path.endswith("/widgets") else stream


class _NotAllowed:
    status = 405
    headers: dict[str, str] = {}

    async def read(self):
        return b'{"kind": "Status", "code": 405, "reason": "MethodNotAllowed", "message": "no"}'


async def test_an_optional_kind_that_cannot_be_watched_is_off_and_disturbs_nobody(cluster):
    await cluster.install(WIDGET_CRD)
    recorder = Recorder()
    await cluster.client.create(ConfigMap.new("c", namespace="default"))

    with structlog.testing.capture_logs() as logs:
        async with cluster.manager(
            Controller(Widget, reconciler=Recorder(), optional=True),
            Controller(ConfigMap, reconciler=recorder),
            client=Unwatchable(cluster).client,
        ) as manager:
            await asyncio.sleep(3600)
            with pytest.raises(NotCachedError, match="does not support watch"):
                await manager.reader.list(Widget)

    off = [line for line in logs if line["event"] == "optional type is off"]
    assert recorder.keys == ["default/c"]
    assert len(off) == 1
    assert "lab.test/v1 Widget does not support watch" in off[0]["error"]


async def test_a_kind_that_is_wanted_and_cannot_be_watched_fails_the_start(cluster):
    await cluster.install(WIDGET_CRD)

    with pytest.raises(UnwatchableError, match=r"lab\.test/v1 Widget does not support watch"):
        async with cluster.manager(
            Controller(Widget, reconciler=Recorder()), client=Unwatchable(cluster).client
        ):
            pass


def test_the_permission_for_a_definition_is_for_that_one_alone():
    permission = definition_permission(Widget.resource_type)

    assert (permission.group, permission.resources) == (
        "apiextensions.k8s.io",
        ("customresourcedefinitions",),
    )
    assert permission.names == ("widgets.lab.test",)
    assert permission.verbs == ("list", "watch")


async def test_an_own_write_to_a_kind_that_was_just_defined_is_seen(cluster):
    transport = HeldWatches(cluster, "customresourcedefinitions")
    controller = Controller(Widget, reconciler=Recorder(), optional=True)
    async with cluster.manager(controller, client=transport.client) as manager:
        transport.hold()
        await cluster.install(WIDGET_CRD)
        made = await manager.client.create(widget("a"))
        async with asyncio.TaskGroup() as group:
            read = group.create_task(manager.reader.list(Widget))
            await asyncio.sleep(2)
            assert not read.done()
            transport.release()

        assert [w.uid for w in read.result()] == [made.uid]


async def test_a_definition_that_is_not_seen_in_time_is_an_error_and_no_empty_list(cluster):
    transport = HeldWatches(cluster, "customresourcedefinitions")
    controller = Controller(Widget, reconciler=Recorder(), optional=True)
    async with cluster.manager(controller, client=transport.client) as manager:
        transport.hold()
        await cluster.install(WIDGET_CRD)
        await manager.client.create(widget("a"))
        with pytest.raises(NotCachedError, match="its definition was not seen yet"):
            await manager.reader.list(Widget)


async def test_in_namespaces_kinds_are_found_by_discovery_as_they_come_and_go(cluster):
    recorder, client = Recorder(), cluster.client_of("in-a-namespace", ["system:masters"])
    controller = Controller(Widget, reconciler=recorder, optional=True)
    await cluster.client.create(Namespace.new("other"))

    async with cluster.manager(controller, client=client, namespaces=["default"]) as manager:
        assert await manager.reader.list(Widget, namespace="default") == []
        await cluster.install(WIDGET_CRD)
        await cluster.client.create(widget("a"))
        elsewhere = {"metadata": {"name": "b", "namespace": "other"}}
        await cluster.client.create(Widget.model_validate(elsewhere))
        await asyncio.sleep(DISCOVERY_POLL_SECONDS * 1.5)
        assert recorder.keys == ["default/a"]
        assert await manager.reader.find(Widget, key("a")) is not None

        await cluster.client.delete(CustomResourceDefinition, DEFINITION)
        await asyncio.sleep(DISCOVERY_POLL_SECONDS * 1.5)
        assert recorder.keys == ["default/a", "default/a"]
        asked = len(cluster.audit.entries)
        await asyncio.sleep(3600)
        assert await manager.reader.list(Widget, namespace="default") == []

    cluster_scoped = [
        str(e)
        for e in cluster.audit.entries
        if e.user.name == "in-a-namespace" and e.resource and not e.namespace
    ]
    assert cluster_scoped == []
    assert not [e for e in cluster.audit.entries[asked:] if e.resource == "widgets"], "it is off"


async def test_discovery_that_does_not_answer_changes_nothing_and_fails_the_start(cluster):
    interceptor, recorder = Interceptor(cluster.clock), Recorder()
    await cluster.install(WIDGET_CRD)
    client = interceptor.around(cluster.client)
    controller = Controller(Widget, reconciler=recorder, optional=True)
    async with cluster.manager(controller, client=client, namespaces=["default"]) as manager:
        down = Point("GET", "/apis/lab.test/v1", repeats=True)
        interceptor.inject(down, Answer(503, message="no discovery"))
        await asyncio.sleep(600)
        await cluster.client.create(widget("a"))
        await asyncio.sleep(5)
        assert await manager.reader.find(Widget, key("a")) is not None

    again = Controller(Widget, reconciler=recorder, optional=True)
    with pytest.raises(CacheSyncError, match=r"widgets\.v1\.lab\.test.*no discovery"):
        async with cluster.manager(again, client=client, namespaces=["default"]):
            pass
