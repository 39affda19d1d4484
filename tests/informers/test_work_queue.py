import asyncio
import math

import pytest

from informers.errors import QueueShutDownError
from informers.objects import ObjectKey
from informers.observers import QueueObserver
from informers.work_queue import Priority, QueueItem, Trigger, WorkQueue
from tests.informers.fake_cluster import WIDGETS

pytestmark = pytest.mark.virtual_time


def taken(queue):
    """Take all that is ready, as keys; nothing is marked done."""
    items = iter(queue.get_nowait, None)
    return [item.key for item in items]


def now():
    return asyncio.get_running_loop().time()


async def test_keys_come_once_each_in_the_order_of_their_first_add():
    queue = WorkQueue[str]()
    for key in ("a", "b", "a", "c", "b"):
        queue.add(key)

    assert len(queue) == 3
    assert taken(queue) == ["a", "b", "c"]


async def test_a_key_added_while_it_is_processed_comes_once_more_after_done_and_last():
    queue = WorkQueue[str]()
    queue.add("a")
    assert taken(queue) == ["a"]

    queue.add("a")
    queue.add("b")
    queue.add("a")
    assert len(queue) == 1
    assert queue.statistics().parked == 1
    queue.done("a")

    assert taken(queue) == ["b", "a"]
    queue.done("a")
    assert taken(queue) == []


async def test_done_is_for_keys_that_were_handed_out():
    queue = WorkQueue[str]()
    queue.add("a")

    with pytest.raises(ValueError, match=r"done\(a\): it is not being processed"):
        queue.done("a")
    queue.get_nowait()
    queue.done("a")
    with pytest.raises(ValueError, match="not being processed"):
        queue.done("a")


async def test_many_workers_never_share_a_key():
    queue = WorkQueue[str]()
    busy: set[str] = set()
    processed: dict[str, int] = {}

    async def worker():
        while True:
            try:
                item = await queue.get()
            except QueueShutDownError:
                return
            assert item.key not in busy
            busy.add(item.key)
            await asyncio.sleep(0.01)
            processed[item.key] = processed.get(item.key, 0) + 1
            busy.discard(item.key)
            queue.done(item.key)

    async with asyncio.TaskGroup() as group:
        for _ in range(8):
            group.create_task(worker())
        for round_ in range(100):
            for key in ("a", "b", "c"):
                queue.add(key)
            await asyncio.sleep(0.001 * (round_ % 3))
        await asyncio.sleep(1)
        queue.shut_down()

    assert set(processed) == {"a", "b", "c"}
    assert all(count > 5 for count in processed.values())


async def test_a_delayed_key_is_neither_counted_nor_handed_out_before_its_time():
    queue = WorkQueue[str]()
    queue.add("a", after=5)

    assert len(queue) == 0
    assert queue.statistics().waiting == 1
    item = await queue.get()

    assert (item.key, now()) == ("a", 5)


@pytest.mark.parametrize("after", [0, -1.0])
async def test_a_delay_of_nothing_is_no_delay(after):
    queue = WorkQueue[str]()
    queue.add("a", after=after)

    assert taken(queue) == ["a"]


@pytest.mark.parametrize("after", [math.inf, math.nan, -math.inf])
async def test_a_delay_that_is_no_number_of_seconds_is_refused(after):
    queue = WorkQueue[str]()

    with pytest.raises(ValueError, match="must be a finite number of seconds"):
        queue.add("a", after=after)


@pytest.mark.parametrize(("first", "second", "due"), [(5, 2, 2), (2, 5, 2)])
async def test_of_two_delays_the_shorter_counts_and_the_key_comes_once(first, second, due):
    queue = WorkQueue[str]()
    queue.add("a", after=first)
    queue.add("a", after=second)

    item = await queue.get()
    assert now() == due
    queue.done(item.key)
    await asyncio.sleep(10)

    assert taken(queue) == []


async def test_an_immediate_add_consumes_the_delayed_one():
    queue = WorkQueue[str]()
    queue.add("a", after=5)
    queue.add("a")

    assert taken(queue) == ["a"]
    queue.done("a")
    await asyncio.sleep(10)
    assert taken(queue) == []


async def test_a_ready_key_stays_ready_when_it_is_added_with_a_delay():
    queue = WorkQueue[str]()
    queue.add("a")
    queue.add("a", after=5)

    assert taken(queue) == ["a"]
    assert queue.statistics().waiting == 0


