"""What controllers rely on that a reflector and an informer do, step by step."""

import asyncio
from itertools import pairwise

import pytest

from informers.errors import (
    AccessDeniedError,
    ConnectionLostError,
    ExpiredError,
    InformerError,
    ListWatchError,
)
from informers.events import Added, ObjectEvent, WatchEvent, WatchEventType, WatchStatus
from informers.indexers import BY_NAMESPACE, Index
from informers.list_watch import ListPage
from informers.objects import ObjectKey
from informers.observers import InformerObserver
from informers.shared_informer import SharedInformer
from informers.watch_list_support import WatchListSupport
from tests.informers.fake_cluster import FakeCluster, Stream, added, bookmark, running, widget

pytestmark = pytest.mark.virtual_time

FORBIDDEN = ListWatchError(403, "Forbidden", "widgets is forbidden")


def recorder(told):
    return lambda event: told.append((type(event).__name__, event.object.key.name))


def moments(cluster):
    return [time for time, _ in cluster.requests]


async def test_only_what_the_first_list_brought_is_initial():
    cluster = FakeCluster()
    cluster.put("listed")
    events: list[ObjectEvent] = []

    async with running(cluster) as informer:
        informer.add_handler(events.append)
        await informer.wait_synced(1)
        cluster.put("watched")
        await informer.wait_seen(ObjectKey("ns", "watched"), str(cluster.version))
        cluster.break_streams()
        cluster.put("relisted")
        cluster.compact()
        await informer.wait_seen(ObjectKey("ns", "relisted"), str(cluster.version))

    initial = {e.object.key.name: e.initial for e in events if isinstance(e, Added)}
    assert initial == {"listed": True, "watched": False, "relisted": False}


async def test_handlers_share_one_list_and_watch_and_each_hears_everything_in_order():
    cluster = FakeCluster()
    cluster.put("a")
    cluster.put("b")
    first: list[tuple[str, str]] = []
    second: list[tuple[str, str]] = []

    async with running(cluster) as informer:
        informer.add_handler(recorder(first))
        informer.add_handler(recorder(second))
        await informer.wait_synced(1)
        cluster.put("a")
        cluster.remove("b")
        await informer.wait_gone(ObjectKey("ns", "b"), "uid-b")

    assert first == second
    assert first == [("Added", "a"), ("Added", "b"), ("Updated", "a"), ("Deleted", "b")]
    assert len(cluster.requests) == 3  # one refused WatchList, one list, one watch for both


async def test_an_expired_version_inside_a_stream_is_no_failure():
    class Failures(InformerObserver):
        def failed(self, resource_type, error, retry_in_seconds):
            failed.append(error)

    failed: list[Exception] = []
    cluster = FakeCluster()

    async with running(cluster, use_watch_list=False, observer=Failures()) as informer:
        await informer.wait_synced(1)
        await asyncio.sleep(5)
        status = WatchStatus(410, "Expired", "too old resource version")
        cluster.streams[0].send(WatchEvent(WatchEventType.ERROR, status=status))
        await asyncio.sleep(5)
        assert informer.last_error is None

    assert failed == []
    assert cluster.asked == [
        "list rv='0' limit=500",
        "watch rv='10'",
        "list rv='' limit=500",
        "watch rv='10'",
    ]


async def test_a_watch_that_is_refused_is_followed_by_a_list_after_a_wait():
    cluster = FakeCluster(answers=[ListPage([], "10"), FORBIDDEN])

    async with running(cluster, use_watch_list=False):
        await asyncio.sleep(5)

    assert cluster.asked == [
        "list rv='0' limit=500",
        "watch rv='10'",
        "list rv='10' limit=0",
        "watch rv='10'",
    ]
    assert 0.8 <= moments(cluster)[2] - moments(cluster)[1] <= 1.6


async def test_lists_that_fail_are_spaced_up_to_a_minute_and_told():
    class Failures(InformerObserver):
        def failed(self, resource_type, error, retry_in_seconds):
            waits.append(retry_in_seconds)

    waits: list[float] = []
    cluster = FakeCluster(answers=[ConnectionLostError("refused")] * 8)

    async with running(cluster, use_watch_list=False, observer=Failures()) as informer:
        await informer.wait_synced()

    between = [after - before for before, after in pairwise(moments(cluster)[:9])]
    assert between == pytest.approx(waits)
    for wait, base in zip(waits, (0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30), strict=True):
        assert base <= wait <= 2 * base


async def test_no_version_is_taken_from_initial_events_before_their_end():
    broken = Stream()
    broken.send(added("a", 5), added("b", 99))
    broken.fail()
    cluster = FakeCluster(watch_list=True, answers=[broken])

    async with running(cluster) as informer:
        await informer.wait_synced(10)
        assert informer.lister.resource_version == "10"

    assert cluster.asked == ["watch rv='' initial"] * 2


