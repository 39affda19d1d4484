"""A transport that answers from a script, for tests in virtual time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

from dynamo_operator.runtime.client import DeadlineExceededError, HttpRequest, HttpResponse

Step = HttpResponse | Exception | Callable[[HttpRequest], HttpResponse] | float


class ScriptedTransport:
    """Takes one step per request; the last one goes on. A number is seconds without an answer."""

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.requests: list[HttpRequest] = []
        self.times: list[float] = []
        self.closed = False

    async def send(self, request: HttpRequest, *, timeout_seconds: float) -> HttpResponse:
        step = self._next(request)
        if isinstance(step, float):
            await asyncio.sleep(min(step, timeout_seconds))
            raise DeadlineExceededError(f"{request}: no answer in time")
        if isinstance(step, Exception):
            raise step
        return step if isinstance(step, HttpResponse) else step(request)

    @asynccontextmanager
    async def stream(self, request: HttpRequest):
        step = self._next(request)
        if isinstance(step, Exception):
            raise step
        assert isinstance(step, HttpResponse)
        yield ScriptedStream(step)

    async def close(self) -> None:
        self.closed = True

    def _next(self, request: HttpRequest) -> Step:
        self.requests.append(request)
        self.times.append(asyncio.get_running_loop().time())
        return self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]


class ScriptedStream:
    def __init__(self, response: HttpResponse) -> None:
        self.status, self.headers = response.status, response.headers
        self._body = response.body

    async def chunks(self):
        for start in range(0, len(self._body), 7):
            yield self._body[start : start + 7]

    async def read(self) -> bytes:
        return self._body


def answer(code: int = 200, body: Any = None, **headers: str) -> HttpResponse:
    data = body if isinstance(body, bytes) else json.dumps({} if body is None else body).encode()
    return HttpResponse(code, {n.replace("_", "-"): v for n, v in headers.items()}, data)


def refusal(code: int, reason: str = "", details: Any = None, **headers: str) -> HttpResponse:
    body = {"kind": "Status", "code": code, "reason": reason, "message": "no", "details": details}
    return answer(code, body, **headers)
