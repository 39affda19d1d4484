"""The network of a world: every request of every process goes through it, and may not arrive.

A request that was sent is a packet of its own: it arrives, and is done, whatever has become of its
sender meanwhile. An answer to a dead process is lost.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import unquote

from structlog.contextvars import get_contextvars

from dynamo_operator.apiserver.api_server import ApiServer
from dynamo_operator.apiserver.messages import ByteStream, Request, Response, UserInfo
from dynamo_operator.runtime.client.errors import DeadlineExceededError, TransportError
from dynamo_operator.runtime.client.http import HttpRequest, HttpResponse, HttpStream
from dynamo_operator.simulation.history import Call, History, Reconcile
from dynamo_operator.simulation.plans import (
    Cut,
    Deed,
    Delay,
    Drop,
    Duplicate,
    Fail,
    Fault,
    Garble,
    Hang,
    Lose,
    Phase,
    Stall,
    describe,
    name_of,
    resource_of,
)
from informers.objects import ObjectKey

_OPEN_TIMEOUT_SECONDS = 30.0
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class Sender(Protocol):
    """A process, as the network knows it."""

    name: str
    incarnation: int
    is_dead: bool

    def barrier(self, call: Call) -> str:
        """Return how the process is cut off from what it calls: "", "refused" or "silent"."""


Perform = Callable[[Deed, Call | None, Any], Awaitable[None]]
"""Carries out a deed that is about processes or the world."""

_CALL_DEEDS = (Fail, Lose, Delay, Hang, Garble)


@dataclass(slots=True)
class Due:
    """What happens to one call."""

    phases: dict[Phase, list[Deed]] = field(default_factory=dict)
    events: dict[int, list[Deed]] = field(default_factory=dict)

    def at(self, phase: Phase) -> list[Deed]:
        """Return what happens in a phase."""
        return self.phases.get(phase, [])


_NOTHING = Due()


class FaultTable:
    """The faults of a plan, looked up by call."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self._exact: dict[tuple[str, str, str, str], list[Fault]] = {}
        self._patterns: list[Fault] = []
        self._seen: Counter[int] = Counter()
        self.reached: set[Fault] = set()
        for fault in faults:
            moment = fault.at
            if moment.seconds is not None:
                continue
            place = (moment.actor, moment.verb, moment.resource, moment.name)
            if any(c in part for part in place for c in "*?["):
                self._patterns.append(fault)
            else:
                self._exact.setdefault(place, []).append(fault)

    def due(self, call: Call) -> Due:
        """Count the call, and return what happens to it."""
        if not self._exact and not self._patterns:
            return _NOTHING
        place = (call.actor, call.verb, resource_of(call), name_of(call))
        candidates = self._exact.get(place, [])
        if self._patterns:
            candidates = [*candidates, *(f for f in self._patterns if f.at.matches(call))]
        due = Due()
        for fault in candidates:
            self._seen[id(fault)] += 1
            moment = fault.at
            if moment.occurrence in (0, self._seen[id(fault)]):
                self.reached.add(fault)
                if moment.event:
                    due.events.setdefault(moment.event, []).append(fault.do)
                else:
                    due.phases.setdefault(moment.phase, []).append(fault.do)
        return due


