"""A client's transport that suffers what real networks and API servers do to a client.

Every fault is one that an API server may show: whatever was refused was not done, whatever was done
may go unanswered, a watch may end at any byte, and events come late but never out of order.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from dynamo_operator.runtime.client.errors import DeadlineExceededError, TransportError
from dynamo_operator.runtime.client.http import HttpRequest, HttpResponse, HttpStream, Transport
from informers.clock import Random

_REFUSALS = ((429, "TooManyRequests"), (500, "InternalError"), (503, "ServiceUnavailable"))


@dataclass(frozen=True, slots=True)
class Weather:
    """How often a request meets each fault, from 0 to 1, and how slow the network is.

    Args:
        refused: answered 429, 500 or 503 without being done.
        unreachable: never sent.
        lost_request: sent and never done; the client cannot tell that from the next.
        lost_answer: done, the answer lost.
        late: done, and answered 504.
        conflict: a change refused with 409.
        slow: takes up to `longest_delay_seconds` on either way.
        longest_delay_seconds: of a request, and of each piece of a watch.
        broken_watch: a watch ends after a piece, in the middle of one, or with 410.
    """

    refused: float = 0.0
    unreachable: float = 0.0
    lost_request: float = 0.0
    lost_answer: float = 0.0
    late: float = 0.0
    conflict: float = 0.0
    slow: float = 0.0
    longest_delay_seconds: float = 0.0
    broken_watch: float = 0.0


CALM = Weather()
BREEZE = Weather(slow=0.3, longest_delay_seconds=0.5, broken_watch=0.02)
STORM = Weather(
    refused=0.06,
    unreachable=0.03,
    lost_request=0.02,
    lost_answer=0.05,
    late=0.03,
    conflict=0.04,
    slow=0.5,
    longest_delay_seconds=8.0,
    broken_watch=0.08,
)


class FaultyTransport:
    """A `Transport` around another.

    Args:
        transport: what really answers.
        random: draws the faults.
    """

    def __init__(self, transport: Transport, random: Random) -> None:
        self._transport = transport
        self._random = random
        self._killed = False
        self.weather = CALM

    def kill(self) -> None:
        """Let nothing through any more, as if the client's process were gone."""
        self._killed = True

    async def send(self, request: HttpRequest, *, timeout_seconds: float) -> HttpResponse:
        """Return the answer, or fail as the weather has it; see `Transport.send`."""
        try:
            async with asyncio.timeout(timeout_seconds):
                return await self._send(request, timeout_seconds)
        except TimeoutError:
            raise DeadlineExceededError(f"{request}: no answer in {timeout_seconds:g} s") from None

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[HttpStream]:
        """Open an answer that may break off; see `Transport.stream`."""
        return self._stream(request)

    async def close(self) -> None:
        """Close the transport around which this is."""
        await self._transport.close()

    async def _send(self, request: HttpRequest, timeout_seconds: float) -> HttpResponse:
        refusal = await self._on_the_way(request)
        if refusal is not None:
            return refusal
        if self._meets(self.weather.lost_request):
            raise TransportError(f"{request}: the connection was reset")
        answer = await self._transport.send(request, timeout_seconds=timeout_seconds)
        await self._wait()
        if self._killed or self._meets(self.weather.lost_answer):
            raise TransportError(f"{request}: the connection was reset before the answer")
        if self._meets(self.weather.late):
            return _refused(504, "Timeout")
        return answer

    @asynccontextmanager
    async def _stream(self, request: HttpRequest) -> AsyncGenerator[HttpStream]:
        refusal = await self._on_the_way(request)
        if refusal is not None:
            yield _WholeAnswer(refusal)
            return
        async with self._transport.stream(request) as stream:
            yield _FaultyStream(stream, self)

    async def _on_the_way(self, request: HttpRequest) -> HttpResponse | None:
        """Delay a request, lose it, or return the refusal that it meets."""
        await self._wait()
        if self._killed or self._meets(self.weather.unreachable):
            raise TransportError(f"{request}: connection refused", sent=False)
        if self._meets(self.weather.refused):
            return _refused(*self._random.choice(_REFUSALS))
        if request.method in ("PUT", "PATCH") and self._meets(self.weather.conflict):
            return _refused(409, "Conflict")
        return None

    async def pieces(self, chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
        """Pass on the pieces of a watch, late, until it breaks."""
        async for chunk in chunks:
            await self._wait()
            if self._killed:
                raise TransportError("the connection was reset")
            if not self._meets(self.weather.broken_watch):
                yield chunk
                continue
            match self._random.randrange(4):
                case 0:
                    yield chunk[: self._random.randrange(len(chunk))]
                    raise TransportError("the connection was reset")
                case 1:
                    yield _EXPIRED_LINE
                case 2:
                    yield chunk
            return

    def _meets(self, probability: float) -> bool:
        return probability > 0 and self._random.random() < probability

    async def _wait(self) -> None:
        if self._meets(self.weather.slow):
            await asyncio.sleep(self._random.uniform(0, self.weather.longest_delay_seconds))


class _WholeAnswer:
    """A refusal in place of a stream."""

    def __init__(self, answer: HttpResponse) -> None:
        self.status = answer.status
        self.headers: Mapping[str, str] = answer.headers
        self._body = answer.body

    async def chunks(self) -> AsyncGenerator[bytes]:
        yield self._body

    async def read(self) -> bytes:
        return self._body


class _FaultyStream:
    """A stream through a faulty transport."""

    def __init__(self, stream: HttpStream, transport: FaultyTransport) -> None:
        self.status = stream.status
        self.headers = stream.headers
        self._stream = stream
        self._transport = transport

    def chunks(self) -> AsyncGenerator[bytes]:
        return self._transport.pieces(self._stream.chunks())

    async def read(self) -> bytes:
        return await self._stream.read()


def _status(code: int, reason: str) -> bytes:
    return json.dumps(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "reason": reason,
            "message": f"{reason}: bad weather",
            "code": code,
        }
    ).encode()


_EXPIRED_LINE = b'{"type":"ERROR","object":' + _status(410, "Expired") + b"}\n"


def _refused(code: int, reason: str) -> HttpResponse:
    headers = {"content-type": "application/json"}
    if code == 429:
        headers["retry-after"] = "1"
    return HttpResponse(code, headers, _status(code, reason))
