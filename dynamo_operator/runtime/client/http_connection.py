"""HTTP/1.1 on one open connection: a request goes out, its answer comes in."""

from __future__ import annotations

import asyncio
import ssl
import zlib
from typing import cast

import httptools

from dynamo_operator.runtime.client.http import HttpRequest

LARGEST_BODY = 512 * 1024 * 1024
LARGEST_HEAD = 256 * 1024

_HIGH_WATER = 2**17  # bytes of a stream that wait for their reader before reading pauses
_GZIP = zlib.MAX_WBITS | 16
_ANSWERED_BY_A_HEAD = frozenset({"HEAD", "CONNECT"})


class ExchangeError(Exception):
    """An answer that did not come, or not whole; one line saying why."""


class HttpConnection(asyncio.Protocol):
    """One connection, for one exchange at a time; the protocol of an asyncio transport."""

    _transport: asyncio.Transport

    def __init__(self) -> None:
        self._answer: HttpAnswer | None = None

    @property
    def is_open(self) -> bool:
        """Whether a request can be sent."""
        return not self._transport.is_closing()

    def send(self, request: HttpRequest, head: bytes, *, is_stream: bool) -> HttpAnswer:
        """Send a request and return the answer that is to come.

        Args:
            request: what is asked; its `before_send` is called first.
            head: the request's line and headers, as they go out.
            is_stream: whether the answer is read as it arrives, and not as a whole.

        Raises:
            ExchangeError: the connection is closed; nothing was sent.
        """
        transport = self._transport
        if transport.is_closing():
            raise ExchangeError("the server closed the connection")
        if request.before_send is not None:
            request.before_send()
        has_body = request.method not in _ANSWERED_BY_A_HEAD
        self._answer = answer = HttpAnswer(transport, has_body=has_body, is_stream=is_stream)
        transport.write(head + request.body if request.body else head)
        return answer

    def release(self) -> bool:
        """Forget the exchange; return whether there can be another one."""
        answer, self._answer = self._answer, None
        return answer is not None and answer.leaves_open and not self._transport.is_closing()

    def close(self) -> None:
        """Close the connection; whoever waits for an answer on it is told."""
        answer, self._answer = self._answer, None
        self._transport.abort()
        if answer is not None:
            answer.lost(None)

    async def start_tls(self, context: ssl.SSLContext, server_name: str) -> None:
        """Go on within TLS, once a proxy has connected us to the server.

        Raises:
            OSError: there is no agreement, or no trust.
        """
        loop = asyncio.get_running_loop()
        secured = await loop.start_tls(self._transport, self, context, server_hostname=server_name)
        if secured is None:
            raise ConnectionResetError("the connection was closed")
        self._transport = secured

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the open connection over."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Take what the server sent."""
        if self._answer is None:
            self._transport.abort()  # nobody asked for anything
        else:
            self._answer.feed(data)

    def connection_lost(self, error: Exception | None) -> None:
        """Take note that the connection is gone."""
        if self._answer is not None:
            self._answer.lost(error)