class Network:
    """Carries requests to an API server and answers back.

    Args:
        server: who answers.
        history: is told of every call.
        faults: what happens to which call.
        perform: carries out what is about processes and the world.
    """

    def __init__(
        self, server: ApiServer, history: History, faults: FaultTable, perform: Perform
    ) -> None:
        self.server = server
        self.history = history
        self._faults = faults
        self._perform = perform
        self._outside = Context()
        self._packets: set[asyncio.Task[Any]] = set()
        self._sealed = False
        self._healed = False

    @property
    def reached(self) -> set[Fault]:
        """The faults that happened."""
        return self._faults.reached

    def link(self, actor: str, user: UserInfo | None, process: Sender | None = None) -> Link:
        """Return a client's transport.

        Args:
            actor: whose calls they are.
            user: as whom the server knows the caller; None leaves that to the request's token.
            process: that the client lives in; None for the world around.
        """
        return Link(self, actor, user, process)

    def heal(self) -> None:
        """Let no fault happen to any call from now on."""
        self._healed = True

    def call_later(self, seconds: float, what: Callable[[], object]) -> None:
        """Call something in the world after a while, whoever asks for it."""
        loop = asyncio.get_running_loop()
        loop.call_later(seconds, what, context=self._outside.copy())

    def seal(self) -> None:
        """Carry nothing any more."""
        self._sealed = True

    def begin(self, request: HttpRequest, link: Link) -> tuple[Call, Due]:
        """Record a call and say what happens to it."""
        if self._sealed:
            raise TransportError("the run is over", sent=False)
        process = link.process
        call = self.history.called(
            request,
            actor=link.actor,
            incarnation=process.incarnation if process else 0,
            reconcile=_reconcile(),
        )
        return call, _NOTHING if self._healed else self._faults.due(call)

    async def happen(self, deeds: Iterable[Deed], call: Call, process: Sender | None) -> None:
        """Carry out what is not about the call itself; a process that it kills never returns."""
        for deed in deeds:
            if not isinstance(deed, _CALL_DEEDS):
                note(call, deed)
                await self.run_outside(self._perform(deed, call, process))
        if process is not None and process.is_dead:
            await asyncio.get_running_loop().create_future()

    async def run_outside(self, what: Awaitable[None]) -> None:
        """Run something in the world, not in the process that waits for it."""
        await self.spawn(what)

    def spawn(self, what: Awaitable[Any]) -> asyncio.Task[Any]:
        """Start something in the world, whoever asks for it."""
        loop = asyncio.get_running_loop()

        async def outside() -> Any:
            return await what

        task = loop.create_task(outside(), context=self._outside.copy())
        self._packets.add(task)
        task.add_done_callback(self._packets.discard)
        return task

    async def carry(
        self, request: HttpRequest, call: Call, due: Due, link: Link, *, whole: bool
    ) -> Response:
        """Send a request that nothing can hold back any more, and return the server's answer.

        Args:
            request: what is asked.
            call: as history has it.
            due: what happens to it.
            link: that it comes over.
            whole: whether to wait for the answer's end.
        """
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self.spawn(self._packet(request, call, due, link, answer, whole))
        return await answer

    async def _packet(
        self,
        request: HttpRequest,
        call: Call,
        due: Due,
        link: Link,
        answer: asyncio.Future[Response],
        whole: bool,
    ) -> None:
        try:
            await _delay(due.at("before"), call)
            if self._sealed:
                return
            with self.history.calling(call):
                response = await self.server.handle(_asked(request, link.user))
                if whole and not isinstance(response.body, bytes):
                    response = Response(
                        response.status, response.headers, await _read(response.body)
                    )
            await _delay(due.at("applied"), call)
            for deed in due.at("applied"):
                if not isinstance(deed, _CALL_DEEDS):
                    note(call, deed)
                    await self._perform(deed, call, link.process)
        except Exception as error:  # noqa: BLE001 # raised where it is waited for
            if not answer.done():
                answer.set_exception(error)
            return
        if not answer.done():
            answer.set_result(response)
        elif not isinstance(response.body, bytes):
            await response.body.aclose()


