"""The transport on real sockets; the client's only user of an HTTP library."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import ssl
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import aiohttp
from yarl import URL

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

CONNECT_TIMEOUT_SECONDS = 10.0
ANSWER_TIMEOUT_SECONDS = 30.0
IDLE_SECONDS = 15.0

_MOST_CONNECTIONS = 100
_BODILESS_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})
_NOT_IN_A_TARGET = re.compile(r"[\x00-\x20\x7f]")
_FAULTS = (ExchangeError, aiohttp.ClientError, OSError, ValueError)
_CONNECTING = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_SECONDS)

# API servers pack each event of a watch by itself: that is work for both, and saves little.
_UNPACKED = {"Accept-Encoding": "identity"}


class HttpTransport:
    """A `Transport` on aiohttp.

    It lets aiohttp open connections (names, addresses, TLS, proxies), and then speaks HTTP on them
    itself: the sessions of aiohttp, made for the whole web, take three times as long.

    Watches and other streams have connections of their own without a limit, so that they cannot
    starve requests. One TLS context serves all; it is built anew, in a thread, when the client
    certificate changed or the server's certificate was not trusted (its authority may be new).
    Open streams stay.
    """

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._base = config.server.rstrip("/")
        self._url = URL(self._base)
        self._proxy, self._proxy_headers = _split_proxy(config.proxy)
        self._prefix = self._url.raw_path.rstrip("/")
        self._headers = [("Host", self._url.host_port_subcomponent or ""), *config.static_headers()]
        if not self._is_tls and self._proxy is not None:
            # Such a proxy sees our requests, and forwards them.
            self._prefix = self._base
            self._headers += (self._proxy_headers or {}).items()
        self._requests: _Pool | None = None
        self._streams: _Pool | None = None
        self._destination: _Destination | None = None
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
            raise self._fault(error, exchange) from _cause(error)
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
                raise self._fault(error, exchange) from _cause(error)
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

    @property
    def _is_tls(self) -> bool:
        return self._base.startswith("https:")

    def _pool(self, most: int) -> _Pool:
        if self._closed:
            raise TransportError("the client is closed", sent=False)
        return _Pool(most)

    async def _open(
        self, exchange: _Exchange, pool: _Pool, *, is_stream: bool = False
    ) -> HttpAnswer:
        """Send the request and return the answer that is to come."""
        if self._closed:
            raise TransportError("the client is closed", sent=False)
        request = exchange.request
        head = self._head(request)
        try:
            exchange.connection = await pool.take(await self._current_destination())
        except aiohttp.ClientConnectorCertificateError:
            # The server may have a certificate of a new authority, whose own is in the file
            # already.
            self._destination = None
            if self._config.tls.ca_file is None:
                raise
            exchange.connection = await pool.take(await self._current_destination())
        answer = exchange.connection.send(request, head, is_stream=is_stream)
        exchange.sent = True
        return answer

    async def _current_destination(self) -> _Destination:
        certificate = self._config.credentials.client_certificate
        destination = self._destination
        if destination is None or certificate is not self._destination_certificate:
            destination = await self._new_destination(certificate)
        return destination

    async def _new_destination(self, certificate: ClientCertificate | None) -> _Destination:
        async with self._destination_lock:
            if self._destination is None or certificate is not self._destination_certificate:
                tls: ssl.SSLContext | bool = True
                if self._is_tls:
                    tls = await asyncio.to_thread(client_context, self._config.tls, certificate)
                self._destination = _Destination(
                    "GET",
                    self._url,
                    loop=asyncio.get_running_loop(),
                    ssl=tls,
                    server_hostname=self._config.tls.server_name or None,
                    proxy=self._proxy,
                    proxy_headers=self._proxy_headers,
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
        own = {name.lower() for name in request.headers}
        lines += [f"{name}: {value}" for name, value in self._headers if name.lower() not in own]
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
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            self._destination = None
            return TransportError(
                f"{request}: the certificate of {self._config.host} is not trusted: "
                f"{error.certificate_error}",
                sent=False,
            )
        if isinstance(error, TimeoutError):
            what = "no answer in time" if sent else "no connection in time"
            return DeadlineExceededError(f"{request}: {what}", sent=sent)
        if isinstance(error, aiohttp.ClientResponseError):  # a proxy's
            message = " ".join(error.message.split())
            return TransportError(f"{request}: {error.status} {message}", sent=sent)
        return TransportError(f"{request}: {self._described(error)}", sent=sent)

    def _described(self, error: Exception) -> str:
        return "the client is closed" if self._closed else _described(error)


async def fetch_text(url: str, *, timeout_seconds: float = 5.0, largest: int = 20 * 2**20) -> str:
    """GET a plain page of a cluster's inside, e.g. an exporter's metrics, without credentials.

    Args:
        url: http or https.
        timeout_seconds: for all of it.
        largest: bytes after which the page is cut off.

    Raises:
        TransportError: no answer, or another status than 200.
    """
    timeout = aiohttp.ClientTimeout(total=timeout_seconds, sock_connect=3.0)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
            session.get(url, allow_redirects=False) as answer,
        ):
            if answer.status != 200:
                raise TransportError(f"GET {url}: HTTP status {answer.status}, expected 200")
            page = bytearray()
            async for chunk in answer.content.iter_any():
                page += chunk
                if len(page) > largest:
                    break
            return page[:largest].decode("utf-8", errors="replace")
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise TransportError(f"GET {url}: {_described(error)}") from error


class _Destination(aiohttp.ClientRequest):
    """What aiohttp needs to connect: a request that is never sent."""


@dataclass(slots=True)
class _Exchange:
    """What became of a request."""

    request: HttpRequest
    connection: HttpConnection | None = None
    sent: bool = False


class _Pool:
    """Connections to one server, of which so many are in use at once; 0 for any number."""

    def __init__(self, most: int) -> None:
        self._connector = aiohttp.TCPConnector(limit=0)
        self._slots = asyncio.Semaphore(most) if most else None
        self._idle: deque[tuple[float, _Destination, HttpConnection]] = deque()
        self._destinations: dict[HttpConnection, _Destination] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def take(self, destination: _Destination) -> HttpConnection:
        """Return a connection for one exchange, one that is there already if possible."""
        if self._slots is not None:
            await self._slots.acquire()
        try:
            while self._idle:
                _, of, connection = self._idle.pop()  # the last one used is the least likely gone
                if of is destination and connection.is_open:
                    return connection
                self._drop(connection)
            held = await self._connector.connect(destination, [], _CONNECTING)
            if held.transport is None:
                raise aiohttp.ClientConnectionResetError("the server closed the connection")
            connection = HttpConnection(held.transport, held.close)
            self._destinations[connection] = destination
            return connection
        except BaseException:
            if self._slots is not None:
                self._slots.release()
            raise

    def give(self, connection: HttpConnection, *, is_whole: bool) -> None:
        """Take a connection back after its exchange.

        Args:
            connection: one that was taken.
            is_whole: whether the answer was read to its end.
        """
        if self._slots is not None:
            self._slots.release()
        if not is_whole or not connection.release() or self._connector.closed:
            self._drop(connection)
            return
        loop = asyncio.get_running_loop()
        self._idle.append((loop.time(), self._destinations[connection], connection))
        if self._timer is None:
            self._timer = loop.call_later(IDLE_SECONDS, self._drop_idle)

    async def close(self) -> None:
        """Close all connections."""
        if self._timer is not None:
            self._timer.cancel()
        self._idle.clear()
        for connection in tuple(self._destinations):
            self._drop(connection)
        await self._connector.close()

    def _drop(self, connection: HttpConnection) -> None:
        self._destinations.pop(connection, None)
        connection.close()

    def _drop_idle(self) -> None:
        """Close what nobody has used for a while."""
        loop = asyncio.get_running_loop()
        self._timer = None
        while self._idle and self._idle[0][0] + IDLE_SECONDS <= loop.time():
            self._drop(self._idle.popleft()[2])
        if self._idle:
            self._timer = loop.call_at(self._idle[0][0] + IDLE_SECONDS, self._drop_idle)


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


def _cause(error: Exception) -> BaseException | None:
    """Return what an error of ours may be chained to."""
    # The representation of aiohttp's holds the request's headers.
    return None if isinstance(error, aiohttp.ClientResponseError) else error


def _split_proxy(proxy: str) -> tuple[URL | None, dict[str, str] | None]:
    """Return a proxy's URL and, apart from it, its credentials: errors show the URL."""
    if not proxy:
        return None, None
    url = URL(proxy)
    if url.user is None:
        return url, None
    pair = base64.b64encode(f"{url.user}:{url.password or ''}".encode()).decode()
    return url.with_user(None), {"Proxy-Authorization": f"Basic {pair}"}


@lru_cache(maxsize=256)  # writes have the same few
def _query_text(query: tuple[tuple[str, str], ...]) -> str:
    return f"?{urlencode(query)}"


def _described(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        # Its own text shows the TLS context as an object at an address.
        number, reason = error.os_error.errno or 0, error.os_error.strerror
        why = os.strerror(number) if number > 0 else reason or error.os_error
        return f"cannot connect to {error.host}:{error.port}: {why}"
    return " ".join(str(error).split()) or type(error).__name__
