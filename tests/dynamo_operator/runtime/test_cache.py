import asyncio
import json
from types import SimpleNamespace

import pytest
import structlog

from dynamo_operator.runtime.builtin_kinds import ConfigMap, Secret
from dynamo_operator.runtime.cache import (
    CacheNotStartedError,
    CacheSyncError,
    NotCachedError,
)
from dynamo_operator.runtime.client.codec import decode_json
from dynamo_operator.runtime.client.errors import NotFoundError
from dynamo_operator.runtime.client.writes import Write
from dynamo_operator.runtime.controller import Controller
from dynamo_operator.runtime.manager import Manager
from dynamo_operator.runtime.reconciler import Result
from dynamo_operator.runtime.selectors import by_field
from dynamo_operator.runtime.sources import Watch
from dynamo_operator.runtime.type_cache import Scope
from informers.indexers import BY_NAMESPACE, BY_OWNER_UID, Index
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


async def idle(_key):
    return Result.done()


class Idle:
    reconcile = staticmethod(idle)


def watching(*kinds, **options):
    return Controller(Widget, reconciler=Idle(), watches=[Watch(k) for k in kinds], **options)


# What may be read


async def test_reading_a_type_that_nobody_declared_names_the_fix(cluster):
    async with cluster.manager(watching()) as manager:
        with pytest.raises(NotCachedError) as refused:
            await manager.reader.get(Secret, key("a"))

    assert str(refused.value) == (
        "secrets.v1 is not cached: give a Controller owns=[Secret] or "
        "watches=[Watch(Secret, ...)], or call manager.cache.declare(Secret); "
        "for a live read use manager.uncached_reader"
    )


async def test_reading_outside_of_the_managers_namespaces_is_an_error(cluster):
    async with cluster.manager(watching(), namespaces=["default", "lab"]) as manager:
        with pytest.raises(NotCachedError, match="not cached in namespace 'other'"):
            await manager.reader.find(Widget, key("a", "other"))


async def test_reading_before_the_start_is_an_error_that_says_what_to_do(cluster):
    manager = Manager(cluster.client)
    manager.add(watching())

    with pytest.raises(CacheNotStartedError, match=r"widgets\.v1.*uncached_reader"):
        await manager.reader.get(Widget, key("a"))


async def test_a_read_decodes_a_fresh_value_each_time(cluster):
    await cluster.client.create(widget("a", spec={"size": 1, "parts": ["x"]}))
    async with cluster.manager(watching()) as manager:
        first = await manager.reader.get(Widget, key("a"))
        first.spec["parts"].append("y")
        again = await manager.reader.get(Widget, key("a"))
        plain = await manager.reader.get(Widget.resource_type, key("a"))

    assert again.spec == {"size": 1, "parts": ["x"]}
    assert plain["kind"] == "Widget"
    assert plain["spec"] == again.spec


async def test_a_missing_object_is_not_found(cluster):
    async with cluster.manager(watching()) as manager:
        assert await manager.reader.find(Widget, key("a")) is None
        with pytest.raises(NotFoundError, match='widgets "a" not found'):
            await manager.reader.get(Widget, key("a"))


async def test_a_list_is_sorted_and_selects_by_namespace_labels_and_fields(cluster):
    for namespace in ("kube-system", "default"):
        for name, size in (("c", 1), ("a", 2), ("b", 2)):
            await cluster.client.create(
                widget(name, namespace=namespace, labels={"l": name}, spec={"size": size})
            )

    async with cluster.manager(watching()) as manager:

        async def names(**selection):
            found = await manager.reader.list(Widget, **selection)
            return [f"{w.key.namespace}/{w.key.name}" for w in found]

        everywhere = await names()
        in_one = await names(namespace="default")
        labelled = await names(labels="l in (a, c)", namespace="default")
        sized = await names(fields={"spec.size": "2", "metadata.namespace": "kube-system"})

    assert everywhere == [f"{n}/{w}" for n in ("default", "kube-system") for w in "abc"]
    assert in_one == ["default/a", "default/b", "default/c"]
    assert labelled == ["default/a", "default/c"]
    assert sized == ["kube-system/a", "kube-system/b"]


