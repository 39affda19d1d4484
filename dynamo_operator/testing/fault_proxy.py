"""A proxy between one client process and its API server that makes faults happen.

Its states: open; refusing (nobody listens, no connection is left); partitioned (connections stand,
not a byte passes). `heal` leads back to open and lets everything that hangs go on.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from dynamo_operator.apiserver.kubeconfig import client_kubeconfig, write_private
from dynamo_operator.apiserver.server import load_certificate
from dynamo_operator.certificates import CertificateAuthority
from dynamo_operator.runtime.client.config import ClientConfig
from dynamo_operator.runtime.client.tls import client_context
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
from dynamo_operator.testing.http_messages import Head, MessageError, pieces, read_body, read_head
from dynamo_operator.testing.peer import ObservedReader, Peer
from informers.clock import Clock, SystemClock

HOST = "127.0.0.1"
_HEAD_LIMIT = 256 * 1024
_NO_BODY = frozenset({204, 304})


class FaultProxy:
    """Speaks HTTP/1.1 over TLS to both sides, to the server with one identity for every client.

    `async with` starts and stops it. Whoever uses `kubeconfig` acts as the user of the kubeconfig
    that the proxy was given.

    Args:
        kubeconfig: where the server is, and who we are to it.
        directory: where the proxy's own kubeconfig is written.
        clock: dates certificates and times requests.

    Example:
        >>> async def kill_before_the_job(kubeconfig: Path, directory: Path, operator) -> None:
        ...     async with FaultProxy(kubeconfig, directory=directory) as proxy:
        ...         creating_a_job = Point("POST", "/apis/batch/v1/namespaces/[^/]+/jobs")
        ...         killed = proxy.inject(creating_a_job, Cut(operator.kill))
        ...         await killed.reached()
    """

    kubeconfig: Path

    def __init__(self, kubeconfig: Path, *, directory: Path, clock: Clock | None = None) -> None:
        self._config = ClientConfig.load(kubeconfig, environ={})
        self._clock = clock or SystemClock()
        self._authority = CertificateAuthority.create(self._clock.now())
        self._port = 0
        self._listener: asyncio.Server | None = None
        self._clients: set[Peer] = set()
        self._tasks: set[asyncio.Task[object]] = set()
        self._injections: list[Injection] = []
        self._flowing = asyncio.Event()
        self._hanging: set[asyncio.Event] = set()
        self._directory = directory
        self.requests: list[ProxiedRequest] = []

    async def __aenter__(self) -> Self:
        tls, credentials = self._config.tls, self._config.credentials
        self._server_context = client_context(tls, credentials.client_certificate)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate = self._authority.issue("proxy", self._clock.now(), hosts=(HOST, "localhost"))
        load_certificate(self._context, certificate)
        self._flowing.set()
        await self._listen()
        self.kubeconfig = self._directory / f"proxy-{self._port}.kubeconfig"
        write_private(self.kubeconfig, self._own_kubeconfig())
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.refuse()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    @property
    def url(self) -> str:
        """Where it listens; the same after `heal`."""
        return f"https://{HOST}:{self._port}"

    def requests_of(self, plural: str, *verbs: str, namespace: str = "") -> list[ProxiedRequest]:
        """Return the requests for a kind, e.g. `requests_of("jobs", "create")`."""
        return requests_of(self.requests, plural, verbs, namespace)

    # Faults

    def inject(self, point: Point, fault: Fault) -> Injection:
        """Make a fault happen at a point, from now on."""
        self._injections.append(injection := Injection(point, fault))
        return injection

    def cut(self, point: Point | None = None) -> int:
        """Cut every connection, or those that are busy with such a request; return how many."""
        doomed = [
            client
            for client in self._clients
            if point is None or (client.request is not None and point.matches(client.request))
        ]
        for client in doomed:
            client.abort()
        return len(doomed)

    def refuse(self) -> None:
        """Cut every connection and refuse new ones until `heal`."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        self.cut()

    def partition(self) -> None:
        """Let not a byte pass until `heal`; connections stand, and new ones are accepted."""
        self._flowing.clear()

    async def heal(self) -> None:
        """End what `refuse`, `partition` and `inject` began; whatever hangs goes on."""
        self._injections.clear()
        self._flowing.set()
        for hanging in self._hanging:
            hanging.set()
        if self._listener is None:
            await self._listen()

    # Connections

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()

        def connection() -> asyncio.StreamReaderProtocol:
            return asyncio.StreamReaderProtocol(ObservedReader(limit=_HEAD_LIMIT), self._serve)

        self._listener = await loop.create_server(
            connection, HOST, self._port, ssl=self._context, reuse_address=True
        )
        self._port = self._listener.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = Peer(reader, writer)
        if self._listener is None:
            client.abort()  # it was accepted before we began to refuse
            return
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(client)
        self._tasks.add(task)
        try:
            while (head := await read_head(client.reader)) is not None:
                if not await self._exchange(client, head):
                    break
            await client.close()
        except (OSError, MessageError, _CutError, asyncio.IncompleteReadError):
            pass  # one side is gone, or is to believe so; the other is told by the finally below
        finally:
            client.abort()
            if client.other is not None:
                client.other.abort()
            self._clients.discard(client)
            self._tasks.discard(task)

    async def _server_of(self, client: Peer) -> Peer:
        """Return the connection to the server that goes with a client's, a new one if it ended."""
        if client.other is not None and not client.other.has_ended:
            return client.other
        url = urlsplit(self._config.server)
        secure = url.scheme == "https"
        reader, writer = await asyncio.open_connection(
            url.hostname,
            url.port or (443 if secure else 80),
            ssl=self._server_context if secure else None,
            server_hostname=(self._config.tls.server_name or None) if secure else None,
            limit=_HEAD_LIMIT,
        )
        client.other = server = Peer(reader, writer)
        client.on_end(server.abort)
        return server

    async def _exchange(self, client: Peer, head: Head) -> bool:
        """Pass on one request and its answer; return whether the connection can be used again."""
        body = await read_body(client.reader, head)
        request = client.request = self._note(head, body)
        due = [injection for injection in self._injections if injection.is_due(request)]
        half: int | None = None
        for injection in (each for each in due if each.point.when == "before"):
            if isinstance(injection.fault, Answer):
                return await self._answer(client, request, injection)
            half = await self._happen(client, injection, half)
        if client.has_ended:
            return False
        server = await self._server_of(client)
        await self._send(server, await self._as_us(head))
        await self._send(server, body)
        answer = await self._answer_of(server)
        request.status = int(answer.start.split(" ")[1])
        later = [injection for injection in due if injection.point.when == "after"]
        held = pieces(server.reader, answer) if _has_body(request, answer) else _replayed(())
        if later and not request.is_stream:
            held = _replayed([piece async for piece in held])
        for injection in later:
            if isinstance(injection.fault, Answer):
                return await self._answer(client, request, injection)
            half = await self._happen(client, injection, half)
        await self._send(client, answer.to_bytes())
        async for piece in held:
            await self._send(client, piece if half is None else piece[:half])
            if half is not None and (half := half - len(piece)) <= 0:
                return False
        request.delivered = True
        client.request = None
        return not (head.closes or answer.closes or _ends_with_connection(request, answer))

    async def _happen(self, client: Peer, injection: Injection, half: int | None) -> int | None:
        """Make a fault happen; return how many bytes of the answer are to be delivered."""
        match injection.fault:
            case Cut(hook):
                await injection.call(hook)
                raise _CutError
            case Pause(hook):
                await injection.call(hook)
            case Hang():
                injection.note()
                await self._hang(client)
            case HalfAnswer(size):
                injection.note()
                return size
            case Answer():
                raise AssertionError("an answer is given, not waited for")
        return half

    async def _hang(self, client: Peer) -> None:
        self._hanging.add(over := asyncio.Event())
        client.on_end(over.set)
        await over.wait()
        self._hanging.discard(over)

    async def _answer(self, client: Peer, request: ProxiedRequest, injection: Injection) -> bool:
        fault = injection.fault
        assert isinstance(fault, Answer)
        request.status = fault.status
        body = fault.body()
        described = (("Content-Type", "application/json"), ("Content-Length", str(len(body))))
        head = Head(f"HTTP/1.1 {fault.status} Fault", (*described, *fault.headers()))
        injection.note()
        await self._send(client, head.to_bytes() + body)
        request.delivered = True
        return True

    async def _as_us(self, head: Head) -> bytes:
        """Return a request's head with our identity in it."""
        authorization = await self._config.credentials.authorization()
        ours = [("Authorization", authorization)] if authorization else []
        ours += self._config.impersonation.headers()
        return Head(head.start, (*head.headers, *ours)).to_bytes()

    async def _answer_of(self, server: Peer) -> Head:
        while True:
            answer = await read_head(server.reader)
            if answer is None:
                raise MessageError("the server closed the connection")
            if answer.start.startswith("HTTP/1.1 101"):
                raise MessageError("a change of protocol is not passed on")
            if not answer.start.startswith("HTTP/1.1 1"):
                return answer

    async def _send(self, peer: Peer, data: bytes) -> None:
        await self._flowing.wait()
        peer.writer.write(data)
        await peer.writer.drain()

    def _note(self, head: Head, body: bytes) -> ProxiedRequest:
        method, target, _ = head.start.split(" ", 2)
        path, _, query = target.partition("?")
        request = ProxiedRequest(
            received=self._clock.now(),
            at=self._clock.monotonic(),
            method=method,
            path=path,
            query=query,
            user_agent=head.header("user-agent"),
            body=body,
        )
        self.requests.append(request)
        return request

    def _own_kubeconfig(self) -> dict[str, object]:
        """Return what a client needs to reach us; its certificate is never asked for."""
        return client_kubeconfig(
            self.url,
            self._authority.pem,
            self._authority.issue("client", self._clock.now()),
            user="client",
            namespace=self._config.namespace,
            cluster="proxy",
        )


class _CutError(Exception):
    """The connection is to be cut."""


async def _replayed(held: Sequence[bytes]) -> AsyncIterator[bytes]:
    for piece in held:
        yield piece


def _has_body(request: ProxiedRequest, answer: Head) -> bool:
    status = int(answer.start.split(" ")[1])
    return request.method != "HEAD" and status not in _NO_BODY


def _ends_with_connection(request: ProxiedRequest, answer: Head) -> bool:
    if answer.is_chunked or answer.header("content-length"):
        return False
    return _has_body(request, answer)
