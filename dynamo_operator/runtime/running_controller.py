"""A controller at work: it waits for its caches, then reconciles until it is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from dynamo_operator.runtime.cache import CacheSyncError
from dynamo_operator.runtime.declaration import Declaration
from dynamo_operator.runtime.reconcile_loop import ReconcileLoop
from dynamo_operator.runtime.reconciler import Result
from dynamo_operator.runtime.sources import Source, Watch
from dynamo_operator.runtime.type_cache import TypeCache
from informers.clock import Random
from informers.objects import ObjectKey, ResourceType
from informers.shared_informer import Handler
from informers.work_queue import Priority, Trigger, WorkQueue

_POLL_JITTER: Final = 0.1
_POLL: Final = Trigger("poll")


@dataclass(frozen=True, slots=True)
class Poll:
    """Reconcile every object of some caches periodically."""

    caches: Iterable[TypeCache]
    every_seconds: float
    random: Random
    priority: int = Priority.LOW

    async def run(self, queue: WorkQueue[ObjectKey]) -> None:
        """Queue all keys, again and again, until the queue is shut down and this cancelled."""
        while True:
            stretch = self.random.uniform(1 - _POLL_JITTER, 1 + _POLL_JITTER)
            try:
                await asyncio.sleep(self.every_seconds * stretch)
            except asyncio.CancelledError:
                if not queue.is_shut_down:
                    # A task group takes a cancelled task for one that ended.
                    raise RuntimeError("the poller was cancelled from outside") from None
                raise
            for cache in self.caches:
                for key in cache.informer.lister.keys():  # noqa: SIM118 - a Lister is no dict
                    queue.add(key, priority=self.priority, trigger=_POLL)


class RunningController:
    """What `Manager.add` makes of a Controller: a Runnable, and the handle on it.

    It runs once in each term of a leader that competes again; the handle stays the same.
    """

    def __init__(
        self,
        name: str,
        *,
        make: Callable[[], tuple[WorkQueue[ObjectKey], ReconcileLoop]],
        primary: Declaration,
        watches: Iterable[Watch],
        declare: Callable[[Watch], Declaration],
        handler: Callable[[WorkQueue[ObjectKey], Watch], Handler],
        channels: Sequence[Source],
        poll: Poll | None,
        cache_sync_timeout_seconds: float,
        needs_leadership: bool,
    ) -> None:
        self.name: str = name
        self.resource_type: ResourceType = primary.scope.resource_type
        self.needs_leadership: bool = needs_leadership
        self._make = make
        self._primary = primary
        self._declare = declare
        self._handler = handler
        self._channels = channels
        self._poll = poll
        self._cache_sync_timeout = cache_sync_timeout_seconds
        self._watches = [(watch, declare(watch)) for watch in watches]
        self._is_stopping = False
        self._task: asyncio.Task[object] | None = None
        self._ended = asyncio.Event()
        self._begin()

    @property
    def is_stopping(self) -> bool:
        """Whether it was asked to stop."""
        return self._is_stopping

    @property
    def is_stopped(self) -> bool:
        """Whether it was stopped: it does not run any more, and never will again."""
        return self._is_stopping and self._ended.is_set()

    async def run(self) -> None:
        """Reconcile until cancelled or stopped.

        Raises:
            CacheSyncError: a watched kind did not arrive in time.
            RuntimeError: it ran already.
        """
        if self._task is not None:
            raise RuntimeError(f"controller {self.name!r}: was started already")
        if self._is_stopping:
            return
        self._task = asyncio.current_task()
        try:
            await self.wait_synced()
            async with asyncio.TaskGroup() as group:
                poller = None
                if self._poll is not None:
                    poller = group.create_task(self._poll.run(self.queue), name="poll")
                try:
                    await self._loop.run()
                finally:
                    if poller is not None:
                        poller.cancel()
        finally:
            self._end()

    async def reconcile(self, key: ObjectKey) -> Result:
        """Reconcile one key now, beside the queue; for tools that reconcile once and end.

        Raises:
            Exception: whatever the reconciler raised.
        """
        return await self._loop.reconcile(key)

    def watch(self, watch: Watch) -> Declaration:
        """Watch one more kind from now on; what is there already is queued at once.

        Returns:
            The handle: `wait_synced` waits for what is there, `close` ends the watch.

        Raises:
            RuntimeError: the controller is stopped.
        """
        if self._is_stopping:
            raise RuntimeError(f"controller {self.name!r}: is stopped")
        declaration = self._declare(watch)
        declaration.replace_handler(self._handler(self.queue, watch))
        self._watches = [*self._open_watches(), (watch, declaration)]
        return declaration

    def renew(self) -> None:
        """Make it run again, after it was cancelled; everything that is there is queued once more.

        For one that has not run yet there is nothing to do.

        Raises:
            RuntimeError: it runs, or is stopped.
        """
        if self._task is None and not self._is_stopping:
            return
        if self._is_stopping or not self._ended.is_set():
            raise RuntimeError(f"controller {self.name!r}: runs, or is stopped")
        self._watches = self._open_watches()
        self._begin()

    async def stop(self) -> None:
        """Stop: take no new key, finish what is being reconciled, then need no cache any more.

        Its name is free again afterwards, and informers that nobody else needs stop. Not for use
        by its own reconciler, which would wait for itself. May be repeated.
        """
        self._is_stopping = True
        if self._task is None:
            self._end()
        else:
            self._task.cancel()
            await self._ended.wait()
        for declaration in self._declarations():
            declaration.close()

    async def wait_synced(self) -> None:
        """Wait until every watched kind is here and its events are queued.

        Raises:
            CacheSyncError: one did not arrive in time; names it and its last error.
        """
        try:
            async with asyncio.timeout(self._cache_sync_timeout):
                for declaration in self._declarations():
                    if not declaration.is_closed:
                        await declaration.wait_synced()
                for channel in self._channels:
                    await channel.wait_synced()
        except TimeoutError:
            missing = {reason for d in self._declarations() for reason in d.why_unsynced()}
            details = "; ".join(sorted(missing)) or "a source did not send what it knows"
            raise CacheSyncError(
                f"controller {self.name!r}: caches not synced after "
                f"{self._cache_sync_timeout:g} s: {details}"
            ) from None

    def _begin(self) -> None:
        self.queue: WorkQueue[ObjectKey]
        self.queue, self._loop = self._make()
        self._task = None
        self._ended = asyncio.Event()
        for channel in self._channels:
            channel.attach(self.queue)
        for watch, declaration in self._watches:
            declaration.replace_handler(self._handler(self.queue, watch))

    def _end(self) -> None:
        # The informers go on: others that still stop may read what only this one declared.
        self.queue.shut_down()
        if not self._ended.is_set():
            for channel in self._channels:
                channel.detach(self.queue)
        self._ended.set()

    def _declarations(self) -> list[Declaration]:
        return [self._primary, *(declaration for _, declaration in self._watches)]

    def _open_watches(self) -> list[tuple[Watch, Declaration]]:
        return [(watch, d) for watch, d in self._watches if not d.is_closed]
