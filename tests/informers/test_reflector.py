import asyncio
from itertools import pairwise

import pytest

from informers.errors import (
    ConnectionLostError,
    ExpiredError,
    ListWatchError,
    SyncTimeoutError,
    UnwatchableError,
)
from informers.events import WatchEvent, WatchEventType, WatchStatus
from informers.list_watch import ListPage
from informers.objects import ObjectKey
from informers.observers import InformerObserver
from informers.shared_informer import SharedInformer
from tests.informers.fake_cluster import (
    FakeCluster,
    Stream,
    added,
    bookmark,
    deleted,
    modified,
    running,
    widget,
)

pytestmark = pytest.mark.virtual_time

REFUSED = ConnectionLostError("connection refused")


def error_event(code, reason="", message=""):
    return WatchEvent(WatchEventType.ERROR, status=WatchStatus(code, reason, message))


def open_stream(*batches):
    stream = Stream()
    for batch in batches:
        stream.send(*batch)
    return stream


def closed_stream(*batches):
    stream = open_stream(*batches)
    stream.close()
    return stream


def names(informer):
    return [obj.key.name for obj in informer.lister.list()]


async def test_the_first_list_takes_any_version_and_the_watch_starts_at_the_lists():
    cluster = FakeCluster(version=42)

    async with running(cluster, use_watch_list=False) as informer:
        await informer.wait_synced(1)
        await asyncio.sleep(1)

    assert cluster.asked == ["list rv='0' limit=500", "watch rv='42'"]


async def test_a_watch_that_ends_in_good_order_goes_on_from_the_last_event():
    cluster = FakeCluster()

    async with running(cluster, use_watch_list=False) as informer:
        await informer.wait_synced(1)
        await asyncio.sleep(5)
        cluster.put("a")
        await asyncio.sleep(5)
        cluster.close_streams()
        cluster.put("b")
        await informer.wait_seen(ObjectKey("ns", "b"), "12")

    assert cluster.asked == ["list rv='0' limit=500", "watch rv='10'", "watch rv='11'"]


async def test_a_bookmark_moves_the_version_that_the_next_watch_starts_from():
    stream = open_stream([added("a", 11)], [bookmark(50)])
    cluster = FakeCluster(answers=[ListPage([], "10"), stream])

    async with running(cluster, use_watch_list=False):
        await asyncio.sleep(5)
        stream.close()
        await asyncio.sleep(1)

    assert cluster.asked[2:] == ["watch rv='50'"]


async def test_long_lists_come_in_pages():
    cluster = FakeCluster(page_size=2)
    for name in "abcde":
        cluster.put(name)

    async with running(cluster, use_watch_list=False) as informer:
        await informer.wait_synced(1)
        assert names(informer) == list("abcde")
        await asyncio.sleep(1)

    assert cluster.asked == [
        "list rv='0' limit=500",
        "list continue=2@15",
        "list continue=4@15",
        "watch rv='15'",
    ]


async def test_a_page_that_expired_is_followed_by_one_list_without_pages():
    cluster = FakeCluster(
        answers=[
            ListPage([widget("a")], "15", "token"),
            ExpiredError(410, "Expired", "the continue token is too old"),
            ListPage([widget("a"), widget("b")], "16"),
        ]
    )

    async with running(cluster, use_watch_list=False) as informer:
        await informer.wait_synced(0.5)
        assert names(informer) == ["a", "b"]

    assert cluster.asked[:3] == [
        "list rv='0' limit=500",
        "list continue=token",
        "list rv='0' limit=0",
    ]


@pytest.mark.parametrize("where", ["status", "stream"])
async def test_an_expired_version_leads_to_one_list_of_the_latest(where):
    cluster = FakeCluster()

    async with running(cluster, use_watch_list=False) as informer:
        await informer.wait_synced(1)
        await asyncio.sleep(5)
        if where == "status":
            cluster.break_streams()
            cluster.compact()
            cluster.oldest += 1
            cluster.put("a")
        else:
            cluster.put("a")
            cluster.streams[0].send(error_event(410, "Expired"))
        await informer.wait_seen(ObjectKey("ns", "a"), "11")
        await asyncio.sleep(5)

    assert cluster.asked.count("watch rv='10'") == (2 if where == "status" else 1)
    assert cluster.asked[-2:] == ["list rv='' limit=500", "watch rv='11'"]


