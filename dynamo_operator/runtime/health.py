"""Liveness and readiness: named checks, aggregated as Kubernetes components answer them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from dynamo_operator.runtime.client.http import HttpRequest, HttpResponse
from dynamo_operator.runtime.http_server import HttpServer

HealthCheck = Callable[[], Awaitable[None]]

_TEXT: Final = {"content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff"}

_log = structlog.get_logger(__name__)


class UnhealthyError(Exception):
    """Something is wrong, in words that anybody may read who can ask."""


class HealthEndpoint:
    """One probe path and its checks; each is also answered alone at `<path>/<name>`.

    A check raises to say that something is wrong. What it raised is logged; the answer shows the
    text of an UnhealthyError and withholds all others.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._checks: dict[str, HealthCheck] = {"ping": _ping}
        self._failing: set[str] = set()

    def add(self, name: str, check: HealthCheck) -> None:
        """Add a check.

        Raises:
            ValueError: the name is taken, or cannot be a path segment.
        """
        if name in self._checks or not name or "/" in name:
            raise ValueError(f"health check {name!r}: must be a new name without a slash")
        self._checks[name] = check

    def mount(self, server: HttpServer) -> None:
        """Serve the endpoint."""
        server.route("GET", self._path, self._answer, below=True)

    async def _answer(self, request: HttpRequest) -> HttpResponse:
        name = request.path[len(self._path) :].strip("/")
        if name:
            return await self._answer_one(name)
        query = list(request.query)
        excluded = [value for key, value in query if key == "exclude"]
        lines, healthy = [], True
        for check_name, check in self._checks.items():
            if check_name in excluded:
                lines.append(f"[+]{check_name} excluded: ok")
            elif (reason := await self._failure(check_name, check)) is None:
                lines.append(f"[+]{check_name} ok")
            else:
                healthy = False
                lines.append(f"[-]{check_name} failed: {reason}")
        unknown = [value for value in excluded if value not in self._checks]
        if unknown:
            quoted = ", ".join(f'"{value}"' for value in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}")
        what = self._path.strip("/")
        lines.append(f"{what} check {'passed' if healthy else 'failed'}")
        if healthy and not any(key == "verbose" for key, _ in query):
            return HttpResponse(200, _TEXT, b"ok")
        return HttpResponse(200 if healthy else 500, _TEXT, ("\n".join(lines) + "\n").encode())

    async def _answer_one(self, name: str) -> HttpResponse:
        check = self._checks.get(name)
        if check is None:
            return HttpResponse(404, _TEXT, f"{self._path}/{name}: no such check\n".encode())
        reason = await self._failure(name, check)
        if reason is None:
            return HttpResponse(200, _TEXT, b"ok")
        return HttpResponse(500, _TEXT, f"internal server error: {reason}\n".encode())

    async def _failure(self, name: str, check: HealthCheck) -> str | None:
        """Return what to say of a check that fails, None of one that passes."""
        try:
            await check()
        except Exception as error:  # noqa: BLE001 - any failure means the same: not healthy
            if name not in self._failing:
                _log.warning("health check failed", check=name, path=self._path, error=str(error))
            self._failing.add(name)
            told = " ".join(str(error).split())
            return told if isinstance(error, UnhealthyError) else "reason withheld"
        self._failing.discard(name)
        return None


async def _ping() -> None:
    """Pass: the loop answers."""
