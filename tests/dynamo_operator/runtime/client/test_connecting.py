"""Names, addresses, TLS and proxies on the way to a server, on real sockets."""

import asyncio
import socket
import ssl

import pytest
import trustme
import uvloop

from dynamo_operator.runtime.client import ClientConfig, HttpRequest, TlsConfig, TransportError
from dynamo_operator.runtime.client.connecting import Endpoint
from dynamo_operator.runtime.client.errors import DeadlineExceededError
from dynamo_operator.runtime.client.transport import HttpTransport
from tests.dynamo_operator.runtime.client.scripted_server import (
    ScriptedServer,
    hang,
    reply,
    reset,
    status,
)

GET = HttpRequest("GET", "/x")


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


def server_tls(authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


async def send(url, **config):
    transport = HttpTransport(ClientConfig(url, **config))
    try:
        return await transport.send(GET, timeout_seconds=5)
    finally:
        await transport.close()


@pytest.mark.parametrize(
    ("url", "address", "header", "is_tls"),
    [
        ("https://lab.test", "lab.test:443", "lab.test", True),
        ("http://lab.test", "lab.test:80", "lab.test", False),
        ("http://lab.test:443/a", "lab.test:443", "lab.test:443", False),
        ("https://[::1]:6443", "[::1]:6443", "[::1]:6443", True),
        ("https://[::1]", "[::1]:443", "[::1]", True),
        ("https://bücher.test:1", "xn--bcher-kva.test:1", "xn--bcher-kva.test:1", True),
    ],
)
def test_an_endpoint_is_what_a_url_names(url, address, header, is_tls):
    endpoint = Endpoint.of(url)

    assert (endpoint.address, endpoint.host_header, endpoint.is_tls) == (address, header, is_tls)


def test_an_endpoints_password_is_decoded_for_its_header_and_not_shown():
    endpoint = Endpoint.of("http://me:s3%40cret@lab.test")

    assert endpoint.authorization == "Basic bWU6czNAY3JldA=="
    assert "bWU6" not in repr(endpoint)


async def test_a_name_that_is_unknown_is_an_error_in_one_line():
    with pytest.raises(TransportError, match=r"cannot connect to nowhere\.invalid:80: ") as caught:
        await send("http://nowhere.invalid")

    assert not caught.value.sent


async def test_the_next_address_of_a_name_is_tried_where_the_first_refuses(monkeypatch):
    async def both(self, host, port, **_options):
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.2", port)),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)),
        ]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", both)
    async with ScriptedServer([reply(200)]) as server:
        answer = await send(f"http://lab.test:{server.port}")

    assert answer.status == 200
    assert server.received[0].headers["host"] == f"lab.test:{server.port}"


async def test_a_server_that_never_shakes_hands_ends_in_a_deadline_before_sending():
    async with ScriptedServer([hang]) as server:
        transport = HttpTransport(ClientConfig(f"https://127.0.0.1:{server.port}"))
        with pytest.raises(DeadlineExceededError, match="no connection in time") as caught:
            await transport.send(GET, timeout_seconds=0.1)
        await transport.close()

    assert not caught.value.sent


async def test_a_server_that_speaks_no_tls_is_an_error_in_one_line():
    def refuse(_reader, writer):
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(TransportError, match=rf"cannot connect to 127.0.0.1:{port}: TLS: "):
            await send(f"https://127.0.0.1:{port}")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (status(403), r"the proxy 127.0.0.1:\d+ answers 403 to CONNECT lab.test:443"),
        (reset, r"the proxy 127.0.0.1:\d+: "),
    ],
    ids=["refuses", "breaks-off"],
)
async def test_a_proxy_that_makes_no_tunnel_is_named(answer, why):
    async with ScriptedServer([answer]) as proxy:
        with pytest.raises(TransportError, match=why) as caught:
            await send("https://lab.test", proxy=f"http://127.0.0.1:{proxy.port}")

    assert not caught.value.sent


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_tunnel_may_lead_through_a_proxy_with_tls(authority, loop, monkeypatch, tmp_path):
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))  # a proxy's: the machine's

    async def through_both():
        async with ScriptedServer([reply(200, b"x")], server_tls(authority)) as server:

            async def tunnel(connection):
                await connection.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await connection.join("127.0.0.1", server.port)

            async with ScriptedServer([tunnel], server_tls(authority)) as proxy:
                return await send(
                    server.url,
                    proxy=f"https://127.0.0.1:{proxy.port}",
                    tls=TlsConfig(ca_data=authority.cert_pem.bytes()),
                )

    with asyncio.Runner(loop_factory=loop) as runner:
        answer = runner.run(through_both())

    assert answer.body == b"x"