class HttpAnswer:
    """An answer as it arrives."""

    def __init__(self, transport: asyncio.Transport, *, has_body: bool, is_stream: bool) -> None:
        self.status: int = 0
        self.headers: dict[str, str] = {}
        self._transport = transport
        self._parser = httptools.HttpResponseParser(self)
        self._has_body = has_body
        self._is_stream = is_stream
        self._head_size = 0
        self._has_head = False
        self._is_complete = False
        self._has_surplus = False
        self._keeps_alive = False
        self._error: ExchangeError | None = None
        self._chunks: list[bytes] = []
        self._size = 0  # of the chunks that wait
        self._is_paused = False
        self._waiter: asyncio.Future[None] | None = None
        self._unpacker: zlib._Decompress | None = None

    @property
    def leaves_open(self) -> bool:
        """Whether it came whole, and the server lets the connection be used again."""
        return self._keeps_alive and not self._has_surplus

    async def head(self) -> None:
        """Wait for the status and the headers.

        Raises:
            ExchangeError: they did not come.
        """
        while not self._has_head:
            await self._wait()

    async def body(self) -> bytes:
        """Wait for the rest of the answer and return its body.

        Raises:
            ExchangeError: it did not come, or is larger than LARGEST_BODY.
        """
        while not self._is_complete and self._size <= LARGEST_BODY:
            self._resume()
            await self._wait()
        if self._size > LARGEST_BODY:
            raise _too_large()
        body = self._unpacked(self._taken(), most=LARGEST_BODY)
        if self._unpacker is not None and self._has_body and not self._unpacker.eof:
            raise ExchangeError("the answer cannot be unpacked: its end is missing")
        return body

    async def chunk(self) -> bytes:
        """Return what came of the body since the last call, or b"" at its end.

        Raises:
            ExchangeError: the connection broke before the end.
        """
        while True:
            if self._chunks:
                data = self._taken()
                self._resume()
                if data := self._unpacked(data):
                    return data
            elif self._is_complete:
                return b""
            else:
                await self._wait()

    def feed(self, data: bytes) -> None:
        """Take bytes from the connection."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail("the server changes to another protocol")
        except httptools.HttpParserError as error:
            self._fail(f"the answer is no HTTP: {' '.join(str(error).split())}")
        if not self._has_head:
            self._head_size += len(data)
            if self._head_size > LARGEST_HEAD:
                self._fail(f"the headers of the answer are larger than {LARGEST_HEAD} bytes")
        elif self._is_stream and self._size > _HIGH_WATER and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()
        if self._is_stream or self._is_complete or self._size > LARGEST_BODY:
            self._wake()

    def lost(self, error: Exception | None) -> None:
        """Take note that the connection is gone."""
        if self._is_complete:
            return
        has_length = "content-length" in self.headers or "transfer-encoding" in self.headers
        if self._has_head and error is None and not has_length:
            self._is_complete = True  # the connection's end is the body's
            self._wake()
        else:
            why = " ".join(str(error).split()) if error else ""
            self._fail(why or "the server closed the connection before the end of its answer")

    # What the parser calls

    def on_message_begin(self) -> None:
        """Take note that an answer begins."""
        self._has_surplus = self._is_complete

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        if self._has_surplus:
            return
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers = self.headers
        headers[key] = f"{headers[key]}, {text}" if key in headers else text

    def on_headers_complete(self) -> None:
        """Take note that the head is there."""
        status = self._parser.get_status_code()
        if self._has_surplus or status < 200:
            return
        self.status = status
        self._has_head = True
        encoding = self.headers.get("content-encoding", "identity")
        if encoding == "gzip":
            self._unpacker = zlib.decompressobj(_GZIP)
        elif encoding != "identity":
            self._fail(f"the answer is packed as {encoding!r}, which nobody asked for")
        self._is_complete = not self._has_body

    def on_body(self, data: bytes) -> None:
        """Take a piece of the body."""
        if not self._has_surplus:
            self._chunks.append(data)
            self._size += len(data)

    def on_message_complete(self) -> None:
        """Take note of the end."""
        if self._has_surplus:
            return
        if self._has_head:
            self._is_complete = True
            self._keeps_alive = self._has_body and self._parser.should_keep_alive()
        else:
            self.headers.clear()  # that was an interim answer, e.g. 100

    # How readers and the connection meet

    async def _wait(self) -> None:
        self._raise_failure()
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._error is not None:
            raise self._error

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, why: str) -> None:
        self._transport.abort()
        if self._error is None and not self._is_complete:
            self._error = ExchangeError(why)
        self._wake()

    def _taken(self) -> bytes:
        chunks = self._chunks
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        self._size = 0
        return data

    def _resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            if not self._transport.is_closing():
                self._transport.resume_reading()

    def _unpacked(self, data: bytes, *, most: int = 0) -> bytes:
        if self._unpacker is None:
            return data
        try:
            unpacked = self._unpacker.decompress(data, most)
        except zlib.error as error:
            raise ExchangeError(f"the answer cannot be unpacked: {error}") from None
        if self._unpacker.unconsumed_tail:
            raise _too_large()
        return unpacked


def _too_large() -> ExchangeError:
    return ExchangeError(f"the answer is larger than {LARGEST_BODY} bytes")