async def test_a_version_that_the_server_has_not_reached_is_given_up_at_once():
    cluster = FakeCluster(
        answers=[
            ListPage([], "50"),
            ListWatchError(403, "Forbidden", "no watch"),
            ExpiredError(504, "Timeout", "Too large resource version: 50, current: 40"),
        ]
    )

    async with running(cluster, use_watch_list=False):
        await asyncio.sleep(3)

    assert cluster.asked == [
        "list rv='0' limit=500",
        "watch rv='50'",
        "list rv='50' limit=0",
        "list rv='' limit=500",
        "watch rv='10'",
    ]
    assert cluster.requests[2][0] == cluster.requests[3][0]


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(REFUSED, id="connection refused"),
        pytest.param(ListWatchError(429, "TooManyRequests"), id="429"),
        pytest.param(ListWatchError(503, "ServiceUnavailable"), id="503"),
    ],
)
async def test_a_watch_that_cannot_start_is_tried_again_from_the_same_version(error):
    cluster = FakeCluster(answers=[ListPage([], "10"), error, error, error])

    async with running(cluster, use_watch_list=False):
        await asyncio.sleep(20)

    assert cluster.asked == ["list rv='0' limit=500", *["watch rv='10'"] * 4]
    times = [time for time, _ in cluster.requests[1:]]
    waits = [after - before for before, after in pairwise(times)]
    for wait, base in zip(waits, (0.8, 1.6, 3.2), strict=True):
        assert base <= wait <= 2 * base


async def test_a_long_run_of_429_neither_ends_the_informer_nor_asks_more_than_once_a_second():
    too_many = ListWatchError(429, "TooManyRequests", retry_after_seconds=1)
    cluster = FakeCluster(answers=[ListPage([], "10"), *[too_many] * 50])

    async with running(cluster, use_watch_list=False):
        await asyncio.sleep(3600)

    assert cluster.asked[:52] == ["list rv='0' limit=500", *["watch rv='10'"] * 51]
    times = [time for time, _ in cluster.requests[1:52]]
    assert min(b - a for a, b in pairwise(times)) >= 1


@pytest.mark.parametrize(("asked_for", "at_least", "at_most"), [(7, 7, 8), (3600, 60, 61)])
async def test_retry_after_is_honoured_up_to_a_cap(asked_for, at_least, at_most):
    error = ListWatchError(429, "TooManyRequests", retry_after_seconds=asked_for)
    cluster = FakeCluster(answers=[error])

    async with running(cluster, use_watch_list=False) as informer:
        await informer.wait_synced()
        assert at_least <= asyncio.get_running_loop().time() <= at_most


async def test_a_server_that_closes_every_watch_at_once_is_not_hammered():
    cluster = FakeCluster(answers=[ListPage([], "10"), *[closed_stream() for _ in range(50)]])

    async with running(cluster, use_watch_list=False):
        await asyncio.sleep(600)

    assert len([time for time, _ in cluster.requests if time < 10]) <= 5
    assert cluster.asked[:6] == [
        "list rv='0' limit=500",
        *["watch rv='10'"] * 4,
        "list rv='10' limit=0",
    ]


async def test_short_watches_that_bring_events_go_on_at_once():
    cluster = FakeCluster(
        answers=[
            ListPage([], "10"),
            closed_stream([added("a", 11)]),
            closed_stream([modified("a", 12)]),
        ]
    )

    async with running(cluster, use_watch_list=False):
        await asyncio.sleep(0.1)

    assert cluster.asked[1:] == ["watch rv='10'", "watch rv='11'", "watch rv='12'"]


@pytest.mark.parametrize("code", [500, 504, 403])
async def test_an_error_inside_a_stream_keeps_what_came_before_and_reconnects(code):
    cluster = FakeCluster(
        answers=[
            ListPage([], "10"),
            open_stream([added("a", 11), error_event(code, "Whatever")]),
        ]
    )

    async with running(cluster, use_watch_list=False) as informer:
        await informer.wait_seen(ObjectKey("ns", "a"), "11")
        await asyncio.sleep(2)

    assert cluster.asked == ["list rv='0' limit=500", "watch rv='10'", "watch rv='11'"]


