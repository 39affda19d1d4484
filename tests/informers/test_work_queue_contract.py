"""What controllers rely on that a queue does, step by step."""

import asyncio
from itertools import pairwise

import pytest

from informers.clock import SystemClock
from informers.errors import QueueShutDownError
from informers.observers import QueueObserver
from informers.rate_limiters import ItemExponential, MaxOf, TokenBucket
from informers.work_queue import Priority, WorkQueue

pytestmark = pytest.mark.virtual_time


def taken(queue):
    """Take all that is ready, as keys; nothing is marked done."""
    return [item.key for item in iter(queue.get_nowait, None)]


def counts(queue):
    statistics = queue.statistics()
    return len(queue), statistics.waiting, statistics.parked, statistics.processing


async def test_a_get_moves_a_key_from_ready_to_processing():
    queue = WorkQueue[str]()
    queue.add("a")
    assert counts(queue) == (1, 0, 0, 0)

    await queue.get()

    assert counts(queue) == (0, 0, 0, 1)


async def test_done_without_an_add_in_between_brings_nothing():
    queue = WorkQueue[str]()
    queue.add("a")
    await queue.get()

    queue.done("a")

    assert counts(queue) == (0, 0, 0, 0)


async def test_a_key_that_done_brings_back_goes_behind_those_that_wait():
    queue = WorkQueue[str]()
    for key in "abc":
        queue.add(key)
    await queue.get()

    queue.add("a")
    queue.done("a")

    assert taken(queue) == ["b", "c", "a"]


async def test_a_key_added_while_it_is_processed_is_dropped_by_the_shutdown():
    queue = WorkQueue[str]()
    queue.add("a")
    await queue.get()
    queue.add("a")

    queue.shut_down()
    queue.done("a")

    assert queue.get_nowait() is None
    assert counts(queue) == (0, 0, 0, 0)


async def test_waiting_until_drained_takes_as_long_as_work_is_missing_its_done():
    queue = WorkQueue[str]()
    queue.add("a")
    await queue.get()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3600):
            await queue.wait_drained()
    queue.done("a")

    await queue.wait_drained()


@pytest.mark.parametrize("options", [{"after": 5}, {"after": 0}, {"rate_limited": True}])
async def test_adds_after_the_shutdown_are_nothing_and_charge_no_failure(options):
    queue = WorkQueue[str]()
    queue.shut_down()

    queue.add("a", **options)
    await asyncio.sleep(10)

    assert counts(queue) == (0, 0, 0, 0)
    assert queue.retries("a") == 0


async def test_the_burst_of_a_bucket_passes_and_then_keys_wait_a_tenth_of_a_second_each():
    bucket = TokenBucket[int](SystemClock(), rate=10, burst=100)
    queue = WorkQueue[int](rate_limiter=MaxOf(ItemExponential(), bucket))
    for key in range(110):
        queue.add(key, rate_limited=True)

    came = []
    for _ in range(110):
        await queue.get()
        came.append(asyncio.get_running_loop().time())

    assert came[:100] == [0.005] * 100
    assert came[100] == pytest.approx(0.1)
    assert [b - a for a, b in pairwise(came[100:])] == pytest.approx([0.1] * 9)


async def test_without_a_bucket_keys_that_fail_together_wait_only_for_themselves():
    queue = WorkQueue[int]()
    for key in range(500):
        queue.add(key, rate_limited=True)

    await asyncio.sleep(0.005)

    assert len(queue) == 500


async def test_retries_are_the_adds_with_a_delay():
    class Counter(QueueObserver):
        def retried(self):
            retried.append(1)

    retried: list[int] = []
    queue = WorkQueue[str](observer=Counter())

    queue.add("now")
    queue.add("now", after=0)
    assert retried == []
    queue.add("a", after=5)
    queue.add("a", rate_limited=True)
    queue.add("now", rate_limited=True)

    assert len(retried) == 3


async def test_a_priority_that_is_left_out_raises_a_low_one_and_never_lowers_a_high_one():
    queue = WorkQueue[str]()
    queue.add("event", priority=Priority.NORMAL)
    queue.add("listed", priority=Priority.LOW)
    queue.add("urgent", priority=Priority.HIGH)

    queue.add("listed")
    queue.add("urgent")
    queue.add("event", priority=Priority.LOW)

    assert taken(queue) == ["urgent", "event", "listed"]


async def test_a_scheduled_key_that_an_event_adds_comes_once():
    queue = WorkQueue[str]()
    queue.add("a", after=30, priority=Priority.LOW)
    queue.add("a")

    item = await queue.get()
    queue.done(item.key)
    await asyncio.sleep(60)

    assert item.priority == Priority.NORMAL
    assert queue.get_nowait() is None


async def test_a_key_in_progress_holds_up_no_other():
    queue = WorkQueue[str]()
    queue.add("a", priority=Priority.HIGH)
    await queue.get()
    queue.add("a", priority=Priority.HIGH)
    queue.add("b", priority=Priority.LOW)

    assert taken(queue) == ["b"]
    queue.done("a")
    assert taken(queue) == ["a"]


async def test_a_delayed_key_of_high_priority_holds_up_no_ready_one():
    queue = WorkQueue[str]()
    queue.add("later", after=5, priority=Priority.HIGH)
    queue.add("now", priority=Priority.LOW)

    assert taken(queue) == ["now"]


async def test_an_item_tells_the_priority_it_was_raised_to():
    queue = WorkQueue[str]()
    queue.add("a", priority=Priority.LOW)
    queue.add("a", priority=7)
    queue.add("a", priority=3)

    assert (await queue.get()).priority == 7


async def test_what_was_ready_earlier_goes_first_within_a_priority():
    queue = WorkQueue[str]()
    queue.add("second", after=2)
    queue.add("first", after=1)
    queue.add("urgent", after=3, priority=Priority.HIGH)
    await asyncio.sleep(5)

    assert taken(queue) == ["urgent", "first", "second"]


async def test_every_aged_level_gets_its_share():
    queue = WorkQueue[str](ageing_seconds=10, aged_share=2)
    queue.add("low", priority=Priority.LOW)
    queue.add("lower", priority=Priority.LOW - 1)
    await asyncio.sleep(11)
    for n in range(6):
        queue.add(str(n))

    assert taken(queue) == ["0", "low", "1", "lower", "2", "3", "4", "5"]


async def test_a_share_of_less_than_one_turn_is_refused():
    with pytest.raises(ValueError, match="aged_share=0: must be at least 1"):
        WorkQueue[str](aged_share=0)


async def test_a_shutdown_may_be_repeated_and_says_so_to_whoever_waits():
    queue = WorkQueue[str]()
    queue.shut_down()
    queue.shut_down()

    assert queue.statistics().is_shut_down
    with pytest.raises(QueueShutDownError):
        await queue.get()
