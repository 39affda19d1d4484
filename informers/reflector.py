"""The driver of a watch session: sends its requests and puts what comes into the store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NoReturn

from informers.backoff import Backoff
from informers.clock import Clock, Random
from informers.errors import AccessDeniedError, UnwatchableError
from informers.events import ObjectEvent
from informers.list_watch import ListWatch
from informers.observers import InformerObserver
from informers.store import Store
from informers.watch_list_support import WatchListSupport
from informers.watch_session import (
    IDLE_SECONDS,
    Ended,
    ListRequest,
    Received,
    Snapshot,
    WatchRequest,
    WatchSession,
)

Changed = Callable[[list[ObjectEvent]], None]


class Reflector:
    """Keeps a store equal to what the server has.

    Args:
        list_watch: what to list and watch.
        store: written by this reflector alone.
        changed: called after each batch with the changes, in the same step of the event loop; an
            empty list means that only the store's version moved.
        clock: measures how long streams live.
        random: draws timeouts and waits.
        observer: told what happens.
        use_watch_list: False to begin with a list whatever the server can do.
        watch_list_support: what is known of the server, shared with its other reflectors.
        idle_seconds: after so long without a byte a watch is given up for a new one.
        fail_when_forbidden: whether a 403 before the first snapshot ends it, instead of being tried
            again like everything else.
    """

    def __init__(
        self,
        list_watch: ListWatch,
        store: Store,
        *,
        changed: Changed,
        clock: Clock,
        random: Random,
        observer: InformerObserver,
        use_watch_list: bool = True,
        watch_list_support: WatchListSupport | None = None,
        idle_seconds: float = IDLE_SECONDS,
        fail_when_forbidden: bool = False,
    ) -> None:
        self._list_watch = list_watch
        self._resource_type = list_watch.resource_type
        self._store = store
        self._changed = changed
        self._clock = clock
        self._observer = observer
        self._session = WatchSession(
            self._resource_type,
            random=random,
            backoff=Backoff(random),
            use_watch_list=use_watch_list,
            idle_seconds=idle_seconds,
        )
        self._support = watch_list_support or WatchListSupport()
        self._fail_when_forbidden = fail_when_forbidden
        self._is_filled = False
        self.last_error: Exception | None = None

    @property
    def uses_watch_list(self) -> bool:
        """Whether the next snapshot is taken by WatchList."""
        return self._session.uses_watch_list and self._resource_type in self._support

    async def run(self) -> NoReturn:
        """List and watch until cancelled.

        Raises:
            UnwatchableError: the type cannot be watched.
            AccessDeniedError: it may not, and `fail_when_forbidden`. No other error ends this.
        """
        session = self._session
        while True:
            session.uses_watch_list = used = self.uses_watch_list
            request = session.next_request(self._clock.monotonic())
            if isinstance(request, ListRequest):
                ended = await self._list(request)
            else:
                ended = await self._watch(request)
            if used and not session.uses_watch_list:
                self._support.note_missing(self._resource_type)
            if ended is not None and ended.retry_in_seconds > 0:
                await asyncio.sleep(ended.retry_in_seconds)

    async def _list(self, request: ListRequest) -> Ended | None:
        try:
            page = await self._list_watch.list(
                resource_version=request.resource_version,
                limit=request.limit,
                continue_token=request.continue_token,
            )
        except Exception as error:  # noqa: BLE001 (a reflector outlives every error of its port)
            return self._report(self._session.failed(error, self._clock.monotonic()))
        try:
            snapshot = self._session.listed(page)
        except UnwatchableError as error:
            self.last_error = error
            raise
        if snapshot is not None:
            self._replace(snapshot)
        return None

    async def _watch(self, request: WatchRequest) -> Ended:
        try:
            ended = await self._stream(request)
        except UnwatchableError as error:
            self.last_error = error
            raise
        return self._report(ended)

    async def _stream(self, request: WatchRequest) -> Ended:
        session = self._session
        loop = asyncio.get_running_loop()
        opened = False
        guard = asyncio.timeout(session.read_deadline() - self._clock.monotonic())
        try:
            async with (
                guard,
                self._list_watch.watch(
                    resource_version=request.resource_version,
                    timeout_seconds=request.timeout_seconds,
                    send_initial_events=request.send_initial_events,
                ) as batches,
            ):
                session.opened()
                opened = True
                self._observer.watch_started(self._resource_type)
                if not request.send_initial_events:
                    self._recovered()
                async for batch in batches:
                    now = self._clock.monotonic()
                    received = session.received(batch, now)
                    self._apply(received)
                    if received.error is not None:
                        ended = session.failed(received.error, now)
                        break
                    guard.reschedule(loop.time() + session.read_deadline() - now)
                else:
                    ended = session.closed(self._clock.monotonic())
        except Exception as error:  # noqa: BLE001 (a reflector outlives every error of its port)
            if isinstance(error, TimeoutError) and guard.expired():
                ended = session.timed_out(self._clock.monotonic())
            else:
                ended = session.failed(error, self._clock.monotonic())
        if opened:
            self._observer.watch_ended(self._resource_type, ended.outcome.value)
        return ended

    def _apply(self, received: Received) -> None:
        self._recovered()
        if received.snapshot is not None:
            self._replace(received.snapshot)
        if received.events:
            apply = self._store.apply
            changes = [apply(event) for event in received.events]
            self._report_changes([change for change in changes if change is not None])

    def _replace(self, snapshot: Snapshot) -> None:
        self._recovered()
        self._is_filled = True
        self._observer.listed(self._resource_type, len(snapshot.objects), snapshot.reason)
        self._report_changes(self._store.replace(snapshot.objects, snapshot.resource_version))

    def _report_changes(self, changes: list[ObjectEvent]) -> None:
        if changes:
            lister = self._store.lister
            self._observer.store_changed(self._resource_type, len(lister), lister.data_bytes)
        self._changed(changes)

    def _recovered(self) -> None:
        if self.last_error is not None:
            self.last_error = None
            self._observer.recovered(self._resource_type)

    def _report(self, ended: Ended) -> Ended:
        error = ended.error
        if error is not None:
            self.last_error = error
            self._observer.failed(self._resource_type, error, ended.retry_in_seconds)
            if self._fail_when_forbidden and not self._is_filled:
                AccessDeniedError.raise_if_forbidden(self._resource_type.title, error)
        return ended
