"""HTTP/1.1 as it lies on the wire: heads taken apart, bodies piece by piece and unchanged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

_PIECE_BYTES = 64 * 1024
_LAST_CHUNK = 0


class MessageError(Exception):
    """What came is no HTTP/1.1 message; says where it ends being one."""


@dataclass(frozen=True, slots=True)
class Head:
    """The start line and the headers of a request or an answer, as they came."""

    start: str
    headers: tuple[tuple[str, str], ...]

    def header(self, name: str) -> str:
        """Return a header's value, "" where it is absent."""
        name = name.lower()
        return next((value for key, value in self.headers if key.lower() == name), "")

    @property
    def is_chunked(self) -> bool:
        """Whether the body comes in chunks."""
        return self.header("transfer-encoding").lower().endswith("chunked")

    @property
    def closes(self) -> bool:
        """Whether the sender closes the connection after this message."""
        old = "HTTP/1.0" in self.start
        connection = self.header("connection").lower()
        return "close" in connection or (old and "keep-alive" not in connection)

    def to_bytes(self) -> bytes:
        """Return the head as it is sent, with the empty line after it."""
        lines = [self.start, *(f"{name}: {value}" for name, value in self.headers), "", ""]
        return "\r\n".join(lines).encode("latin-1")


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """Read a head; None where the connection ends before one.

    Raises:
        MessageError: it is cut short, or no head.
    """
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial.strip():
            raise MessageError("the connection ended within a head") from None
        return None
    except asyncio.LimitOverrunError:
        raise MessageError("a head has no end") from None
    start, *lines = raw.decode("latin-1").strip("\r\n").split("\r\n")
    headers = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise MessageError(f"header {line!r} has no colon")
        headers.append((name, value.strip()))
    return Head(start, tuple(headers))


async def read_body(reader: asyncio.StreamReader, head: Head) -> bytes:
    """Return a request's whole body as it lies on the wire."""
    if not head.is_chunked and not head.header("content-length"):
        return b""
    return b"".join([piece async for piece in pieces(reader, head)])


async def pieces(reader: asyncio.StreamReader, head: Head) -> AsyncIterator[bytes]:
    """Yield a body as it lies on the wire, chunks with their frames, each as soon as it is there.

    A body of no declared length ends with the connection.

    Raises:
        MessageError: the connection ends before the body does.
    """
    if head.is_chunked:
        async for piece in _chunks(reader):
            yield piece
        return
    declared = head.header("content-length")
    left = int(declared) if declared else None
    while left is None or left > 0:
        piece = await reader.read(_PIECE_BYTES if left is None else min(left, _PIECE_BYTES))
        if not piece:
            if left is None:
                return
            raise MessageError(f"the connection ended {left} bytes before the body")
        if left is not None:
            left -= len(piece)
        yield piece


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    try:
        while True:
            line = await reader.readuntil(b"\r\n")
            size = int(line.partition(b";")[0], 16)
            if size == _LAST_CHUNK:
                break
            yield line + await reader.readexactly(size + len(b"\r\n"))
        while line != b"\r\n":  # trailers, then an empty line
            yield line
            line = await reader.readuntil(b"\r\n")
        yield line
    except asyncio.IncompleteReadError:
        raise MessageError("the connection ended before the last chunk") from None
    except ValueError:
        raise MessageError(f"chunk size {line!r} is no number") from None
