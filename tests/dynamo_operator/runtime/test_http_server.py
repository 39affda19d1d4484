import asyncio
import io
import logging
import ssl

import aiohttp
import pytest
import trustme
from structlog.testing import capture_logs

from dynamo_operator.runtime.client.http import HttpResponse
from dynamo_operator.runtime.http_exchange import HttpLimits
from dynamo_operator.runtime.http_server import HttpServer
from dynamo_operator.runtime.serving_certificate import RELOAD_SECONDS, ServingCertificate
from dynamo_operator.testing.polling import eventually


async def echo(request):
    text = f"{request.method} {request.path} {list(request.query)} {request.body!r}"
    return HttpResponse(200, {"content-type": "text/plain"}, text.encode())


async def fetch(url, method="GET", **options):
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url, **options) as answer,
    ):
        return answer.status, await answer.text()


async def test_a_route_gets_the_request_and_its_answer_is_sent():
    server = HttpServer("127.0.0.1:0")
    server.route("POST", "/echo", echo)
    server.route("GET", "/tree", echo, below=True)

    async with server:
        base = f"http://127.0.0.1:{server.port}"
        posted = await fetch(f"{base}/echo?a=1&a=2", "POST", data=b"x")
        below = await fetch(f"{base}/tree/leaf")
        head = await fetch(f"{base}/tree", "HEAD")
        wrong_method = await fetch(f"{base}/echo")
        missing = await fetch(f"{base}/treehouse")

    assert posted == (200, "POST /echo [('a', '1'), ('a', '2')] b'x'")
    assert below == (200, "GET /tree/leaf [] b''")
    assert head == (200, "")
    assert wrong_method[0] == 405
    assert missing[0] == 404


async def chunks(size):
    for _ in range(size // 65536):
        yield b"x" * 65536
    yield b"x" * (size % 65536)


@pytest.mark.parametrize(
    "make_body",
    [lambda size: io.BytesIO(b"x" * size), chunks],
    ids=["of-known-length", "chunked"],
)
async def test_a_body_over_the_limit_is_refused(make_body):
    server = HttpServer("127.0.0.1:0")
    server.route("POST", "/echo", echo)

    async with server:
        status, _ = await fetch(
            f"http://127.0.0.1:{server.port}/echo", "POST", data=make_body(7 * 1024 * 1024 + 1)
        )

    assert status == 413


def errors_of(caplog):
    """What asyncio had to say; that a callback was slow is the machine's."""
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET /echo HTT", b"POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nabc"],
    ids=["nothing", "half-a-header", "half-a-body"],
)
async def test_a_client_that_dawdles_is_cut_off(sent):
    server = HttpServer("127.0.0.1:0", limits=HttpLimits(header=0.05, body=0.05, idle=0.05))
    server.route("POST", "/echo", echo)

    async with server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(sent)
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()

    assert answer == b"" or answer.startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ],
    ids=["version", "length", "chunk"],
)
async def test_what_is_no_http_is_refused_and_logged_in_a_line(sent, caplog):
    server = HttpServer("127.0.0.1:0")
    server.route("POST", "/echo", echo)
    with capture_logs() as logs:
        async with server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(sent)
            answer = await reader.readline()
            writer.close()

    assert b" 400 " in answer
    assert [(log["log_level"], log["event"]) for log in logs] == [
        ("info", "request not understood")
    ]
    assert errors_of(caplog) == []


async def test_a_defect_of_a_handler_is_answered_500_and_logged_with_its_trace(caplog):
    async def fail(_request):
        raise ZeroDivisionError

    server = HttpServer("127.0.0.1:0")
    server.route("GET", "/page", fail)
    with capture_logs() as logs:
        async with server:
            status, _ = await fetch(f"http://127.0.0.1:{server.port}/page")

    assert status == 500
    (log,) = logs
    assert (log["log_level"], log["event"]) == ("error", "request not answered")
    assert isinstance(log["exc_info"], ZeroDivisionError)
    assert errors_of(caplog) == []


async def test_a_connection_is_kept_between_requests_and_closed_when_idle():
    server = HttpServer("127.0.0.1:0", limits=HttpLimits(idle=0.05))
    server.route("GET", "/echo", echo)
    request = b"GET /echo HTTP/1.1\r\nhost: a\r\n\r\n"

    async with server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        for _ in range(2):
            writer.write(request)
            await reader.readuntil(b"GET /echo")
        rest = await reader.read()
        writer.close()
        await writer.wait_closed()

    assert rest.count(b"HTTP/1.1") == 0


