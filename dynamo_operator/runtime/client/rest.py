"""HTTP as the API server means it: deadlines, retries, fresh credentials, typed errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from copy import copy
from dataclasses import replace

from dynamo_operator.runtime.client.credentials import Credentials, StaticCredentials
from dynamo_operator.runtime.client.errors import (
    ApiError,
    DeadlineExceededError,
    NotLeadingError,
    TooManyRequestsError,
    TransportError,
    UnknownOutcomeError,
)
from dynamo_operator.runtime.client.http import (
    HttpRequest,
    HttpResponse,
    HttpStream,
    SeparableTransport,
    Transport,
    WriteFence,
)
from dynamo_operator.runtime.client.statuses import error_of_response, warnings_in
from dynamo_operator.runtime.client.throttle import Throttle
from informers.clock import Clock, Random, SystemClock, system_random

DEFAULT_TIMEOUT_SECONDS = 30.0

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_MOST_THROTTLED_RETRIES = 10
_MOST_FAULT_RETRIES = 3
_FIRST_DELAY_SECONDS = 0.25
_LONGEST_DELAY_SECONDS = 5.0
_TRANSIENT_CODES = frozenset({500, 502, 503, 504})


RequestObserver = Callable[[str, str, str, float], None]
"""Told of every attempt: code (`<error>` without an answer), method, host, seconds."""

WarningObserver = Callable[[str], None]
"""Told of every warning that comes with an answer, e.g. that a version is deprecated."""


class RestClient:
    """Sends requests until there is an answer worth raising or returning.

    - 401: the credentials are refreshed and the request repeated, once.
    - 429, and 503 with Retry-After: repeated for every verb, because the server did nothing.
    - Other faults (500, 502, 503, 504, connection errors): repeated for reads only.
    - A write whose connection failed after sending raises UnknownOutcomeError.

    No repetition goes beyond the deadline of the call. Behind a fence, a write is sent only while
    the fence says so, asked before every attempt and once more when its connection is there; and no
    attempt outlasts what the fence leaves. A throttle holds back every attempt, and refuses those
    whose turn would come after their deadline.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        credentials: Credentials | None = None,
        host: str = "",
        clock: Clock | None = None,
        random: Random | None = None,
        throttle: Throttle | None = None,
    ) -> None:
        self._transport = transport
        self._credentials = credentials
        self._host = host
        self._clock = clock or SystemClock()
        self._random = random or system_random()
        self._throttle = throttle
        self._observers: tuple[RequestObserver, ...] = ()
        self._warning_observers: tuple[WarningObserver, ...] = ()
        self._fence: WriteFence | None = None

    def with_observer(self, observer: RequestObserver) -> RestClient:
        """Return a client on the same transport whose requests `observer` is told of, too."""
        return self._variant(observers=(*self._observers, observer))

    def with_warning_observer(self, observer: WarningObserver) -> RestClient:
        """Return a client on the same transport whose warnings `observer` is told of, too."""
        return self._variant(warning_observers=(*self._warning_observers, observer))

    def with_fence(self, fence: WriteFence) -> RestClient:
        """Return a client on the same transport whose writes the fence may refuse."""
        return self._variant(fence=fence)

    def with_transport(self, around: Callable[[Transport], Transport]) -> RestClient:
        """Return a client whose requests go through what `around` makes of the transport."""
        return self._variant(transport=around(self._transport))

    def with_own_connections(self, user_agent_suffix: str) -> RestClient:
        """Return a client of the same server that waits for no others.

        It shares no throttle, and no connection where there are any.
        """
        if not isinstance(self._transport, SeparableTransport):
            return self._variant(throttle=None)
        transport = self._transport.with_own_connections(user_agent_suffix)
        return self._variant(throttle=None, transport=transport)

    def _variant(self, **changes: object) -> RestClient:
        variant = copy(self)
        vars(variant).update({f"_{name}": value for name, value in changes.items()})
        return variant

    async def close(self) -> None:
        """Close the transport."""
        await self._transport.close()

    async def request(
        self,
        request: HttpRequest,
        *,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        retry: bool = True,
    ) -> HttpResponse:
        """Return the answer to a request whose status is 2xx.

        Args:
            request: what is asked; an Authorization header is added.
            timeout_seconds: deadline of the whole call, repetitions included.
            retry: False to leave everything but a refused credential to the caller.

        Raises:
            ApiError: the server refused.
            TransportError: there was no answer, and a write was surely not applied.
            UnknownOutcomeError: a write was sent and its answer lost.
            NotLeadingError: the fence refused a write.
        """
        request = self._fenced(request)
        deadline = self._clock.monotonic() + timeout_seconds
        attempt = 0
        while True:
            error: ApiError | TransportError
            try:
                response = await self._send_authorized(request, deadline)
                if 200 <= response.status < 300:
                    return response
                error = error_of_response(request, response, now=self._clock.now())
            except TransportError as failure:
                error = failure
            delay = self._delay_before_retry(request.method, error, attempt) if retry else None
            if delay is None or self._clock.monotonic() + delay >= deadline:
                raise self._final_error(request, error)
            await asyncio.sleep(delay)
            attempt += 1

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncGenerator[HttpStream]:
        """Open an answer of any length; nothing but a refused credential is repeated.

        Raises:
            ApiError: the server refused.
            TransportError: there was no answer.
            NotLeadingError: the fence refused a write.
        """
        request = self._fenced(request)
        deadline = self._clock.monotonic() + DEFAULT_TIMEOUT_SECONDS
        async with AsyncExitStack() as stack:
            authorized, authorization = await self._authorize(request, deadline)
            stream = await self._open(authorized, deadline, stack)
            if stream.status == 401 and self._may_retry_rejected(authorization):
                await stack.aclose()
                authorized, _ = await self._authorize(request, deadline)
                stream = await self._open(authorized, deadline, stack)
            if not 200 <= stream.status < 300:
                response = HttpResponse(stream.status, stream.headers, await stream.read())
                raise error_of_response(request, response, now=self._clock.now())
            yield stream

    async def _send_authorized(self, request: HttpRequest, deadline: float) -> HttpResponse:
        authorized, authorization = await self._authorize(request, deadline)
        response = await self._send(authorized, deadline)
        if response.status == 401 and self._may_retry_rejected(authorization):
            authorized, _ = await self._authorize(request, deadline)
            response = await self._send(authorized, deadline)
        return response

    async def _authorize(self, request: HttpRequest, deadline: float) -> tuple[HttpRequest, str]:
        credentials = self._credentials
        if credentials is None:
            return request, ""
        if type(credentials) is StaticCredentials:  # has nothing to wait for
            authorization = await credentials.authorization()
        else:
            authorization = await self._authorization(credentials, request, deadline)
        if not authorization:
            return request, ""
        headers = {**request.headers, "Authorization": authorization}
        return replace(request, headers=headers), authorization

    async def _authorization(
        self, credentials: Credentials, request: HttpRequest, deadline: float
    ) -> str:
        try:
            async with asyncio.timeout(deadline - self._clock.monotonic()):
                return await credentials.authorization()
        except TimeoutError:
            raise DeadlineExceededError(f"{request}: no credentials in time", sent=False) from None

    def _may_retry_rejected(self, authorization: str) -> bool:
        return self._credentials is not None and self._credentials.rejected(authorization)

    async def _send(self, request: HttpRequest, deadline: float) -> HttpResponse:
        if self._throttle is not None:
            await self._take_turn(self._throttle, request, deadline)
        started = self._clock.monotonic()
        if started >= deadline:
            raise DeadlineExceededError(f"{request}: no time left to send it", sent=False)
        timeout = deadline - started
        if request.before_send is not None and self._fence is not None:
            request.before_send()
            timeout = min(timeout, self._fence.seconds_left())
        code = "<error>"
        try:
            response = await self._transport.send(request, timeout_seconds=timeout)
            code = str(response.status)
            if "warning" in response.headers:
                self._pass_on_warnings(response.headers["warning"])
            return response
        except DeadlineExceededError as error:
            if request.before_send is not None and not error.sent:
                request.before_send()  # says so if it was the fence that left no more time
            raise
        finally:
            self._observe(code, request.method, started)

    async def _open(
        self, request: HttpRequest, deadline: float, stack: AsyncExitStack
    ) -> HttpStream:
        if self._throttle is not None:
            await self._take_turn(self._throttle, request, deadline)
        started = self._clock.monotonic()
        code = "<error>"
        try:
            stream = await stack.enter_async_context(self._transport.stream(request))
            code = str(stream.status)
            if "warning" in stream.headers:
                self._pass_on_warnings(stream.headers["warning"])
            return stream
        finally:
            self._observe(code, request.method, started)

    async def _take_turn(self, throttle: Throttle, request: HttpRequest, deadline: float) -> None:
        wait = throttle.reserve(within=deadline - self._clock.monotonic())
        if wait is None:
            raise DeadlineExceededError(f"{request}: throttled beyond its deadline", sent=False)
        if wait:
            await asyncio.sleep(wait)

    def _pass_on_warnings(self, header: str) -> None:
        for warning in warnings_in(header) if self._warning_observers else ():
            for observer in self._warning_observers:
                observer(warning)

    def _fenced(self, request: HttpRequest) -> HttpRequest:
        """Return the request, a write with what refuses it; refused at once if it has to be."""
        fence = self._fence
        if fence is None or request.method in _SAFE_METHODS:
            return request

        def check() -> None:
            if fence.seconds_left() <= 0:
                raise NotLeadingError(f"{request}: not sent, because this process does not lead")

        check()
        return replace(request, before_send=check)

    def _observe(self, code: str, method: str, started: float) -> None:
        if self._observers:
            seconds = self._clock.monotonic() - started
            for observer in self._observers:
                observer(code, method, self._host, seconds)

    def _delay_before_retry(
        self, method: str, error: ApiError | TransportError, attempt: int
    ) -> float | None:
        """Seconds to wait before the next attempt, or None when there must be none."""
        asked = error.retry_after_seconds if isinstance(error, ApiError) else None
        if isinstance(error, TooManyRequestsError) or (
            isinstance(error, ApiError) and error.code == 503 and asked is not None
        ):
            most = _MOST_THROTTLED_RETRIES
        elif method in _SAFE_METHODS and _is_transient(error):
            most = _MOST_FAULT_RETRIES
        else:
            return None
        if attempt >= most:
            return None
        delay: float = min(_LONGEST_DELAY_SECONDS, _FIRST_DELAY_SECONDS * 2**attempt)
        if asked is not None:
            delay = max(asked, _FIRST_DELAY_SECONDS)
        return delay * self._random.uniform(1.0, 1.2)

    @staticmethod
    def _final_error(request: HttpRequest, error: ApiError | TransportError) -> Exception:
        if isinstance(error, TransportError) and error.sent and request.method not in _SAFE_METHODS:
            unknown = UnknownOutcomeError(f"{request}: sent, but the answer was lost: {error}")
            unknown.__cause__ = error
            return unknown
        return error


def _is_transient(error: ApiError | TransportError) -> bool:
    return isinstance(error, TransportError) or error.code in _TRANSIENT_CODES
