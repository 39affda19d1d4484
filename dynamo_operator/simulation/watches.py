"""Open watches, event by event."""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from typing import Any, Protocol

from dynamo_operator.apiserver.messages import ByteStream, Response
from dynamo_operator.apiserver.storage import Storage
from dynamo_operator.runtime.client.errors import TransportError
from dynamo_operator.simulation.answers import error_line
from dynamo_operator.simulation.fault_table import Due
from dynamo_operator.simulation.history import Call
from dynamo_operator.simulation.plans import Cut, Deed, Delay, Drop, Duplicate, Stall, note
from dynamo_operator.simulation.views import View

_EVENT_DEEDS = (Cut, Drop, Duplicate, Delay, Stall)


class Path(Protocol):
    """What a watch has to know of the connection that it is on."""

    @property
    def storage(self) -> Storage:
        """The server's store."""

    def view(self, call: Call) -> View | None:
        """Return how what the call reads is seen there, if not as it is."""

    def drawn(self, call: Call, number: int) -> list[Deed]:
        """Return what the weather does to an event."""

    @property
    def has_weather(self) -> bool:
        """Whether it may do anything."""

    async def happen(self, deeds: Iterable[Deed], call: Call) -> None:
        """Carry out what is about processes and the world."""

    def spawn(self, what: Callable[[], Coroutine[Any, Any, Any]]) -> object:
        """Start something in the world."""


class Watch:
    """The stream of one watch, as its client gets it."""

    def __init__(self, opened: Response, call: Call, due: Due, path: Path) -> None:
        self.status = opened.status
        self.headers: Mapping[str, str] = opened.headers
        self.call = call
        self._body = opened.body
        self._due = due
        self._path = path
        self._error: TransportError | None = None
        self._ended = False
        self._wake = asyncio.Event()
        self._number = 0
        self._lost = 0

    def wake(self) -> None:
        """Look again whether what was withheld is to be seen now."""
        self._wake.set()

    def end(self, error: TransportError | None = None) -> None:
        """End it from outside; whoever waits for its next event finds the end, or the error."""
        self._error = error
        self._ended = True
        self._wake.set()
        if not isinstance(self._body, bytes):
            self._path.spawn(self._body.aclose)

    async def read(self) -> bytes:
        """Return the whole body."""
        return self._body if isinstance(self._body, bytes) else await read(self._body)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield events as they arrive."""
        if isinstance(self._body, bytes):
            yield self._body
            return
        async for piece in self._body:
            kept = b""
            for line in piece.splitlines(keepends=True):
                self._number += 1
                deeds = self._deeds()
                if not deeds and not self._lost and self._is_seen(line):
                    kept += line
                    continue
                if kept:
                    yield kept
                    kept = b""
                async for part in self._passed(line, deeds):
                    yield part
                if self._ended:
                    break
            if kept:
                yield kept
            if self._ended:
                break
        if self._error is not None:
            raise self._error

    def _deeds(self) -> list[Deed]:
        """Return what happens to the event."""
        planned = self._due.events.get(self._number, [])
        if not self._path.has_weather:
            return planned
        return [*planned, *self._path.drawn(self.call, self._number)]

    async def _passed(self, line: bytes, deeds: Sequence[Deed]) -> AsyncIterator[bytes]:
        """Yield what arrives of an event."""
        while not self._ended and not self._is_seen(line):
            self._wake.clear()
            await self._wake.wait()
        if self._ended:
            return
        if deeds:
            await self._path.happen(deeds, self.call)
        copies = 1
        for deed in deeds:
            if isinstance(deed, _EVENT_DEEDS):
                note(self.call, deed)
            match deed:
                case Cut():
                    yield self._cut(deed, line)
                    return
                case Drop(events=events):
                    self._lost = max(self._lost, events)
                case Duplicate():
                    copies = 2
                case Delay(seconds=seconds) | Stall(seconds=seconds):
                    await asyncio.sleep(seconds)
        if self._lost:
            self._lost -= 1
        else:
            yield line * copies

    def _cut(self, deed: Cut, line: bytes) -> bytes:
        """End here; return what still arrives."""
        self._ended = True
        if deed.how in ("middle", "reset"):
            self._error = TransportError("the connection was reset")
        match deed.how:
            case "middle":
                return line[: len(line) // 2]
            case "expired":
                return error_line(410)
            case "error":
                return error_line(500)
        return b""

    def _is_seen(self, line: bytes) -> bool:
        view = self._path.view(self.call)
        return view is None or view.shows(self._path.storage, self.call.resource, line)


async def read(stream: ByteStream) -> bytes:
    """Return all of a stream."""
    return b"".join([chunk async for chunk in _each(stream)])


async def _each(stream: ByteStream) -> AsyncGenerator[bytes]:
    async for chunk in stream:
        yield chunk
