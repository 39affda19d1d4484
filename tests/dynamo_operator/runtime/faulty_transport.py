"""An embedded API server behind a connection on which a test makes things go wrong."""

import asyncio
import json
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from dynamo_operator.runtime.client import Client, HttpRequest, HttpResponse, TransportError
from dynamo_operator.testing.cluster import Cluster
from dynamo_operator.testing.in_process_transport import InProcessTransport

BROKEN = TransportError("connection reset")


@dataclass
class Fault:
    """What happens to a request instead of, or after, being passed on.

    `refusal` answers in the server's place. Of a stream, `chunks` come first; then the server's own
    follow if `goes_on`, until `muted` is set; then the stream ends, or breaks with `error`.
    """

    refusal: HttpResponse | None = None
    chunks: tuple[bytes, ...] = ()
    error: Exception | None = None
    goes_on: bool = False
    muted: asyncio.Event | None = None


@dataclass
class Sent:
    verb: str
    path: str
    query: dict[str, str]
    body: bytes
    time: float


Choose = Callable[[Sent], Fault | None]


class FaultyTransport:
    """Asks `choose` for the fault of each request; None is no fault."""

    def __init__(self, cluster: Cluster) -> None:
        self._transport = InProcessTransport(cluster.server)
        self.choose: Choose = lambda _: None
        self.sent: list[Sent] = []
        self.client = Client.over(self, clock=cluster.clock, random=cluster.random)

    def of(self, verb: str, plural: str) -> list[Sent]:
        return [s for s in self.sent if s.verb == verb and s.path.endswith(f"/{plural}")]

    def _note(self, request: HttpRequest) -> Fault | None:
        verb = "WATCH" if ("watch", "true") in request.query else request.method
        now = asyncio.get_running_loop().time()
        self.sent.append(Sent(verb, request.path, dict(request.query), request.body or b"", now))
        return self.choose(self.sent[-1])

    async def send(self, request: HttpRequest, *, timeout_seconds: float) -> HttpResponse:
        fault = self._note(request)
        if fault is None:
            return await self._transport.send(request, timeout_seconds=timeout_seconds)
        if fault.error is not None:
            raise fault.error
        assert fault.refusal is not None
        return fault.refusal

    @asynccontextmanager
    async def stream(self, request: HttpRequest):
        fault = self._note(request)
        if fault is None:
            async with self._transport.stream(request) as stream:
                yield stream
        elif fault.refusal is not None:
            yield Stream(status=fault.refusal.status, fault=Fault(chunks=(fault.refusal.body,)))
        else:
            async with self._transport.stream(request) as stream:
                yield Stream(fault=fault, rest=stream.chunks())

    async def close(self) -> None:
        await self._transport.close()


@dataclass
class Stream:
    fault: Fault
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    rest: Any = None

    async def chunks(self):
        for chunk in self.fault.chunks:
            yield chunk
        if self.fault.goes_on:
            async for chunk in self.rest:
                if self.fault.muted is not None and self.fault.muted.is_set():
                    await asyncio.Event().wait()
                yield chunk
        if self.fault.error is not None:
            raise self.fault.error

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self.chunks()])


def refusal(code: int, reason: str = "", *, details: Any = None, **headers: str) -> HttpResponse:
    body = {"kind": "Status", "code": code, "reason": reason, "message": "no", "details": details}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpResponse(code, named, json.dumps(body).encode())


def error_line(code: int, reason: str = "") -> bytes:
    status = {"kind": "Status", "code": code, "reason": reason, "message": "no"}
    return json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"