async def test_an_index_finds_by_owner_or_by_a_function_of_ones_own(cluster):
    by_size = Index("size", lambda obj: (obj.annotations.get("size", ""),))
    parent = await cluster.client.create(widget("p", annotations={"size": "3"}))
    await cluster.client.create(ConfigMap.new("child", namespace="default"), owner=parent)
    await cluster.client.create(ConfigMap.new("orphan", namespace="default"))

    async with cluster.manager(watching(ConfigMap, indexes=[by_size])) as manager:
        children = await manager.reader.by_index(ConfigMap, BY_OWNER_UID, parent.uid)
        sized = await manager.reader.by_index(Widget, "size", "3")
        with pytest.raises(KeyError, match="there are: namespace, owner-uid, size"):
            await manager.reader.by_index(Widget, "colour", "red")

    assert [child.key.name for child in children] == ["child"]
    assert [found.key.name for found in sized] == ["p"]


async def test_a_cache_of_one_namespace_finds_by_namespace_without_an_index(cluster):
    for namespace in ("default", "kube-system"):
        await cluster.client.create(ConfigMap.new("a", namespace=namespace))

    async with cluster.manager(watching(ConfigMap), namespaces=["default"]) as manager:
        here = await manager.reader.by_index(ConfigMap, BY_NAMESPACE, "default")
        there = await manager.reader.by_index(ConfigMap, BY_NAMESPACE, "kube-system")

    assert [str(found.key) for found in here] == ["default/a"]
    assert there == []


async def test_several_namespaces_have_a_watch_each_and_nothing_else_is_seen(cluster):
    transport = HeldWatches(cluster)
    for namespace in ("default", "kube-system", "kube-public"):
        await cluster.client.create(widget("w", namespace=namespace))

    async with cluster.manager(
        watching(), client=transport.client, namespaces=["default", "kube-system"]
    ) as manager:
        found = await manager.reader.list(Widget)

    assert [w.key.namespace for w in found] == ["default", "kube-system"]
    assert {request for request in transport.requests if "widgets" in request} == {
        "WATCH /apis/lab.test/v1/namespaces/default/widgets",
        "WATCH /apis/lab.test/v1/namespaces/kube-system/widgets",
    }


async def test_objects_that_a_selective_watch_leaves_out_are_invisible(cluster):
    for name, labels in (("in", {"l": "1"}), ("out", {})):
        await cluster.client.create(ConfigMap.new(name, namespace="default", labels=labels))
    controller = Controller(Widget, reconciler=Idle(), watches=[Watch(ConfigMap, labels="l=1")])

    async with cluster.manager(controller) as manager:
        inside = await manager.reader.find(ConfigMap, key("in"))
        outside = await manager.reader.find(ConfigMap, key("out"))
        await cluster.client.patch(ConfigMap, key("in"), {"metadata": {"labels": {"l": None}}})
        await asyncio.sleep(1)
        after = await manager.reader.find(ConfigMap, key("in"))

    assert inside is not None
    assert (outside, after) == (None, None)


async def test_a_type_that_does_not_come_fails_the_start_with_the_last_error(cluster):
    class Gadget(Widget):
        resource_type = Widget.resource_type.__class__("lab.test", "v1", "Gadget", "gadgets")

    started = now()
    with pytest.raises(CacheSyncError) as failed:
        async with cluster.manager(Controller(Gadget, reconciler=Idle())):
            pass

    assert now() - started == pytest.approx(120)
    assert str(failed.value).startswith(
        "controller 'gadget': caches not synced after 120 s: gadgets.v1.lab.test: 404"
    )


# Own writes


@pytest.fixture
async def held(cluster):
    """A manager whose watch of widgets can be held back."""
    transport = HeldWatches(cluster, "widgets")
    async with cluster.manager(watching(ConfigMap), client=transport.client) as manager:
        yield SimpleNamespace(
            manager=manager,
            hold=transport.hold,
            release=transport.release,
            count=transport.count,
        )


