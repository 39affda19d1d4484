"""An HTTP server on loopback that answers byte for byte what a test says."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

Answer = Callable[["Connection"], Awaitable[None]]


@dataclass(frozen=True)
class Received:
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def path(self):
        return urlsplit(self.target).path

    @property
    def query(self):
        return dict(parse_qsl(urlsplit(self.target).query))

    @property
    def json(self):
        return json.loads(self.body)


@dataclass
class Connection:
    writer: asyncio.StreamWriter
    reader: asyncio.StreamReader

    async def join(self, host: str, port: int):
        """Pass bytes on to another server and back until either side ends."""
        reader, writer = await asyncio.open_connection(host, port)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_pump(self.reader, writer))
                tasks.create_task(_pump(reader, self.writer))
        finally:
            writer.close()

    async def write(self, data: bytes):
        self.writer.write(data)
        await self.writer.drain()

    def reset(self):
        raw: socket.socket = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


@dataclass
class ScriptedServer:
    """Answers requests in turn with `answers`; the last one goes on."""

    answers: list[Answer]
    tls: ssl.SSLContext | None = None
    received: list[Received] = field(default_factory=list)
    connections: int = 0
    peer_certificates: list[Any] = field(default_factory=list)

    async def __aenter__(self):
        self._tasks: set[asyncio.Task[None] | None] = set()
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", 0, ssl=self.tls, limit=2**20
        )
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *exc):
        self._server.close()
        for task in self._tasks:
            if task:
                task.cancel()
        await asyncio.gather(*filter(None, self._tasks), return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader, writer):
        self._tasks.add(asyncio.current_task())
        self.connections += 1
        self.peer_certificates.append(writer.get_extra_info("peercert"))
        try:
            while (request := await _read_request(reader)) is not None:
                self.received.append(request)
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                await answer(Connection(writer, reader))
        except (
            ConnectionError,
            ssl.SSLError,
            asyncio.IncompleteReadError,
            asyncio.CancelledError,
        ):
            pass
        finally:
            writer.close()


async def _pump(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def _read_request(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")[:-2]
    method, target, _ = first.split(" ")
    pairs = [line.split(": ", 1) for line in lines]
    headers: dict[str, str] = {}
    for name, value in pairs:
        name = name.lower()
        headers[name] = f"{headers[name]}|{value}" if name in headers else value
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Received(method, target, headers, body)


def reply(status: int = 200, body: Any = b"", **headers: str) -> Answer:
    """Answer at once; a body that is not bytes is sent as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    kind = "text/plain" if isinstance(body, bytes) else "application/json"
    lines = {"content-type": kind, **{n.replace("_", "-"): v for n, v in headers.items()}}
    lines["content-length"] = str(len(data))

    async def answer(connection):
        await connection.write(_head(status, lines) + data)

    return answer


def status(code: int, reason: str = "", message: str = "", *, details=None, **headers) -> Answer:
    """Answer with a Status object."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }
    return reply(code, body, **headers)


def truncated(code: int, body: bytes) -> Answer:
    """Promise more than is sent, then close."""

    async def answer(connection):
        await connection.write(_head(code, {"content-length": str(len(body) + 100)}) + body)
        connection.writer.close()

    return answer


def chunked(*chunks: bytes, then: Answer | None = None, code: int = 200) -> Answer:
    """Send chunks; `then` decides how the answer goes on instead of ending well."""

    async def answer(connection):
        await connection.write(_head(code, {"transfer-encoding": "chunked"}))
        for chunk in chunks:
            await connection.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        await (then or end)(connection)

    async def end(connection):
        await connection.write(b"0\r\n\r\n")

    return answer


async def hang(connection):
    """Never answer."""
    await asyncio.Event().wait()


async def reset(connection):
    """Reset the connection."""
    await asyncio.sleep(0)
    connection.reset()
    raise ConnectionResetError


def _head(code: int, headers: Mapping[str, str]) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {code} x\r\n{lines}\r\n".encode()