class Link:
    """One client's `Transport`."""

    def __init__(
        self, network: Network, actor: str, user: UserInfo | None, process: Sender | None
    ) -> None:
        self.actor = actor
        self.user = user
        self.process = process
        self.watches: dict[int, Watch] = {}
        """Those that are open, by the number of their call."""
        self._network = network
        self._closed = False

    async def send(self, request: HttpRequest, *, timeout_seconds: float) -> HttpResponse:
        """Return the answer, or fail as it is planned; see `Transport.send`."""
        self._require_open()
        call, due = self._network.begin(request, self)
        try:
            async with asyncio.timeout(timeout_seconds):
                response = await self._send(request, call, due)
        except TimeoutError:
            self._network.history.answered(call, 0)
            raise DeadlineExceededError(f"{request}: no answer in {timeout_seconds:g} s") from None
        except BaseException:
            self._network.history.answered(call, 0)
            raise
        self._answered(call, response)
        if after := due.at("after"):
            await self._network.happen(after, call, self.process)
        return response

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncGenerator[HttpStream]:
        """Open an answer of any length; see `Transport.stream`."""
        self._require_open()
        call, due = self._network.begin(request, self)
        try:
            async with asyncio.timeout(_OPEN_TIMEOUT_SECONDS):
                opened = await self._open(request, call, due)
        except TimeoutError:
            self._network.history.answered(call, 0)
            raise DeadlineExceededError(f"{request}: no answer in time") from None
        except BaseException:
            self._network.history.answered(call, 0)
            raise
        if isinstance(opened, HttpResponse):
            self._answered(call, opened)
            yield _WholeAnswer(opened)
            return
        self._network.history.answered(call, opened.status, headers=opened.headers)
        self.watches[call.number] = watch = Watch(opened, call, due, self)
        try:
            yield watch
        finally:
            self.watches.pop(call.number, None)
            if isinstance(opened.body, bytes):
                pass
            else:
                await opened.body.aclose()

    async def close(self) -> None:
        """Answer nothing any more."""
        self._closed = True

    def reset(self, is_cut: Callable[[Call], bool]) -> None:
        """Break the open watches that are cut."""
        for watch in list(self.watches.values()):
            if is_cut(watch.call):
                watch.end(TransportError("the connection was reset"))

    def drop(self) -> None:
        """Let go of what is open, as when the process is gone."""
        for watch in list(self.watches.values()):
            watch.end()
        self.watches.clear()

    async def happen(self, deeds: Iterable[Deed], call: Call) -> None:
        """Carry out what is about processes and the world."""
        await self._network.happen(deeds, call, self.process)

    def spawn(self, what: Awaitable[Any]) -> None:
        """Start something in the world."""
        self._network.spawn(what)

    async def _send(self, request: HttpRequest, call: Call, due: Due) -> HttpResponse:
        refusal = await self._go_out(request, call, due)
        if refusal is not None:
            return refusal
        response = await self._network.carry(request, call, due, self, whole=True)
        await self._come_back(request, call, due)
        assert isinstance(response.body, bytes)
        answer = HttpResponse(response.status, response.headers, response.body)
        return _changed(answer, call, due)

    async def _open(self, request: HttpRequest, call: Call, due: Due) -> HttpResponse | Response:
        refusal = await self._go_out(request, call, due)
        if refusal is not None:
            return refusal
        response = await self._network.carry(request, call, due, self, whole=False)
        try:
            await self._come_back(request, call, due)
        except BaseException:
            if not isinstance(response.body, bytes):
                await response.body.aclose()
            raise
        if isinstance(response.body, bytes):
            return HttpResponse(response.status, response.headers, response.body)
        for deed in due.at("before") + due.at("applied"):
            if isinstance(deed, Fail):
                note(call, deed)
                await response.body.aclose()
                return refused(deed)
        return response

    async def _go_out(self, request: HttpRequest, call: Call, due: Due) -> HttpResponse | None:
        """Do what happens before the server is given the request; return a refusal, if it is one.

        Raises:
            TransportError: it did not get out, or not to the server.
        """
        deeds = due.at("before")
        if deeds:
            await self._network.happen(deeds, call, self.process)
        for deed in deeds:
            if isinstance(deed, Lose) and deed.what == "connection":
                note(call, deed)
                raise TransportError(f"{request}: connection refused", sent=False)
        barrier = self.process.barrier(call) if self.process is not None else ""
        if barrier == "refused":
            call.fault = call.fault or "partition"
            raise TransportError(f"{request}: connection refused", sent=False)
        await asyncio.sleep(0)  # others go first, as they do while a connection is made
        if request.before_send is not None:
            request.before_send()
        if barrier:
            call.fault = call.fault or "partition"
            await asyncio.get_running_loop().create_future()
        for deed in deeds:
            match deed:
                case Lose(what="request"):
                    note(call, deed)
                    raise TransportError(f"{request}: the connection was reset")
                case Hang():
                    note(call, deed)
                    await asyncio.get_running_loop().create_future()
                case Fail(applied=False):
                    note(call, deed)
                    await asyncio.sleep(0)
                    return refused(deed)
        return None

    async def _come_back(self, request: HttpRequest, call: Call, due: Due) -> None:
        """Let the answer be lost, if that happens.

        Raises:
            TransportError: it was.
        """
        for deed in due.at("before") + due.at("applied"):
            match deed:
                case Lose(what="answer"):
                    note(call, deed)
                    raise TransportError(f"{request}: the connection was reset before the answer")
                case Garble(body="truncated"):
                    note(call, deed)
                    raise TransportError(f"{request}: the connection was reset within the answer")
                case Hang() if deed in due.at("applied"):
                    note(call, deed)
                    await asyncio.get_running_loop().create_future()
        if self.process is not None and self.process.barrier(call):
            call.fault = call.fault or "partition"
            raise TransportError(f"{request}: the connection was reset before the answer")

    def _answered(self, call: Call, response: HttpResponse) -> None:
        self._network.history.answered(
            call, response.status, headers=response.headers, body=response.body
        )

    def _require_open(self) -> None:
        if self._closed:
            raise TransportError("the client is closed", sent=False)