async def test_a_read_after_an_own_write_waits_for_the_cache_to_show_it(held):
    reader, client = held.manager.reader, held.manager.client
    held.hold()
    written = await client.create(widget("a", spec={"size": 1}))

    async with asyncio.TaskGroup() as group:
        started = now()
        read = group.create_task(reader.get(Widget, key("a")))
        listed = group.create_task(reader.list(Widget))
        await asyncio.sleep(2)
        assert not read.done()
        assert not listed.done()
        held.release()

    assert now() - started == pytest.approx(2)
    assert read.result().resource_version == written.resource_version
    assert [w.key.name for w in listed.result()] == ["a"]
    assert held.count("GET /apis/lab.test") == 0


async def test_a_read_is_live_when_the_cache_does_not_show_the_write_in_time(held):
    reader, client = held.manager.reader, held.manager.client
    held.hold()
    await client.create(widget("a", spec={"size": 1}))

    started = now()
    first = await reader.get(Widget, key("a"))
    waited = now() - started
    again = await reader.list(Widget, namespace="default")
    owned = await reader.by_index(Widget, BY_OWNER_UID, "nobody")

    assert first.spec == {"size": 1}
    assert [w.key.name for w in again] == ["a"]
    assert owned == []
    assert waited == pytest.approx(5)
    assert now() - started == pytest.approx(5)  # nobody waits for the same write again
    assert held.count("GET /apis/lab.test") == 3


async def test_an_own_update_is_seen_and_an_own_delete_is_gone(held):
    reader, client = held.manager.reader, held.manager.client
    await client.create(widget("a", spec={"size": 1}))
    assert (await reader.get(Widget, key("a"))).spec == {"size": 1}

    held.hold()
    await client.patch(Widget, key("a"), {"spec": {"size": 2}})
    assert (await reader.get(Widget, key("a"))).spec == {"size": 2}

    held.release()
    await client.delete(Widget, key("a"))
    held.hold()
    assert await reader.find(Widget, key("a")) is None


async def test_reads_of_other_objects_do_not_wait(held):
    reader, client = held.manager.reader, held.manager.client
    await client.create(widget("old"))
    await reader.get(Widget, key("old"))
    held.hold()
    await client.create(widget("a"))
    await client.create(ConfigMap.new("c", namespace="default"))

    started = now()
    assert await reader.find(Widget, key("old")) is not None
    assert [c.key.name for c in await reader.list(ConfigMap, namespace="default")] == ["c"]
    assert now() == started


async def test_somebody_elses_delete_ends_the_wait_for_a_write(cluster, held):
    reader, client = held.manager.reader, held.manager.client
    held.hold()
    await client.create(widget("a"))
    await cluster.client.delete(Widget, key("a"))
    held.release()

    started = now()
    assert await reader.find(Widget, key("a")) is None
    assert now() - started < 1


class Adopter:
    """Makes one ConfigMap with a generated name for each widget that has none."""

    def __init__(self, reader, client):
        self.reader, self.client = reader, client
        self.runs = []

    async def reconcile(self, widget_key):
        self.runs.append(round(now(), 3))
        parent = await self.reader.find(Widget, widget_key)
        if parent is None:
            return Result.done()
        if not await self.reader.by_index(ConfigMap, BY_OWNER_UID, parent.uid):
            body = {"metadata": {"generateName": "child-", "namespace": "default"}}
            await self.client.create(ConfigMap.model_validate(body), owner=parent)
        return Result.done()


async def test_the_next_reconcile_waits_until_what_the_last_one_made_is_visible(cluster):
    transport = HeldWatches(cluster, "configmaps")
    reconcilers = []

    def make(reader, client):
        reconcilers.append(Adopter(reader, client))
        return reconcilers[0]

    controller = Controller(Widget, owns=[ConfigMap], reconciler=make)
    async with cluster.manager(controller, client=transport.client):
        transport.hold()
        await cluster.client.create(widget("a"))
        await asyncio.sleep(1)
        for size in range(3):
            await cluster.client.patch(Widget, key("a"), {"spec": {"size": size}})
        await asyncio.sleep(1)
        transport.release()
        await asyncio.sleep(1)

    children = await cluster.client.list(ConfigMap, namespace="default")
    assert len(children) == 1
    assert transport.count("GET /api/v1/configmaps") == 0
    assert len(reconcilers[0].runs) >= 2


