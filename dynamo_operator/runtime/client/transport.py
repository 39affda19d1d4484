"""The transport on real sockets; the client's only user of an HTTP library."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import aiohttp
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from aiohttp.http import HttpProcessingError
from yarl import URL

from dynamo_operator.runtime.client.errors import DeadlineExceededError, TransportError
from dynamo_operator.runtime.client.http import HttpRequest, HttpResponse, HttpStream
from dynamo_operator.runtime.client.tls import client_context

if TYPE_CHECKING:
    from dynamo_operator.runtime.client.config import ClientConfig
    from dynamo_operator.runtime.client.credentials import ClientCertificate

CONNECT_TIMEOUT_SECONDS = 10.0
ANSWER_TIMEOUT_SECONDS = 30.0
LARGEST_BODY = 512 * 1024 * 1024

_MOST_CONNECTIONS = 100
_READ_BUFFER = 2**20
_BODILESS_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})
_NOT_IN_A_TARGET = re.compile(r"[\x00-\x20\x7f]")
_FAULTS = (aiohttp.ClientError, HttpProcessingError, OSError, ValueError)
_CONNECTING = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_SECONDS)

# API servers pack each event of a watch by itself: that is work for both, and saves little.
_UNPACKED = {"Accept-Encoding": "identity"}


class HttpTransport:
    """A `Transport` on aiohttp.

    Of aiohttp it takes the connections (pool, names, TLS, proxies) and the parser of answers, and
    writes requests itself: the sessions of aiohttp, made for the whole web, take twice as long.

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
        self._requests: aiohttp.TCPConnector | None = None
        self._streams: aiohttp.TCPConnector | None = None
        self._destination: aiohttp.ClientRequest | None = None
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
            self._requests = self._connector(_MOST_CONNECTIONS)
        exchange = _Exchange(request)
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._open(exchange, self._requests)
                body = await exchange.body()
        except _FAULTS as error:
            exchange.close()
            raise self._fault(error, exchange) from _cause(error)
        except BaseException:
            exchange.close()
            raise
        exchange.release()
        return HttpResponse(exchange.status, exchange.headers, body)

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncGenerator[HttpStream]:
        """Open an answer of any length; see `Transport.stream`."""
        if self._streams is None:
            self._streams = self._connector(0)
        exchange = _Exchange(replace(request, headers={**_UNPACKED, **request.headers}))
        try:
            try:
                async with asyncio.timeout(ANSWER_TIMEOUT_SECONDS):
                    await self._open(exchange, self._streams)
            except _FAULTS as error:
                raise self._fault(error, exchange) from _cause(error)
            yield exchange
        finally:
            # Closed, not released: releasing would wait for the rest of the answer.
            exchange.close()

    async def close(self) -> None:
        """Close all connections; harmless when repeated."""
        self._closed = True
        for connector in (self._requests, self._streams):
            if connector is not None:
                await connector.close()
        for separated in self._separated:
            await separated.close()

    @property
    def _is_tls(self) -> bool:
        return self._base.startswith("https:")

    def _connector(self, limit: int) -> aiohttp.TCPConnector:
        if self._closed:
            raise TransportError("the client is closed", sent=False)
        return aiohttp.TCPConnector(limit=limit)

    async def _open(self, exchange: _Exchange, connector: aiohttp.TCPConnector) -> None:
        """Send the request and read the head of the answer."""
        if self._closed:
            raise TransportError("the client is closed", sent=False)
        head = self._head(exchange.request)
        try:
            connection = await self._connect(connector)
        except aiohttp.ClientConnectorCertificateError:
            # The server may have a certificate of a new authority, whose own is in the file
            # already.
            self._destination = None
            if self._config.tls.ca_file is None:
                raise
            connection = await self._connect(connector)
        await exchange.begin(connection, head)

    async def _connect(self, connector: aiohttp.TCPConnector) -> Connection:
        certificate = self._config.credentials.client_certificate
        destination = self._destination
        if destination is None or certificate is not self._destination_certificate:
            destination = await self._new_destination(certificate)
        return await connector.connect(destination, [], _CONNECTING)

    async def _new_destination(
        self, certificate: ClientCertificate | None
    ) -> aiohttp.ClientRequest:
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
        if isinstance(error, aiohttp.ClientResponseError | HttpProcessingError):
            code = error.status if isinstance(error, aiohttp.ClientResponseError) else error.code
            return TransportError(f"{request}: {code} {' '.join(error.message.split())}", sent=sent)
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

    @cached_property
    def connection_key(self) -> ConnectionKey:
        return super().connection_key


