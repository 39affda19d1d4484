"""What can happen to a request on its way, and to which request it happens."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from urllib.parse import parse_qs

from dynamo_operator.apiserver.routes import RequestInfo, parse_route

Hook = Callable[[], Awaitable[object]]


@dataclass(slots=True)
class ProxiedRequest:
    """A request as the proxy saw it, and what became of it.

    Args:
        received: the wall clock's time.
        at: the monotonic clock's time, in seconds.
        path: percent-encoded, as it was sent.
        query: likewise, without the question mark.
        body: as it lay on the wire.
        status: of the server's answer, or of the proxy's own; None while there is none.
        delivered: whether the whole answer was handed to the client.
    """

    received: datetime
    at: float
    method: str
    path: str
    query: str
    user_agent: str
    body: bytes = field(repr=False)
    status: int | None = None
    delivered: bool = False

    @property
    def route(self) -> RequestInfo:
        """Verb, kind and object, as authorization sees them."""
        return parse_route(self.method, self.path, watch=self.is_watch)

    @property
    def is_watch(self) -> bool:
        """Whether the answer is a watch's."""
        return parse_qs(self.query).get("watch", [""])[-1] in ("1", "true")

    @property
    def is_stream(self) -> bool:
        """Whether the answer has no end of its own: a watch, or a log that is followed."""
        return self.is_watch or parse_qs(self.query).get("follow", [""])[-1] in ("1", "true")


def requests_of(
    requests: Iterable[ProxiedRequest], plural: str, verbs: Collection[str], namespace: str
) -> list[ProxiedRequest]:
    """Return those of a kind, of some verbs (none for any), in a namespace ("" for any)."""
    return [
        request
        for request in requests
        if (route := request.route).plural == plural
        and (not verbs or route.verb in verbs)
        and namespace in ("", route.namespace)
    ]


@dataclass(frozen=True, slots=True)
class Point:
    """The moment of a fault: a request, and whether the server has answered it.

    Args:
        method: such as POST; "" for any.
        path: regular expression that the whole path matches.
        query: regular expression found in the query.
        body: regular expression found in the body.
        nth: which of the requests that match, from 1.
        repeats: whether every later one is a point, too.
        when: `before` the server is given the request, or `after` it has answered it whole (a
            stream: begun to) and the client has not one byte of the answer.
    """

    method: str = ""
    path: str = ".*"
    query: str = ""
    body: str = ""
    nth: int = 1
    repeats: bool = False
    when: Literal["before", "after"] = "before"

    def matches(self, request: ProxiedRequest) -> bool:
        """Whether it is such a request, whichever its number."""
        return (
            self.method in ("", request.method)
            and re.fullmatch(self.path, request.path) is not None
            and re.search(self.query, request.query) is not None
            and re.search(self.body, request.body.decode("utf-8", errors="replace")) is not None
        )


@dataclass(frozen=True, slots=True)
class Cut:
    """Call a hook, e.g. one that kills the client, then cut the connection."""

    hook: Hook | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """Call a hook, then go on."""

    hook: Hook


@dataclass(frozen=True, slots=True)
class Hang:
    """Do nothing until the proxy is healed; then go on."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer in the server's place."""

    status: int
    reason: str = ""
    message: str = "a fault was injected"
    retry_after_seconds: int | None = None

    def headers(self) -> tuple[tuple[str, str], ...]:
        """Return what belongs into the answer's head beside the body's description."""
        if self.retry_after_seconds is None:
            return ()
        return (("Retry-After", str(self.retry_after_seconds)),)

    def body(self) -> bytes:
        """Return a Status, as the server's own errors are."""
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.status,
        }
        return json.dumps(status).encode()


@dataclass(frozen=True, slots=True)
class HalfAnswer:
    """Deliver that many bytes of the answer's body as it lies on the wire, then cut."""

    bytes: int


Fault = Cut | Pause | Hang | Answer | HalfAnswer


def delay(seconds: float) -> Pause:
    """Return a fault that only takes time."""
    return Pause(lambda: asyncio.sleep(seconds))


class Injection:
    """A fault and its point; made by the `inject` of a `FaultProxy` or `Interceptor`."""

    def __init__(self, point: Point, fault: Fault) -> None:
        self.point = point
        self.fault = fault
        self.happened = 0
        self._seen = 0
        self._done = asyncio.Event()
        self._error: Exception | None = None

    def is_due(self, request: ProxiedRequest) -> bool:
        """Count the request if it matches, and say whether the fault happens to it."""
        if not self.point.matches(request):
            return False
        self._seen += 1
        if self.point.repeats:
            return self._seen >= self.point.nth
        return self._seen == self.point.nth

    def note(self, error: Exception | None = None) -> None:
        """It has happened; its hook, if it has one, returned or raised that."""
        self.happened += 1
        self._error = self._error or error
        self._done.set()

    async def call(self, hook: Hook | None) -> None:
        """Call the fault's hook; whoever awaits `reached` is told of what it raises."""
        try:
            if hook is not None:
                await hook()
        except Exception as error:  # noqa: BLE001 # told, as said
            self.note(error)
        else:
            self.note()

    async def reached(self, *, timeout: float = 30.0) -> None:
        """Wait until it has happened once, its hook included.

        Raises:
            AssertionError: it did not within `timeout` seconds.
        """
        try:
            async with asyncio.timeout(timeout):
                await self._done.wait()
        except TimeoutError:
            raise AssertionError(
                f"not within {timeout:g} s: {self.point} ({self._seen} requests matched)"
            ) from None
        if self._error is not None:
            raise self._error