async def test_a_silent_stream_is_replaced_after_75_seconds():
    cluster = FakeCluster()

    async with running(cluster, use_watch_list=False) as informer:
        await informer.wait_synced(1)
        silent = cluster.streams
        await asyncio.sleep(1)
        silent.clear()  # the server sends nothing through it any more, and it stays open
        cluster.put("a")
        await asyncio.sleep(73)
        assert names(informer) == []
        await informer.wait_seen(ObjectKey("ns", "a"), "11")

    assert [round(time) for time, _ in cluster.requests] == [0, 0, 75]


async def test_events_keep_a_stream_from_counting_as_silent():
    cluster = FakeCluster()

    async with running(cluster, use_watch_list=False) as informer:
        await informer.wait_synced(1)
        for _ in range(10):
            await asyncio.sleep(60)
            cluster.put("a")

    assert len(cluster.requests) == 2


async def test_events_without_an_object_and_repeated_or_old_ones_change_nothing():
    stream = open_stream(
        [added("a", 11), WatchEvent(WatchEventType.ADDED), modified("a", 14)],
        [modified("a", 12), modified("a", 14), deleted("a", 13)],
    )
    cluster = FakeCluster(answers=[ListPage([], "10"), stream])

    async with running(cluster, use_watch_list=False) as informer:
        await asyncio.sleep(1)
        assert [o.resource_version for o in informer.lister.list()] == ["14"]
        assert informer.lister.resource_version == "14"
        assert informer.last_error is None


async def test_an_outage_of_an_hour_costs_few_requests_and_leaves_nothing_behind():
    cluster = FakeCluster()

    async with running(cluster, use_watch_list=False) as informer:
        await informer.wait_synced(1)
        await asyncio.sleep(10)
        cluster.break_streams()
        cluster.answers = [REFUSED] * 100
        cluster.put("a")
        await informer.wait_seen(ObjectKey("ns", "a"), "11")
        outage = asyncio.get_running_loop().time()

    assert not cluster.answers
    assert outage > 3600 / 60 * 30
    assert set(cluster.asked[2:]) == {"watch rv='10'"}


async def test_a_backoff_starts_anew_after_two_quiet_minutes():
    cluster = FakeCluster(answers=[ListPage([], "10"), *[REFUSED] * 6])

    async with running(cluster, use_watch_list=False):
        await asyncio.sleep(600)
        before = len(cluster.requests)
        cluster.break_streams()
        cluster.answers = [REFUSED]
        await asyncio.sleep(10)

    times = [time for time, _ in cluster.requests[before:]]
    assert len(times) == 2
    assert 0.8 <= times[1] - times[0] <= 1.6


async def test_a_broken_port_is_retried_like_any_failure():
    cluster = FakeCluster(answers=[RuntimeError("a bug"), ListPage([], "10"), OSError("a bug")])

    async with running(cluster, use_watch_list=False) as informer:
        await informer.wait_synced(10)
        await asyncio.sleep(10)
        assert informer.last_error is None or isinstance(informer.last_error, OSError)

    assert cluster.asked[-1] == "watch rv='10'"


async def test_watch_list_takes_snapshot_and_changes_through_one_stream():
    cluster = FakeCluster(watch_list=True)
    cluster.put("a")

    async with running(cluster) as informer:
        await informer.wait_synced(1)
        assert names(informer) == ["a"]
        cluster.put("b")
        await informer.wait_seen(ObjectKey("ns", "b"), "12")

    assert cluster.asked == ["watch rv='' initial"]


async def test_watch_list_starts_from_the_last_version_but_not_from_an_expired_one():
    cluster = FakeCluster(watch_list=True)

    async with running(cluster) as informer:
        await informer.wait_synced(1)
        await asyncio.sleep(2)
        cluster.break_streams(ListWatchError(403, "Forbidden"))
        cluster.answers = [ListWatchError(403, "Forbidden")]
        await asyncio.sleep(5)
        cluster.break_streams(ExpiredError(410, "Expired"))
        await asyncio.sleep(5)

    assert cluster.asked == [
        "watch rv='' initial",
        "watch rv='10'",
        "watch rv='10' initial",
        "watch rv='' initial",
    ]


@pytest.mark.parametrize("code", [400, 405, 422])
async def test_a_server_without_watch_list_is_listed_at_once_and_from_then_on(code):
    cluster = FakeCluster(answers=[ListWatchError(code, "Invalid")])

    async with running(cluster) as informer:
        await informer.wait_synced(0.1)
        assert not informer.uses_watch_list
        await asyncio.sleep(2)
        cluster.break_streams(ExpiredError(410, "Expired"))
        await asyncio.sleep(5)

    assert cluster.asked == [
        "watch rv='' initial",
        "list rv='0' limit=500",
        "watch rv='10'",
        "list rv='' limit=500",
        "watch rv='10'",
    ]