class _Exchange:
    """A request under way on a connection, and its answer; also a `HttpStream`."""

    def __init__(self, request: HttpRequest) -> None:
        self.request = request
        self.sent = False
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self._connection: Connection | None = None
        self._content: aiohttp.StreamReader | None = None

    async def begin(self, connection: Connection, head: bytes) -> None:
        """Send the request and read the head of the answer."""
        self._connection = connection
        request, protocol, transport = self.request, connection.protocol, connection.transport
        if protocol is None or transport is None or transport.is_closing():
            raise aiohttp.ClientConnectionResetError("Cannot write to closing transport")
        protocol.set_response_params(
            skip_payload=request.method == "HEAD", read_until_eof=True, read_bufsize=_READ_BUFFER
        )
        if request.before_send is not None:
            request.before_send()
        self.sent = True
        transport.write(head + request.body if request.body else head)
        message, content = await protocol.read()
        while 100 <= message.code < 200:
            message, content = await protocol.read()
        self.status, self.headers = message.code, _lower_case(message.headers)
        self._content = content

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives."""
        assert self._content is not None
        return _Chunks(self._content, self.request)

    async def read(self) -> bytes:
        """Return the whole body, of a stream that turns out to be an error."""
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_SECONDS):
                return await self.body()
        except TimeoutError as error:
            raise DeadlineExceededError(f"{self.request}: no whole answer in time") from error
        except (aiohttp.ClientError, OSError) as error:
            raise TransportError(f"{self.request}: {_described(error)}") from error

    async def body(self) -> bytes:
        """Return the whole body; raises what aiohttp raises."""
        assert self._content is not None
        pieces: list[bytes] = []
        size = 0
        while piece := await self._content.readany():
            pieces.append(piece)
            size += len(piece)
            if size > LARGEST_BODY:
                raise TransportError(
                    f"{self.request}: the answer is larger than {LARGEST_BODY} bytes"
                )
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def release(self) -> None:
        """Let others use the connection, the answer being read."""
        if self._connection is not None:
            self._connection.release()

    def close(self) -> None:
        """Close the connection, whatever is on its way."""
        if self._connection is not None:
            self._connection.close()


class _Chunks:
    """The pieces of an answer as they arrive; a class, because a generator needs closing."""

    def __init__(self, content: aiohttp.StreamReader, request: HttpRequest) -> None:
        self._content = content
        self._request = request

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await self._content.readany()
        except (aiohttp.ClientError, OSError) as error:
            raise TransportError(f"{self._request}: {_described(error)}") from error
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


def _lower_case(headers: Mapping[str, str]) -> dict[str, str]:
    joined = {name.lower(): value for name, value in headers.items()}
    if len(joined) == len(headers):
        return joined
    joined = {}
    for name, value in headers.items():
        key = name.lower()
        joined[key] = f"{joined[key]}, {value}" if key in joined else value
    return joined


def _described(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        # Its own text shows the TLS context as an object at an address.
        number, reason = error.os_error.errno or 0, error.os_error.strerror
        why = os.strerror(number) if number > 0 else reason or error.os_error
        return f"cannot connect to {error.host}:{error.port}: {why}"
    return " ".join(str(error).split()) or type(error).__name__
