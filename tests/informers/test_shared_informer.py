import asyncio

import pytest

from informers.clock import Random
from informers.errors import InformerError, ListWatchError, SyncTimeoutError
from informers.events import Added, Deleted, ObjectEvent, Updated
from informers.indexers import BY_NAMESPACE, BY_OWNER_UID, by_label
from informers.objects import ObjectKey
from informers.shared_informer import SharedInformer
from tests.informers.fake_cluster import FakeCluster, bookmark, running

pytestmark = pytest.mark.virtual_time


def line(event):
    name = event.object.key.name
    match event:
        case Added():
            return f"added {name}{' (initial)' if event.initial else ''}"
        case Updated():
            return f"updated {name} {event.old.resource_version}->{event.object.resource_version}"
        case Deleted():
            return f"deleted {name}{' (unknown)' if event.final_state_unknown else ''}"


def recorder(trace):
    return lambda event: trace.append(line(event))


async def test_handlers_hear_the_initial_list_then_every_change_in_order():
    cluster = FakeCluster()
    cluster.put("a")
    trace: list[str] = []

    async with running(cluster) as informer:
        informer.add_handler(recorder(trace))
        await informer.wait_synced(10)
        cluster.put("b")
        cluster.put("a")
        cluster.put("a")
        cluster.remove("b")
        await informer.wait_until(lambda lister: lister.resource_version == "15")

    assert trace == [
        "added a (initial)",
        "added b",
        "updated a 11->13",
        "updated a 13->14",
        "deleted b",
    ]


async def test_a_relist_reports_what_was_missed():
    cluster = FakeCluster()
    for name in "abc":
        cluster.put(name)
    trace: list[str] = []

    async with running(cluster) as informer:
        informer.add_handler(recorder(trace))
        await informer.wait_synced(10)
        trace.clear()
        cluster.break_streams()
        cluster.remove("a")
        cluster.put("b")
        cluster.put("d")
        cluster.compact()
        await informer.wait_seen(ObjectKey("ns", "d"), str(cluster.version))

    assert trace == ["deleted a (unknown)", "updated b 12->15", "added d"]


async def test_a_missed_recreation_is_one_update_to_another_uid():
    cluster = FakeCluster()
    old = cluster.put("a", uid="old")
    events: list[ObjectEvent] = []

    async with running(cluster) as informer:
        informer.add_handler(events.append)
        await informer.wait_synced(10)
        cluster.break_streams()
        cluster.remove("a")
        new = cluster.put("a", uid="new")
        cluster.compact()
        await informer.wait_gone(old.key, "old")

    assert events == [Added(old, initial=True), Updated(old, new)]


async def test_a_watched_recreation_is_a_deletion_and_an_addition():
    cluster = FakeCluster()
    old = cluster.put("a", uid="old")
    trace: list[str] = []

    async with running(cluster) as informer:
        informer.add_handler(recorder(trace))
        await informer.wait_synced(10)
        cluster.remove("a")
        new = cluster.put("a", uid="new")
        await informer.wait_seen(old.key, new.resource_version)

    assert trace == ["added a (initial)", "deleted a", "added a"]


async def test_a_late_handler_is_brought_up_to_date_without_loss_or_repetition():
    cluster = FakeCluster()
    cluster.put("a")
    trace: list[str] = []

    async with running(cluster) as informer:
        await informer.wait_synced(10)
        cluster.put("b")
        await informer.wait_seen(ObjectKey("ns", "b"), str(cluster.version))
        registration = informer.add_handler(recorder(trace))
        assert registration.is_synced
        cluster.put("c")
        await informer.wait_seen(ObjectKey("ns", "c"), str(cluster.version))

    assert trace == ["added a (initial)", "added b (initial)", "added c"]


async def test_a_handler_added_by_a_handler_hears_each_object_once():
    cluster = FakeCluster()
    cluster.put("a")
    cluster.put("b")
    trace: list[str] = []

    async with running(cluster) as informer:

        def add_another(event):
            if event.object.key.name == "a":
                informer.add_handler(recorder(trace))

        informer.add_handler(add_another)
        await informer.wait_synced(10)

    assert trace == ["added a (initial)", "added b (initial)"]


async def test_a_removed_handler_hears_nothing_more_even_within_a_batch():
    cluster = FakeCluster()
    cluster.put("a")
    cluster.put("b")
    trace: list[str] = []

    async with running(cluster) as informer:

        def once(event):
            trace.append(line(event))
            registration.remove()
            registration.remove()

        registration = informer.add_handler(once)
        await informer.wait_synced(10)

    assert trace == ["added a (initial)"]


