"""The node's HTTPS endpoint: container logs, for clients with a certificate of the right CA."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from aiohttp import web

from dynamo_operator.local_cluster.logs import LogFile, LogQuery, read_log, since_seconds
from informers.clock import Clock


@dataclass(frozen=True, slots=True)
class ServingCertificate:
    """What the node's endpoint serves with, and whom it believes.

    Args:
        cert_file: certificate chain in PEM.
        key_file: its key.
        client_ca_file: CA of the client certificates that are let in.
    """

    cert_file: Path
    key_file: Path
    client_ca_file: Path


@dataclass(frozen=True, slots=True)
class ContainerLog:
    """Where a container's log is; `live` while it is being written."""

    path: Path
    live: LogFile | None


class NoSuchLogError(Exception):
    """The Pod, container or run is not known here; the text says which."""


class NotStartedError(ValueError):
    """The container has not run yet; the text says what it waits for."""


# Finds a log by namespace, Pod name, container name and whether the previous run is meant.
FindLog = Callable[[str, str, str, bool], ContainerLog]


class KubeletServer:
    """Serves `/containerLogs/{namespace}/{pod}/{container}` and `/healthz`."""

    def __init__(self, certificate: ServingCertificate, find_log: FindLog, clock: Clock) -> None:
        self._certificate = certificate
        self._find_log = find_log
        self._clock = clock
        self._app = web.Application()
        self._app.router.add_get("/healthz", self._healthz)
        self._app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._logs)

    @asynccontextmanager
    async def serving(self, host: str, port: int) -> AsyncGenerator[int]:
        """Serve until the block ends; yields the port."""
        runner = web.AppRunner(self._app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            site = web.TCPSite(runner, host, port, ssl_context=self._ssl_context())
            await site.start()
            yield int(runner.addresses[0][1])
        finally:
            await runner.cleanup()

    def _ssl_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self._certificate.cert_file, self._certificate.key_file)
        context.load_verify_locations(self._certificate.client_ca_file)
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    async def _healthz(self, request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        names = request.match_info
        try:
            query = self._query(request)
            log = self._find_log(
                names["namespace"], names["pod"], names["container"], _flag(request, "previous")
            )
        except ValueError as error:
            return web.Response(status=400, text=f"{error}\n")
        except NoSuchLogError as error:
            return web.Response(status=404, text=f"{error}\n")
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        async for chunk in read_log(log.path, query, log.live):
            await response.write(chunk)
        await response.write_eof()
        return response

    def _query(self, request: web.Request) -> LogQuery:
        since: datetime | None = None
        if text := request.query.get("sinceTime"):
            since = datetime.fromisoformat(text.replace("Z", "+00:00"))
        elif (seconds := _number(request, "sinceSeconds", least=1)) is not None:
            since = since_seconds(self._clock, seconds)
        return LogQuery(
            follow=_flag(request, "follow"),
            timestamps=_flag(request, "timestamps"),
            tail_lines=_number(request, "tailLines", least=0),
            limit_bytes=_number(request, "limitBytes", least=1),
            since=since,
        )


def _flag(request: web.Request, name: str) -> bool:
    return request.query.get(name, "").lower() in ("1", "true", "t")


def _number(request: web.Request, name: str, *, least: int) -> int | None:
    text = request.query.get(name)
    if text is None:
        return None
    if not text.isdigit() or int(text) < least:
        raise ValueError(f"{name}={text}: must be a whole number of at least {least}")
    return int(text)
