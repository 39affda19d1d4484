"""Random programs: the queue against a simple model, the informer against the server."""

import asyncio
import math
from dataclasses import dataclass, field
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from dynamo_operator.testing.virtual_time import run
from informers.errors import ConnectionLostError, ExpiredError, ListWatchError
from informers.events import Added, Deleted, ObjectEvent, Updated
from informers.indexers import BY_NAMESPACE, BY_OWNER_UID, by_label
from informers.objects import CachedObject, ObjectKey
from informers.work_queue import WorkQueue
from tests.informers.fake_cluster import FakeCluster, running


@dataclass
class ModelQueue:
    """The queue's rules, by search instead of by structure."""

    time: float = 0.0
    stamps: count = field(default_factory=count)  # type: ignore[type-arg]  # of integers
    pending: dict[str, list] = field(default_factory=dict)  # type: ignore[type-arg]  # priority, due, stamp
    processing: list[str] = field(default_factory=list)

    def add(self, key, priority, after):
        due = self.time + after
        if key not in self.pending:
            self.pending[key] = [priority, due, next(self.stamps)]
            return
        entry = self.pending[key]
        is_ready = entry[1] <= self.time
        if priority > entry[0]:
            entry[0] = priority
            if is_ready:
                entry[2] = next(self.stamps)
        if not is_ready and due < entry[1]:
            entry[1:] = [due, next(self.stamps)]

    def advance(self, seconds):
        end = self.time + seconds
        waiting = [e for e in self.pending.values() if self.time < e[1] <= end]
        for entry in sorted(waiting, key=lambda e: (e[1], e[2])):
            entry[2] = next(self.stamps)
        self.time = end

    def take(self):
        ready = [
            (-priority, stamp, key)
            for key, (priority, due, stamp) in self.pending.items()
            if due <= self.time and key not in self.processing
        ]
        if not ready:
            return None
        priority, _, key = min(ready)
        del self.pending[key]
        self.processing.append(key)
        return key, -priority

    def done(self, key):
        self.processing.remove(key)
        if key in self.pending and self.pending[key][1] <= self.time:
            self.pending[key][2] = next(self.stamps)


KEYS = st.sampled_from("abcd")
QUEUE_STEPS = st.one_of(
    st.tuples(
        st.just("add"), KEYS, st.sampled_from([-100, 0, 0, 7]), st.sampled_from([0, 0, 1, 2, 3, 5])
    ),
    st.just(("take",)),
    st.tuples(st.just("done"), st.integers(0, 3)),
    st.tuples(st.just("advance"), st.sampled_from([1, 2, 4])),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(QUEUE_STEPS, max_size=40))
def test_the_queue_follows_its_model(steps):
    async def program():
        queue = WorkQueue[str](ageing_seconds=math.inf)
        model = ModelQueue()
        for step in [*steps, ("advance", 10), *[("take",)] * 5]:
            match step:
                case "add", key, priority, after:
                    queue.add(key, priority=priority, after=after)
                    model.add(key, priority, after)
                case "take", *_:
                    item = queue.get_nowait()
                    assert (item and (item.key, item.priority)) == model.take()
                case "done", place if place < len(model.processing):
                    key = model.processing[place]
                    queue.done(key)
                    model.done(key)
                case "advance", seconds:
                    await asyncio.sleep(seconds)
                    await asyncio.sleep(0)
                    model.advance(seconds)
            statistics = queue.statistics()
            waiting = [e for e in model.pending.values() if e[1] > model.time]
            assert statistics.waiting == len(waiting)
            assert statistics.processing == len(model.processing)
            assert len(queue) + statistics.parked + len(waiting) == len(model.pending)

    run(program())


NAMES = st.sampled_from(["a", "b", "c"])
FAULTS = st.sampled_from(
    [
        ConnectionLostError("reset"),
        ListWatchError(500, "InternalError"),
        ListWatchError(429, "TooManyRequests", retry_after_seconds=1),
        ExpiredError(410, "Expired"),
        ListWatchError(403, "Forbidden"),
    ]
)
CLUSTER_STEPS = st.one_of(
    st.tuples(st.just("put"), NAMES, st.sampled_from(["u", "v"])),
    st.tuples(st.just("recreate"), NAMES),
    st.tuples(st.just("remove"), NAMES),
    st.tuples(st.just("break"), FAULTS),
    st.tuples(st.just("refuse"), FAULTS),
    st.just(("close",)),
    st.just(("stall",)),
    st.just(("compact",)),
    st.just(("join",)),
    st.tuples(st.just("wait"), st.sampled_from([0, 0.5, 2, 100])),
)


class Replay:
    """A handler that checks each event against what it heard before."""

    def __init__(self) -> None:
        self.objects: dict[ObjectKey, CachedObject] = {}

    def __call__(self, event: ObjectEvent) -> None:
        key = event.object.key
        match event:
            case Added():
                assert key not in self.objects
                self.objects[key] = event.object
            case Updated():
                assert self.objects[key] == event.old != event.object
                self.objects[key] = event.object
            case Deleted():
                assert self.objects.pop(key).uid == event.object.uid


def disturb(cluster, step, uids):
    match step:
        case "put", name, owner:
            present = cluster.objects.get(ObjectKey("ns", name))
            uid = present.uid if present else f"uid-{next(uids)}"
            cluster.put(name, uid=uid, owner_uid=owner, labels={"owner": owner})
        case "recreate", name:
            disturb(cluster, ("remove", name), uids)
            disturb(cluster, ("put", name, "u"), uids)
        case "remove", name if ObjectKey("ns", name) in cluster.objects:
            cluster.remove(name)
        case "break", fault:
            cluster.break_streams(fault)
        case "refuse", fault:
            cluster.answers.append(fault)
        case "close", *_:
            cluster.close_streams()
        case "stall", *_:
            cluster.streams.clear()
        case "compact", *_:
            cluster.compact()


@settings(max_examples=150, deadline=None)
@given(
    steps=st.lists(CLUSTER_STEPS, max_size=30),
    watch_list=st.booleans(),
    page_size=st.sampled_from([0, 2]),
)
def test_after_any_disturbance_copy_and_handlers_agree_with_the_server(
    steps, watch_list, page_size
):
    async def program():
        cluster = FakeCluster(watch_list=watch_list, page_size=page_size)
        cluster.put("a", owner_uid="u", labels={"owner": "u"})
        uids = count()
        replays = [Replay()]
        indexes = [BY_NAMESPACE, BY_OWNER_UID, by_label("owner")]
        async with running(cluster, indexes=indexes) as informer:
            registrations = [informer.add_handler(replays[0])]
            for step in steps:
                if step[0] == "wait":
                    await asyncio.sleep(step[1])
                elif step[0] == "join":
                    replays.append(Replay())
                    registrations.append(informer.add_handler(replays[-1]))
                else:
                    disturb(cluster, step, uids)
            await asyncio.sleep(700)

            lister = informer.lister
            assert {obj.key: obj for obj in lister.list()} == cluster.objects
            assert all(replay.objects == cluster.objects for replay in replays)
            assert [registration.failures for registration in registrations] == [0] * len(replays)
            for owner in ("u", "v"):
                owned = [o for o in lister.list() if o.labels.get("owner") == owner]
                assert lister.by_index(BY_OWNER_UID, owner) == owned
                assert lister.by_index("label:owner", owner) == owned
            assert lister.by_index(BY_NAMESPACE, "ns") == lister.list()

    run(program())
