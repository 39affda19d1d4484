"""The transport on real sockets; the client's only user of an HTTP library."""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypedDict
from urllib.parse import urlencode

import aiohttp
from aiohttp.connector import Connection
from yarl import URL

from dynamo_operator.runtime.client.errors import ClientError, DeadlineExceededError, TransportError
from dynamo_operator.runtime.client.http import HttpRequest, HttpResponse, HttpStream
from dynamo_operator.runtime.client.tls import client_context

if TYPE_CHECKING:
    from dynamo_operator.runtime.client.config import ClientConfig
    from dynamo_operator.runtime.client.credentials import ClientCertificate

CONNECT_TIMEOUT_SECONDS = 10.0
ANSWER_TIMEOUT_SECONDS = 30.0
LARGEST_BODY = 512 * 1024 * 1024

_MOST_CONNECTIONS = 100

# API servers pack each event of a watch by itself: that is work for both, and saves little.
_UNPACKED = {"Accept-Encoding": "identity"}


class _TlsArguments(TypedDict, total=False):
    ssl: ssl.SSLContext
    server_hostname: str


class HttpTransport:
    """A `Transport` on aiohttp.

    Watches and other streams have connections of their own without a limit, so that they cannot
    starve requests. One TLS context serves all; it is built anew, in a thread, when the client
    certificate changed or the server's certificate was not trusted (its authority may be new).
    Open streams stay.
    """

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._base = config.server.rstrip("/")
        self._proxy, self._proxy_headers = _split_proxy(config.proxy)
        self._requests: aiohttp.ClientSession | None = None
        self._streams: aiohttp.ClientSession | None = None
        self._context: ssl.SSLContext | None = None
        self._context_certificate: ClientCertificate | None = None
        self._context_lock = asyncio.Lock()
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
            self._requests = self._session(_MOST_CONNECTIONS)
        timeout = aiohttp.ClientTimeout(
            total=timeout_seconds, sock_connect=min(CONNECT_TIMEOUT_SECONDS, timeout_seconds)
        )
        sent = _Sent(request.before_send)
        with self._faults(request, sent):
            async with await self._open(self._requests, request, timeout, sent) as answer:
                body = await _read(answer, request, LARGEST_BODY)
                return HttpResponse(answer.status, _lower_case(answer.headers), body)

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncGenerator[HttpStream]:
        """Open an answer of any length; see `Transport.stream`."""
        if self._streams is None:
            self._streams = self._session(0)
        request = replace(request, headers={**_UNPACKED, **request.headers})
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_SECONDS)
        sent = _Sent(request.before_send)
        with self._faults(request, sent):
            async with asyncio.timeout(ANSWER_TIMEOUT_SECONDS):
                answer = await self._open(self._streams, request, timeout, sent)
        try:
            yield _AiohttpStream(answer, request)
        finally:
            # Closed, not released: releasing would wait for the rest of the answer.
            answer.close()

    async def close(self) -> None:
        """Close all connections; harmless when repeated."""
        self._closed = True
        for session in (self._requests, self._streams):
            if session is not None:
                await session.close()
        for separated in self._separated:
            await separated.close()

    def _session(self, limit: int) -> aiohttp.ClientSession:
        if self._closed:
            raise TransportError("the client is closed", sent=False)
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=limit),
            headers=[*self._config.static_headers(), *self._plain_proxy_headers()],
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            request_class=_NotedRequest,
            read_bufsize=2**20,
        )
        # aiohttp would repeat a PUT or DELETE whose connection broke, though it may have been
        # applied; what is repeated is decided in one place, and that is not here.
        session._retry_connection = False  # noqa: SLF001 - it has no public switch
        return session

    def _plain_proxy_headers(self) -> Iterator[tuple[str, str]]:
        """Yield the headers for the proxy where it sees our requests, i.e. without TLS."""
        if not self._base.startswith("https:"):
            yield from (self._proxy_headers or {}).items()

    async def _open(
        self,
        session: aiohttp.ClientSession,
        request: HttpRequest,
        timeout: aiohttp.ClientTimeout,
        sent: _Sent,
    ) -> aiohttp.ClientResponse:
        try:
            return await self._ask(session, request, timeout, sent)
        except aiohttp.ClientConnectorCertificateError:
            # Nothing was sent. The server may have a certificate of a new authority, whose own is
            # in the file already.
            self._context = None
            if self._config.tls.ca_file is None:
                raise
        return await self._ask(session, request, timeout, sent)

    async def _ask(
        self,
        session: aiohttp.ClientSession,
        request: HttpRequest,
        timeout: aiohttp.ClientTimeout,
        sent: _Sent,
    ) -> aiohttp.ClientResponse:
        tls = await self._tls()
        token = _sending.set(sent)
        try:
            return await session.request(
                request.method,
                self._url(request),
                data=_body(request),
                headers=request.headers,
                allow_redirects=False,
                timeout=timeout,
                proxy=self._proxy,
                proxy_headers=self._proxy_headers,
                **tls,
            )
        finally:
            _sending.reset(token)

    @contextmanager
    def _faults(self, request: HttpRequest, sent: _Sent) -> Iterator[None]:
        """Turn what goes wrong on the wire into TransportError."""
        try:
            yield
        except aiohttp.ClientConnectorCertificateError as error:
            self._context = None
            raise TransportError(
                f"{request}: the certificate of {self._config.host} is not trusted: "
                f"{error.certificate_error}",
                sent=False,
            ) from error
        except TimeoutError as error:
            what = "no answer in time" if sent.value else "no connection in time"
            raise DeadlineExceededError(f"{request}: {what}", sent=sent.value) from error
        except aiohttp.ClientResponseError as error:
            # Not chained: its representation holds the request's headers.
            message = " ".join(error.message.split())
            raise TransportError(f"{request}: {error.status} {message}", sent=sent.value) from None
        except (aiohttp.ClientError, OSError) as error:
            if isinstance(error.__cause__, ClientError):  # what `before_send` raised
                raise error.__cause__ from None
            raise TransportError(f"{request}: {_described(error)}", sent=sent.value) from error
        except ValueError as error:
            # A header that cannot be sent; aiohttp says neither which nor, luckily, its value.
            raise TransportError(f"{request}: {_described(error)}", sent=sent.value) from error
        except RuntimeError as error:
            if not self._closed:
                raise
            raise TransportError(f"{request}: the client is closed", sent=sent.value) from error

    def _url(self, request: HttpRequest) -> URL:
        query = _query_text(tuple(request.query)) if request.query else ""
        return URL(f"{self._base}{request.path}{query}", encoded=True)

    async def _tls(self) -> _TlsArguments:
        if not self._base.startswith("https:"):
            return {}
        certificate = self._config.credentials.client_certificate
        context = self._context
        if context is None or certificate is not self._context_certificate:
            context = await self._new_context(certificate)
        arguments: _TlsArguments = {"ssl": context}
        if self._config.tls.server_name:
            arguments["server_hostname"] = self._config.tls.server_name
        return arguments

    async def _new_context(self, certificate: ClientCertificate | None) -> ssl.SSLContext:
        async with self._context_lock:
            if self._context is None or certificate is not self._context_certificate:
                self._context = await asyncio.to_thread(
                    client_context, self._config.tls, certificate
                )
                self._context_certificate = certificate
            return self._context


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