async def test_a_failing_handler_is_counted_and_harms_nobody():
    cluster = FakeCluster()
    cluster.put("a")
    cluster.put("b")
    trace: list[str] = []

    def fails_for_a(event):
        if event.object.key.name == "a":
            raise ValueError("no")
        trace.append(line(event))

    async with running(cluster) as informer:
        failing = informer.add_handler(fails_for_a)
        other = informer.add_handler(recorder(trace))
        await informer.wait_synced(10)

    assert trace == ["added b (initial)", "added a (initial)", "added b (initial)"]
    assert (failing.failures, other.failures) == (1, 0)
    assert informer.statistics().handler_failures == 1


async def test_a_handler_sees_its_event_in_the_store():
    cluster = FakeCluster()
    seen = []

    async with running(cluster) as informer:
        informer.add_handler(lambda event: seen.append(informer.lister.find(event.object.key)))
        await informer.wait_synced(10)
        obj = cluster.put("a", labels={"app": "x"}, owner_uid="u")
        await informer.wait_seen(obj.key, obj.resource_version)
        cluster.remove("a")
        await informer.wait_gone(obj.key, obj.uid)

    assert seen == [obj, None]


async def test_indexes_may_be_added_late_and_follow_every_change():
    cluster = FakeCluster()
    a = cluster.put("a", labels={"app": "x"}, owner_uid="u")

    async with running(cluster, indexes=[BY_NAMESPACE]) as informer:
        await informer.wait_synced(10)
        informer.add_index(BY_OWNER_UID)
        informer.add_index(by_label("app"))
        assert informer.lister.by_index(BY_OWNER_UID, "u") == [a]
        assert informer.lister.by_index("label:app", "x") == [a]
        changed = cluster.put("a", labels={"app": "y"})
        await informer.wait_seen(a.key, changed.resource_version)

        assert informer.lister.by_index(BY_OWNER_UID, "u") == []
        assert informer.lister.by_index("label:app", "x") == []
        assert informer.lister.by_index("label:app", "y") == [changed]


async def test_a_resync_repeats_every_object_without_a_request():
    cluster = FakeCluster()
    a = cluster.put("a")
    events: list[ObjectEvent] = []

    async with running(cluster, resync_seconds=20) as informer:
        informer.add_handler(events.append)
        await informer.wait_synced(10)
        requests = len(cluster.requests)
        await asyncio.sleep(44)

    assert events == [Added(a, initial=True), Updated(a, a), Updated(a, a)]
    assert len(cluster.requests) == requests


async def test_a_bookmark_moves_the_version_and_calls_no_handler():
    cluster = FakeCluster()
    cluster.put("a")
    trace: list[str] = []

    async with running(cluster) as informer:
        informer.add_handler(recorder(trace))
        await informer.wait_synced(10)
        await asyncio.sleep(1)
        cluster.streams[0].send(bookmark(77))
        await informer.wait_until(lambda lister: lister.resource_version == "77")

    assert trace == ["added a (initial)"]


async def test_a_sync_that_takes_too_long_names_the_type_and_the_last_error():
    forbidden = ListWatchError(403, "Forbidden", "widgets is forbidden")
    cluster = FakeCluster(answers=[forbidden] * 20)

    async with running(cluster) as informer:
        with pytest.raises(
            SyncTimeoutError, match=r"widgets\.v1\.lab\.test .*in 5 s.*403 Forbidden"
        ):
            await informer.wait_synced(5)
        assert informer.last_error is forbidden


async def test_waiting_on_a_stopped_informer_fails_at_once():
    async with running(FakeCluster()) as informer:
        await informer.wait_synced(10)

    with pytest.raises(InformerError, match="is stopped"):
        await informer.wait_seen(ObjectKey("ns", "a"), "99")
    with pytest.raises(InformerError, match="is stopped"):
        informer.add_handler(print)
    with pytest.raises(InformerError, match="started before"):
        await informer.run()


async def test_an_informer_that_was_abandoned_before_it_ran_ends_every_wait():
    async def waits():
        with pytest.raises(InformerError, match="stopped before it synced"):
            await informer.wait_synced()

    informer = SharedInformer(FakeCluster(), random=Random(7))
    async with asyncio.TaskGroup() as group:
        waiter = group.create_task(waits())
        await asyncio.sleep(1)
        informer.abandon()

    assert waiter.done()
    with pytest.raises(InformerError, match="started before"):
        await informer.run()


async def test_a_running_informer_is_not_abandoned():
    async with running(FakeCluster()) as informer:
        await informer.wait_synced(10)
        informer.abandon()
        assert informer.is_synced
        await informer.wait_until(lambda lister: True)
        informer.add_handler(print)


async def test_a_waiter_is_woken_when_the_informer_stops():
    async def waits(informer):
        with pytest.raises(InformerError, match="is stopped"):
            await informer.wait_seen(ObjectKey("ns", "a"), "99")

    async with asyncio.TaskGroup() as group, running(FakeCluster()) as informer:
        await informer.wait_synced(10)
        waiter = group.create_task(waits(informer))
        await asyncio.sleep(1)

    assert waiter.done()
