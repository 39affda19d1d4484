import asyncio

import pytest
import structlog
from structlog.testing import capture_logs

from dynamo_operator.runtime.enqueue import enqueue_self
from dynamo_operator.runtime.predicates import generation_changed, label_selector
from dynamo_operator.runtime.sources import Channel, InformerSource, enqueue_handler
from informers.events import Added, Deleted, Updated
from informers.objects import ObjectKey, ResourceType
from informers.work_queue import Priority, WorkQueue
from tests.dynamo_operator.runtime.objects import cached
from tests.informers.fake_cluster import FakeCluster, running

WIDGET = ResourceType("lab.test", "v1", "Widget", "widgets")


class Sink:
    def __init__(self):
        self.taken = []

    def add(self, key, *, priority=Priority.NORMAL, trigger=None):
        self.taken.append((str(key), int(priority), str(trigger)))


def test_what_is_no_news_has_low_priority():
    sink = Sink()
    handle = enqueue_handler(sink, WIDGET, enqueue_self, ())
    first, second = cached(version=1), cached(version=2)

    for event in (
        Added(first, initial=True),
        Updated(first, first),
        Added(first),
        Updated(first, second),
        Deleted(second),
    ):
        handle(event)

    assert sink.taken == [
        ("lab/a", -100, "listed Widget lab/a"),
        ("lab/a", -100, "resync Widget lab/a"),
        ("lab/a", 0, "added Widget lab/a"),
        ("lab/a", 0, "updated Widget lab/a"),
        ("lab/a", 0, "deleted Widget lab/a"),
    ]


def test_the_priority_of_what_is_no_news_can_be_chosen():
    sink = Sink()
    handle = enqueue_handler(sink, WIDGET, enqueue_self, (), low_priority=-5)

    handle(Added(cached(), initial=True))
    handle(Added(cached()))

    assert [priority for _, priority, _ in sink.taken] == [-5, 0]


def test_a_watch_may_say_how_urgent_its_news_are():
    sink = Sink()
    handle = enqueue_handler(sink, WIDGET, enqueue_self, (), priority=100)

    handle(Added(cached(), initial=True))
    handle(Added(cached()))

    assert [priority for _, priority, _ in sink.taken] == [-100, 100]


def test_news_raises_the_priority_of_a_key_that_waits_since_the_first_list():
    queue: WorkQueue[ObjectKey] = WorkQueue()
    handle = enqueue_handler(queue, WIDGET, enqueue_self, ())
    first = cached("a", version=1)
    handle(Added(first, initial=True))
    handle(Added(cached("b", version=1), initial=True))
    assert queue.statistics().ready == {-100: 2}

    handle(Updated(first, cached("a", version=2)))

    assert queue.statistics().ready == {0: 1, -100: 1}
    item = queue.get_nowait()
    assert item is not None
    assert (item.key.name, item.priority) == ("a", 0)


def test_what_a_predicate_drops_is_counted_by_its_name():
    dropped: list[str] = []
    handle = enqueue_handler(
        Sink(),
        WIDGET,
        enqueue_self,
        [generation_changed, label_selector("never")],
        filtered=dropped.append,
    )
    obj = cached(generation=1)

    handle(Updated(obj, obj))
    handle(Added(obj))

    assert dropped == ["generation_changed", "label_selector"]


def test_a_configured_log_says_what_was_dropped_and_why():
    handle = enqueue_handler(Sink(), WIDGET, enqueue_self, [generation_changed])
    obj = cached(generation=1)

    with capture_logs() as entries:
        handle(Updated(obj, obj))
        assert structlog.is_configured()

    (entry,) = entries
    assert (entry["event"], entry["object"], entry["predicate"]) == (
        "event filtered",
        "lab/a",
        "generation_changed",
    )


def test_an_event_that_a_predicate_stops_is_not_mapped():
    sink, mapped = Sink(), []

    def enqueue(event):
        mapped.append(event)
        return [event.object.key]

    handle = enqueue_handler(sink, WIDGET, enqueue, [label_selector("a=1"), label_selector("b")])
    handle(Added(cached("no", labels={"b": ""})))
    handle(Added(cached("yes", labels={"a": "1", "b": ""})))

    assert [event.object.key.name for event in mapped] == ["yes"]
    assert [key for key, _, _ in sink.taken] == ["lab/yes"]


def test_a_channel_keeps_what_is_sent_before_a_controller_is_there():
    channel, first, second = Channel(), Sink(), Sink()
    early, late = ObjectKey("lab", "early"), ObjectKey("lab", "late")

    channel.send(early)
    channel.send(early, priority=Priority.HIGH)
    channel.attach(first)
    channel.attach(second)
    channel.send(late)
    channel.detach(second)
    channel.send(late)

    assert first.taken == [
        ("lab/early", 100, "channel"),
        ("lab/late", 0, "channel"),
        ("lab/late", 0, "channel"),
    ]
    assert second.taken == [("lab/late", 0, "channel")]


@pytest.mark.virtual_time
async def test_an_informer_of_ones_own_sends_what_it_holds_and_every_change():
    cluster, sink = FakeCluster(), Sink()
    cluster.put("a")

    async with running(cluster) as informer:
        source = InformerSource(informer, predicates=[label_selector("!quiet")])
        source.attach(sink)
        assert sink.taken == []
        await source.wait_synced()
        cluster.put("b")
        cluster.put("c", labels={"quiet": ""})
        await asyncio.sleep(1)
        source.detach(sink)
        cluster.put("d")
        await asyncio.sleep(1)
        assert informer.statistics().handlers == 0

    assert [key for key, _, _ in sink.taken] == ["ns/a", "ns/b"]


async def test_a_channel_has_nothing_to_wait_for():
    async with asyncio.timeout(1):
        await Channel().wait_synced()