async def test_the_copy_is_filled_at_the_end_of_the_initial_events_and_not_before():
    stream = Stream()
    cluster = FakeCluster(answers=[stream])

    async with running(cluster) as informer:
        stream.send(added("a", 5), added("b", 6))
        await asyncio.sleep(10)
        assert (len(informer.lister), informer.is_synced) == (0, False)
        stream.send(bookmark(7, end=True))
        stream.send(added("c", 8))
        await informer.wait_seen(ObjectKey("ns", "c"), "8")
        assert [key.name for key in informer.lister.keys()] == ["a", "b", "c"]  # noqa: SIM118 - no dict

    assert cluster.asked == ["watch rv='' initial"]


async def test_a_server_that_never_ends_its_initial_events_is_listed_within_a_minute():
    endless = Stream()
    endless.send(added("a", 5), added("b", 6))
    cluster = FakeCluster(answers=[endless, ListPage([widget("a", 5), widget("b", 6)], "9")])
    support = WatchListSupport()

    async with running(cluster, watch_list_support=support) as informer:
        await informer.wait_synced(60)
        await asyncio.sleep(180)
        lists = [request for request in cluster.asked if request.startswith("list")]
        assert len(lists) == 1
        cluster.break_streams(ExpiredError(410, "Expired"))
        await asyncio.sleep(60)

    assert cluster.asked[0] == "watch rv='' initial"
    assert not [request for request in cluster.asked[1:] if "initial" in request]


async def test_what_one_informer_learns_of_the_server_its_others_know():
    support = WatchListSupport()
    without, knows = FakeCluster(), FakeCluster()

    async with running(without, watch_list_support=support) as informer:
        await informer.wait_synced(1)
    async with running(knows, watch_list_support=support) as informer:
        await informer.wait_synced(1)
        assert not informer.uses_watch_list

    assert without.asked[:2] == ["watch rv='' initial", "list rv='0' limit=500"]
    assert knows.asked[0] == "list rv='0' limit=500"


async def test_an_informer_that_lists_by_choice_says_nothing_about_the_server():
    support = WatchListSupport()
    cluster = FakeCluster(watch_list=True)

    async with running(cluster, use_watch_list=False, watch_list_support=support) as informer:
        await informer.wait_synced(1)

    assert cluster.resource_type in support


async def test_a_relist_of_what_did_not_change_tells_nobody():
    cluster = FakeCluster()
    cluster.put("a")
    told: list[tuple[str, str]] = []

    async with running(cluster, use_watch_list=False) as informer:
        informer.add_handler(recorder(told))
        await informer.wait_synced(1)
        await asyncio.sleep(5)
        told.clear()
        cluster.break_streams(ExpiredError(410, "Expired"))
        await asyncio.sleep(5)

    assert cluster.asked[-2:] == ["list rv='' limit=500", "watch rv='11'"]
    assert told == []


async def test_synced_means_that_every_first_object_was_stored_and_told():
    cluster = FakeCluster(page_size=1)
    for name in "abc":
        cluster.put(name)
    told: list[tuple[str, str]] = []
    seen_by_handler = []

    async with running(cluster, use_watch_list=False) as informer:

        def handle(event):
            told.append((type(event).__name__, event.object.key.name))
            seen_by_handler.append((informer.is_synced, registration.is_synced))

        registration = informer.add_handler(handle)
        assert not registration.is_synced
        await informer.wait_synced(1)
        assert registration.is_synced
        assert len(told) == len(informer.lister) == 3

    assert set(seen_by_handler) == {(False, False)}


async def test_two_quick_changes_of_an_object_are_two_events():
    stream = Stream()
    cluster = FakeCluster(answers=[ListPage([widget("a", 1)], "1"), stream])
    versions: list[str] = []

    async with running(cluster, use_watch_list=False) as informer:
        informer.add_handler(lambda event: versions.append(event.object.resource_version))
        await informer.wait_synced(1)
        stream.send(*(WatchEvent(WatchEventType.MODIFIED, widget("a", v)) for v in (2, 3, 4)))
        await informer.wait_seen(ObjectKey("ns", "a"), "4")

    assert versions == ["1", "2", "3", "4"]


