"""Change objects on their way in: what the copy and its handlers never need is not kept."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace

from informers.events import WatchEvent
from informers.list_watch import ListPage, ListWatch
from informers.objects import CachedObject, ResourceType

Transform = Callable[[CachedObject], CachedObject]


class TransformedListWatch:
    """Another ListWatch whose objects a function changes, once each, before anybody sees them.

    A resync and a tombstone show what was kept, so they are not changed again. If the function
    raises, the list or watch counts as failed: it is tried again, and the error is the informer's
    last one.

    Args:
        list_watch: where objects come from.
        transform: returns the object to keep, e.g. `obj._replace(data=...)`; key, UID and versions
            have to stay.
    """

    def __init__(self, list_watch: ListWatch, transform: Transform) -> None:
        self._list_watch = list_watch
        self._transform = transform

    @property
    def resource_type(self) -> ResourceType:
        """The type that is listed."""
        return self._list_watch.resource_type

    async def list(
        self, *, resource_version: str = "", limit: int = 0, continue_token: str = ""
    ) -> ListPage:
        """Fetch one page; see `ListWatch.list`."""
        page = await self._list_watch.list(
            resource_version=resource_version, limit=limit, continue_token=continue_token
        )
        return replace(page, items=[self._transform(item) for item in page.items])

    def watch(
        self, *, resource_version: str, timeout_seconds: int, send_initial_events: bool = False
    ) -> AbstractAsyncContextManager[AsyncIterator[Sequence[WatchEvent]]]:
        """Open a watch; see `ListWatch.watch`."""
        return self._watch(resource_version, timeout_seconds, send_initial_events)

    @asynccontextmanager
    async def _watch(
        self, resource_version: str, timeout_seconds: int, send_initial_events: bool
    ) -> AsyncGenerator[AsyncIterator[Sequence[WatchEvent]]]:
        async with self._list_watch.watch(
            resource_version=resource_version,
            timeout_seconds=timeout_seconds,
            send_initial_events=send_initial_events,
        ) as batches:
            yield self._transformed(batches)

    async def _transformed(
        self, batches: AsyncIterator[Sequence[WatchEvent]]
    ) -> AsyncIterator[Sequence[WatchEvent]]:
        async for batch in batches:
            yield [self._event(event) for event in batch]

    def _event(self, event: WatchEvent) -> WatchEvent:
        if event.object is None:
            return event
        return event._replace(object=self._transform(event.object))