async def test_a_key_whose_delay_ends_while_it_is_processed_waits_for_done():
    queue = WorkQueue[str]()
    queue.add("a")
    await queue.get()
    queue.add("a", after=1)
    await asyncio.sleep(2)
    assert taken(queue) == []

    queue.done("a")

    assert taken(queue) == ["a"]


async def test_a_failing_keys_delay_doubles_until_it_is_forgotten():
    queue = WorkQueue[str]()
    delays = []

    async def fail_once():
        before = now()
        queue.add("a", rate_limited=True)
        item = await queue.get()
        delays.append(round(now() - before, 6))
        queue.done("a")
        return item.attempts

    attempts = [await fail_once() for _ in range(4)]
    assert queue.retries("a") == 4
    queue.forget("a")
    attempts.append(await fail_once())

    assert delays == [0.005, 0.01, 0.02, 0.04, 0.005]
    assert attempts == [2, 3, 4, 5, 2]


async def test_with_both_delays_the_shorter_counts_and_the_failure_too():
    queue = WorkQueue[str]()
    queue.add("a", rate_limited=True, after=60)
    queue.add("b", rate_limited=True, after=0.001)

    items = [await queue.get() for _ in range(2)]

    assert [item.key for item in items] == ["b", "a"]
    assert now() == pytest.approx(0.005)
    assert (queue.retries("a"), queue.retries("b")) == (1, 1)


async def test_forgetting_a_key_does_not_unqueue_it():
    queue = WorkQueue[str]()
    queue.add("a")
    queue.add("b", after=1)

    queue.forget("a")
    queue.forget("b")

    assert taken(queue) == ["a"]
    assert (await queue.get()).key == "b"


async def test_higher_priorities_go_first_and_equal_ones_in_order():
    queue = WorkQueue[str]()
    queue.add("l", priority=Priority.LOW)
    queue.add("n1")
    queue.add("h", priority=Priority.HIGH)
    queue.add("n2")
    queue.add("odd", priority=7)

    assert taken(queue) == ["h", "odd", "n1", "n2", "l"]


async def test_raising_a_priority_moves_a_key_behind_its_new_level_and_nothing_lowers_it():
    queue = WorkQueue[str]()
    queue.add("a", priority=Priority.LOW)
    queue.add("b")
    queue.add("a")
    queue.add("c")
    queue.add("b", priority=Priority.LOW)

    items = list(iter(queue.get_nowait, None))

    assert [(item.key, item.priority) for item in items] == [("b", 0), ("a", 0), ("c", 0)]


async def test_a_delayed_keys_priority_is_raised_without_hurrying_it():
    queue = WorkQueue[str]()
    queue.add("a", after=5, priority=Priority.LOW)
    queue.add("a", after=9, priority=Priority.HIGH)
    queue.add("b")

    assert taken(queue) == ["b"]
    item = await queue.get()
    assert (item.key, item.priority, now()) == ("a", Priority.HIGH, 5)


async def test_keys_that_become_ready_together_go_by_priority_then_by_the_order_of_adding():
    queue = WorkQueue[str]()
    queue.add("a", after=5)
    queue.add("b", after=5, priority=Priority.HIGH)
    queue.add("c", after=5)
    queue.add("early", after=4)
    await asyncio.sleep(6)

    assert taken(queue) == ["b", "early", "a", "c"]


async def test_low_priority_keys_get_their_share_of_a_busy_queue_once_they_have_aged():
    queue = WorkQueue[str](ageing_seconds=30)
    for n in range(3):
        queue.add(f"low{n}", priority=Priority.LOW)
    served = []

    for n in range(400):
        queue.add(f"event{n}")
        item = await queue.get()
        await asyncio.sleep(0.125)
        queue.done(item.key)
        if item.priority == Priority.LOW:
            served.append((n, item.key))
        queue.add("another", priority=Priority.HIGH)

    assert [key for _, key in served] == ["low0", "low1", "low2"]
    assert [n for n, _ in served] == [241, 246, 251]


async def test_priorities_are_strict_when_nothing_ages():
    queue = WorkQueue[str](ageing_seconds=math.inf)
    queue.add("low", priority=Priority.LOW)
    await asyncio.sleep(1e6)
    for n in range(10):
        queue.add(str(n))

    assert taken(queue)[-1] == "low"