async def test_without_news_the_next_reconcile_reads_live_after_the_bound(cluster):
    transport = HeldWatches(cluster, "configmaps")
    controller = Controller(Widget, owns=[ConfigMap], reconciler=Adopter)
    async with cluster.manager(controller, client=transport.client):
        transport.hold()
        await cluster.client.create(widget("a"))
        await asyncio.sleep(1)
        await cluster.client.patch(Widget, key("a"), {"spec": {"size": 1}})
        await asyncio.sleep(10)

    assert len(await cluster.client.list(ConfigMap, namespace="default")) == 1
    assert transport.count("GET /api/v1/configmaps") == 1


async def test_a_write_outside_of_a_reconcile_counts_for_the_written_objects_owner(cluster):
    transport = HeldWatches(cluster, "configmaps")
    seen = []

    class Counting:
        def __init__(self, reader, client):
            self.reader = reader

        async def reconcile(self, widget_key):
            parent = await self.reader.get(Widget, widget_key)
            owned = await self.reader.by_index(ConfigMap, BY_OWNER_UID, parent.uid)
            seen.append((parent.spec.get("size"), len(owned)))
            return Result.done()

    controller = Controller(Widget, owns=[ConfigMap], reconciler=Counting)
    async with cluster.manager(controller, client=transport.client) as manager:
        parent = await cluster.client.create(widget("a"))
        await asyncio.sleep(1)
        transport.hold()
        await manager.client.create(ConfigMap.new("c", namespace="default"), owner=parent)
        await cluster.client.patch(Widget, key("a"), {"spec": {"size": 2}})
        await asyncio.sleep(1)
        transport.release()
        await asyncio.sleep(1)

    assert (2, 0) not in seen
    assert seen[-1] == (2, 1)


async def test_a_type_declared_by_hand_that_does_not_come_fails_the_start_too(cluster):
    manager = Manager(cluster.client, clock=cluster.clock, random=cluster.random)
    manager.cache.declare(Widget.resource_type.__class__("lab.test", "v1", "Gadget", "gadgets"))

    with pytest.raises(CacheSyncError, match=r"after 120 s: gadgets.v1.lab.test: 404"):
        await manager.run()


async def test_waiting_for_own_writes_is_counted(held):
    held.hold()
    await held.manager.client.create(widget("a"))
    await held.manager.reader.get(Widget, key("a"))
    shown = held.manager.metrics.render().decode()

    series = 'cache_own_write_wait_seconds_count{outcome="timeout",resource="widgets.v1.lab.test"}'
    assert f"{series} 1.0" in shown


@pytest.mark.parametrize("selection", [{"labels": "on"}, {"fields": {"metadata.name": "in"}}])
async def test_a_selective_cache_waits_only_for_what_it_will_show(cluster, selection):
    controller = Controller(Widget, reconciler=Idle(), watches=[Watch(ConfigMap, **selection)])
    async with cluster.manager(controller) as manager:
        started = now()
        for name, labels in (("in", {"on": ""}), ("out", {})):
            made = ConfigMap.new(name, namespace="default", labels=labels)
            await manager.client.create(made)
        assert await manager.reader.find(ConfigMap, key("out")) is None
        assert await manager.reader.find(ConfigMap, key("in")) is not None
        for name in ("out", "in"):
            await manager.client.delete(ConfigMap, key(name))
        assert await manager.reader.find(ConfigMap, key("in")) is None
        assert now() - started < 1


async def test_a_write_through_another_version_of_the_api_counts(cluster):
    class OtherVersion(Widget):
        resource_type = Widget.resource_type.__class__("lab.test", "v2", "Widget", "widgets")

    async with cluster.manager(watching()) as manager:
        made = await cluster.client.create(widget("a"))
        await asyncio.sleep(1)
        write = Write(OtherVersion.resource_type, made.key, str(int(made.resource_version) + 100))
        manager.cache.wrote(write)
        started = now()
        assert await manager.reader.find(Widget, key("a")) is not None

    assert now() - started == pytest.approx(5)


