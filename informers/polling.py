"""The driver for types that can be listed but not watched: it lists them again and again."""

from __future__ import annotations

import asyncio
from typing import NoReturn

from informers.backoff import Backoff
from informers.clock import Clock, Random
from informers.errors import AccessDeniedError, ExpiredError, ListWatchError
from informers.list_watch import ListWatch
from informers.objects import CachedObject, ObjectKey
from informers.observers import InformerObserver
from informers.reflector import Changed
from informers.store import Store
from informers.watch_session import PAGE_SIZE

_JITTER = 0.1


class PollingReflector:
    """Keeps a store equal to what the server listed last.

    What came and went between two lists is never told, and a change is as late as the next list.

    Args:
        list_watch: what to list.
        store: written by this reflector alone.
        changed: called after each list with the changes, as a `Reflector` does.
        every_seconds: from the end of one list to the next, give or take a tenth.
        clock: measures waits.
        random: draws waits.
        observer: told what happens.
        fail_when_forbidden: whether a 403 before the first list ends it.
    """

    uses_watch_list = False

    def __init__(
        self,
        list_watch: ListWatch,
        store: Store,
        *,
        changed: Changed,
        every_seconds: float,
        clock: Clock,
        random: Random,
        observer: InformerObserver,
        fail_when_forbidden: bool = False,
    ) -> None:
        if every_seconds <= 0:
            raise ValueError(f"poll_every_seconds={every_seconds}: must be positive")
        self._list_watch = list_watch
        self._resource_type = list_watch.resource_type
        self._store = store
        self._changed = changed
        self._every = every_seconds
        self._clock = clock
        self._random = random
        self._backoff = Backoff(random)
        self._observer = observer
        self._fail_when_forbidden = fail_when_forbidden
        self._reason = "initial"
        self.last_error: Exception | None = None

    async def run(self) -> NoReturn:
        """List until cancelled.

        Raises:
            AccessDeniedError: it may not be listed, and `fail_when_forbidden`.
        """
        while True:
            try:
                objects, version = await self._list()
            except Exception as error:  # noqa: BLE001 (a reflector outlives every error of its port)
                delay = self._failed(error)
            else:
                self._replace(objects, version)
                delay = self._every * self._random.uniform(1 - _JITTER, 1 + _JITTER)
            await asyncio.sleep(delay)

    async def _list(self) -> tuple[list[CachedObject], str]:
        try:
            return await self._pages(PAGE_SIZE)
        except ExpiredError:
            return await self._pages(0)  # the pages were too slow for their moment

    async def _pages(self, limit: int) -> tuple[list[CachedObject], str]:
        objects: dict[ObjectKey, CachedObject] = {}
        token = ""
        while True:
            page = await self._list_watch.list(limit=limit, continue_token=token)
            objects.update((item.key, item) for item in page.items)
            token = page.continue_token
            if not token:
                return list(objects.values()), page.resource_version

    def _replace(self, objects: list[CachedObject], version: str) -> None:
        if self.last_error is not None:
            self.last_error = None
            self._observer.recovered(self._resource_type)
        self._observer.listed(self._resource_type, len(objects), self._reason)
        self._reason = "poll"
        changes = self._store.replace(objects, version)
        if changes:
            lister = self._store.lister
            self._observer.store_changed(self._resource_type, len(lister), lister.data_bytes)
        self._changed(changes)

    def _failed(self, error: Exception) -> float:
        asked = error.retry_after_seconds if isinstance(error, ListWatchError) else None
        delay = self._backoff.next_delay(self._clock.monotonic(), retry_after_seconds=asked)
        self.last_error = error
        self._observer.failed(self._resource_type, error, delay)
        if self._fail_when_forbidden and self._reason == "initial":
            AccessDeniedError.raise_if_forbidden(self._resource_type.title, error)
        return delay
