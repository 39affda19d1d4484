"""HTTP/1.1 on one connection of a server: requests are read, and answered in their order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import parse_qsl, unquote

import httptools
import structlog

from dynamo_operator.runtime.client.http import HttpRequest, HttpResponse

LARGEST_HEAD = 64 * 1024

_CHUNK = 64 * 1024

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """How long a client may take, in seconds.

    Args:
        header: from the start of a connection to the end of its first request's header.
        body: for a request's body.
        idle: from an answer to the end of the next request's header, and for taking an answer.
    """

    header: float = 32.0
    body: float = 30.0
    idle: float = 90.0


def text_answer(status: int, text: str) -> HttpResponse:
    """Return a page of one line."""
    return HttpResponse(status, {"content-type": "text/plain; charset=utf-8"}, f"{text}\n".encode())


class HttpExchanges:
    """The exchanges of one connection.

    Args:
        reader: what the client sends.
        writer: what it is sent.
        limits: how long it may take.
        answer: answers a request.
        largest_body: returns the most bytes that a method and path take.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        limits: HttpLimits,
        answer: Callable[[HttpRequest], Awaitable[HttpResponse]],
        largest_body: Callable[[str, str], int],
    ) -> None:
        self._requests = _Requests(reader)
        self._writer = writer
        self._limits = limits
        self._answer = answer
        self._largest_body = largest_body
        self._keeps_alive = True
        self.is_answering: bool = False
        """Whether a request is there that has no answer yet."""

    def finish(self) -> None:
        """Let the answer that is under way be the last one."""
        self._keeps_alive = False

    async def run(self) -> None:
        """Answer one request after the other until either side closes the connection."""
        try:
            await self._run()
        except (TimeoutError, OSError):
            self._writer.transport.abort()  # it dawdles, or is gone
        finally:
            self._writer.close()

    async def _run(self) -> None:
        patience = self._limits.header
        try:
            while self._keeps_alive:
                async with asyncio.timeout(patience):
                    request = await self._requests.head()
                if request is None:
                    return
                self.is_answering = True
                await self._exchange(request)
                self.is_answering = False
                patience = self._limits.idle
        except _NotHttpError as error:
            _log.info("request not understood", error=str(error))
            self._keeps_alive = False
            await self._send("GET", text_answer(400, "the request is no HTTP"))

    async def _exchange(self, request: _Request) -> None:
        method, path = request.method, request.path
        most = self._largest_body(method, path)
        if request.headers.get("expect", "").lower() == "100-continue":
            self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            async with asyncio.timeout(self._limits.body):
                body = await self._requests.body(request, most)
        except TimeoutError:
            self._keeps_alive = False
            await self._send(method, text_answer(408, f"no whole body in {self._limits.body:g} s"))
            return
        if body is None:
            self._keeps_alive = False
            await self._send(method, text_answer(413, f"body over {most} bytes"))
            async with asyncio.timeout(self._limits.body):
                # Closed while it sends, the connection would break before the answer is read.
                await self._requests.discard(request)
            return
        self._keeps_alive = self._keeps_alive and request.keeps_alive
        asked = HttpRequest(method, path, request.query, request.headers, body)
        try:
            answer = await self._answer(asked)
        except Exception as error:  # noqa: BLE001 - a server outlives whatever a handler raises
            _log.error("request not answered", exc_info=error)
            answer = text_answer(500, "the request could not be answered")
        await self._send(method, answer)

    async def _send(self, method: str, answer: HttpResponse) -> None:
        from email.utils import formatdate  # has much to load

        headers = {"date": formatdate(usegmt=True), **answer.headers}
        headers["content-length"] = str(len(answer.body))
        if not self._keeps_alive:
            headers["connection"] = "close"
        lines = [f"HTTP/1.1 {answer.status} {_phrase(answer.status)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        self._writer.write(head if method == "HEAD" else head + answer.body)
        async with asyncio.timeout(self._limits.idle):
            await self._writer.drain()


class _NotHttpError(Exception):
    """What came is no HTTP, or too much of it; one line."""


@dataclass(slots=True, eq=False)
class _Request:
    """A request as it arrives."""

    method: str = ""
    target: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    chunks: list[bytes] = field(default_factory=list)
    size: int = 0
    head_size: int = 0
    has_head: bool = False
    is_complete: bool = False
    keeps_alive: bool = False

    @property
    def path(self) -> str:
        """Its path, decoded."""
        return unquote(self.target.partition("?")[0])

    @property
    def query(self) -> list[tuple[str, str]]:
        """What stands behind the question mark."""
        return parse_qsl(self.target.partition("?")[2], keep_blank_values=True)


class _Requests:
    """Reads the requests of a connection."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._parser = httptools.HttpRequestParser(self)
        self._arriving = _Request()
        self._begun: deque[_Request] = deque()  # a client may send the next one before an answer
        self._headless_size = 0  # of what came before a head ended

    async def head(self) -> _Request | None:
        """Return the next request once its head is there; None at the end of the connection."""
        while not (self._begun and self._begun[0].has_head):
            if not await self._read():
                return None
        return self._begun.popleft()

    async def body(self, request: _Request, most: int) -> bytes | None:
        """Return a request's body, or None when it has more than so many bytes."""
        while not request.is_complete and request.size <= most:
            if not await self._read():
                raise ConnectionResetError("the client closed the connection")
        return b"".join(request.chunks) if request.size <= most else None

    async def discard(self, request: _Request) -> None:
        """Read the rest of a request, and forget it."""
        while not request.is_complete and await self._read():
            request.chunks.clear()

    async def _read(self) -> bool:
        """Take what came; False at the end of the connection."""
        data = await self._reader.read(_CHUNK)
        if not data:
            return False
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # Answered as if it had not asked for another protocol; nothing behind it is read.
            self._arriving.keeps_alive = False
        except httptools.HttpParserError as error:
            raise _NotHttpError(" ".join(str(error).split())) from error
        if not self._arriving.has_head:
            self._headless_size += len(data)
        if max(self._arriving.head_size, self._headless_size) > LARGEST_HEAD:
            raise _NotHttpError(f"the header is larger than {LARGEST_HEAD} bytes")
        return True

    # What the parser calls

    def on_message_begin(self) -> None:
        """Take note that a request begins."""
        self._arriving = _Request()
        self._begun.append(self._arriving)
        self._headless_size = 0

    def on_url(self, url: bytes) -> None:
        """Take a piece of the target."""
        self._arriving.target += url.decode("latin-1")
        self._arriving.head_size += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; those of one name are joined."""
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers = self._arriving.headers
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
        self._arriving.head_size += len(name) + len(value)

    def on_headers_complete(self) -> None:
        """Take note that the head is there."""
        self._arriving.method = self._parser.get_method().decode()
        self._arriving.has_head = True
        self._headless_size = 0

    def on_body(self, data: bytes) -> None:
        """Take a piece of the body."""
        self._arriving.chunks.append(data)
        self._arriving.size += len(data)

    def on_message_complete(self) -> None:
        """Take note of the end."""
        self._arriving.keeps_alive = self._parser.should_keep_alive()
        self._arriving.is_complete = True


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