class Watch:
    """An open watch, event by event."""

    def __init__(self, opened: Response, call: Call, due: Due, link: Link) -> None:
        self.status = opened.status
        self.headers: Mapping[str, str] = opened.headers
        self.call = call
        self._body = opened.body
        self._events = due.events
        self._link = link
        self._error: TransportError | None = None

    def end(self, error: TransportError | None = None) -> None:
        """End it from outside; whoever waits for its next event finds the end, or the error."""
        self._error = error
        if not isinstance(self._body, bytes):
            self._link.spawn(self._body.aclose())

    async def read(self) -> bytes:
        """Return the whole body."""
        return self._body if isinstance(self._body, bytes) else await _read(self._body)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield events as they arrive."""
        if isinstance(self._body, bytes):
            yield self._body
            return
        if self._events:
            async for piece in self._faulty():
                yield piece
        else:
            async for piece in self._body:
                yield piece
        if self._error is not None:
            raise self._error

    async def _faulty(self) -> AsyncIterator[bytes]:
        assert not isinstance(self._body, bytes)
        number, lost = 0, 0
        async for piece in self._body:
            for line in piece.splitlines(keepends=True):
                number += 1
                deeds = self._events.get(number, [])
                await self._link.happen(deeds, self.call)
                copies = 1
                for deed in deeds:
                    note(self.call, deed)
                    match deed:
                        case Cut(how=how):
                            async for last in self._cut(how, line):
                                yield last
                            return
                        case Drop(events=events):
                            lost = max(lost, events)
                        case Duplicate():
                            copies = 2
                        case Delay(seconds=seconds) | Stall(seconds=seconds):
                            await asyncio.sleep(seconds)
                if lost:
                    lost -= 1
                    continue
                yield line * copies

    async def _cut(self, how: str, line: bytes) -> AsyncIterator[bytes]:
        match how:
            case "middle":
                yield line[: len(line) // 2]
                raise TransportError("the connection was reset")
            case "reset":
                raise TransportError("the connection was reset")
            case "expired":
                yield _error_line(410)
            case "error":
                yield _error_line(500)


class _WholeAnswer:
    """An answer that was there as a whole, as a stream."""

    def __init__(self, answer: HttpResponse) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self._body = answer.body

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._body

    async def read(self) -> bytes:
        return self._body


def note(call: Call, deed: Deed) -> None:
    """Write down at a call what happened to it."""
    told = describe(deed)
    call.fault = f"{call.fault}, {told}" if call.fault else told


def refused(deed: Fail) -> HttpResponse:
    """Return the answer of a server that refuses."""
    headers = {"content-type": "application/json", **deed.headers}
    return HttpResponse(deed.code, headers, _status(deed.code, deed.reason))


def _changed(answer: HttpResponse, call: Call, due: Due) -> HttpResponse:
    for deed in due.at("before") + due.at("applied"):
        match deed:
            case Fail():
                note(call, deed)
                return refused(deed)
            case Garble(body="html"):
                note(call, deed)
                headers = {"content-type": "text/html"}
                return HttpResponse(answer.status, headers, b"<html>a proxy's page</html>")
            case Garble(body="empty"):
                note(call, deed)
                return HttpResponse(answer.status, answer.headers, b"")
    return answer


async def _delay(deeds: Iterable[Deed], call: Call) -> None:
    for deed in deeds:
        if isinstance(deed, Delay):
            note(call, deed)
            await asyncio.sleep(deed.seconds)


def _status(code: int, reason: str) -> bytes:
    return json.dumps(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "reason": reason or _REASONS.get(code, ""),
            "message": "a fault was injected",
            "code": code,
        }
    ).encode()


def _error_line(code: int) -> bytes:
    return b'{"type":"ERROR","object":' + _status(code, "") + b"}\n"


def _asked(request: HttpRequest, user: UserInfo | None) -> Request:
    return Request(
        method=request.method,
        path=unquote(request.path),
        query=tuple(request.query),
        headers={name.lower(): value for name, value in request.headers.items()},
        body=request.body or b"",
        user=user,
        source_address="in-process",
    )


async def _read(stream: ByteStream) -> bytes:
    return b"".join([chunk async for chunk in _each(stream)])


async def _each(stream: ByteStream) -> AsyncGenerator[bytes]:
    async for chunk in stream:
        yield chunk


def _reconcile() -> Reconcile | None:
    bound = get_contextvars()
    controller = bound.get("controller")
    if controller is None:
        return None
    key = ObjectKey(bound.get("namespace", ""), bound.get("name", ""))
    return Reconcile(str(controller), key, str(bound.get("reconcile_id", "")))
