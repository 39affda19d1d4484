"""The one HTTP server: health, metrics and webhooks are routes on it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from dynamo_operator.runtime.client.http import HttpRequest, HttpResponse
from dynamo_operator.runtime.http_exchange import HttpExchanges, HttpLimits, text_answer
from dynamo_operator.runtime.serving_certificate import TlsCertificate

Handler = Callable[[HttpRequest], Awaitable[HttpResponse]]

_LARGEST_BODY: Final = 7 * 1024 * 1024
_SHUTDOWN_SECONDS: Final = 5.0


class HttpServer:
    """Serves routes on one address; a Runnable, and an async context manager that is listening.

    Where it cannot listen, it raises an OSError whose `filename` is the address.

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
        self._connections: dict[asyncio.Task[None], HttpExchanges] = {}
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
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._connections)

    @property
    def is_listening(self) -> bool:
        """Whether it was started, and not stopped since."""
        return self._stack is not None

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            context = None
            if self._certificate is not None:
                await self._certificate.prepare()
                context = self._certificate.context
            try:
                server = await asyncio.start_server(
                    self._accept, self._host or None, self._port, ssl=context
                )
            except OSError as error:
                raise _named(error, self.address) from error
            stack.push_async_callback(self._shut_down, server)
            self.port = server.sockets[0].getsockname()[1]
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
            return text_answer(405 if allowed else 404, f"{request.path}: no such page")
        if len(request.body or b"") > route.largest_body:
            return _too_large(route)
        return await route.handler(request)

    async def _wait(self) -> None:
        if self._certificate is not None:
            await self._certificate.keep_fresh()
        await asyncio.Event().wait()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        exchanges = HttpExchanges(
            reader,
            writer,
            limits=self._limits,
            answer=self.handle,
            largest_body=self._largest_body,
        )
        # Not in a group: a connection belongs to the server, whose stop ends it.
        task = asyncio.get_running_loop().create_task(exchanges.run())
        self._connections[task] = exchanges
        task.add_done_callback(self._connections.pop)

    async def _shut_down(self, server: asyncio.Server) -> None:
        """Stop listening; let the answers that are under way be the last ones, for a while."""
        server.close()
        tasks = tuple(self._connections)
        for task, exchanges in tuple(self._connections.items()):
            exchanges.finish()
            if not exchanges.is_answering:
                task.cancel()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=self._shutdown_seconds)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
        await server.wait_closed()

    def _largest_body(self, method: str, path: str) -> int:
        route, _ = self._find(method, path)
        return _LARGEST_BODY if route is None else route.largest_body

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


def _named(error: OSError, address: str) -> OSError:
    """Say which address an error is about, in the system's words."""
    number = error.errno or 0
    words = os.strerror(number) if number > 0 else error.strerror or str(error)
    return OSError(number, words, address)


def _too_large(route: _Route) -> HttpResponse:
    return text_answer(413, f"body over {route.largest_body} bytes")


def _parse_address(address: str) -> tuple[str, int]:
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"address {address!r}: must be host:port or :port")
    return host.strip("[]"), int(port)