async def test_initial_events_that_never_end_are_given_up_for_a_list():
    endless = open_stream([added("a", 5)], [added("b", 6)])
    page = ListPage([widget("a", 5), widget("b", 6)], "9")
    cluster = FakeCluster(answers=[endless, page])
    cluster.put("c")

    async with running(cluster) as informer:
        await informer.wait_synced(60)
        assert names(informer) == ["a", "b"]
        await asyncio.sleep(1)

    assert cluster.asked == ["watch rv='' initial", "list rv='0' limit=500", "watch rv='9'"]


async def test_initial_events_that_drip_for_ever_are_given_up_too():
    dripping = Stream()
    cluster = FakeCluster(answers=[dripping])

    async with running(cluster):
        for version in range(100, 113):
            dripping.send(added("a", version))
            await asyncio.sleep(10)

    assert cluster.requests[:2] == [(0, "watch rv='' initial"), (120, "list rv='0' limit=500")]


async def test_what_came_before_initial_events_broke_off_is_dropped():
    broken = open_stream([added("ghost", 5)])
    broken.fail()
    cluster = FakeCluster(watch_list=True, answers=[broken])
    cluster.put("a")

    async with running(cluster) as informer:
        await informer.wait_synced(10)
        assert names(informer) == ["a"]

    assert cluster.asked == ["watch rv='' initial"] * 2


async def test_initial_events_that_keep_breaking_off_are_given_up():
    cluster = FakeCluster(answers=[closed_stream([added("a", 5)]) for _ in range(10)])

    async with running(cluster) as informer:
        cluster.answers[3:] = [ListPage([widget("a", 5)], "9")]
        await informer.wait_synced(30)

    assert cluster.asked[:4] == [*["watch rv='' initial"] * 3, "list rv='0' limit=500"]


async def test_a_type_that_cannot_be_watched_ends_the_informer_and_says_so():
    not_allowed = ListWatchError(405, "MethodNotAllowed", "watch is not supported")
    cluster = FakeCluster(answers=[not_allowed, ListPage([], "10"), not_allowed])
    informer = SharedInformer(cluster)

    with pytest.raises(UnwatchableError, match=r"lab\.test/v1 Widget does not support watch"):
        await informer.run()

    assert len(cluster.requests) == 3


async def test_a_list_without_a_version_ends_the_informer_and_says_so():
    cluster = FakeCluster(answers=[ListPage([], "")])
    informer = SharedInformer(cluster, use_watch_list=False)

    with pytest.raises(UnwatchableError, match=r"lab\.test/v1 Widget.*carries no resourceVersion"):
        await informer.run()
    with pytest.raises(UnwatchableError):
        await informer.wait_synced(1)


async def test_observers_are_told_what_happened_and_why():
    class Recorder(InformerObserver):
        def listed(self, resource_type, objects, reason):
            trace.append(f"listed {objects} {reason}")

        def watch_started(self, resource_type):
            trace.append("watch started")

        def watch_ended(self, resource_type, reason):
            trace.append(f"watch ended {reason}")

        def failed(self, resource_type, error, retry_in_seconds):
            trace.append(f"failed {type(error).__name__}")

        def store_changed(self, resource_type, objects, data_bytes):
            trace.append(f"holds {objects} {data_bytes}")

    trace: list[str] = []
    cluster = FakeCluster()
    cluster.put("a", data=b"12345")

    async with running(cluster, observer=Recorder()) as informer:
        await informer.wait_synced(1)
        await asyncio.sleep(5)
        cluster.remove("a")
        cluster.streams[0].send(error_event(410, "Expired"))
        await asyncio.sleep(5)

    assert trace == [
        "failed ListWatchError",
        "listed 1 fall_back",
        "holds 1 5",
        "watch started",
        "holds 0 0",
        "watch ended expired",
        "listed 0 expired",
        "watch started",
    ]


async def test_the_sync_error_of_a_hidden_fault_names_it():
    cluster = FakeCluster(answers=[Stream(), *[REFUSED] * 10])

    async with running(cluster) as informer:
        with pytest.raises(SyncTimeoutError, match="connection refused"):
            await informer.wait_synced(40)
