"""Writes behind a fence: nothing of them goes out once it says so, however late."""

import asyncio
import ssl
from contextlib import asynccontextmanager

import pytest
import trustme

from dynamo_operator.runtime.builtin_kinds import ConfigMap
from dynamo_operator.runtime.client import (
    Client,
    ClientConfig,
    HttpRequest,
    NotLeadingError,
    TlsConfig,
    UnknownOutcomeError,
)
from dynamo_operator.runtime.client.http import HttpResponse
from dynamo_operator.runtime.client.transport import HttpTransport
from informers.objects import ObjectKey
from tests.dynamo_operator.runtime.client.scripted_transport import (
    ScriptedTransport,
    answer,
    refusal,
)

KEY = ObjectKey("default", "a")
STORED = {"metadata": {"name": "a", "namespace": "default", "resourceVersion": "7"}}


class Until:
    """Open until the loop's time says so."""

    def __init__(self, until):
        self.until = until

    def seconds_left(self):
        return self.until - asyncio.get_running_loop().time()


class Asked:
    """Open for so many questions."""

    def __init__(self, times):
        self.left = times

    def seconds_left(self):
        self.left -= 1
        return 5.0 if self.left >= 0 else 0.0


async def write_in_every_way(client):
    made = ConfigMap.new("a", namespace="default")
    for call in (
        client.create(made),
        client.create(made, dry_run=True),
        client.apply(made, force=True),
        client.apply_status(made, {}),
        client.replace(made),
        client.patch(ConfigMap, KEY, {"data": {}}),
        client.delete(ConfigMap, KEY),
        client.request("POST", "/x"),
        client.request("PUT", "/x", body=b"{}"),
    ):
        with pytest.raises(NotLeadingError, match="not sent, because this process does not lead"):
            await call


@pytest.mark.virtual_time
async def test_no_write_of_any_kind_is_sent_and_every_read_is():
    transport = ScriptedTransport(answer(200, STORED))
    client = Client.over(transport).with_fence(Until(0))

    await write_in_every_way(client)
    assert transport.requests == []

    await client.get(ConfigMap, KEY)
    await client.list(ConfigMap)
    assert [request.method for request in transport.requests] == ["GET", "GET"]


@pytest.mark.virtual_time
async def test_a_client_made_of_a_fenced_one_is_fenced():
    transport = ScriptedTransport(answer(200, STORED))
    fenced = Client.over(transport).with_fence(Until(0))

    for client in (
        fenced.with_field_manager("x"),
        fenced.with_write_observer(lambda _: None),
        fenced.with_request_observer(lambda *_: None),
        fenced.with_own_connections("x"),
    ):
        await write_in_every_way(client)
    assert transport.requests == []


@pytest.mark.virtual_time
async def test_a_write_that_was_throttled_is_not_repeated_outside():
    transport = ScriptedTransport(refusal(429, "TooManyRequests", retry_after="3"))
    client = Client.over(transport).with_fence(Until(5))

    with pytest.raises(NotLeadingError):
        await client.create(ConfigMap.new("a", namespace="default"))

    assert transport.times[-1] < 5


@pytest.mark.virtual_time
async def test_a_write_in_flight_is_waited_for_no_longer_than_the_fence_is_open():
    transport = ScriptedTransport(3600.0)
    client = Client.over(transport).with_fence(Until(5))

    with pytest.raises(UnknownOutcomeError):
        await client.create(ConfigMap.new("a", namespace="default"))

    assert asyncio.get_running_loop().time() == 5


class Listener:
    """Takes connections, notes every byte, and answers requests for a GET only."""

    def __init__(self):
        self.received = b""
        self.connections = 0

    async def serve(self, reader, writer):
        self.connections += 1
        try:
            while data := await reader.read(65536):
                self.received += data
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        except (OSError, ssl.SSLError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def listening(tls):
    listener = Listener()
    authority = trustme.CA()
    context = None
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
    server = await asyncio.start_server(listener.serve, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    config = ClientConfig(
        f"{'https' if tls else 'http'}://127.0.0.1:{port}",
        tls=TlsConfig(ca_data=authority.cert_pem.bytes()) if tls else TlsConfig(),
    )
    async with server:
        yield listener, config


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("body", [b"", b"{}", b"x" * 300_000], ids=["empty", "small", "large"])
async def test_not_one_byte_goes_out_when_the_fence_closes_while_a_connection_is_opened(tls, body):
    async with listening(tls) as (listener, config):
        transport = HttpTransport(config)
        questions = 0
        while True:
            fence = Asked(questions)

            def check(fence=fence):
                if fence.seconds_left() <= 0:
                    raise NotLeadingError("closed")

            request = HttpRequest("POST", "/x", body=body, before_send=check)
            try:
                answered = await transport.send(request, timeout_seconds=5)
            except NotLeadingError:
                await asyncio.sleep(0.01)
                assert listener.received == b""
                questions += 1
                continue
            break
        await transport.close()

    assert answered == HttpResponse(200, answered.headers, b"{}")
    assert listener.received.startswith(b"POST /x HTTP/1.1\r\n")
    assert questions == 1


async def test_the_fence_is_asked_after_a_connection_that_took_long():
    """The process is paused, or its loop blocked, while the connection is being opened."""
    loop = asyncio.get_running_loop()
    async with listening(tls=True) as (listener, config):
        fence = Until(loop.time() + 0.2)
        async with Client.connect(config) as connected:
            client = connected.with_fence(fence)
            loop.call_soon(lambda: loop.call_soon(block, 0.4))
            with pytest.raises(NotLeadingError):
                await client.create(ConfigMap.new("a", namespace="default"))

    assert listener.received == b""


def block(seconds):
    until = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < until:
        pass


async def test_requests_on_connections_of_their_own_wait_for_no_others():
    async with listening(tls=False) as (listener, config), Client.connect(config) as client:
        own = client.with_own_connections("leader-election")
        await client.request("GET", "/x")
        await own.request("GET", "/x")

    assert listener.connections == 2
    assert b" leader-election\r\n" in listener.received
