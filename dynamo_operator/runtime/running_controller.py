"""A controller at work: it waits for its caches, then reconciles until it is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dynamo_operator.runtime.cache import CacheSyncError
from dynamo_operator.runtime.reconcile_loop import ReconcileLoop
from dynamo_operator.runtime.sources import Channel
from dynamo_operator.runtime.type_cache import TypeCache
from informers.clock import Random
from informers.objects import ObjectKey
from informers.shared_informer import HandlerRegistration
from informers.work_queue import Priority, Trigger, WorkQueue

_POLL_JITTER: Final = 0.1
_POLL: Final = Trigger("poll")


@dataclass(frozen=True, slots=True)
class Poll:
    """Reconcile every object of some caches periodically."""

    caches: Sequence[TypeCache]
    every_seconds: float
    random: Random

    async def run(self, queue: WorkQueue[ObjectKey]) -> None:
        """Queue all keys, again and again, until cancelled."""
        while True:
            stretch = self.random.uniform(1 - _POLL_JITTER, 1 + _POLL_JITTER)
            await asyncio.sleep(self.every_seconds * stretch)
            for cache in self.caches:
                for key in cache.informer.lister.keys():  # noqa: SIM118 - a Lister is no dict
                    queue.add(key, priority=Priority.LOW, trigger=_POLL)


class RunningController:
    """What a manager runs for a declared controller; a Runnable that runs once."""

    def __init__(
        self,
        name: str,
        *,
        loop: ReconcileLoop,
        queue: WorkQueue[ObjectKey],
        sources: Sequence[tuple[TypeCache, HandlerRegistration]],
        channels: Sequence[Channel],
        poll: Poll | None,
        cache_sync_timeout_seconds: float,
        needs_leadership: bool,
    ) -> None:
        self.name = name
        self.needs_leadership = needs_leadership
        self.queue = queue
        self._loop = loop
        self._sources = sources
        self._channels = channels
        self._poll = poll
        self._cache_sync_timeout = cache_sync_timeout_seconds
        self._started = False

    async def run(self) -> None:
        """Reconcile until cancelled.

        Raises:
            CacheSyncError: a watched kind did not arrive in time.
            RuntimeError: it ran already.
        """
        if self._started:
            raise RuntimeError(f"controller {self.name!r}: was started already")
        self._started = True
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
            self.queue.shut_down()
            self.detach()

    def detach(self) -> None:
        """Take the controller's handlers off the informers and channels."""
        for _, registration in self._sources:
            registration.remove()
        for channel in self._channels:
            channel.detach(self.queue)

    async def wait_synced(self) -> None:
        """Wait until every watched kind is here and its events are queued.

        Raises:
            CacheSyncError: one did not arrive in time; names it and its last error.
        """
        try:
            async with asyncio.timeout(self._cache_sync_timeout):
                for cache, _ in self._sources:
                    await cache.informer.wait_synced()
        except TimeoutError:
            missing = {c.why_unsynced() for c, _ in self._sources if not c.informer.is_synced}
            details = "; ".join(sorted(missing))
            raise CacheSyncError(
                f"controller {self.name!r}: caches not synced after "
                f"{self._cache_sync_timeout:g} s: {details}"
            ) from None
