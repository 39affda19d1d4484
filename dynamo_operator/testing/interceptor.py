"""Faults between a client and its API server, made in the test's own process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Literal
from urllib.parse import urlencode

from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.errors import DeadlineExceededError, TransportError
from dynamo_operator.runtime.client.http import HttpRequest, HttpResponse, HttpStream, Transport
from dynamo_operator.testing.faults import (
    Answer,
    Cut,
    Fault,
    HalfAnswer,
    Hang,
    Injection,
    Pause,
    Point,
    ProxiedRequest,
    requests_of,
)
from informers.clock import Clock, SystemClock

_OPEN_TIMEOUT_SECONDS = 30.0


class Interceptor:
    """Makes requests of chosen clients fail or wait; `requests` has all that came by.

    It knows the points and faults of `FaultProxy`, needs no sockets, and so works in virtual time,
    too. Faults happen to each attempt of a call: what a client repeats is another request.

    Args:
        clock: the cluster's, for the times of `requests`.

    Example:
        >>> async def test_a_refused_write_is_tried_again(cluster: Cluster) -> None:
        ...     interceptor = Interceptor(cluster.clock)
        ...     refused = interceptor.inject(Point("PATCH", ".*/configmaps/.*"), Answer(500))
        ...     client = interceptor.around(cluster.client)
        ...     async with cluster.manager(widget_controller(), client=client):
        ...         await refused.reached()
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.requests: list[ProxiedRequest] = []
        self._clock = clock or SystemClock()
        self._injections: list[Injection] = []
        self._hanging: set[asyncio.Event] = set()

    def around(self, client: Client) -> Client:
        """Return a client whose requests come by here, on the connections of the given one."""
        return client.with_transport(lambda transport: _Intercepted(transport, self))

    def inject(self, point: Point, fault: Fault) -> Injection:
        """Make a fault happen at a point, from now on."""
        self._injections.append(injection := Injection(point, fault))
        return injection

    def heal(self) -> None:
        """End what `inject` began; whatever hangs goes on."""
        self._injections.clear()
        for hanging in self._hanging:
            hanging.set()

    def requests_of(self, plural: str, *verbs: str, namespace: str = "") -> list[ProxiedRequest]:
        """Return the requests for a kind, e.g. `requests_of("jobs", "create")`."""
        return requests_of(self.requests, plural, verbs, namespace)

    def note(self, request: HttpRequest) -> tuple[ProxiedRequest, list[Injection]]:
        """Take down a request, and say what is to happen to it."""
        headers = {name.lower(): value for name, value in request.headers.items()}
        seen = ProxiedRequest(
            received=self._clock.now(),
            at=self._clock.monotonic(),
            method=request.method,
            path=request.path,
            query=urlencode(request.query),
            user_agent=headers.get("user-agent", ""),
            body=request.body or b"",
        )
        self.requests.append(seen)
        return seen, [injection for injection in self._injections if injection.is_due(seen)]

    async def happen(
        self, due: Iterable[Injection], when: Literal["before", "after"]
    ) -> Answer | HalfAnswer | None:
        """Let the faults of that moment happen; return what they make of the answer.

        Raises:
            TransportError: the connection was cut.
        """
        made: Answer | HalfAnswer | None = None
        for injection in due:
            if injection.point.when != when:
                continue
            match injection.fault:
                case Cut(hook):
                    await injection.call(hook)
                    raise TransportError("the connection was cut: a fault was injected")
                case Pause(hook):
                    await injection.call(hook)
                case Hang():
                    injection.note()
                    await self._hang()
                case Answer() | HalfAnswer() as made:
                    injection.note()
        return made

    async def _hang(self) -> None:
        self._hanging.add(over := asyncio.Event())
        try:
            await over.wait()
        finally:
            self._hanging.discard(over)


class _Intercepted:
    """A transport whose requests come by an interceptor."""

    def __init__(self, transport: Transport, interceptor: Interceptor) -> None:
        self._transport = transport
        self._interceptor = interceptor

    async def send(self, request: HttpRequest, *, timeout_seconds: float) -> HttpResponse:
        try:
            async with asyncio.timeout(timeout_seconds):
                return await self._send(request, timeout_seconds)
        except TimeoutError:
            raise DeadlineExceededError(f"{request}: no answer in {timeout_seconds:g} s") from None

    async def _send(self, request: HttpRequest, timeout_seconds: float) -> HttpResponse:
        seen, due = self._interceptor.note(request)
        made = await self._interceptor.happen(due, "before")
        if not isinstance(made, Answer):
            response = await self._transport.send(request, timeout_seconds=timeout_seconds)
            seen.status = response.status
            made = await self._interceptor.happen(due, "after") or made
        if isinstance(made, Answer):
            response = _response_of(made)
            seen.status = made.status
        elif isinstance(made, HalfAnswer):
            raise TransportError(f"the connection was cut after {made.bytes} bytes of the answer")
        seen.delivered = True
        return response

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncGenerator[HttpStream]:
        seen, due = self._interceptor.note(request)
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(_OPEN_TIMEOUT_SECONDS):
                    made = await self._interceptor.happen(due, "before")
                    if not isinstance(made, Answer):
                        opened = await stack.enter_async_context(self._transport.stream(request))
                        made = await self._interceptor.happen(due, "after") or made
            except TimeoutError:
                raise DeadlineExceededError(f"{request}: no answer in time") from None
            if isinstance(made, Answer):
                opened = AnswerStream(_response_of(made))
            elif isinstance(made, HalfAnswer):
                opened = _HalfStream(opened, made.bytes)
            seen.status = opened.status
            yield opened
            seen.delivered = True

    async def close(self) -> None:
        await self._transport.close()


class AnswerStream:
    """An answer that was there as a whole, as a stream."""

    def __init__(self, response: HttpResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self._body = response.body

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield it."""
        yield self._body

    async def read(self) -> bytes:
        """Return it."""
        return self._body


class _HalfStream:
    """A stream that breaks after some bytes."""

    def __init__(self, stream: HttpStream, size: int) -> None:
        self._stream = stream
        self._left = size

    @property
    def status(self) -> int:
        return self._stream.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._stream.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream.chunks():
            yield chunk[: self._left]
            self._left -= len(chunk)
            if self._left <= 0:
                raise TransportError("the connection was cut: a fault was injected")

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self.chunks()])


def _response_of(answer: Answer) -> HttpResponse:
    headers = {name.lower(): value for name, value in answer.headers()}
    return HttpResponse(
        answer.status, {"content-type": "application/json", **headers}, answer.body()
    )
