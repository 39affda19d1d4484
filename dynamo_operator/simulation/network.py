"""The network of a world: every request of every process goes through it, and may not arrive.

A request that was sent is a packet of its own: it arrives, and is done, whatever has become of its
sender meanwhile. An answer to a dead process is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextvars import Context
from functools import partial
from typing import Any
from urllib.parse import unquote

from structlog.contextvars import get_contextvars

from dynamo_operator.apiserver.api_server import ApiServer
from dynamo_operator.apiserver.messages import Request, Response, UserInfo
from dynamo_operator.runtime.client.errors import TransportError
from dynamo_operator.runtime.client.http import HttpRequest
from dynamo_operator.simulation.fault_table import NOTHING, Due, FaultTable
from dynamo_operator.simulation.history import Call, Commit, History, Reconcile
from dynamo_operator.simulation.link import CALL_DEEDS, Link, Sender
from dynamo_operator.simulation.plans import Deed, Delay, Fault, note
from dynamo_operator.simulation.watches import read
from informers.objects import ObjectKey

WAY_SECONDS = 0.0005
"""That a request takes to the server, and an answer back: no fault comes without any time."""

Perform = Callable[[Deed, Call | None, Any], Coroutine[Any, Any, None]]
"""Carries out a deed that is about processes or the world."""


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
        self._lagging: list[Link] = []
        history.subscribe(on_commit=self._committed)

    @property
    def reached(self) -> list[Fault]:
        """The planned faults that happened to calls."""
        return self._faults.reached

    @property
    def drawn(self) -> list[Fault]:
        """What the weather brought, as faults of a plan."""
        return self._faults.sky.drawn if self._faults.sky is not None else []

    @property
    def is_sealed(self) -> bool:
        """Whether the run is over."""
        return self._sealed

    @property
    def has_weather(self) -> bool:
        """Whether anything may happen that is not planned."""
        return self._faults.sky is not None and not self._healed

    def drawn_for_event(self, call: Call, number: int) -> list[Deed]:
        """Draw what happens to an event of a watch."""
        sky = self._faults.sky
        return sky.for_event(call, number) if sky is not None and not self._healed else []

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

    def lags(self, link: Link) -> None:
        """Note that a link does not show everything from now on."""
        if link not in self._lagging:
            self._lagging.append(link)

    def _committed(self, commit: Commit) -> None:
        for link in self._lagging:
            link.look_again()

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
        return call, NOTHING if self._healed else self._faults.due(call)

    async def happen(self, deeds: Iterable[Deed], call: Call, process: Sender | None) -> None:
        """Carry out what is not about the call itself; a process that it kills never returns."""
        for deed in deeds:
            if not isinstance(deed, CALL_DEEDS):
                note(call, deed)
                await self.spawn(partial(self._perform, deed, call, process))
        if process is not None and process.is_dead:
            await asyncio.get_running_loop().create_future()

    def spawn(self, what: Callable[[], Coroutine[Any, Any, Any]]) -> asyncio.Task[Any]:
        """Start something in the world, whoever asks for it."""
        loop = asyncio.get_running_loop()
        task = loop.create_task(what(), context=self._outside.copy())
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
        self.spawn(partial(self._packet, request, call, due, link, answer, whole))
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
            await asyncio.sleep(WAY_SECONDS)
            await _delay(due.at("before"), call)
            if self._sealed:
                return
            with self.history.calling(call):
                response = await self.server.handle(_asked(request, link.user))
                if whole and not isinstance(response.body, bytes):
                    response = Response(
                        response.status, response.headers, await read(response.body)
                    )
            await _delay(due.at("applied"), call)
            for deed in due.at("applied"):
                if not isinstance(deed, CALL_DEEDS):
                    note(call, deed)
                    await self._perform(deed, call, link.process)
            await asyncio.sleep(WAY_SECONDS)
        except Exception as error:  # noqa: BLE001 # raised where it is waited for
            if not answer.done():
                answer.set_exception(error)
            return
        if not answer.done():
            answer.set_result(response)
        if not isinstance(response.body, bytes) and (answer.cancelled() or link.is_dead):
            await response.body.aclose()


async def _delay(deeds: Iterable[Deed], call: Call) -> None:
    for deed in deeds:
        if isinstance(deed, Delay):
            note(call, deed)
            await asyncio.sleep(deed.seconds)


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


def _reconcile() -> Reconcile | None:
    bound = get_contextvars()
    controller = bound.get("controller")
    if controller is None:
        return None
    key = ObjectKey(bound.get("namespace", ""), bound.get("name", ""))
    return Reconcile(str(controller), key, str(bound.get("reconcile_id", "")))
