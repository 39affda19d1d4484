"""The transport on real sockets; the client's only user of an HTTP library."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypedDict
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from dynamo_operator.runtime.client.errors import DeadlineExceededError, TransportError
from dynamo_operator.runtime.client.rest import HttpRequest, HttpResponse, HttpStream
from dynamo_operator.runtime.client.tls import client_context

if TYPE_CHECKING:
    from dynamo_operator.runtime.client.config import ClientConfig
    from dynamo_operator.runtime.client.credentials import ClientCertificate

CONNECT_TIMEOUT_SECONDS = 10.0
LARGEST_BODY = 512 * 1024 * 1024

_MOST_CONNECTIONS = 100
_LARGEST_ERROR_BODY = 1024 * 1024


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
        self._requests: aiohttp.ClientSession | None = None
        self._streams: aiohttp.ClientSession | None = None
        self._context: ssl.SSLContext | None = None
        self._context_certificate: ClientCertificate | None = None
        self._context_lock = asyncio.Lock()
        self._closed = False

    async def send(self, request: HttpRequest, *, timeout_seconds: float) -> HttpResponse:
        """Return the answer; see `Transport.send`."""
        if self._requests is None:
            self._requests = self._session(_MOST_CONNECTIONS)
        timeout = aiohttp.ClientTimeout(
            total=timeout_seconds, sock_connect=min(CONNECT_TIMEOUT_SECONDS, timeout_seconds)
        )
        async with self._answer(self._requests, request, timeout) as answer:
            body = await _read(answer, request, LARGEST_BODY)
            return HttpResponse(answer.status, _lower_case(answer.headers), body)

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncGenerator[HttpStream]:
        """Open an answer of any length; see `Transport.stream`."""
        if self._streams is None:
            self._streams = self._session(0)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_SECONDS)
        async with self._answer(self._streams, request, timeout) as answer:
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

    def _session(self, limit: int) -> aiohttp.ClientSession:
        if self._closed:
            raise TransportError("the client is closed", sent=False)
        trace = aiohttp.TraceConfig()
        trace.on_request_headers_sent.append(_note_sent)
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=limit),
            headers=[*self._config.static_headers()],
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            trace_configs=[trace],
            read_bufsize=2**20,
        )
        # aiohttp would repeat a PUT or DELETE whose connection broke, though it may have been
        # applied; what is repeated is decided in one place, and that is not here.
        session._retry_connection = False  # noqa: SLF001 - it has no public switch
        return session

    @asynccontextmanager
    async def _answer(
        self, session: aiohttp.ClientSession, request: HttpRequest, timeout: aiohttp.ClientTimeout
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        sent = SimpleNamespace(value=False)
        try:
            tls = await self._tls()
            async with session.request(
                request.method,
                self._url(request),
                data=request.body,
                headers=request.headers,
                allow_redirects=False,
                timeout=timeout,
                proxy=self._config.proxy or None,
                trace_request_ctx=sent,
                **tls,
            ) as answer:
                yield answer
        except aiohttp.ClientConnectorCertificateError as error:
            self._context = None
            raise TransportError(
                f"{request}: certificate of {self._config.host} is not trusted: "
                f"{error.certificate_error}",
                sent=False,
            ) from error
        except TimeoutError as error:
            what = "no answer in time" if sent.value else "no connection in time"
            raise DeadlineExceededError(f"{request}: {what}", sent=sent.value) from error
        except (aiohttp.ClientError, OSError) as error:
            raise TransportError(f"{request}: {_described(error)}", sent=sent.value) from error
        except RuntimeError as error:
            if not session.closed:
                raise
            raise TransportError(f"{request}: the client is closed", sent=sent.value) from error

    def _url(self, request: HttpRequest) -> URL:
        query = f"?{urlencode(request.query)}" if request.query else ""
        return URL(f"{self._base}{request.path}{query}", encoded=True)

    async def _tls(self) -> _TlsArguments:
        if not self._base.startswith("https:"):
            return {}
        config, certificate = self._config.tls, self._config.credentials.client_certificate
        async with self._context_lock:
            if self._context is None or certificate != self._context_certificate:
                self._context = await asyncio.to_thread(client_context, config, certificate)
                self._context_certificate = certificate
            arguments: _TlsArguments = {"ssl": self._context}
        if config.server_name:
            arguments["server_hostname"] = config.server_name
        return arguments


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

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._answer.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, OSError) as error:
            raise TransportError(f"{self._request}: {_described(error)}") from error

    async def read(self) -> bytes:
        async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
            return await _read(self._answer, self._request, _LARGEST_ERROR_BODY)


async def _note_sent(session: object, context: SimpleNamespace, params: object) -> None:
    context.trace_request_ctx.value = True


async def _read(answer: aiohttp.ClientResponse, request: HttpRequest, largest: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for piece in answer.content.iter_any():
        pieces.append(piece)
        size += len(piece)
        if size > largest:
            raise TransportError(f"{request}: the answer is larger than {largest} bytes")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _lower_case(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _described(error: Exception) -> str:
    text: Any = str(error) or type(error).__name__
    return " ".join(str(text).split())
