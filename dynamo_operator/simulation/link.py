"""One client's way to the API server: what happens to each of its calls, before and after."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

from dynamo_operator.apiserver.messages import Response, UserInfo
from dynamo_operator.apiserver.storage import Storage
from dynamo_operator.runtime.client.errors import DeadlineExceededError, TransportError
from dynamo_operator.runtime.client.http import HttpRequest, HttpResponse, HttpStream
from dynamo_operator.simulation.answers import refused
from dynamo_operator.simulation.fault_table import Due
from dynamo_operator.simulation.history import Call
from dynamo_operator.simulation.plans import (
    Cut,
    Deed,
    Delay,
    Drop,
    Duplicate,
    Fail,
    Garble,
    Hang,
    Lose,
    Stall,
    note,
)
from dynamo_operator.simulation.views import View
from dynamo_operator.simulation.watches import Watch
from dynamo_operator.testing.interceptor import AnswerStream

if TYPE_CHECKING:
    from dynamo_operator.simulation.network import Network

CALL_DEEDS = (Fail, Lose, Delay, Hang, Garble, Cut, Drop, Duplicate, Stall)
"""What happens to the call or its events, not to a process or the world."""

_OPEN_TIMEOUT_SECONDS = 30.0


class Sender(Protocol):
    """A process, as the network knows it."""

    name: str
    incarnation: int
    is_dead: bool

    def barrier(self, call: Call) -> str:
        """Return how the process is cut off from what it calls: "", "refused" or "silent"."""


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
        self.views: list[View] = []
        """What is seen as it was, not as it is; the first that is about a call counts."""
        self._network = network
        self._closed = False

    @property
    def is_dead(self) -> bool:
        """Whether nobody is there any more to take an answer."""
        return self.process is not None and self.process.is_dead

    @property
    def storage(self) -> Storage:
        """The server's store."""
        return self._network.server.storage

    @property
    def has_weather(self) -> bool:
        """Whether anything may happen that is not planned."""
        return self.process is not None and self._network.has_weather

    async def send(self, request: HttpRequest, *, timeout_seconds: float) -> HttpResponse:
        """Return the answer, or fail as it is planned; see `Transport.send`."""
        self._require_open()
        call, due = self._network.begin(request, self)
        try:
            async with asyncio.timeout(timeout_seconds):
                response = await self._send(request, call, due)
        except TimeoutError:
            self._gave_up(call)
            raise DeadlineExceededError(f"{request}: no answer in {timeout_seconds:g} s") from None
        except BaseException:
            self._gave_up(call)
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
            self._gave_up(call)
            raise DeadlineExceededError(f"{request}: no answer in time") from None
        except BaseException:
            self._gave_up(call)
            raise
        if isinstance(opened, HttpResponse):
            self._answered(call, opened)
            yield AnswerStream(opened)
            return
        self._network.history.answered(call, opened.status, headers=opened.headers)
        self.watches[call.number] = watch = Watch(opened, call, due, self)
        try:
            yield watch
        finally:
            self.watches.pop(call.number, None)
            if not isinstance(opened.body, bytes):
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

    def lag(self, view: View) -> None:
        """Show some kinds as they were, until `catch_up`."""
        self.views.append(view)
        self._network.lags(self)

    def catch_up(self, view: View | None = None) -> None:
        """Show everything again that one view withheld, or all of them."""
        self.views = [other for other in self.views if view is not None and other is not view]
        self.look_again()

    def look_again(self) -> None:
        """Let open watches look whether there is something to be seen now."""
        for watch in self.watches.values():
            watch.wake()

    def view(self, call: Call) -> View | None:
        """Return how what the call reads is seen here, if not as it is."""
        if not self.views:
            return None
        return next((view for view in self.views if view.is_about(call)), None)

    def drawn(self, call: Call, number: int) -> list[Deed]:
        """Return what the weather does to an event of a watch."""
        return self._network.drawn_for_event(call, number)

    async def happen(self, deeds: Iterable[Deed], call: Call) -> None:
        """Carry out what is about processes and the world."""
        await self._network.happen(deeds, call, self.process)

    def spawn(self, what: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Start something in the world."""
        self._network.spawn(what)

    async def _send(self, request: HttpRequest, call: Call, due: Due) -> HttpResponse:
        asked = await self._go_out(request, call, due)
        if isinstance(asked, HttpResponse):
            return asked
        request = asked
        response = await self._network.carry(request, call, due, self, whole=True)
        await self._come_back(request, call, due)
        assert isinstance(response.body, bytes)
        answer = HttpResponse(response.status, response.headers, response.body)
        return _changed(answer, call, due)

    async def _open(self, request: HttpRequest, call: Call, due: Due) -> HttpResponse | Response:
        asked = await self._go_out(request, call, due)
        if isinstance(asked, HttpResponse):
            return asked
        request = asked
        response = await self._network.carry(request, call, due, self, whole=False)
        try:
            await self._come_back(request, call, due)
        except BaseException:
            if not isinstance(response.body, bytes):
                await response.body.aclose()
            raise
        if isinstance(response.body, bytes):
            return HttpResponse(response.status, response.headers, response.body)
        for deed in due.at("before", "applied"):
            if isinstance(deed, Fail):
                note(call, deed)
                await response.body.aclose()
                return refused(deed)
        return response

    async def _go_out(
        self, request: HttpRequest, call: Call, due: Due
    ) -> HttpRequest | HttpResponse:
        """Do what happens before the server is given the request; return it, or its refusal.

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
        return self._as_seen(request, call)

    def _as_seen(self, request: HttpRequest, call: Call) -> HttpRequest | HttpResponse:
        """Return the request as a server takes it that is behind, or its refusal."""
        view = self.view(call)
        if view is None:
            return request
        asked = view.asked(request, call, self.storage)
        if isinstance(asked, HttpResponse):
            call.fault = call.fault or "the server is behind"
        return asked

    async def _come_back(self, request: HttpRequest, call: Call, due: Due) -> None:
        """Let the answer be lost, if that happens.

        Raises:
            TransportError: it was.
        """
        for deed in due.at("before", "applied"):
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

    def _gave_up(self, call: Call) -> None:
        if not self._network.is_sealed:  # else the run's remains are thrown away
            self._network.history.answered(call, 0)

    def _require_open(self) -> None:
        if self._closed:
            raise TransportError("the client is closed", sent=False)


def _changed(answer: HttpResponse, call: Call, due: Due) -> HttpResponse:
    for deed in due.at("before", "applied"):
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