async def exchange(server, *pieces):
    """Send pieces, each once the server has taken the one before; return all that comes back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0.01)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def test_requests_sent_without_waiting_are_answered_in_their_order():
    server = HttpServer("127.0.0.1:0")
    server.route("POST", "/echo", echo)
    first = b"POST /echo?n=1 HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\nx"
    last = b"POST /echo?n=2 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"

    async with server:
        answer = await exchange(server, first + last[:20], last[20:])

    assert answer.index(b"[('n', '1')] b'x'") < answer.index(b"[('n', '2')] b''")
    assert answer.count(b"HTTP/1.1 200 OK\r\n") == 2
    assert answer.count(b"connection: close\r\n") == 1


async def test_a_client_that_waits_for_leave_to_send_its_body_gets_it():
    server = HttpServer("127.0.0.1:0")
    server.route("POST", "/echo", echo)
    head = b"POST /echo HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 1\r\n"

    async with server:
        answer = await exchange(server, head + b"connection: close\r\n\r\n", b"x")

    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")


async def test_another_protocol_is_not_changed_to():
    server = HttpServer("127.0.0.1:0")
    server.route("GET", "/echo", echo)
    head = b"GET /echo HTTP/1.1\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\nPRI * HTTP/2.0"

    async with server:
        answer = await exchange(server, head)

    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize(
    "endless",
    [b"GET /" + b"a" * 70_000, b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 40_000],
    ids=["target", "headers"],
)
async def test_a_head_has_a_largest_size(endless):
    async with HttpServer("127.0.0.1:0") as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(endless)
        answer = await reader.readline()
        writer.close()

    assert answer == b"HTTP/1.1 400 Bad Request\r\n"


async def test_a_client_that_does_not_take_its_answer_is_cut_off():
    async def flood(_request):
        return HttpResponse(200, {}, b"x" * 2**26)

    server = HttpServer("127.0.0.1:0", limits=HttpLimits(idle=0.1))
    server.route("GET", "/flood", flood)

    async with server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=2**10)
        writer.write(b"GET /flood HTTP/1.1\r\nhost: a\r\n\r\n")
        await reader.readexactly(1)
        await eventually(lambda: not server.connections)
        taken = 0
        while data := await reader.read(2**20):
            taken += len(data)
        writer.close()

    assert taken < 2**26


async def test_a_stop_waits_for_the_answer_that_is_under_way_and_for_nothing_else():
    asked, may_answer = asyncio.Event(), asyncio.Event()

    async def slow(_request):
        asked.set()
        await may_answer.wait()
        return HttpResponse(200, {}, b"done")

    server = HttpServer("127.0.0.1:0")
    server.route("GET", "/slow", slow)
    await server.__aenter__()
    idle_reader, idle_writer = await asyncio.open_connection("127.0.0.1", server.port)
    async with asyncio.TaskGroup() as group:
        answer = group.create_task(exchange(server, b"GET /slow HTTP/1.1\r\nhost: a\r\n\r\n"))
        await asked.wait()
        stopping = group.create_task(server.__aexit__(None, None, None))
        assert await idle_reader.read() == b""
        assert not stopping.done()
        may_answer.set()
    idle_writer.close()

    assert answer.result().endswith(b"connection: close\r\n\r\ndone")


async def test_a_stop_does_not_wait_for_ever():
    async def never(_request):
        await asyncio.Event().wait()

    server = HttpServer("127.0.0.1:0", shutdown_seconds=0.05)
    server.route("GET", "/never", never)
    async with server, asyncio.TaskGroup() as group:
        answer = group.create_task(exchange(server, b"GET /never HTTP/1.1\r\nhost: a\r\n\r\n"))
        await asyncio.sleep(0.05)
        await server.__aexit__(None, None, None)

    assert answer.result() == b""


async def test_the_port_is_free_again_after_the_server_was_cancelled():
    server = HttpServer("127.0.0.1:0")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(server.run())
        port = await eventually(lambda: server.port)
        task.cancel()

    async with HttpServer(f"127.0.0.1:{port}") as again:
        assert again.port == port


async def test_a_used_address_is_an_error_at_the_start():
    async with HttpServer("127.0.0.1:0") as first:
        with pytest.raises(OSError, match="in use"):
            await HttpServer(f"127.0.0.1:{first.port}").__aenter__()


@pytest.mark.parametrize("address", ["8080", "host:", ":port", ":70000", ""])
def test_an_address_that_is_none_is_refused(address):
    with pytest.raises(ValueError, match="must be host:port"):
        HttpServer(address)


def test_a_path_is_served_once():
    server = HttpServer(":0")
    server.route("GET", "/a", echo)

    with pytest.raises(ValueError, match="GET /a: is already served"):
        server.route("GET", "/a", echo)


@pytest.fixture
def authority():
    return trustme.CA()


@pytest.fixture
def serve(authority, tmp_path):
    def write(name):
        issued = authority.issue_cert(name)
        issued.private_key_pem.write_to_path(tmp_path / "tls.key")
        issued.cert_chain_pems[0].write_to_path(tmp_path / "tls.crt")

    return write


async def served_name(server, authority):
    context = ssl.create_default_context()
    authority.configure_trust(context)
    context.check_hostname = False
    _, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
    name = writer.get_extra_info("peercert")["subjectAltName"][0][1]
    writer.close()
    await writer.wait_closed()
    return name


async def test_a_new_certificate_is_served_from_the_next_handshake(authority, serve, tmp_path):
    serve("first.test")
    certificate = ServingCertificate(tmp_path / "tls.crt", tmp_path / "tls.key")
    async with HttpServer("127.0.0.1:0", certificate=certificate) as server:
        before = await served_name(server, authority)
        serve("second.test")
        changed = await certificate.load()
        after = await served_name(server, authority)

    assert (before, changed, after) == ("first.test", True, "second.test")
    assert await certificate.load() is False


async def test_files_that_change_are_served_within_ten_seconds_and_broken_ones_are_not(
    authority, serve, tmp_path
):
    """Statement 103."""
    serve("first.test")
    reads: list[bool] = []
    certificate = ServingCertificate(
        tmp_path / "tls.crt", tmp_path / "tls.key", reload_seconds=0.02
    )
    certificate.observe(reads.append)
    server = HttpServer("127.0.0.1:0", certificate=certificate)

    async with server, asyncio.TaskGroup() as group:
        running = group.create_task(server.run())
        served = [await served_name(server, authority)]
        (tmp_path / "tls.key").write_bytes(b"broken")
        await eventually(lambda: False in reads)
        served.append(await served_name(server, authority))
        serve("second.test")
        await eventually(lambda: reads[-1])
        served.append(await served_name(server, authority))
        running.cancel()

    assert served == ["first.test", "first.test", "second.test"]
    assert RELOAD_SECONDS <= 10


async def test_no_handshake_fails_while_certificates_change(authority, serve, tmp_path):
    serve("first.test")
    certificate = ServingCertificate(tmp_path / "tls.crt", tmp_path / "tls.key")
    async with HttpServer("127.0.0.1:0", certificate=certificate) as server:
        pairs = [serve(name) or pair_in(tmp_path) for name in ("a.test", "b.test")]
        done = asyncio.Event()

        async def shake_hands() -> set[str]:
            names = set()
            while not done.is_set():
                names.add(await served_name(server, authority))
            return names

        async with asyncio.TaskGroup() as group:
            clients = [group.create_task(shake_hands()) for _ in range(4)]
            for number in range(60):
                for file, content in pairs[number % 2].items():
                    (tmp_path / file).write_bytes(content)
                await certificate.load()
            done.set()

    assert set.union(*(client.result() for client in clients)) >= {"a.test", "b.test"}


def pair_in(directory):
    return {file: (directory / file).read_bytes() for file in ("tls.crt", "tls.key")}


async def test_a_connection_outlives_the_certificate_that_it_began_with(authority, serve, tmp_path):
    serve("first.test")
    certificate = ServingCertificate(tmp_path / "tls.crt", tmp_path / "tls.key")
    context = ssl.create_default_context()
    authority.configure_trust(context)
    context.check_hostname = False
    server = HttpServer("127.0.0.1:0", certificate=certificate)
    server.route("POST", "/echo", echo)

    async with server, aiohttp.ClientSession() as session:
        url = f"https://127.0.0.1:{server.port}/echo"
        async with session.post(url, ssl=context) as before:
            await before.read()
        serve("second.test")
        await certificate.load()
        async with session.post(url, ssl=context) as after:
            text = await after.text()

    assert text.startswith("POST /echo")


async def test_a_broken_new_pair_keeps_the_old_one(authority, serve, tmp_path):
    serve("first.test")
    certificate = ServingCertificate(tmp_path / "tls.crt", tmp_path / "tls.key")
    async with HttpServer("127.0.0.1:0", certificate=certificate) as server:
        other_key = trustme.CA().issue_cert("other.test").private_key_pem
        other_key.write_to_path(tmp_path / "tls.key")
        with pytest.raises(ssl.SSLError):
            await certificate.load()

        assert await served_name(server, authority) == "first.test"


async def test_an_address_that_is_taken_is_named_in_the_error():
    async with HttpServer("127.0.0.1:0") as server:
        address = f"127.0.0.1:{server.port}"
        with pytest.raises(OSError, match="Address already in use") as refused:
            async with HttpServer(address):
                pass

    assert refused.value.filename == address


@pytest.mark.parametrize(("key_of_other", "reason"), [(True, "; key values mismatch"), (False, "")])
async def test_files_that_are_no_pair_are_named(tmp_path, key_of_other, reason):
    authority = trustme.CA()
    made, other = (authority.issue_cert("localhost") for _ in range(2))
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    made.cert_chain_pems[0].write_to_path(certificate)
    key.write_bytes(other.private_key_pem.bytes() if key_of_other else b"no PEM")

    with pytest.raises(ssl.SSLError) as refused:
        await ServingCertificate(certificate, key).prepare()

    assert str(refused.value) == (
        f"{certificate}, {key}: must be a certificate and its unencrypted key, in PEM{reason}"
    )
