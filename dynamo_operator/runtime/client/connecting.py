"""Open a connection to the server: names and addresses, TLS, and a proxy's tunnel where one is."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

import aiohappyeyeballs

from dynamo_operator.runtime.client.http import HttpRequest
from dynamo_operator.runtime.client.http_connection import ExchangeError, HttpConnection

CONNECT_TIMEOUT_SECONDS = 10.0

_NEXT_ADDRESS_SECONDS = 0.25  # RFC 8305


class ConnectError(Exception):
    """There is no connection; one line saying why. Nothing was sent to the server."""


class UntrustedError(ConnectError):
    """The server's certificate is not trusted; one line saying why."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where something listens, as a URL names it.

    `authorization` is what a header says of the URL's user and password; empty without a user.
    """

    host: str
    port: int
    is_tls: bool
    authorization: str = field(default="", repr=False)

    @classmethod
    def of(cls, url: str) -> Endpoint:
        """Return that of an http or https URL.

        Raises:
            ValueError: its port is none.
        """
        parts = urlsplit(url)
        host = parts.hostname or ""
        if not host.isascii():
            host = host.encode("idna").decode()
        is_tls = parts.scheme == "https"
        authorization = ""
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"
        return cls(host, parts.port or (443 if is_tls else 80), is_tls, authorization)

    @property
    def address(self) -> str:
        """Host and port as a URL has them."""
        return f"{self._bracketed}:{self.port}"

    @property
    def host_header(self) -> str:
        """What a request calls the host: without the port where it is the usual one."""
        return self._bracketed if self.port == (443 if self.is_tls else 80) else self.address

    @property
    def _bracketed(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


@dataclass(frozen=True, slots=True, eq=False)
class Destination:
    """Where connections lead, and how.

    Args:
        server: the server.
        tls: for a server with TLS.
        server_name: whom its certificate has to name; empty for its host.
        proxy: what is between.
        proxy_tls: for a proxy with TLS.
    """

    server: Endpoint
    tls: ssl.SSLContext | None = None
    server_name: str = ""
    proxy: Endpoint | None = None
    proxy_tls: ssl.SSLContext | None = None

    async def connect(self) -> HttpConnection:
        """Open a connection.

        Raises:
            UntrustedError: the server's certificate is not trusted.
            ConnectError: the server, or the proxy, cannot be reached, or the latter refuses.
            TimeoutError: it took longer than CONNECT_TIMEOUT_SECONDS.
        """
        name = self.server_name or self.server.host
        async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
            if self.proxy is None:
                return await _connect(self.server, self.tls, name)
            connection = await _connect(self.proxy, self.proxy_tls, self.proxy.host)
            if self.tls is None:
                return connection  # the proxy sees the requests, and forwards them
            try:
                await _tunnel(connection, self.server, self.proxy)
                with _explained(self.server):
                    await connection.start_tls(self.tls, name)
            except BaseException:
                connection.close()
                raise
            return connection


async def _connect(endpoint: Endpoint, tls: ssl.SSLContext | None, name: str) -> HttpConnection:
    loop = asyncio.get_running_loop()
    with _explained(endpoint):
        found = await _addresses(endpoint)
        delay = _NEXT_ADDRESS_SECONDS
        opened = await aiohappyeyeballs.start_connection(found, happy_eyeballs_delay=delay)
        try:
            _, connection = await loop.create_connection(
                HttpConnection, sock=opened, ssl=tls, server_hostname=name if tls else None
            )
        except BaseException:
            opened.close()
            raise
    return connection


async def _addresses(endpoint: Endpoint) -> Sequence[aiohappyeyeballs.AddrInfoType]:
    with suppress(socket.gaierror):  # an address needs no look-up, and so no thread
        flags = socket.AI_NUMERICHOST
        return socket.getaddrinfo(
            endpoint.host, endpoint.port, type=socket.SOCK_STREAM, flags=flags
        )
    loop = asyncio.get_running_loop()
    return await loop.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)


async def _tunnel(connection: HttpConnection, server: Endpoint, proxy: Endpoint) -> None:
    """Have the proxy connect to the server."""
    lines = [f"CONNECT {server.address} HTTP/1.1", f"Host: {server.address}"]
    if proxy.authorization:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    head = "\r\n".join([*lines, "", ""]).encode()
    where = f"the proxy {proxy.address}"
    try:
        answer = connection.send(HttpRequest("CONNECT", "/"), head, is_stream=False)
        await answer.head()
    except ExchangeError as error:
        raise ConnectError(f"{where}: {error}") from error
    connection.release()
    if not 200 <= answer.status < 300:
        raise ConnectError(f"{where} answers {answer.status} to CONNECT {server.address}")


@contextmanager
def _explained(endpoint: Endpoint) -> Iterator[None]:
    """Turn what goes wrong while connecting into errors of ours."""
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        raise UntrustedError(str(error)) from error
    except OSError as error:
        raise ConnectError(f"cannot connect to {endpoint.address}: {_why(error)}") from error


def _why(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or error}"
    number = error.errno or 0
    return os.strerror(number) if number > 0 else error.strerror or str(error)