async def test_a_metadata_only_watch_keeps_no_bytes_and_serves_no_reads(cluster):
    controller = Controller(
        Widget, reconciler=Idle(), watches=[Watch(ConfigMap, metadata_only=True)]
    )
    await cluster.client.create(ConfigMap.new("a", namespace="default", data={"x": "y" * 1000}))
    async with cluster.manager(controller) as manager:
        shown = manager.metrics.render().decode()
        with pytest.raises(NotCachedError, match=r"configmaps\.v1 is cached as metadata only"):
            await manager.reader.find(ConfigMap, key("a"))

    assert 'informer_objects{namespace="",resource="configmaps.v1"} 1.0' in shown
    assert 'informer_bytes{namespace="",resource="configmaps.v1"} 0.0' in shown


async def test_an_object_that_an_index_cannot_take_is_counted_and_otherwise_there(cluster):
    by_size = Index("size", lambda obj: [obj.annotations["size"]])
    await cluster.client.create(widget("sized", annotations={"size": "1"}))
    await cluster.client.create(widget("bare"))

    async with cluster.manager(watching(indexes=[by_size])) as manager:
        indexed = await manager.reader.by_index(Widget, by_size, "1")
        listed = await manager.reader.list(Widget)
        shown = manager.metrics.render().decode()

    assert [w.key.name for w in indexed] == ["sized"]
    assert [w.key.name for w in listed] == ["bare", "sized"]
    assert 'informer_index_errors_total{index="size",namespace=""' in shown


async def test_a_type_that_nobody_declared_is_not_watched_by_a_read(cluster):
    transport = HeldWatches(cluster)
    async with cluster.manager(watching(), client=transport.client) as manager:
        for _ in range(3):
            with pytest.raises(NotCachedError):
                await manager.reader.list(Secret)

    assert transport.count("secrets") == 0


async def test_a_read_waits_for_a_type_declared_while_running_and_its_caller_may_give_up(cluster):
    transport = HeldWatches(cluster, "configmaps")
    await cluster.client.create(ConfigMap.new("c", namespace="default"))
    async with cluster.manager(client=transport.client) as manager:
        transport.hold()
        manager.cache.declare(ConfigMap)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await manager.reader.get(ConfigMap, key("c"))
        transport.release()

        assert (await manager.reader.get(ConfigMap, key("c"))).key == key("c")

    assert transport.count("WATCH /api/v1/configmaps") == 1


async def test_plain_dicts_are_read_from_the_cache_like_models(cluster):
    transport = HeldWatches(cluster)
    await cluster.client.create(widget("a", spec={"size": 1}))
    async with cluster.manager(watching(), client=transport.client) as manager:
        found = await manager.reader.get(Widget.resource_type, key("a"))
        (listed,) = await manager.reader.list(Widget.resource_type)

    assert found == listed
    assert found["spec"] == {"size": 1}
    assert transport.count("GET") == 0


async def test_a_list_is_whole_and_in_order_however_many_objects_there_are(cluster):
    names = [f"w{number:04}" for number in range(510)]
    for name in reversed(names):
        await cluster.client.create(ConfigMap.new(name, namespace="default"))

    async with cluster.manager(watching(ConfigMap)) as manager:
        found = await manager.reader.list(ConfigMap, namespace="default")

    assert [c.key.name for c in found] == names


async def test_an_object_that_a_watch_selects_no_longer_is_deleted_for_its_handlers(cluster):
    labels = {"l": "1"}
    await cluster.client.create(ConfigMap.new("in", namespace="default", labels=labels))
    events = []
    async with cluster.manager() as manager:
        declaration = manager.cache.declare(ConfigMap, labels="l=1")
        declaration.add_handler(lambda event: events.append(type(event).__name__))
        await declaration.wait_synced()
        await cluster.client.patch(ConfigMap, key("in"), {"metadata": {"labels": {"l": "2"}}})
        await asyncio.sleep(1)

    assert events == ["Added", "Deleted"]


