import asyncio
from itertools import pairwise

import pytest

from informers.errors import AccessDeniedError, ConnectionLostError, ExpiredError, ListWatchError
from informers.events import Added, Deleted, ObjectEvent, Updated
from informers.list_watch import ListPage
from informers.observers import InformerObserver
from informers.shared_informer import SharedInformer
from tests.informers.fake_cluster import FakeCluster, running, widget

pytestmark = pytest.mark.virtual_time


async def test_a_polled_type_is_listed_now_and_again_and_never_watched():
    cluster = FakeCluster()
    kept = cluster.put("a")
    events: list[ObjectEvent] = []

    async with running(cluster, poll_every_seconds=60) as informer:
        informer.add_handler(events.append)
        await informer.wait_synced(1)
        new = cluster.put("b")
        await asyncio.sleep(67)
        cluster.remove("b")
        await asyncio.sleep(67)
        assert not informer.uses_watch_list

    assert events == [
        Added(kept, initial=True),
        Added(new),
        Deleted(new, final_state_unknown=True),
    ]
    assert set(cluster.asked) == {"list rv='' limit=500"}
    times = [time for time, _ in cluster.requests]
    assert all(54 <= b - a <= 66 for a, b in pairwise(times))


async def test_objects_without_versions_are_compared_by_what_they_hold():
    def measured(name, data):
        return widget(name, "", data=data)

    pages = [
        ListPage([measured("a", b"1"), measured("b", b"1")], ""),
        ListPage([measured("a", b"1"), measured("b", b"2")], ""),
    ]
    cluster = FakeCluster(answers=list(pages))
    events: list[ObjectEvent] = []

    async with running(cluster, poll_every_seconds=30) as informer:
        informer.add_handler(events.append)
        await informer.wait_synced(1)
        await asyncio.sleep(34)

    (update,) = events[2:]
    assert isinstance(update, Updated)
    assert (update.object.key.name, update.object.data, update.is_resync) == ("b", b"2", False)


async def test_a_list_that_fails_is_tried_again_sooner_than_the_next_poll():
    class Recorder(InformerObserver):
        def listed(self, resource_type, objects, reason):
            trace.append(f"listed {objects} {reason}")

        def failed(self, resource_type, error, retry_in_seconds):
            trace.append("failed")

        def recovered(self, resource_type):
            trace.append("recovered")

    trace: list[str] = []
    cluster = FakeCluster(answers=[ConnectionLostError("refused")])
    cluster.put("a")

    async with running(cluster, poll_every_seconds=3600, observer=Recorder()) as informer:
        await informer.wait_synced(2)
        assert informer.last_error is None
        await asyncio.sleep(4000)

    assert trace == ["failed", "recovered", "listed 1 initial", "listed 1 poll"]


async def test_polled_pages_are_put_together_and_asked_for_whole_when_they_expire():
    cluster = FakeCluster(page_size=2)
    for name in "abc":
        cluster.put(name)

    async with running(cluster, poll_every_seconds=30) as informer:
        await informer.wait_synced(1)
        assert len(informer.lister) == 3
        cluster.answers = [ListPage([], "9", "token"), ExpiredError(410, "Expired")]
        await asyncio.sleep(34)
        assert len(informer.lister) == 3

    assert [request.partition(" ")[2] for request in cluster.asked] == [
        "rv='' limit=500",
        "continue=2@13",
        "rv='' limit=500",
        "continue=token",
        "rv='' limit=0",
    ]


async def test_a_polled_type_that_is_forbidden_can_end_its_informer():
    forbidden = ListWatchError(403, "Forbidden", "no")
    informer = SharedInformer(
        FakeCluster(answers=[forbidden]), poll_every_seconds=5, fail_when_forbidden=True
    )

    with pytest.raises(AccessDeniedError, match=r"lab\.test/v1 Widget: 403 Forbidden"):
        await informer.run()


def test_a_time_between_polls_has_to_be_positive():
    with pytest.raises(ValueError, match="poll_every_seconds=-1: must be positive"):
        SharedInformer(FakeCluster(), poll_every_seconds=-1)
