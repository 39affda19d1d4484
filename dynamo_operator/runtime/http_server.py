"""The one HTTP server: health, metrics and webhooks are routes on it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import structlog

from dynamo_operator.runtime.client.http import HttpRequest, HttpResponse

if TYPE_CHECKING:  # loaded where a server starts: a manager that serves nothing does without
    from aiohttp import web

Handler = Callable[[HttpRequest], Awaitable[HttpResponse]]

_LARGEST_BODY: Final = 7 * 1024 * 1024
_RELOAD_SECONDS: Final = 10.0
_SHUTDOWN_SECONDS: Final = 5.0

_log = structlog.get_logger(__name__)


class ServingCertificate:
    """A certificate and key on disk, served from the next handshake after they change.

    A pair that cannot be loaded is logged once and the one before stays in use.

    Args:
        certificate: PEM file, leaf first.
        key: PEM file.

    Raises:
        OSError: a file cannot be read (ssl.SSLError: or not used) when the server starts.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        self._certificate = certificate
        self._key = key
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._loaded: tuple[bytes, bytes] | None = None

    def load(self) -> bool:
        """Load the pair if its content changed; return whether it did."""
        content = (self._certificate.read_bytes(), self._key.read_bytes())
        if content == self._loaded:
            return False
        # The live context would keep a new certificate with an old key: try on another one first.
        self._loaded, first = content, self._loaded is None
        if not first:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self._certificate, self._key)
        self.context.load_cert_chain(self._certificate, self._key)
        return True

    async def keep_fresh(self) -> None:
        """Look for a new pair every ten seconds until cancelled."""
        while True:
            await asyncio.sleep(_RELOAD_SECONDS)
            try:
                if await asyncio.to_thread(self.load):
                    _log.info("serving certificate reloaded", file=str(self._certificate))
            except OSError as error:  # ssl.SSLError is one
                _log.warning(
                    "serving certificate not reloaded",
                    file=str(self._certificate),
                    error=str(error),
                )


class HttpServer:
    """Serves routes on one address; a Runnable, and an async context manager that is listening.

    Args:
        address: `host:port` or `:port` (every interface); port 0 takes a free one.
        certificate: serve TLS with it.
    """

    needs_leadership = False

    def __init__(self, address: str, *, certificate: ServingCertificate | None = None) -> None:
        self._host, self._port = _parse_address(address)
        self._certificate = certificate
        self._routes: dict[tuple[str, str], Handler] = {}
        self._prefixes: dict[tuple[str, str], Handler] = {}
        self._stack: AsyncExitStack | None = None
        self.port = self._port

    def route(self, method: str, path: str, handler: Handler, *, below: bool = False) -> None:
        """Answer a path.

        Args:
            method: HTTP method; GET answers HEAD too.
            path: the exact path.
            handler: what answers.
            below: also answer every path below it.

        Raises:
            ValueError: the path is taken.
        """
        if (method, path) in self._routes:
            raise ValueError(f"route {method} {path}: is already served")
        self._routes[method, path] = handler
        if below:
            self._prefixes[method, path.rstrip("/") + "/"] = handler

    async def __aenter__(self) -> Self:
        from aiohttp import web

        async with AsyncExitStack() as stack:
            runner = web.ServerRunner(
                web.Server(self._answer, access_log=None), shutdown_timeout=_SHUTDOWN_SECONDS
            )
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            context = None
            if self._certificate is not None:
                await asyncio.to_thread(self._certificate.load)
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

    async def _wait(self) -> None:
        if self._certificate is not None:
            await self._certificate.keep_fresh()
        await asyncio.Event().wait()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        from aiohttp import web

        handler, allowed = self._find(request.method, request.path)
        if handler is None:
            status = 405 if allowed else 404
            return web.Response(status=status, text=f"{request.path}: no such page\n")
        body = await _read(request)
        if body is None:
            return web.Response(status=413, text=f"body over {_LARGEST_BODY} bytes\n")
        answer = await handler(
            HttpRequest(
                method=request.method,
                path=request.path,
                query=list(request.query.items()),
                headers={name.lower(): value for name, value in request.headers.items()},
                body=body,
            )
        )
        return web.Response(status=answer.status, headers=answer.headers, body=answer.body)

    def _find(self, method: str, path: str) -> tuple[Handler | None, Sequence[str]]:
        method = "GET" if method == "HEAD" else method
        handler = self._routes.get((method, path))
        if handler is None:
            handler = next(
                (h for (m, p), h in self._prefixes.items() if m == method and path.startswith(p)),
                None,
            )
        return handler, [m for m, p in self._routes if p == path]


async def _read(request: web.BaseRequest) -> bytes | None:
    """Return the body, or None when it is too large."""
    chunks, size = [], 0
    async for chunk in request.content.iter_any():
        size += len(chunk)
        if size > _LARGEST_BODY:
            return None
        chunks.append(chunk)
    return b"".join(chunks)


def _parse_address(address: str) -> tuple[str, int]:
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"address {address!r}: must be host:port or :port")
    return host.strip("[]"), int(port)
