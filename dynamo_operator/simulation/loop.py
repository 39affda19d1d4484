"""The event loop of a simulation: who goes on next is a decision, and a killed process never does.

It differs from asyncio's in three ways. Time is virtual, as in `VirtualTimeLoop`. Of the callbacks
that are ready, a `Schedule` picks the next one. And every task belongs to the simulated process in
whose context it was made: nothing of a process that is dead is run again, not even a `finally`;
what is due in a paused process waits until it goes on.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from asyncio import Handle, TimerHandle
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import Context, ContextVar
from typing import Any, Protocol, TypeVarTuple

from dynamo_operator.simulation.decisions import Schedule
from dynamo_operator.testing.virtual_time import DeadlockError, NumberedTask, VirtualTimeLoop

Ts = TypeVarTuple("Ts")

STEP_LIMIT = 500_000


class Fate(Protocol):
    """What a loop has to know of a process."""

    is_dead: bool
    is_paused: bool

    def park(self, handle: Handle) -> None:
        """Keep what may not run now: until the process goes on, or to the end of the run."""


PROCESS: ContextVar[Fate | None] = ContextVar("process", default=None)
"""The simulated process that the running code is part of; None for the world around them."""


class SimulationLoop(VirtualTimeLoop):
    """Runs one ready callback after the other, in an order that a schedule decides.

    Args:
        schedule: picks among those that are ready; None: first come, first served.
        limit_seconds: of virtual time after which a run that still goes on fails.
        limit_steps: how many callbacks a run may have.
    """

    _ready: deque[Handle]
    _scheduled: list[TimerHandle]
    _stopping: bool
    _timer_cancelled_count: int

    def __init__(
        self,
        schedule: Schedule | None = None,
        *,
        limit_seconds: float,
        limit_steps: int = STEP_LIMIT,
    ) -> None:
        super().__init__(limit_seconds=limit_seconds)
        self.steps = 0
        self._schedule = schedule
        self._limit_steps = limit_steps
        self._is_over = False
        self.set_task_factory(_task_factory())

    def finish(self) -> None:
        """Let nothing happen any more: what is still there is only to be thrown away."""
        self._is_over = True

    def go_on(self, handles: Iterable[Handle]) -> None:
        """Make ready again what was parked."""
        self._ready.extend(handles)

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> Handle:
        """Call soon: there are no other threads."""
        return self.call_soon(callback, *args, context=context)

    def _asyncgen_finalizer_hook(self, agen: Any) -> None:
        if not self._is_over:
            super()._asyncgen_finalizer_hook(agen)  # type: ignore[misc]

    def _run_once(self) -> None:
        """Run callbacks until the loop is to stop."""
        ready, timers, schedule = self._ready, self._scheduled, self._schedule
        while not self._stopping:
            now = self._now
            while timers and timers[0].when() <= now:
                self._take_timer()
            if not ready:
                self._wait_for_timer()
                continue
            if schedule is None or len(ready) == 1:
                handle = ready.popleft()
            else:
                position = schedule.pick(ready)
                handle = ready[position]
                del ready[position]
            if handle._cancelled:
                continue
            process = handle._context.get(PROCESS)  # type: ignore[attr-defined]
            if process is not None and (process.is_dead or process.is_paused):
                process.park(handle)
                continue
            self.steps += 1
            if self.steps > self._limit_steps:
                self._limit_steps *= 2  # what cleans up may still take its steps
                raise DeadlockError(f"still not done after {self.steps - 1} steps")
            handle._run()

    def _take_timer(self) -> None:
        timer = heapq.heappop(self._scheduled)
        timer._scheduled = False  # type: ignore[attr-defined]
        if timer._cancelled:
            self._timer_cancelled_count -= 1
        else:
            self._ready.append(timer)

    def _wait_for_timer(self) -> None:
        timers = self._scheduled
        while timers and timers[0]._cancelled:
            self._take_timer()
        if not timers:
            self._jump(None)
        when = timers[0].when()
        self._jump(when - self._now)
        self._now = max(self._now, when)


class SimulatedTask(NumberedTask[Any]):
    """A task that knows the process it is part of."""

    def __init__(self, number: int, coro: Any, **options: Any) -> None:
        context = options.get("context")
        self.process: Fate | None = PROCESS.get() if context is None else context.get(PROCESS)
        super().__init__(number, coro, **options)


def _task_factory() -> Callable[..., asyncio.Task[Any]]:
    numbers = itertools.count()

    def make(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
        return SimulatedTask(next(numbers), coro, loop=loop, **options)

    return make