@dataclass(slots=True)
class _Sent:
    """Whether a request's head went out, noted by the request that the HTTP library makes."""

    before: Callable[[], None] | None
    value: bool = False


_sending: ContextVar[_Sent] = ContextVar("sending")


class _NotedRequest(aiohttp.ClientRequest):
    """Notes that its head goes out: now, or together with the body in another task's turn.

    A trace of the library would tell so, too, at a tenth of what a request costs.
    """

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        sent = _sending.get()
        if sent.before is not None:
            sent.before()
        sent.value = True
        return await super().send(conn)


class _GuardedBody(aiohttp.BytesPayload):
    """A body before which, and before the head that goes out with it, somebody is asked."""

    def __init__(self, body: bytes, before_send: Callable[[], None]) -> None:
        super().__init__(body)
        self._before_send = before_send

    async def write_with_length(self, *arguments: Any) -> None:
        self._before_send()
        await super().write_with_length(*arguments)


class _AiohttpStream:
    """A `HttpStream` over an answer of aiohttp."""

    def __init__(self, answer: aiohttp.ClientResponse, request: HttpRequest) -> None:
        self._answer = answer
        self._request = request

    @property
    def status(self) -> int:
        return self._answer.status

    @property
    def headers(self) -> Mapping[str, str]:
        return _lower_case(self._answer.headers)

    def chunks(self) -> AsyncIterator[bytes]:
        return _Chunks(self._answer.content, self._request)

    async def read(self) -> bytes:
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_SECONDS):
                return await _read(self._answer, self._request, LARGEST_BODY)
        except TimeoutError as error:
            raise DeadlineExceededError(f"{self._request}: no whole answer in time") from error
        except (aiohttp.ClientError, OSError) as error:
            raise TransportError(f"{self._request}: {_described(error)}") from error


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


def _body(request: HttpRequest) -> bytes | _GuardedBody | None:
    if request.body and request.before_send is not None:
        return _GuardedBody(request.body, request.before_send)
    return request.body


async def _read(answer: aiohttp.ClientResponse, request: HttpRequest, largest: int) -> bytes:
    if (answer.content_length or largest) < largest and "Content-Encoding" not in answer.headers:
        return await answer.read()
    pieces: list[bytes] = []
    size = 0
    async for piece in answer.content.iter_any():
        pieces.append(piece)
        size += len(piece)
        if size > largest:
            raise TransportError(f"{request}: the answer is larger than {largest} bytes")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


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