async def test_replacing_tells_deletions_first_and_shows_the_final_copy_to_all():
    cluster = FakeCluster()
    for name in "abc":
        cluster.put(name)
    told: list[tuple[str, str]] = []
    copies: list[list[str]] = []

    async with running(cluster) as informer:

        def handle(event):
            told.append((type(event).__name__, event.object.key.name))
            copies.append([key.name for key in informer.lister.keys()])  # noqa: SIM118 - no dict

        await informer.wait_synced(1)
        informer.add_handler(handle)
        told.clear()
        copies.clear()
        cluster.break_streams()
        cluster.put("a")
        cluster.remove("b")
        cluster.remove("c")
        cluster.put("d")
        cluster.compact()
        await informer.wait_seen(ObjectKey("ns", "d"), str(cluster.version))

    assert told == [("Deleted", "b"), ("Deleted", "c"), ("Updated", "a"), ("Added", "d")]
    assert copies == [["a", "d"]] * 4


async def test_a_removed_handler_may_be_removed_again_and_by_itself():
    cluster = FakeCluster()
    told: list[tuple[str, str]] = []

    async with running(cluster) as informer:
        registration = informer.add_handler(recorder(told))
        await informer.wait_synced(1)
        registration.remove()
        registration.remove()
        cluster.put("a")
        await informer.wait_seen(ObjectKey("ns", "a"), str(cluster.version))
        assert informer.statistics().handlers == 0

    registration.remove()
    assert told == []


async def test_nothing_can_be_added_to_a_stopped_informer():
    async with running(FakeCluster()) as informer:
        await informer.wait_synced(1)

    with pytest.raises(InformerError, match="is stopped"):
        informer.add_handler(print)
    with pytest.raises(InformerError, match="is stopped"):
        informer.add_index(BY_NAMESPACE)


async def test_an_index_is_never_out_of_step_with_its_objects():
    cluster = FakeCluster()
    cluster.put("a", labels={"app": "x"})
    by_app = Index("app", lambda obj: (obj.labels.get("app", ""),))
    found: list[tuple[list[str], list[str]]] = []

    async with running(cluster) as informer:

        def handle(event):
            of = informer.lister.by_index
            found.append(
                ([o.key.name for o in of("app", "x")], [o.key.name for o in of("app", "y")])
            )

        await informer.wait_synced(1)
        informer.add_index(by_app)
        informer.add_handler(handle)
        cluster.put("a", labels={"app": "y"})
        await informer.wait_seen(ObjectKey("ns", "a"), str(cluster.version))

    assert found == [(["a"], []), ([], ["a"])]


async def test_a_stopped_informer_tells_nothing_more():
    cluster = FakeCluster()
    told: list[tuple[str, str]] = []

    async with running(cluster, resync_seconds=20) as informer:
        informer.add_handler(recorder(told))
        await informer.wait_synced(1)

    cluster.put("late")
    await asyncio.sleep(100)

    assert told == []
    assert cluster.streams == []


async def test_a_forbidden_type_ends_the_informer_that_is_not_to_wait():
    informer = SharedInformer(FakeCluster(answers=[FORBIDDEN]), fail_when_forbidden=True)

    with pytest.raises(
        AccessDeniedError, match=r"lab\.test/v1 Widget: 403 Forbidden.*grant its list"
    ):
        await informer.run()
    with pytest.raises(AccessDeniedError):
        await informer.wait_synced(1)


async def test_a_permission_that_is_lost_later_ends_nothing():
    cluster = FakeCluster()

    async with running(cluster, use_watch_list=False, fail_when_forbidden=True) as informer:
        await informer.wait_synced(1)
        await asyncio.sleep(5)
        cluster.answers = [FORBIDDEN] * 3
        cluster.break_streams(ExpiredError(410, "Expired"))
        await asyncio.sleep(30)
        assert informer.last_error is None

    assert not cluster.answers


async def test_a_permission_that_is_granted_late_is_used_at_the_next_try():
    class Recorder(InformerObserver):
        def failed(self, resource_type, error, retry_in_seconds):
            trace.append("failed")

        def recovered(self, resource_type):
            trace.append("recovered")

    trace: list[str] = []
    cluster = FakeCluster(answers=[FORBIDDEN] * 2)

    async with running(cluster, use_watch_list=False, observer=Recorder()) as informer:
        await informer.wait_synced(10)
        assert informer.last_error is None

    assert trace == ["failed", "failed", "recovered"]


async def test_a_watch_that_opens_again_is_a_recovery_also_where_nothing_changes():
    cluster = FakeCluster()

    async with running(cluster, use_watch_list=False) as informer:
        await informer.wait_synced(1)
        await asyncio.sleep(5)
        cluster.answers = [ConnectionLostError("refused")]
        cluster.break_streams()
        await asyncio.sleep(0.1)
        assert isinstance(informer.last_error, ConnectionLostError)
        await asyncio.sleep(5)
        assert informer.last_error is None
