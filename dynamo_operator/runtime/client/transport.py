"""The transport on real sockets; the client's only user of an HTTP library."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from dynamo_operator.runtime.client.connecting import (
    ConnectError,
    Destination,
    Endpoint,
    UntrustedError,
)
from dynamo_operator.runtime.client.connection_pool import ConnectionPool
from dynamo_operator.runtime.client.errors import DeadlineExceededError, TransportError
from dynamo_operator.runtime.client.http import HttpRequest, HttpResponse, HttpStream
from dynamo_operator.runtime.client.http_connection import (
    ExchangeError,
    HttpAnswer,
    HttpConnection,
)
from dynamo_operator.runtime.client.tls import client_context

if TYPE_CHECKING:
    from dynamo_operator.runtime.client.config import ClientConfig
    from dynamo_operator.runtime.client.credentials import ClientCertificate

ANSWER_TIMEOUT_SECONDS = 30.0

_MOST_CONNECTIONS = 100
_BODILESS_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})
_NOT_IN_A_TARGET = re.compile(r"[\x00-\x20\x7f]")
_FAULTS = (ExchangeError, ConnectError, OSError, ValueError)

# API servers pack each event of a watch by itself: that is work for both, and saves little.
_UNPACKED = {"Accept-Encoding": "identity"}


class HttpTransport:
    """A `Transport` on asyncio's own connections, with httptools to read HTTP.

    Watches and other streams have connections of their own without a limit, so that they cannot
    starve requests. One TLS context serves all; it is built anew, in a thread, when the client
    certificate changed or the server's certificate was not trusted (its authority may be new).
    Open streams stay.
    """

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        base = config.server.rstrip("/")
        self._server = Endpoint.of(base)
        self._proxy = Endpoint.of(config.proxy) if config.proxy else None
        self._prefix = urlsplit(base).path
        self._headers = [("Host", self._server.host_header), *config.static_headers()]
        if not self._server.is_tls and self._proxy is not None:
            # Such a proxy sees our requests, and forwards them.
            self._prefix = base
            if self._proxy.authorization:
                self._headers.append(("Proxy-Authorization", self._proxy.authorization))
        self._header_names = frozenset(name.lower() for name, _ in self._headers)
        self._header_lines = [f"{name}: {value}" for name, value in self._headers]
        self._requests: ConnectionPool | None = None
        self._streams: ConnectionPool | None = None
        self._destination: Destination | None = None
        self._destination_certificate: ClientCertificate | None = None
        self._destination_lock = asyncio.Lock()
        self._separated: list[HttpTransport] = []
        self._closed = False

    def with_own_connections(self, user_agent_suffix: str) -> HttpTransport:
        """Return a transport with connections of its own; closed with this one."""
        user_agent = f"{self._config.user_agent} {user_agent_suffix}"
        separated = HttpTransport(replace(self._config, user_agent=user_agent))
        self._separated.append(separated)
        return separated

    async def send(self, request: HttpRequest, *, timeout_seconds: float) -> HttpResponse:
        """Return the answer; see `Transport.send`."""
        if self._requests is None:
            self._requests = self._pool(_MOST_CONNECTIONS)
        exchange = _Exchange(request)
        is_whole = False
        try:
            async with asyncio.timeout(timeout_seconds):
                answer = await self._open(exchange, self._requests)
                body = await answer.body()
                is_whole = True
        except _FAULTS as error:
            raise self._fault(error, exchange) from error
        finally:
            if exchange.connection is not None:
                self._requests.give(exchange.connection, is_whole=is_whole)
        return HttpResponse(answer.status, answer.headers, body)

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncGenerator[HttpStream]:
        """Open an answer of any length; see `Transport.stream`."""
        if self._streams is None:
            self._streams = self._pool(0)
        exchange = _Exchange(replace(request, headers={**_UNPACKED, **request.headers}))
        try:
            try:
                async with asyncio.timeout(ANSWER_TIMEOUT_SECONDS):
                    answer = await self._open(exchange, self._streams, is_stream=True)
                    await answer.head()
            except _FAULTS as error:
                raise self._fault(error, exchange) from error
            yield _Stream(request, answer)
        finally:
            if exchange.connection is not None:
                self._streams.give(exchange.connection, is_whole=False)

    async def close(self) -> None:
        """Close all connections; harmless when repeated."""
        self._closed = True
        for pool in (self._requests, self._streams):
            if pool is not None:
                await pool.close()
        for separated in self._separated:
            await separated.close()

    def _pool(self, most: int) -> ConnectionPool:
        if self._closed:
            raise TransportError("the client is closed", sent=False)
        return ConnectionPool(most)

    async def _open(
        self, exchange: _Exchange, pool: ConnectionPool, *, is_stream: bool = False
    ) -> HttpAnswer:
        """Send the request and return the answer that is to come."""
        if self._closed:
            raise TransportError("the client is closed", sent=False)
        request = exchange.request
        head = self._head(request)
        try:
            exchange.connection = await pool.take(await self._current_destination())
        except UntrustedError:
            # The server may have a certificate of a new authority, whose own is in the file
            # already.
            self._destination = None
            if self._config.tls.ca_file is None:
                raise
            exchange.connection = await pool.take(await self._current_destination())
        answer = exchange.connection.send(request, head, is_stream=is_stream)
        exchange.sent = True
        return answer

    async def _current_destination(self) -> Destination:
        certificate = self._config.credentials.client_certificate
        destination = self._destination
        if destination is None or certificate is not self._destination_certificate:
            destination = await self._new_destination(certificate)
        return destination

    async def _new_destination(self, certificate: ClientCertificate | None) -> Destination:
        async with self._destination_lock:
            if self._destination is None or certificate is not self._destination_certificate:
                tls: ssl.SSLContext | None = None
                if self._server.is_tls:
                    tls = await asyncio.to_thread(client_context, self._config.tls, certificate)
                proxy_tls: ssl.SSLContext | None = None
                if self._proxy is not None and self._proxy.is_tls:
                    proxy_tls = await asyncio.to_thread(ssl.create_default_context)
                self._destination = Destination(
                    self._server, tls, self._config.tls.server_name, self._proxy, proxy_tls
                )
                self._destination_certificate = certificate
            return self._destination

    def _head(self, request: HttpRequest) -> bytes:
        """Return the request's line and headers.

        Raises:
            ValueError: something in them would not stay where it belongs.
        """
        query = _query_text(tuple(request.query)) if request.query else ""
        target = f"{self._prefix}{request.path}{query}"
        if _NOT_IN_A_TARGET.search(target):
            raise ValueError("the path has a space or a control character")
        lines = [f"{request.method} {target} HTTP/1.1"]
        own = [name.lower() for name in request.headers]
        if self._header_names.isdisjoint(own):
            lines += self._header_lines
        else:
            lines += [f"{n}: {value}" for n, value in self._headers if n.lower() not in own]
        lines += [f"{name}: {value}" for name, value in request.headers.items()]
        if request.body is not None or request.method not in _BODILESS_METHODS:
            lines.append(f"Content-Length: {len(request.body or b'')}")
        text = "\r\n".join(lines)
        ends = len(lines) - 1
        if text.count("\r") != ends or text.count("\n") != ends or "\0" in text:
            raise ValueError("a header has a line break or a null character")
        return f"{text}\r\n\r\n".encode()

    def _fault(self, error: Exception, exchange: _Exchange) -> TransportError:
        """Return what went wrong on the wire as an error of ours."""
        request, sent = exchange.request, exchange.sent
        if isinstance(error, UntrustedError):
            self._destination = None
            return TransportError(
                f"{request}: the certificate of {self._config.host} is not trusted: {error}",
                sent=False,
            )
        if isinstance(error, TimeoutError):
            what = "no answer in time" if sent else "no connection in time"
            return DeadlineExceededError(f"{request}: {what}", sent=sent)
        why = "the client is closed" if self._closed else _described(error)
        return TransportError(f"{request}: {why}", sent=sent)


async def fetch_text(url: str, *, timeout_seconds: float = 5.0, largest: int = 20 * 2**20) -> str:
    """GET a plain page of a cluster's inside, e.g. an exporter's metrics, without credentials.

    Args:
        url: http or https.
        timeout_seconds: for all of it.
        largest: bytes after which the page is cut off.

    Raises:
        TransportError: no answer, or another status than 200.
    """
    from dynamo_operator.runtime.client.config import ClientConfig

    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    page = bytearray()
    try:
        transport = HttpTransport(ClientConfig(f"{parts.scheme}://{parts.netloc}"))
        try:
            async with (
                asyncio.timeout(timeout_seconds),
                transport.stream(HttpRequest("GET", target)) as answer,
            ):
                if answer.status != 200:
                    raise TransportError(f"HTTP status {answer.status}, expected 200")
                async for chunk in answer.chunks():
                    page += chunk
                    if len(page) > largest:
                        break
        finally:
            await transport.close()
    except (TransportError, TimeoutError, ValueError) as error:
        raise TransportError(f"GET {url}: {_described(error)}") from error
    return page[:largest].decode("utf-8", errors="replace")


@dataclass(slots=True)
class _Exchange:
    """What became of a request."""

    request: HttpRequest
    connection: HttpConnection | None = None
    sent: bool = False


class _Stream:
    """A `HttpStream` over an answer."""

    def __init__(self, request: HttpRequest, answer: HttpAnswer) -> None:
        self._request = request
        self._answer = answer
        self.status = answer.status
        self.headers: Mapping[str, str] = answer.headers

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives."""
        return _Chunks(self._request, self._answer)

    async def read(self) -> bytes:
        """Return the whole body, for answers that turn out to be errors."""
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_SECONDS):
                return await self._answer.body()
        except TimeoutError as error:
            raise DeadlineExceededError(f"{self._request}: no whole answer in time") from error
        except ExchangeError as error:
            raise TransportError(f"{self._request}: {error}") from error


class _Chunks:
    """The pieces of an answer as they arrive; a class, because a generator needs closing."""

    def __init__(self, request: HttpRequest, answer: HttpAnswer) -> None:
        self._request = request
        self._answer = answer

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await self._answer.chunk()
        except ExchangeError as error:
            raise TransportError(f"{self._request}: {error}") from error
        if not chunk:
            raise StopAsyncIteration
        return chunk


@lru_cache(maxsize=256)  # writes have the same few
def _query_text(query: tuple[tuple[str, str], ...]) -> str:
    return f"?{urlencode(query)}"


def _described(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
