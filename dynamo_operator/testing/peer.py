"""One end of a proxied connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dynamo_operator.testing.faults import ProxiedRequest


class ObservedReader(asyncio.StreamReader):
    """Tells when the connection ends, also while nobody reads."""

    def __init__(self, *, limit: int) -> None:
        super().__init__(limit=limit)
        self.has_ended = False
        self.on_end: list[Callable[[], object]] = []

    def feed_eof(self) -> None:
        """Note that nothing more will come."""
        super().feed_eof()
        self._end()

    def set_exception(self, exc: Exception) -> None:
        """Note that the connection broke."""
        super().set_exception(exc)
        self._end()

    def _end(self) -> None:
        self.has_ended = True
        for call in self.on_end:
            call()
        self.on_end.clear()


class Peer:
    """A connection to a client or to the server.

    Of a client also what it is asking at present, and the connection on which the server is asked.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.request: ProxiedRequest | None = None
        self.other: Peer | None = None

    @property
    def has_ended(self) -> bool:
        """Whether the other side has gone."""
        if isinstance(self.reader, ObservedReader) and self.reader.has_ended:
            return True
        return self.reader.at_eof() or self.writer.is_closing()

    def on_end(self, call: Callable[[], object]) -> None:
        """Have something called when the other side has gone; at once if it has."""
        if self.has_ended:
            call()
        elif isinstance(self.reader, ObservedReader):
            self.reader.on_end.append(call)

    async def close(self) -> None:
        """End the connection once everything that was written has been sent."""
        self.writer.close()
        await self.writer.wait_closed()

    def abort(self) -> None:
        """Cut the connection."""
        self.writer.transport.abort()
