"""What a manager runs, in groups that start and stop together."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

import structlog

if TYPE_CHECKING:
    from dynamo_operator.runtime.webhooks.server import Webhooks

_log = structlog.get_logger(__name__)


class Runnable(Protocol):
    """Anything that a manager runs.

    A class may leave `needs_leadership` out: it is then taken as true, the safe side. What is bound
    to a leader that competes again after a loss is run once in each of its terms.
    """

    async def run(self) -> None:
        """Work until cancelled, or return when there is nothing more to do."""


class Failures:
    """The first error of any runnable; later ones, and those during a stop, are logged only."""

    def __init__(self) -> None:
        self.first: Exception | None = None
        self.stopping = False

    async def watch(
        self,
        runnable: Runnable,
        name: str,
        is_over: Callable[[], bool],
        is_ending: Callable[[], bool],
    ) -> None:
        """Run it; raise its error if that is the first."""
        try:
            await _run(runnable, name)
        except asyncio.CancelledError:
            if self.first is not None or self.stopping or is_over() or is_ending():
                raise
            # A task group would take it for the end that it asked for.
            self.first = RuntimeError(f"{name} was cancelled by somebody else than its manager")
            raise self.first from None
        except Exception as error:
            if self.first is None and not self.stopping and not is_over():
                self.first = error
                raise
            _log.error("runnable failed while stopping", runnable=name, exc_info=error)


async def _run(runnable: Runnable, name: str) -> None:
    try:
        await runnable.run()
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        # A task group would take it for the end that it asked for.
        raise RuntimeError(f"{name} raised CancelledError, although nobody cancelled it") from error


class RunnableGroup:
    """Runnables that start and stop together: collected before the start, started at once after.

    Args:
        failures: where their errors go.
        is_over: whether errors count no more.
    """

    def __init__(self, failures: Failures, is_over: Callable[[], bool] = lambda: False) -> None:
        self._failures = failures
        self._is_over = is_over
        self._collected: list[Runnable] = []
        self._group: asyncio.TaskGroup | None = None
        self._is_ending = False
        self._tasks: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[Runnable]:
        return iter(self._collected)

    def add(self, runnable: Runnable) -> None:
        """Have it run with the group; at once when the group runs."""
        if self._group is None:
            self._collected.append(runnable)
        else:
            self._start(self._group, runnable)

    def cancel(self) -> list[str]:
        """Cancel whatever still runs and return its names."""
        running = [task for task in self._tasks if not task.done()]
        for task in running:
            task.cancel()
        return [task.get_name() for task in running]

    async def __aenter__(self) -> None:
        self._group = asyncio.TaskGroup()
        self._is_ending = False
        await self._group.__aenter__()
        for runnable in self._collected:
            self._start(self._group, runnable)
        self._collected.clear()

    async def __aexit__(self, *error: Any) -> None:
        assert self._group is not None
        self._is_ending = True
        try:
            await self._group.__aexit__(*error)
        finally:
            self._group = None

    def _start(self, group: asyncio.TaskGroup, runnable: Runnable) -> None:
        name = getattr(runnable, "name", "") or type(runnable).__name__

        def is_ending() -> bool:
            return self._is_ending or getattr(runnable, "is_stopping", False)

        watched = self._failures.watch(runnable, name, self._is_over, is_ending)
        task = group.create_task(watched, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def first_leaf(error: BaseException) -> BaseException:
    """Return the first error in a group of groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def is_webhooks(runnable: object) -> TypeGuard[Webhooks]:
    """Whether it is a Webhooks; managers that have none do not load what those need."""
    server = sys.modules.get(f"{__package__}.webhooks.server")  # whoever has one loaded it
    return server is not None and isinstance(runnable, server.Webhooks)
