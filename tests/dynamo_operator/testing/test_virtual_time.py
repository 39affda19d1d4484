import asyncio
import socket
import time
from datetime import timedelta

import pytest

from dynamo_operator.testing.virtual_time import (
    START,
    DeadlockError,
    VirtualClock,
    VirtualTimeLoop,
    run,
)


@pytest.mark.virtual_time
async def test_a_marked_test_sleeps_for_a_day_in_no_time():
    started = time.monotonic()

    await asyncio.sleep(86_400)

    assert asyncio.get_running_loop().time() == pytest.approx(86_400)
    assert time.monotonic() - started < 1


async def test_an_unmarked_test_runs_on_real_time():
    assert not isinstance(asyncio.get_running_loop(), VirtualTimeLoop)


def test_timers_fire_in_the_order_of_their_times():
    trace = []

    async def sleeper(seconds):
        await asyncio.sleep(seconds)
        trace.append((asyncio.get_running_loop().time(), seconds))

    async def main():
        async with asyncio.TaskGroup() as group:
            for seconds in (3, 1, 2):
                group.create_task(sleeper(seconds))

    run(main())

    assert trace == [(1.0, 1), (2.0, 2), (3.0, 3)]


def test_a_wait_that_cannot_end_fails_and_names_the_waiting_tasks():
    async def waits_for_ever():
        await asyncio.Event().wait()

    async def main():
        async with asyncio.TaskGroup() as group:
            group.create_task(waits_for_ever(), name="the stuck one")

    with pytest.raises(DeadlockError, match=r"the stuck one \(.*waits_for_ever\) waits at .*:\d+"):
        run(main())


def test_tasks_are_cleaned_up_after_a_deadlock():
    trace = []

    async def main():
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(1)
            trace.append("cleaned up")

    with pytest.raises(DeadlockError):
        run(main())

    assert trace == ["cleaned up"]


def test_a_wait_that_periodic_timers_hide_fails_after_the_limit():
    async def main():
        for _ in range(10_000):
            await asyncio.sleep(10)

    with pytest.raises(DeadlockError, match="still not done after 3600 virtual seconds"):
        run(main(), limit_seconds=3600)


def test_threads_and_sockets_are_refused():
    async def use_a_thread():
        await asyncio.to_thread(time.sleep, 0)

    async def use_a_socket():
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            await asyncio.get_running_loop().sock_recv(ours, 1)

    with pytest.raises(RuntimeError, match="no threads on virtual time"):
        run(use_a_thread())
    with pytest.raises(RuntimeError, match="no sockets or pipes on virtual time"):
        run(use_a_socket())


def test_cancelled_children_of_a_task_group_end_in_the_order_they_were_started():
    trace = []

    async def child(number):
        try:
            await asyncio.sleep(100)
        finally:
            trace.append(number)

    async def fail():
        await asyncio.sleep(1)
        raise ValueError("over")

    async def main():
        async with asyncio.TaskGroup() as group:
            for number in range(50):
                group.create_task(child(number))
            group.create_task(fail())

    with pytest.raises(ExceptionGroup):
        run(main())

    assert trace == list(range(50))


def test_the_virtual_clock_is_the_loops_time():
    async def main():
        clock = VirtualClock()
        await asyncio.sleep(90)
        return clock.monotonic(), clock.now()

    assert run(main()) == (90.0, START + timedelta(seconds=90))
