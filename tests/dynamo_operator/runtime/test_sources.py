from dynamo_operator.runtime.enqueue import enqueue_self
from dynamo_operator.runtime.predicates import label_selector
from dynamo_operator.runtime.sources import Channel, enqueue_handler
from informers.events import Added, Deleted, Updated
from informers.objects import ObjectKey, ResourceType
from informers.work_queue import Priority
from tests.dynamo_operator.runtime.objects import cached

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
