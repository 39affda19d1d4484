"""One list and watch of a type, shared by all who read it or want to hear of its changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from informers.clock import Clock, Random, SystemClock, system_random
from informers.errors import InformerError, InformerFailedError, SyncTimeoutError
from informers.events import Added, ObjectEvent, Updated
from informers.indexers import Index
from informers.list_watch import ListWatch
from informers.objects import CachedObject, ObjectKey, ResourceType
from informers.observers import InformerObserver
from informers.polling import PollingReflector
from informers.reflector import Reflector
from informers.store import Lister, Store
from informers.watch_list_support import WatchListSupport
from informers.watch_session import IDLE_SECONDS

Handler = Callable[[ObjectEvent], None]


@dataclass(frozen=True, slots=True)
class InformerStatistics:
    """A snapshot."""

    objects: int
    data_bytes: int
    resource_version: str
    handlers: int
    handler_failures: int
    is_synced: bool
    last_error: Exception | None


class HandlerRegistration:
    """One handler of an informer, from `add_handler` to `remove`."""

    __slots__ = ("_informer", "failures", "handler", "is_active", "is_synced")

    def __init__(self, informer: SharedInformer, handler: Handler) -> None:
        self._informer = informer
        self.handler: Handler = handler
        self.is_active: bool = True
        self.is_synced: bool = False
        """Whether the handler was called for every object of the first list."""
        self.failures: int = 0
        """How often the handler raised."""

    def remove(self) -> None:
        """Call the handler no more. May be repeated, and called by the handler itself."""
        self.is_active = False
        self._informer.discard(self)


class _Phase(Enum):
    NEW = "not started"
    RUNNING = "running"
    STOPPED = "stopped"


class SharedInformer:
    """Lists and watches one type for any number of handlers and readers.

    A handler is a cheap synchronous function. It is called after the store has changed, in the same
    step of the event loop, so it sees that state or a newer one; for each object in the order of
    its changes, none left out. One that raises is counted, and skipped for that event.

    Args:
        list_watch: what to list and watch.
        indexes: of the lister; more may be added later.
        clock: measures how long streams live.
        random: draws timeouts and waits.
        observer: told what happens.
        poll_every_seconds: list the type that often instead of watching it, for types that cannot
            be watched; 0 to watch.
        resync_seconds: call the handlers with Updated(obj, obj) for every object this often (give
            or take a tenth); 0 for never. No request is made for it.
        use_watch_list: False to begin with a list whatever the server can do.
        watch_list_support: what is known of the server, shared with its other informers.
        idle_seconds: after so long without a byte a watch is given up for a new one; servers send a
            bookmark every minute.
        fail_when_forbidden: whether a 403 before the first list ends the informer, instead of being
            tried again until somebody grants the permission.
    """

    def __init__(
        self,
        list_watch: ListWatch,
        *,
        indexes: Iterable[Index] = (),
        clock: Clock | None = None,
        random: Random | None = None,
        observer: InformerObserver | None = None,
        poll_every_seconds: float = 0.0,
        resync_seconds: float = 0.0,
        use_watch_list: bool = True,
        watch_list_support: WatchListSupport | None = None,
        idle_seconds: float = IDLE_SECONDS,
        fail_when_forbidden: bool = False,
    ) -> None:
        self.resource_type: ResourceType = list_watch.resource_type
        self._random = random or system_random()
        self._observer = observer or InformerObserver()
        self._resync_seconds = resync_seconds
        self._store = Store(indexes, index_failed=self._index_failed)
        self.lister: Lister = self._store.lister
        self._reflector: Reflector | PollingReflector
        if poll_every_seconds:
            self._reflector = PollingReflector(
                list_watch,
                self._store,
                changed=self._changed,
                every_seconds=poll_every_seconds,
                clock=clock or SystemClock(),
                random=self._random,
                observer=self._observer,
                fail_when_forbidden=fail_when_forbidden,
            )
        else:
            self._reflector = Reflector(
                list_watch,
                self._store,
                changed=self._changed,
                clock=clock or SystemClock(),
                random=self._random,
                observer=self._observer,
                use_watch_list=use_watch_list,
                watch_list_support=watch_list_support,
                idle_seconds=idle_seconds,
                fail_when_forbidden=fail_when_forbidden,
            )
        self._handlers: tuple[HandlerRegistration, ...] = ()
        self._waiters: dict[asyncio.Future[None], Callable[[Lister], bool]] = {}
        self._resync_timer: asyncio.TimerHandle | None = None
        self._phase = _Phase.NEW
        self._has_list = False
        self._handler_failures = 0
        self._failure: InformerFailedError | None = None
        self._synced_or_stopped = asyncio.Event()

    @property
    def is_synced(self) -> bool:
        """Whether the first list is in the store and the handlers were called for all of it."""
        return self._has_list and self._synced_or_stopped.is_set()

    @property
    def last_error(self) -> Exception | None:
        """The last error of a list or a watch, None since one succeeded."""
        return self._reflector.last_error

    @property
    def uses_watch_list(self) -> bool:
        """Whether the next snapshot is taken by WatchList."""
        return self._reflector.uses_watch_list

    async def run(self) -> None:
        """List and watch until cancelled. Once only.

        Raises:
            UnwatchableError: the server cannot watch this type.
            AccessDeniedError: it may not be listed or watched, and `fail_when_forbidden`. No other
                error ends this.
        """
        if self._phase is not _Phase.NEW:
            raise InformerError(f"informer of {self.resource_type} was started before")
        self._phase = _Phase.RUNNING
        self._schedule_resync()
        try:
            await self._reflector.run()
        except InformerFailedError as error:
            self._failure = error
            raise
        finally:
            self._stop()

    def abandon(self) -> None:
        """End an informer that has not begun to run: whoever waits for it is told so."""
        if self._phase is _Phase.NEW:
            self._stop()

    def add_index(self, index: Index) -> None:
        """Keep an index from now on, over the present objects too.

        Raises:
            ValueError: another index has that name.
            InformerError: the informer is stopped.
        """
        self._require_not_stopped()
        self._store.add_index(index)

    def add_handler(self, handler: Handler) -> HandlerRegistration:
        """Call `handler` for every change from now on.

        If there are objects already it is called at once, with Added(initial=True) for each: it
        misses no change and sees none twice.

        Raises:
            InformerError: the informer is stopped.
        """
        self._require_not_stopped()
        registration = HandlerRegistration(self, handler)
        # Handing out a batch goes by the tuple of when it began. So a handler that is added from
        # within another one gets the whole new state here, and not the rest of that batch.
        self._handlers = (*self._handlers, registration)
        if self._has_list:
            self._hand_out([Added(o, initial=True) for o in self.lister.list()], (registration,))
            registration.is_synced = True
        return registration

    def discard(self, registration: HandlerRegistration) -> None:
        """Forget a handler; `HandlerRegistration.remove` is the way to say so."""
        self._handlers = tuple(r for r in self._handlers if r is not registration)

    async def wait_synced(self, timeout: float | None = None) -> None:
        """Wait until the first list is in the store and every handler was called for all of it.

        Raises:
            SyncTimeoutError: it took longer than `timeout` seconds.
            InformerFailedError: it ended by itself, e.g. as the type cannot be watched.
            InformerError: the informer was stopped before it synced.
        """
        try:
            async with asyncio.timeout(timeout):
                await self._synced_or_stopped.wait()
        except TimeoutError:
            error = self.last_error
            why = f"last error: {error}" if error else "no error so far, no answer either"
            raise SyncTimeoutError(
                f"{self.resource_type} did not sync in {timeout:g} s; {why}"
            ) from error
        if self._failure is not None:
            raise self._failure
        if not self._has_list:
            raise InformerError(f"informer of {self.resource_type} was stopped before it synced")

    async def wait_until(self, condition: Callable[[Lister], bool]) -> None:
        """Wait until `condition` holds; it is asked after every batch of changes.

        Raises:
            InformerError: the informer is stopped.
        """
        if condition(self.lister):
            return
        self._require_not_stopped()
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = condition
        try:
            await waiter
        finally:
            del self._waiters[waiter]
        if not condition(self.lister):
            self._require_not_stopped()

    async def wait_seen(self, key: ObjectKey, resource_version: str) -> None:
        """Wait until the copy is at least as new, for `key`, as a write that gave that version."""
        await self.wait_until(lambda lister: lister.has_seen(key, resource_version))

    async def wait_gone(self, key: ObjectKey, uid: str) -> None:
        """Wait until no object of that key and UID is held."""
        await self.wait_until(lambda lister: lister.is_gone(key, uid))

    def statistics(self) -> InformerStatistics:
        """Return a snapshot."""
        return InformerStatistics(
            objects=len(self.lister),
            data_bytes=self.lister.data_bytes,
            resource_version=self.lister.resource_version,
            handlers=len(self._handlers),
            handler_failures=self._handler_failures,
            is_synced=self.is_synced,
            last_error=self.last_error,
        )

    def _changed(self, events: list[ObjectEvent]) -> None:
        first = not self._has_list
        self._has_list = True
        handlers = self._handlers
        if events:
            self._hand_out(events, handlers)
        if first:
            for registration in handlers:
                registration.is_synced = True
            self._synced_or_stopped.set()
        if self._waiters:
            self._wake_waiters()

    def _hand_out(
        self, events: Sequence[ObjectEvent], handlers: Iterable[HandlerRegistration]
    ) -> None:
        for registration in handlers:
            handler = registration.handler
            for event in events:
                if not registration.is_active:
                    break
                try:
                    handler(event)
                except Exception as error:  # noqa: BLE001 (one handler must not stop the others)
                    registration.failures += 1
                    self._handler_failures += 1
                    self._observer.handler_failed(self.resource_type, event.object.key, error)

    def _wake_waiters(self) -> None:
        lister = self.lister
        for waiter, condition in list(self._waiters.items()):
            if not waiter.done() and condition(lister):
                waiter.set_result(None)

    def _schedule_resync(self) -> None:
        if self._resync_seconds > 0:
            delay = self._resync_seconds * self._random.uniform(0.9, 1.1)
            self._resync_timer = asyncio.get_running_loop().call_later(delay, self._resync)

    def _resync(self) -> None:
        self._hand_out([Updated(obj, obj) for obj in self.lister.list()], self._handlers)
        self._schedule_resync()

    def _index_failed(self, index: Index, obj: CachedObject, error: Exception) -> None:
        self._observer.index_failed(self.resource_type, index.name, obj.key, error)

    def _require_not_stopped(self) -> None:
        if self._phase is _Phase.STOPPED:
            raise InformerError(f"informer of {self.resource_type} is stopped")

    def _stop(self) -> None:
        self._phase = _Phase.STOPPED
        if self._resync_timer is not None:
            self._resync_timer.cancel()
        self._handlers = ()
        self._synced_or_stopped.set()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
