"""The simulated processes of a run: operators that start, stop, die and freeze at any moment."""

from __future__ import annotations

import asyncio
from asyncio import Handle
from collections.abc import Awaitable, Callable
from contextvars import Context
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any

from dynamo_operator.runtime.cache import CacheSyncError
from dynamo_operator.runtime.leader_election import LeadershipLostError
from dynamo_operator.runtime.manager import ShutdownTimeoutError
from dynamo_operator.simulation.history import Call, History
from dynamo_operator.simulation.link import Link
from dynamo_operator.simulation.loop import PROCESS, SimulationLoop
from dynamo_operator.simulation.plans import Partition
from dynamo_operator.testing.virtual_time import VirtualClock

RESTART_SECONDS = 1.0

_ORDERLY = (LeadershipLostError, ShutdownTimeoutError)
"""Ends of a process that faults of the outside explain."""


class ProcessClock:
    """A process' clock: the loop's time, and a wall clock that may be wrong."""

    def __init__(self) -> None:
        self._clock = VirtualClock()
        self.error_seconds = 0.0

    def monotonic(self) -> float:
        """Return the loop's time."""
        return self._clock.monotonic()

    def now(self) -> datetime:
        """Return the wall clock in UTC, as this process sees it."""
        return self._clock.now() + timedelta(seconds=self.error_seconds)


class Process:
    """One operating system process, from its start to its end.

    Args:
        name: of the actor; the same for each incarnation.
        incarnation: counts the actor's starts from 1.
        history: is told of its start and end.
        ended: called when it has ended by itself, with what it raised.
    """

    def __init__(
        self,
        name: str,
        incarnation: int,
        history: History,
        ended: Callable[[Process, BaseException | None], None],
    ) -> None:
        self.name = name
        self.incarnation = incarnation
        self.is_dead = False
        self.is_paused = False
        self.clock = ProcessClock()
        self.link: Link
        self.program: Any = None
        self._history = history
        self._ended = ended
        self._parked: list[Handle] = []
        self._context = Context()
        self._context.run(PROCESS.set, self)
        self._task: asyncio.Task[None] | None = None
        self.is_told_to_stop = False
        self._partitions: list[Partition] = []

    @property
    def is_running(self) -> bool:
        """Whether it lives, perhaps paused."""
        return not self.is_dead and self._task is not None and not self._task.done()

    def start(self, main: Callable[[], Awaitable[Any]]) -> None:
        """Run `main` as the process' own."""
        self._history.mark("started", actor=self.name, incarnation=self.incarnation)
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._run(main), context=self._context)

    def park(self, handle: Handle) -> None:
        """Keep what may not run now."""
        self._parked.append(handle)

    def kill(self) -> None:
        """Let nothing of it run any more: no `finally`, no goodbye to anyone."""
        if self.is_running:
            self.is_dead = True
            self._history.mark("killed", actor=self.name, incarnation=self.incarnation)
            self.link.drop()

    def terminate(self) -> None:
        """Ask it to stop (SIGTERM)."""
        if self._task is not None and not self.is_told_to_stop:
            self.is_told_to_stop = True
            self._history.mark("told to stop", actor=self.name, incarnation=self.incarnation)
            self._task.cancel()

    async def wait_ended(self) -> None:
        """Wait until it has stopped."""
        if self._task is not None and self.is_running:
            await asyncio.wait([self._task])

    def pause(self) -> None:
        """Let nothing of it run until `resume`."""
        if not self.is_paused:
            self.is_paused = True
            self._history.mark("paused", actor=self.name, incarnation=self.incarnation)

    def resume(self) -> None:
        """Let it go on."""
        if self.is_paused:
            self.is_paused = False
            self._history.mark("resumed", actor=self.name, incarnation=self.incarnation)
            parked, self._parked = self._parked, []
            loop = asyncio.get_running_loop()
            assert isinstance(loop, SimulationLoop)
            loop.go_on(parked)

    def barrier(self, call: Call) -> str:
        """Return how the process is cut off from what it calls: "", "refused" or "silent"."""
        for partition in self._partitions:
            if cuts_off(partition, call):
                return "silent" if partition.silent else "refused"
        return ""

    def cut_off(self, partition: Partition) -> None:
        """Let it not reach the API server until `reconnect`."""
        self._history.mark("cut off", actor=self.name, incarnation=self.incarnation)
        self._partitions.append(partition)
        if not partition.silent:
            self.link.reset(lambda call: cuts_off(partition, call))

    def reconnect(self, partition: Partition) -> None:
        """End a partition; what was silent meanwhile is reset."""
        if partition in self._partitions:
            self._history.mark("reconnected", actor=self.name, incarnation=self.incarnation)
            self._partitions.remove(partition)
            self.link.reset(lambda call: cuts_off(partition, call))

    def heal(self) -> None:
        """End what faults began."""
        self.link.catch_up()
        for partition in list(self._partitions):
            self.reconnect(partition)
        self.resume()

    async def _run(self, main: Callable[[], Awaitable[Any]]) -> None:
        error: BaseException | None = None
        try:
            await main()
        except asyncio.CancelledError:
            if not self.is_told_to_stop:
                raise
        except BaseException as raised:  # noqa: BLE001 # told to whoever started it
            error = raised
        if self.is_dead:
            return  # thrown away after the run
        self._history.mark("stopped", actor=self.name, incarnation=self.incarnation)
        self.link.drop()
        if self.is_told_to_stop and isinstance(error, _ORDERLY):
            error = None
        self._ended(self, error)

    def is_explained(self, error: BaseException | None) -> bool:
        """Whether it is no defect that the process ended so.

        Args:
            error: that it ended with; None: it was told to stop.
        """
        if isinstance(error, CacheSyncError):  # it gives up, and whoever runs it starts another
            process = self.name, self.incarnation
            calls = self._history.calls
            return any(call.fault and (call.actor, call.incarnation) == process for call in calls)
        return error is None or isinstance(error, _ORDERLY)


def cuts_off(partition: Partition, call: Call) -> bool:
    """Whether a call is among those that a partition stops."""
    pattern = partition.resource
    if pattern.startswith("!"):
        return not fnmatchcase(call.resource[1], pattern[1:])
    return fnmatchcase(call.resource[1], pattern)
