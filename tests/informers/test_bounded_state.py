"""Nothing is kept of objects that are gone, however many there were."""

import gc
import tracemalloc

import pytest

from informers.indexers import BY_NAMESPACE, BY_OWNER_UID, by_label
from informers.objects import ObjectKey
from informers.rate_limiters import ItemExponential
from informers.store import Store
from informers.work_queue import WorkQueue
from tests.informers.fake_cluster import added, deleted, modified

pytestmark = pytest.mark.virtual_time


class Machinery:
    """A store and a queue, driven as a controller does."""

    def __init__(self):
        self.store = Store([BY_NAMESPACE, BY_OWNER_UID, by_label("app")])
        self.limiter = ItemExponential[ObjectKey]()
        self.queue = WorkQueue[ObjectKey](rate_limiter=self.limiter)
        self._version = 0

    def live(self, name):
        """One object from its creation to its deletion, with a failure in between."""
        for kind in (added, modified, modified, deleted):
            self._version += 1
            labels = {"app": f"{name}-{self._version % 3}"}
            change = self.store.apply(kind(name, self._version, labels=labels, owner_uid=name))
            assert change is not None
            self.queue.add(change.object.key)
            self._work(fails=kind is added)

    def _work(self, *, fails):
        while (item := self.queue.get_nowait()) is not None:
            if fails:
                self.queue.add(item.key, rate_limited=True)
            else:
                self.queue.forget(item.key)
            self.queue.done(item.key)


async def test_nothing_is_left_of_objects_that_came_and_went():
    machinery = Machinery()
    for number in range(500):
        machinery.live(f"object-{number}")

    statistics = machinery.queue.statistics()
    contents = machinery.store._contents
    assert (len(machinery.queue), statistics.waiting, statistics.processing) == (0, 0, 0)
    assert machinery.limiter._failures == {}
    assert (contents.objects, contents.data_bytes) == ({}, 0)
    assert [table.keys for table in contents.indexes.values()] == [{}] * 3


async def test_memory_does_not_grow_with_the_number_of_events():
    machinery = Machinery()

    def churn(events):
        for number in range(events // 4):
            machinery.live(f"object-{number % 100}")

    churn(2_000)
    tracemalloc.start()
    try:
        churn(400)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        churn(8_000)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()

    assert grown < 10_000  # bytes, where the 8,000 events had megabytes
