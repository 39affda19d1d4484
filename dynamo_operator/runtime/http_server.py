"""The one HTTP server: health, metrics and webhooks are routes on it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import structlog

from dynamo_operator.runtime.client.http import HttpRequest, HttpResponse
from dynamo_operator.runtime.serving_certificate import TlsCertificate

if TYPE_CHECKING:  # loaded where a server starts: a manager that serves nothing does without
    from aiohttp import web

Handler = Callable[[HttpRequest], Awaitable[HttpResponse]]

_LARGEST_BODY: Final = 7 * 1024 * 1024
_SHUTDOWN_SECONDS: Final = 5.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """How long a client may take, in seconds.

    Args:
        header: from the start of a connection to the end of its first request's header.
        body: for a request's body.
        idle: from an answer to the end of the next request's header.
    """

    header: float = 32.0
    body: float = 30.0
    idle: float = 90.0


class HttpServer:
    """Serves routes on one address; a Runnable, and an async context manager that is listening.

    Args:
        address: `host:port` or `:port` (every interface); port 0 takes a free one.
        certificate: serve TLS with it.
        limits: how long clients may take.
        shutdown_seconds: how long a stop waits for answers that are under way.
    """

    needs_leadership = False

    def __init__(
        self,
        address: str,
        *,
        certificate: TlsCertificate | None = None,
        limits: HttpLimits | None = None,
        shutdown_seconds: float = _SHUTDOWN_SECONDS,
    ) -> None:
        self.address: str = address
        self._host, self._port = _parse_address(address)
        self._certificate = certificate
        self._limits = limits or HttpLimits()
        self._shutdown_seconds = shutdown_seconds
        self._routes: dict[tuple[str, str], _Route] = {}
        self._prefixes: dict[tuple[str, str], _Route] = {}
        self._stack: AsyncExitStack | None = None
        self.port: int = self._port

    @property
    def dial_host(self) -> str:
        """Where this machine reaches the server."""
        return "localhost" if self._host in ("", "0.0.0.0", "::") else self._host  # noqa: S104

    def route(
        self,
        method: str,
        path: str,
        handler: Handler,
        *,
        below: bool = False,
        largest_body: int | None = None,
    ) -> None:
        """Answer a path.

        Args:
            method: HTTP method; GET answers HEAD too.
            path: the exact path.
            handler: what answers.
            below: also answer every path below it.
            largest_body: in bytes; by default 7 MiB.

        Raises:
            ValueError: the path is taken.
        """
        if (method, path) in self._routes:
            raise ValueError(f"route {method} {path}: is already served")
        route = _Route(handler, largest_body or _LARGEST_BODY)
        self._routes[method, path] = route
        if below:
            self._prefixes[method, path.rstrip("/") + "/"] = route

    @property
    def is_listening(self) -> bool:
        """Whether it was started, and not stopped since."""
        return self._stack is not None

    async def __aenter__(self) -> Self:
        from aiohttp import web

        async with AsyncExitStack() as stack:
            server = _limited_server(self._answer, self._limits)
            runner = web.ServerRunner(server, shutdown_timeout=self._shutdown_seconds)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            context = None
            if self._certificate is not None:
                await self._certificate.prepare()
                context = self._certificate.context
            site = web.TCPSite(runner, self._host or None, self._port, ssl_context=context)
            await site.start()
            self.port = runner.addresses[0][1]
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        stack, self._stack = self._stack, None
        if stack is not None:
            await stack.aclose()

    async def run(self) -> None:
        """Serve until cancelled."""
        if self._stack is None:
            async with self:
                await self._wait()
        else:
            await self._wait()

    async def handle(self, request: HttpRequest) -> HttpResponse:
        """Answer a request, however it came."""
        route, allowed = self._find(request.method, request.path)
        if route is None:
            return _text(405 if allowed else 404, f"{request.path}: no such page")
        if len(request.body or b"") > route.largest_body:
            return _too_large(route)
        return await route.handler(request)

    async def _wait(self) -> None:
        if self._certificate is not None:
            await self._certificate.keep_fresh()
        await asyncio.Event().wait()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        from aiohttp import web

        route, _ = self._find(request.method, request.path)
        answer = await self._limited_answer(request, route)
        return web.Response(status=answer.status, headers=answer.headers, body=answer.body)

    async def _limited_answer(self, request: web.BaseRequest, route: _Route | None) -> HttpResponse:
        body: bytes | None = b""
        if route is not None:
            try:
                async with asyncio.timeout(self._limits.body):
                    body = await _read(request, route.largest_body)
            except TimeoutError:
                return _text(408, f"no whole body in {self._limits.body:g} s")
            if body is None:
                return _too_large(route)
        return await self.handle(
            HttpRequest(
                method=request.method,
                path=request.path,
                query=list(request.query.items()),
                headers={name.lower(): value for name, value in request.headers.items()},
                body=body,
            )
        )

    def _find(self, method: str, path: str) -> tuple[_Route | None, Sequence[str]]:
        method = "GET" if method == "HEAD" else method
        route = self._routes.get((method, path))
        if route is None:
            route = next(
                (r for (m, p), r in self._prefixes.items() if m == method and path.startswith(p)),
                None,
            )
        return route, [m for m, p in self._routes if p == path]


@dataclass(frozen=True, slots=True)
class _Route:
    handler: Handler
    largest_body: int


def _limited_server(
    answer: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]], limits: HttpLimits
) -> web.Server:
    """Return a server that closes connections whose next header does not come in time."""
    from aiohttp import web
    from aiohttp.http_exceptions import HttpProcessingError

    class Connection(web.RequestHandler):
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            self.expect_header(limits.header)

        def connection_lost(self, exc: BaseException | None) -> None:
            self.header_came()
            super().connection_lost(exc)

        def expect_header(self, seconds: float) -> None:
            if self.transport is not None:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(seconds, self.force_close)

        def header_came(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def log_exception(self, *_: Any, exc_info: BaseException | None = None) -> None:
            """Log a defect of a handler with its trace, what is no HTTP in a line."""
            if isinstance(exc_info, HttpProcessingError):
                _log.info("request not understood", error=type(exc_info).__name__)
            else:
                _log.error("request not answered", exc_info=exc_info)

    async def timed(request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        assert isinstance(connection, Connection)
        connection.header_came()
        try:
            return await answer(request)
        finally:
            connection.expect_header(limits.idle)

    class Server(web.Server):
        def __call__(self) -> Connection:
            return Connection(self, loop=asyncio.get_running_loop(), **options)

    options: Any = {"access_log": None}
    return Server(timed, **options)


async def _read(request: web.BaseRequest, most: int) -> bytes | None:
    """Return the body, or None when it is too large."""
    chunks, size = [], 0
    async for chunk in request.content.iter_any():
        size += len(chunk)
        if size > most:
            return None
        chunks.append(chunk)
    return b"".join(chunks)


def _too_large(route: _Route) -> HttpResponse:
    return _text(413, f"body over {route.largest_body} bytes")


def _text(status: int, text: str) -> HttpResponse:
    return HttpResponse(status, {"content-type": "text/plain; charset=utf-8"}, f"{text}\n".encode())


def _parse_address(address: str) -> tuple[str, int]:
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"address {address!r}: must be host:port or :port")
    return host.strip("[]"), int(port)
