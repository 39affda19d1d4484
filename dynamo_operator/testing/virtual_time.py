"""An event loop whose time jumps to the next timer when nothing is ready.

An hour of backoff takes milliseconds, and a test that waits for something that cannot happen fails
at once, naming the tasks that wait. Such a loop has no sockets, threads or subprocesses: a timer is
all that it could wait for.

Example:
    >>> async def sleep_an_hour() -> float:
    ...     await asyncio.sleep(3600)
    ...     return asyncio.get_running_loop().time()
    >>> run(sleep_an_hour())
    3600.0

`asyncio.Runner(loop_factory=VirtualTimeLoop)` gives the same step by step, and a test marked
`virtual_time` runs on such a loop.
"""

from __future__ import annotations

import asyncio
import itertools
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

START = datetime(2030, 1, 1, tzinfo=UTC)
LIMIT_SECONDS = 30 * 24 * 3600.0


class DeadlockError(RuntimeError):
    """No task can ever go on, or nothing but timers went on for `limit_seconds`."""


class VirtualClock:
    """The clock of the running virtual-time loop: `now()` is `START` at the loop's time zero."""

    def monotonic(self) -> float:
        """Return the running loop's time."""
        return asyncio.get_running_loop().time()

    def now(self) -> datetime:
        """Return the virtual wall clock in UTC."""
        return START + timedelta(seconds=self.monotonic())


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop on virtual time, which starts at zero.

    Tasks hash by the order of their creation, so that sets of them (a TaskGroup's) iterate in the
    same order in every run.

    Args:
        limit_seconds: virtual time after which a run that still goes on fails: periodic timers
            would otherwise hide that what is waited for never comes.
    """

    def __init__(self, *, limit_seconds: float = LIMIT_SECONDS) -> None:
        self._now = 0.0
        self._limit_step = limit_seconds
        self._limit = limit_seconds
        super().__init__(_JumpingSelector(self._jump))
        self.set_task_factory(_numbered_task_factory())

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self._now

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Refuse: a thread's time is not virtual.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(f"{func!r}: there are no threads on virtual time")

    def _jump(self, seconds: float | None) -> None:
        if seconds is None:
            raise DeadlockError(f"nothing is ready and no timer is set: {self._describe_waiting()}")
        self._now += seconds
        if self._now > self._limit:
            self._limit = self._now + self._limit_step  # what cleans up may still take its time
            raise DeadlockError(
                f"still not done after {self._limit_step:g} virtual seconds: "
                f"{self._describe_waiting()}"
            )

    def _describe_waiting(self) -> str:
        tasks = sorted(asyncio.all_tasks(self), key=hash)
        return "; ".join(_describe(task) for task in tasks) or "no task is left"


def run(main: Coroutine[Any, Any, T], *, limit_seconds: float = LIMIT_SECONDS) -> T:
    """Run `main` on a new virtual-time loop in debug mode and return its result.

    Raises:
        DeadlockError: `main` waits for something that cannot happen.
    """

    def new_loop() -> VirtualTimeLoop:
        return VirtualTimeLoop(limit_seconds=limit_seconds)

    with asyncio.Runner(debug=True, loop_factory=new_loop) as runner:
        return runner.run(main)


class _JumpingSelector(selectors.DefaultSelector):
    """Never waits: where the loop would sleep until its next timer, it moves the time there."""

    def __init__(self, jump: Callable[[float | None], None]) -> None:
        super().__init__()
        self._jump_to = jump

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        if self.get_map():  # the first one is the loop's own wake-up pipe
            raise RuntimeError("there are no sockets or pipes on virtual time")
        return super().register(fileobj, events, data)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout != 0:
            self._jump_to(timeout)
        return ready


class NumberedTask(asyncio.Task[T]):
    """A task that hashes by its number."""

    def __init__(self, number: int, coro: Coroutine[Any, Any, T], **options: Any) -> None:
        self.number = number  # first: the base class puts the task into a set
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self.number


def _numbered_task_factory() -> Callable[..., asyncio.Task[Any]]:
    numbers = itertools.count()

    def make(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
        return NumberedTask(next(numbers), coro, loop=loop, **options)

    return make


def _describe(task: asyncio.Task[Any]) -> str:
    coroutine = task.get_coro()
    name = getattr(coroutine, "__qualname__", repr(coroutine))
    frames = task.get_stack(limit=1)
    if not frames:
        return f"{task.get_name()} ({name})"
    code = frames[-1].f_code
    return f"{task.get_name()} ({name}) waits at {code.co_filename}:{frames[-1].f_lineno}"
