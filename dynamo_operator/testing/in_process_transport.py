"""A client's transport that calls an embedded API server in the same event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import unquote

from dynamo_operator.apiserver.api_server import ApiServer
from dynamo_operator.apiserver.messages import ADMIN, ByteStream, Request, Response, UserInfo
from dynamo_operator.runtime.client.errors import DeadlineExceededError, TransportError
from dynamo_operator.runtime.client.http import HttpRequest, HttpResponse, HttpStream


class InProcessTransport:
    """A `Transport` without sockets.

    Args:
        server: who answers.
        user: who asks; None leaves that to the request's bearer token.
    """

    def __init__(self, server: ApiServer, *, user: UserInfo | None = ADMIN) -> None:
        self._server = server
        self._user = user
        self._closed = False

    async def send(self, request: HttpRequest, *, timeout_seconds: float) -> HttpResponse:
        """Return the answer; see `Transport.send`."""
        try:
            async with asyncio.timeout(timeout_seconds):
                answer = await self._ask(request)
                body = await _read(answer)
        except TimeoutError:
            raise DeadlineExceededError(f"{request}: no answer in {timeout_seconds:g} s") from None
        return HttpResponse(answer.status, answer.headers, body)

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncGenerator[HttpStream]:
        """Open an answer of any length; see `Transport.stream`."""
        answer = await self._ask(request)
        try:
            yield _InProcessStream(answer)
        finally:
            if not isinstance(answer.body, bytes):
                await answer.body.aclose()

    async def close(self) -> None:
        """Answer nothing any more."""
        self._closed = True

    async def _ask(self, request: HttpRequest) -> Response:
        if self._closed:
            raise TransportError("the client is closed", sent=False)
        # A server that is elsewhere lets others go first: so does this one, on both ways.
        await asyncio.sleep(0)
        if request.before_send is not None:
            request.before_send()
        answer = await self._server.handle(
            Request(
                method=request.method,
                path=unquote(request.path),
                query=tuple(request.query),
                headers={name.lower(): value for name, value in request.headers.items()},
                body=request.body or b"",
                user=self._user,
                source_address="in-process",
            )
        )
        await asyncio.sleep(0)
        return answer


class _InProcessStream:
    def __init__(self, answer: Response) -> None:
        self._answer = answer

    @property
    def status(self) -> int:
        return self._answer.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._answer.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        body = self._answer.body
        if isinstance(body, bytes):
            yield body
            return
        async for chunk in _each(body):
            yield chunk

    async def read(self) -> bytes:
        return await _read(self._answer)


async def _read(answer: Response) -> bytes:
    if isinstance(answer.body, bytes):
        return answer.body
    return b"".join([chunk async for chunk in _each(answer.body)])


async def _each(stream: ByteStream) -> AsyncGenerator[bytes]:
    async for chunk in stream:
        yield chunk
