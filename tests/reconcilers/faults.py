"""Transports between an operator and its API server that go wrong as a test wants."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Literal

from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.client.errors import TransportError
from dynamo_operator.runtime.client.http import HttpRequest, HttpResponse, HttpStream, Transport
from dynamo_operator.testing.cluster import Cluster
from dynamo_operator.testing.in_process_transport import InProcessTransport

WRITES = ("POST", "PUT", "PATCH", "DELETE")
Answer = Callable[[HttpRequest], HttpResponse | None]
Death = Literal["before the write", "before its answer"]


def client_through(cluster: Cluster, wrap: Callable[[Transport], Transport]) -> Client:
    """An administrator's client whose requests go through a transport of the test's."""
    transport = wrap(InProcessTransport(cluster.server))
    return Client.over(transport, host="in-process", clock=cluster.clock, random=cluster.random)


def is_write(request: HttpRequest, resource: str = "", name: str = "") -> bool:
    """Whether a request writes; to that resource and name, if they are given."""
    return (
        request.method in WRITES
        and (not resource or resource in request.path.split("/"))
        and (not name or name in request.path.split("/"))
    )


def refusal(code: int, reason: str, message: str) -> HttpResponse:
    """An answer of the API server that refuses."""
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }
    return HttpResponse(code, {"content-type": "application/json"}, json.dumps(status).encode())


class Passing:
    """Passes everything on; keeps what was sent."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.sent: list[HttpRequest] = []

    async def send(self, request: HttpRequest, *, timeout_seconds: float) -> HttpResponse:
        self.sent.append(request)
        return await self.inner.send(request, timeout_seconds=timeout_seconds)

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncGenerator[HttpStream]:
        async with self.inner.stream(request) as stream:
            yield stream

    async def close(self) -> None:
        await self.inner.close()


class Answering(Passing):
    """Lets a function answer in the API server's place; None passes the request on."""

    def __init__(self, inner: Transport, answer: Answer) -> None:
        super().__init__(inner)
        self._answer = answer

    async def send(self, request: HttpRequest, *, timeout_seconds: float) -> HttpResponse:
        answer = self._answer(request)
        return answer or await super().send(request, timeout_seconds=timeout_seconds)


class Dying(Passing):
    """Cuts a process off from the world at its n-th write, as its death would."""

    def __init__(self, inner: Transport, writes: int, death: Death) -> None:
        super().__init__(inner)
        self.died = asyncio.Event()
        self._left = writes
        self._death = death

    async def send(self, request: HttpRequest, *, timeout_seconds: float) -> HttpResponse:
        if self.died.is_set():
            raise TransportError("the process is dead", sent=False)
        if not is_write(request) or is_write(request, "events"):
            return await super().send(request, timeout_seconds=timeout_seconds)
        self._left -= 1
        if self._left:
            return await super().send(request, timeout_seconds=timeout_seconds)
        self.died.set()
        if self._death == "before its answer":
            await super().send(request, timeout_seconds=timeout_seconds)
        raise TransportError("the process died")


class Lagging(Passing):
    """Holds back what the watches of one resource tell, until `released`; reads stay current."""

    def __init__(self, inner: Transport, resource: str) -> None:
        super().__init__(inner)
        self.released = asyncio.Event()
        self._resource = resource

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncGenerator[HttpStream]:
        async with self.inner.stream(request) as stream:
            held = request.path.endswith(f"/{self._resource}")
            is_listing = ("sendInitialEvents", "true") in request.query
            yield _Held(stream, self.released, is_listing=is_listing) if held else stream


class _Held:
    """A watch that delivers what is there at its start, and no change until it is released."""

    def __init__(self, inner: HttpStream, released: asyncio.Event, *, is_listing: bool) -> None:
        self.status = inner.status
        self.headers = inner.headers
        self._inner = inner
        self._released = released
        self._is_listing = is_listing

    async def chunks(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner.chunks():
            if not self._is_listing:
                await self._released.wait()
            yield chunk
            if b"initial-events-end" in chunk:
                self._is_listing = False

    async def read(self) -> bytes:
        return await self._inner.read()
