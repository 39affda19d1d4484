"""Watches: streams of a resource's changes out of the storage's history.

A stream pulls: it remembers the version it has delivered and reads on from there when a commit
wakes it, so a slow reader costs nothing and is told Expired if the history is compacted under it.
An event is encoded once for all streams of the same form (an object keeps its JSON).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dynamo_operator.apiserver import status
from dynamo_operator.apiserver.messages import to_json
from dynamo_operator.apiserver.remote import Unanswered
from dynamo_operator.apiserver.storage import (
    Change,
    CompactedError,
    Storage,
    StorageKey,
    StoredObject,
)

BOOKMARK_SECONDS = 60.0
_LAST_BOOKMARK_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class WatchScope:
    """What one watch is about.

    Args:
        key: the resource.
        selects: whether an object is within namespace and selectors.
        encode: an object as JSON inside an event.
        bookmark: the JSON object of a bookmark: version, end of initial events.
        wants_bookmarks: whether the client takes bookmarks.
    """

    key: StorageKey
    selects: Callable[[StoredObject], bool]
    encode: Callable[[StoredObject], bytes]
    bookmark: Callable[[int, bool], bytes]
    wants_bookmarks: bool


class WatchStream:
    """The body of a watch: event lines until the time is up, the history ends, or it is closed.

    Args:
        storage: where changes come from.
        scope: what is watched.
        start: the version after which changes are delivered.
        initial: objects to begin with, as ADDED events.
        marks_initial_end: whether an annotated bookmark follows `initial`.
        timeout_seconds: how long the stream lasts.
        closed: called once when it ends.
    """

    def __init__(
        self,
        storage: Storage,
        scope: WatchScope,
        *,
        start: int,
        initial: Sequence[StoredObject] = (),
        marks_initial_end: bool = False,
        timeout_seconds: float,
        closed: Callable[[WatchStream], None] = lambda _: None,
    ) -> None:
        self._storage = storage
        self._scope = scope
        self._delivered = start
        self._started = False
        self._closed = closed
        self._open = True
        self._finishing = False
        self._ended = False
        self._wake = asyncio.Event()
        now = asyncio.get_running_loop().time()
        self._deadline = now + timeout_seconds
        self._next_bookmark = min(
            now + BOOKMARK_SECONDS, max(now, self._deadline - _LAST_BOOKMARK_SECONDS)
        )
        self._first = self._initial_lines(initial, marks_initial_end)
        self._unlisten = storage.listen(scope.key, self._wake.set)

    def __aiter__(self) -> WatchStream:
        return self

    async def __anext__(self) -> bytes:
        while self._open:
            try:
                chunk = self._take()
            except Unanswered as unanswered:
                await self._ask(unanswered)
                continue
            if chunk:
                return chunk
            if self._finishing or asyncio.get_running_loop().time() >= self._deadline:
                break
            try:
                async with asyncio.timeout_at(self._next_wake()):
                    await self._wake.wait()
            except TimeoutError:
                pass
        await self.aclose()
        raise StopAsyncIteration

    @property
    def storage_key(self) -> StorageKey:
        """The resource that is watched."""
        return self._scope.key

    def finish(self) -> None:
        """End the stream once what has happened is delivered."""
        self._finishing = True
        self._wake.set()

    async def aclose(self) -> None:
        """End the stream at once; whoever waits for its next chunk finds the end."""
        if self._open:
            self._open = False
            self._unlisten()
            self._wake.set()
            self._closed(self)

    async def _ask(self, unanswered: Unanswered) -> None:
        """Have a webhook asked about what to send; the stream ends if it does not answer."""
        try:
            await unanswered.ask()
        except status.StatusError as error:
            self._first = event_line("ERROR", to_json(error.to_status()))
            self._ended = self._finishing = True

    def _take(self) -> bytes:
        self._wake.clear()
        if self._first:
            chunk, self._first = self._first, b""
            return chunk
        if self._ended:
            return b""
        try:
            follow = self._storage.undelivered if self._started else self._storage.changes_after
            changes = follow(self._scope.key, self._delivered)
        except CompactedError as error:
            self._ended = self._finishing = True
            gone = status.too_old_resource_version(error.wanted, error.oldest)
            return event_line("ERROR", to_json(gone.to_status()))
        self._started = True
        version = self._storage.resource_version
        lines = b"".join(self._line(change) for change in changes)
        self._delivered = max(self._delivered, version)
        return lines + self._due_bookmark()

    def _line(self, change: Change) -> bytes:
        """Return the event as this scope sees it: entering is ADDED, leaving is DELETED."""
        scope = self._scope
        selected = change.type != "DELETED" and scope.selects(change.object)
        was_selected = change.previous is not None and scope.selects(change.previous)
        if selected:
            kind = "MODIFIED" if was_selected else "ADDED"
            return event_line(kind, scope.encode(change.object))
        if not was_selected or change.previous is None:
            return b""
        gone = change.object
        if change.type != "DELETED":
            # The client knew the state before; it leaves with the version of the change.
            gone = _at_version(change.previous, change.resource_version)
        return event_line("DELETED", scope.encode(gone))

    def _due_bookmark(self) -> bytes:
        now = asyncio.get_running_loop().time()
        if not self._scope.wants_bookmarks or now < self._next_bookmark:
            return b""
        last = self._deadline - _LAST_BOOKMARK_SECONDS
        following = now + BOOKMARK_SECONDS
        self._next_bookmark = following if following < last or now >= last else last
        return event_line("BOOKMARK", self._scope.bookmark(self._delivered, False))

    def _next_wake(self) -> float:
        if not self._scope.wants_bookmarks:
            return self._deadline
        return min(self._deadline, self._next_bookmark)

    def _initial_lines(self, initial: Sequence[StoredObject], marks_end: bool) -> bytes:
        lines = [event_line("ADDED", self._scope.encode(obj)) for obj in initial]
        if marks_end:
            lines.append(event_line("BOOKMARK", self._scope.bookmark(self._delivered, True)))
        return b"".join(lines)


def event_line(kind: str, data: bytes) -> bytes:
    """Return one line of a watch."""
    return b'{"type":"' + kind.encode() + b'","object":' + data + b"}\n"


def bookmark_object(
    api_version: str, kind: str, version: int, *, initial_events_end: bool
) -> dict[str, Any]:
    """Return the object of a bookmark: its kind and a resource version, nothing else of weight."""
    metadata: dict[str, Any] = {"resourceVersion": str(version)}
    if initial_events_end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return {"kind": kind, "apiVersion": api_version, "metadata": metadata}


def _at_version(stored: StoredObject, version: int) -> StoredObject:
    metadata = {**stored.value["metadata"], "resourceVersion": str(version)}
    return StoredObject({**stored.value, "metadata": metadata}, version)