async def test_what_is_kept_of_objects_may_be_less_than_there_is(cluster):
    def without_data(obj):
        body = decode_json(obj.data)
        body.pop("data", None)
        return obj._replace(data=json.dumps(body).encode())

    await cluster.client.create(ConfigMap.new("a", namespace="default", data={"k": "v"}))
    manager = Manager(cluster.client, clock=cluster.clock, random=cluster.random)
    manager.cache.transform(ConfigMap, without_data)
    manager.add(watching(ConfigMap))
    seen = []
    manager.cache.declare(ConfigMap).add_handler(lambda event: seen.append(event.object.data))
    async with manager.running():
        found = await manager.reader.get(ConfigMap, key("a"))
        with pytest.raises(ValueError, match=r"configmaps\.v1: is declared: transform it before"):
            manager.cache.transform(ConfigMap, without_data)

    assert found.data == {}
    assert b'"k"' not in seen[0]
    assert (await cluster.client.get(ConfigMap, key("a"))).data == {"k": "v"}


async def test_every_informer_tells_its_size_when_it_is_filled(cluster):
    await cluster.client.create(widget("a"))
    with structlog.testing.capture_logs() as logs:
        async with cluster.manager(watching()):
            await asyncio.sleep(1)

    (line,) = [line for line in logs if line["event"] == "informer synced"]
    assert (line["resource"], line["objects"]) == ("widgets.v1.lab.test", 1)
    assert line["data_bytes"] > 100


async def test_a_read_may_take_what_the_cache_has_however_old(held):
    reader, client = held.manager.reader, held.manager.client
    held.hold()
    await client.create(widget("a"))

    started = now()
    assert await reader.find(Widget, key("a"), await_own_writes=False) is None
    assert await reader.list(Widget, await_own_writes=False) == []
    assert now() == started
    with pytest.raises(NotFoundError):
        await reader.get(Widget, key("a"), await_own_writes=False)


async def test_a_caller_may_wait_less_long_for_an_own_write(held):
    held.hold()
    await held.manager.client.create(widget("a"))

    started = now()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await held.manager.reader.get(Widget, key("a"))
    assert now() - started == pytest.approx(1)


async def test_the_bound_of_waiting_for_own_writes_is_the_managers(cluster):
    transport = HeldWatches(cluster, "widgets")
    async with cluster.manager(
        watching(), client=transport.client, own_write_timeout_seconds=0.5
    ) as manager:
        transport.hold()
        await manager.client.create(widget("a"))
        started = now()
        assert await manager.reader.find(Widget, key("a")) is not None
        assert now() - started == pytest.approx(0.5)


async def test_a_recreated_object_is_not_taken_for_the_one_that_was_deleted(cluster, held):
    reader, client = held.manager.reader, held.manager.client
    first = await client.create(widget("a"))
    await reader.get(Widget, key("a"))
    await client.delete(Widget, key("a"))
    second = await client.create(widget("a"))

    found = await reader.get(Widget, key("a"))
    assert found.uid == second.uid != first.uid


@pytest.mark.parametrize("fault", ["POST", "hang POST"], ids=["answer-lost", "timed-out"])
async def test_what_may_have_been_created_is_looked_for_on_the_server(cluster, fault):
    transport = HeldWatches(cluster, "configmaps")
    controller = Controller(
        Widget, owns=[ConfigMap], reconciler=Adopter, reconcile_timeout_seconds=10
    )
    transport.loses.append(fault)
    async with cluster.manager(controller, client=transport.client) as manager:
        transport.hold()  # what was created does not show for long
        await cluster.client.create(widget("a"))
        await asyncio.sleep(30)
        assert transport.count("GET /api/v1/configmaps") >= 1
        transport.release()
        await asyncio.sleep(60)
        before = transport.count("GET")
        await manager.reader.list(ConfigMap)

    assert len(await cluster.client.list(ConfigMap, namespace="default")) == 1
    assert transport.count("GET") == before