async def test_a_cancelled_get_loses_no_item():
    queue = WorkQueue[str]()

    async def take():
        return (await queue.get()).key

    async with asyncio.TaskGroup() as group:
        first = group.create_task(take())
        second = group.create_task(take())
        await asyncio.sleep(1)
        queue.add("a")
        first.cancel()
        assert await second == "a"

    assert first.cancelled()


async def test_a_get_that_is_cancelled_by_a_timeout_leaves_the_queue_as_it_was():
    queue = WorkQueue[str]()
    for _ in range(3):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await queue.get()

    queue.add("a")

    assert (await queue.get()).key == "a"


async def test_a_shutdown_wakes_every_get_drops_what_is_queued_and_ignores_adds():
    queue = WorkQueue[str]()
    outcomes = []

    async def take():
        try:
            await queue.get()
        except QueueShutDownError:
            outcomes.append("shut down")

    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(take())
        await asyncio.sleep(1)
        queue.add("later", after=5)
        queue.shut_down()
        queue.shut_down()
        queue.add("a")

    assert outcomes == ["shut down"] * 3
    assert queue.get_nowait() is None
    assert queue.statistics().waiting == 0
    with pytest.raises(QueueShutDownError):
        await queue.get()


async def test_a_shutdown_that_meets_a_hand_out_ends_it():
    queue = WorkQueue[str]()

    async def take():
        with pytest.raises(QueueShutDownError):
            await queue.get()

    async with asyncio.TaskGroup() as group:
        group.create_task(take())
        await asyncio.sleep(1)
        queue.add("a")
        queue.shut_down()


async def test_work_that_was_handed_out_ends_after_the_shutdown_and_can_be_waited_for():
    queue = WorkQueue[str]()
    queue.add("a")
    await queue.get()
    queue.add("a")
    queue.shut_down()

    async def work():
        await asyncio.sleep(3)
        queue.done("a")

    async with asyncio.TaskGroup() as group:
        group.create_task(work())
        await queue.wait_drained()

    assert now() == 3
    await queue.wait_drained()


async def test_an_item_says_why_it_was_queued_and_that_is_no_part_of_its_identity():
    event = Trigger("updated", WIDGETS, ObjectKey("ns", "a"))
    queue = WorkQueue[str]()
    queue.add("a", after=5, trigger=Trigger("requeue"))
    queue.add("a", trigger=event)
    queue.add("a", trigger=Trigger("resync"))

    item = await queue.get()

    assert str(item.trigger) == "updated Widget ns/a"
    assert str(Trigger("requeue")) == "requeue"
    assert item == QueueItem("a")
    assert hash(item) == hash(QueueItem("a", priority=3, attempts=9))


async def test_statistics_are_a_snapshot():
    queue = WorkQueue[str]()
    queue.add("a")
    await queue.get()
    await asyncio.sleep(2)
    queue.add("b")
    queue.add("c", priority=Priority.LOW)
    queue.add("d", after=60)
    queue.add("a")
    await asyncio.sleep(3)

    statistics = queue.statistics()

    assert statistics.ready == {0: 1, -100: 1}
    assert statistics.oldest_ready_seconds == {0: 3, -100: 3}
    assert (statistics.waiting, statistics.parked, statistics.processing) == (1, 1, 1)
    assert statistics.longest_processing_seconds == statistics.unfinished_seconds == 5
    assert not statistics.is_shut_down


async def test_observers_are_told_of_every_step():
    class Recorder(QueueObserver):
        def depth_changed(self, priority, depth):
            trace.append(f"depth {priority} {depth}")

        def added(self):
            trace.append("added")

        def retried(self):
            trace.append("retried")

        def taken(self, waited_seconds):
            trace.append(f"taken {waited_seconds}")

        def finished(self, worked_seconds):
            trace.append(f"finished {worked_seconds}")

    trace: list[str] = []
    queue = WorkQueue[str](observer=Recorder())
    queue.add("a", after=1, priority=Priority.LOW)
    await asyncio.sleep(3)
    queue.add("a")
    await queue.get()
    await asyncio.sleep(4)
    queue.done("a")

    assert trace == [
        "retried",
        "depth -100 1",
        "added",
        "depth -100 0",
        "depth 0 1",
        "depth 0 0",
        "taken 2.0",
        "finished 4.0",
    ]


async def test_re_adding_a_delayed_key_for_ever_keeps_the_memory_bounded():
    queue = WorkQueue[int]()
    for n in range(10_000):
        queue.add(n % 10, after=1e6 - n)

    assert len(queue._delayed) < 200
    assert queue.statistics().waiting == 10
