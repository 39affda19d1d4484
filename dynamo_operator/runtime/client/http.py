"""The port to the wire: requests, answers, and what carries them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request as a transport sends it.

    `path` begins with a slash and is percent-encoded already; `query` is not. The representation
    shows neither headers nor body: both can hold secrets. A transport calls `before_send` once a
    connection is there, immediately before the first byte goes out; if that raises, nothing does.
    """

    method: str
    path: str
    query: Sequence[tuple[str, str]] = ()
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)
    before_send: Callable[[], None] | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A whole answer; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


class HttpStream(Protocol):
    """An answer whose body arrives piece by piece."""

    @property
    def status(self) -> int:
        """HTTP status."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers, names in lower case."""

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives; raises TransportError when the connection breaks."""

    async def read(self) -> bytes:
        """Return the whole body, for answers that turn out to be errors."""


class WriteFence(Protocol):
    """For how long the writes of a client may be sent; asked at the moment of each use."""

    def seconds_left(self) -> float:
        """Return the seconds; zero or less when no write may be sent."""


class Transport(Protocol):
    """Carries requests to one API server. It neither retries nor looks at a status.

    Every fault is a TransportError, whose `sent` says whether the server may have received the
    request. What a request's `before_send` raises is passed on as it is.
    """

    async def send(self, request: HttpRequest, *, timeout_seconds: float) -> HttpResponse:
        """Return the answer, or raise DeadlineExceededError when it takes longer."""

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[HttpStream]:
        """Open an answer of any length; leaving the context drops the connection."""

    async def close(self) -> None:
        """Close all connections; harmless when repeated."""


@runtime_checkable
class SeparableTransport(Transport, Protocol):
    """A transport that can give some requests connections of their own."""

    def with_own_connections(self, user_agent_suffix: str) -> Transport:
        """Return a transport to the same server, which shares no connection with this one.

        It is closed with this one.
        """