async def test_a_refused_write_leaves_no_doubt(held):
    with pytest.raises(NotFoundError):
        await held.manager.client.patch(Widget, key("nobody"), {"spec": {}})
    with pytest.raises(NotFoundError):
        await held.manager.client.delete(Widget, key("nobody"))

    assert await held.manager.reader.list(Widget) == []
    assert held.count("GET") == 0


# Selecting by fields


SIZED = {"a": 1, "b": 2, "c": 2, "d": 3}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"spec.size": "2"}, "bc"),
        ("spec.size=2", "bc"),
        ("spec.size==2,metadata.name=c", "c"),
        ("spec.size!=2", "ad"),
        ("spec.size in (1, 3)", "ad"),
        ("spec.size notin (1,2)", "d"),
        ("spec.size in (2),metadata.name!=b", "c"),
        ("spec.colour=", "abcd"),
        ("metadata.name in (a,b,x)", "ab"),
        ("", "abcd"),
    ],
    ids=str,
)
@pytest.mark.parametrize("indexed", [False, True], ids=["scanned", "indexed"])
async def test_fields_select_the_same_cached_and_live(cluster, fields, expected, indexed):
    for name, size in SIZED.items():
        await cluster.client.create(widget(name, spec={"size": size}))
        await cluster.client.create(widget(name, namespace="kube-system", spec={"size": size}))
    indexes = [by_field("spec.size")] if indexed else []

    async with cluster.manager(watching(indexes=indexes)) as manager:
        for reader in (manager.reader, manager.uncached_reader):
            one = await reader.list(Widget, namespace="default", fields=fields)
            everywhere = await reader.list(Widget, fields=fields)
            assert "".join(w.key.name for w in one) == expected
            assert "".join(w.key.name for w in everywhere) == expected * 2


@pytest.mark.parametrize("text", ["size", "=1", "size>1", "size in 1", "a=b c=d", "in (a)"])
async def test_text_that_is_no_field_selector_is_refused_by_both(cluster, text):
    async with cluster.manager(watching()) as manager:
        for reader in (manager.reader, manager.uncached_reader):
            with pytest.raises(ValueError, match="field selector"):
                await reader.list(Widget, fields=text)


async def test_what_the_server_can_select_by_is_left_to_it(cluster):
    transport = HeldWatches(cluster)
    for name in ("a", "b"):
        await cluster.client.create(widget(name))

    found = await transport.client.list(Widget, fields="metadata.name!=a")

    assert [w.key.name for w in found] == ["b"]
    assert transport.queries[-1]["fieldSelector"] == "metadata.name!=a"


def test_a_watch_refuses_fields_that_no_server_selects_by():
    with pytest.raises(ValueError, match="API servers select by = and != only; watch without spec"):
        Scope.of(Widget.resource_type, fields="spec.size in (1,2)")


async def test_values_in_field_selectors_may_hold_anything(cluster):
    for name, note in (("a", "x=1,y"), ("b", "x\\")):
        await cluster.client.create(widget(name, spec={"note": note}))

    async with cluster.manager(watching()) as manager:
        for reader in (manager.reader, manager.uncached_reader):
            (by_mapping,) = await reader.list(Widget, fields={"spec.note": "x=1,y"})
            (by_text,) = await reader.list(Widget, fields="spec.note=x\\\\")
            assert (by_mapping.key.name, by_text.key.name) == ("a", "b")


async def test_readiness_can_be_awaited_before_the_start(cluster):
    await cluster.client.create(widget("a"))
    manager = Manager(cluster.client, clock=cluster.clock, random=cluster.random)
    declaration = manager.cache.declare(Widget)
    seen = []

    async def as_soon_as_it_is_ready(what):
        await what.wait_synced()
        seen.append([w.key.name for w in await manager.reader.list(Widget)])

    async with asyncio.TaskGroup() as group:
        for what in (manager, manager.cache, declaration):
            group.create_task(as_soon_as_it_is_ready(what))
        await asyncio.sleep(10)
        assert seen == []
        async with manager.running():
            await asyncio.sleep(1)

    assert seen == [["a"]] * 3
