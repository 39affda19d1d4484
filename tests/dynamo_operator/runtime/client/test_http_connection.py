"""Answers of every form that HTTP/1.1 allows, and of some that it does not, on real sockets."""

import asyncio
import gzip
from contextlib import asynccontextmanager

import pytest
import uvloop

from dynamo_operator.runtime.client import (
    ClientConfig,
    HttpRequest,
    TransportError,
    connection_pool,
    http_connection,
    transport,
)
from dynamo_operator.runtime.client.transport import HttpTransport
from tests.dynamo_operator.runtime.client.scripted_server import (
    ScriptedServer,
    chunked,
    hang,
    reply,
)

GET = HttpRequest("GET", "/x")


@asynccontextmanager
async def serving(*answers, **config):
    async with ScriptedServer(list(answers)) as server:
        client = HttpTransport(ClientConfig(server.url, **config))
        try:
            yield server, client
        finally:
            await client.close()


def raw(data, *, close=False):
    async def answer(connection):
        await connection.write(data)
        if close:
            connection.writer.close()

    return answer


async def send(client, request=GET):
    return await client.send(request, timeout_seconds=5)


async def test_one_connection_serves_one_request_after_the_other():
    async with serving(reply(200, b"a"), chunked(b"b", b"c"), reply(204)) as (server, client):
        bodies = [(await send(client)).body for _ in range(3)]

    assert bodies == [b"a", b"bc", b""]
    assert server.connections == 1


async def test_an_interim_answer_is_passed_over_with_its_headers():
    interim = b"HTTP/1.1 103 Early Hints\r\nLink: </y>\r\n\r\n"
    final = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    async with serving(raw(interim + final)) as (_, client):
        answer = await send(client)

    assert (answer.status, answer.body) == (200, b"ok")
    assert answer.headers == {"content-length": "2"}


async def test_an_answer_without_a_length_ends_with_its_connection():
    async with serving(raw(b"HTTP/1.1 200 OK\r\n\r\nall", close=True)) as (server, client):
        bodies = [(await send(client)).body for _ in range(2)]

    assert bodies == [b"all", b"all"]
    assert server.connections == 2


async def test_headers_of_one_name_are_joined():
    data = b"HTTP/1.1 200 OK\r\nWarning: a\r\nwarning: b\r\nContent-Length: 0\r\n\r\n"
    async with serving(raw(data)) as (_, client):
        answer = await send(client)

    assert answer.headers["warning"] == "a, b"


async def test_a_head_request_gets_no_body():
    data = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n"
    async with serving(raw(data)) as (_, client):
        answer = await send(client, HttpRequest("HEAD", "/x"))

    assert (answer.status, answer.body, answer.headers) == (200, b"", {"content-length": "7"})


@pytest.mark.parametrize(
    "first",
    [
        reply(200, b"a", connection="close"),
        raw(b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na"),
        raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na" + b"HTTP/1.1 200 OK\r\n"),
        raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nanonsense"),
    ],
    ids=["close", "1.0", "a second answer", "nonsense"],
)
async def test_a_connection_that_cannot_go_on_serves_no_second_request(first):
    async with serving(first, reply(200, b"b")) as (server, client):
        bodies = [(await send(client)).body for _ in range(2)]

    assert bodies == [b"a", b"b"]
    assert server.connections == 2


async def test_what_comes_unasked_closes_the_connection():
    spoken = asyncio.Event()

    async def answer_and_go_on(connection):
        await reply(200, b"a")(connection)
        await asyncio.sleep(0)
        await connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged")
        spoken.set()

    async with serving(answer_and_go_on, reply(200, b"b")) as (server, client):
        await send(client)
        await spoken.wait()
        await asyncio.sleep(0.05)
        answer = await send(client)

    assert answer.body == b"b"
    assert server.connections == 2


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (raw(b"SSH-2.0-OpenSSH_9.6\r\n"), "no HTTP"),
        (raw(b"HTTP/1.1 101 x\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"), "protocol"),
        (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"), "no HTTP"),
        (raw(b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 1\r\n\r\nx"), "'br'"),
        (raw(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 100_000), "headers .* larger than"),
        (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", close=True), "before the end"),
        (raw(b"", close=True), "before the end"),
    ],
    ids=["SSH", "upgrade", "two lengths", "encoding", "headers", "cut off", "no answer"],
)
async def test_an_answer_that_is_none_is_an_error_in_one_line(answer, why):
    async with serving(answer) as (_, client):
        with pytest.raises(TransportError, match=why) as caught:
            await send(client)

    assert caught.value.sent
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "answer",
    [reply(200, b"x" * 200), chunked(b"x" * 60, b"x" * 60)],
    ids=["length", "chunks"],
)
async def test_an_answer_has_a_largest_size(answer, monkeypatch):
    monkeypatch.setattr(http_connection, "LARGEST_BODY", 100)
    async with serving(answer) as (_, client):
        with pytest.raises(TransportError, match="larger than 100 bytes"):
            await send(client)


async def test_a_packed_answer_has_its_largest_size_unpacked(monkeypatch):
    monkeypatch.setattr(http_connection, "LARGEST_BODY", 100_000)
    packed = gzip.compress(b"x" * 10_000_000)
    assert len(packed) < 100_000
    async with serving(reply(200, packed, content_encoding="gzip")) as (_, client):
        with pytest.raises(TransportError, match="larger than 100000 bytes"):
            await send(client)


async def test_a_packed_answer_without_its_end_is_an_error():
    packed = gzip.compress(b"whole")[:-3]
    async with serving(reply(200, packed, content_encoding="gzip")) as (_, client):
        with pytest.raises(TransportError, match="its end is missing"):
            await send(client)


async def test_a_packed_stream_is_read_as_it_arrives():
    packed = gzip.compress(b"one\ntwo\n")

    async def answer(connection):
        await connection.write(
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
        )
        await connection.write(packed)

    async with serving(answer) as (_, client), client.stream(GET) as stream:
        read = b"".join([chunk async for chunk in stream.chunks()])

    assert read == b"one\ntwo\n"


@pytest.mark.parametrize(
    "request_",
    [
        HttpRequest("GET", "/x y"),
        HttpRequest("GET", "/x\r\nX: y"),
        HttpRequest("GET", "/x", headers={"A": "b\r\nC: d"}),
        HttpRequest("GET", "/x", headers={"A": "b\nC: d"}),
        HttpRequest("GET", "/x", headers={"A\r\nC": "d"}),
        HttpRequest("GET", "/x", headers={"A": "b\0"}),
    ],
)
async def test_what_would_leave_its_place_in_a_request_is_not_sent(request_):
    async with serving(reply(200)) as (server, client):
        with pytest.raises(TransportError) as caught:
            await send(client, request_)

        assert not caught.value.sent
        assert server.received == []


async def test_a_stream_that_nobody_reads_stops_the_server():
    stuck = asyncio.Event()

    async def flood(connection):
        await connection.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        piece = b"%x\r\n%b\r\n" % (2**16, b"x" * 2**16)
        try:
            for _ in range(4_000):  # 256 MiB, much more than all buffers on the way
                await asyncio.wait_for(connection.write(piece), 0.5)
        except TimeoutError:
            stuck.set()
        await hang(connection)

    async with serving(flood) as (_, client), client.stream(GET) as stream:
        await asyncio.wait_for(stuck.wait(), 10)
        chunks = stream.chunks()
        first = await anext(chunks)

    assert first.startswith(b"x")


async def test_idle_connections_are_closed_after_a_while(monkeypatch):
    monkeypatch.setattr(connection_pool, "IDLE_SECONDS", 0.05)
    ended = asyncio.Event()

    async def answer(connection):
        await reply(200)(connection)
        if not await connection.reader.read(1):
            ended.set()

    async with serving(answer) as (_, client):
        await send(client)
        await asyncio.wait_for(ended.wait(), 5)


async def test_no_more_than_a_hundred_requests_are_under_way_and_the_others_wait_their_turn():
    open_now, most = 0, 0

    async def answer(connection):
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        await asyncio.sleep(0.01)
        open_now -= 1
        await reply(200)(connection)

    async with serving(answer) as (server, client), asyncio.TaskGroup() as group:
        for _ in range(150):
            group.create_task(send(client))

    assert most <= 100
    assert server.connections <= 100
    assert len(server.received) == 150


async def test_a_cancelled_request_gives_its_place_back_and_its_connection_up(monkeypatch):
    monkeypatch.setattr(transport, "_MOST_CONNECTIONS", 1)
    asked = asyncio.Event()

    async def never(connection):
        asked.set()
        await hang(connection)

    async with serving(never, reply(200, b"b")) as (server, client):
        first = asyncio.create_task(send(client))
        await asked.wait()
        first.cancel()
        answer = await send(client)

    assert answer.body == b"b"
    assert server.connections == 2


async def test_closing_ends_what_is_under_way():
    asked = asyncio.Event()

    async def never(connection):
        asked.set()
        await hang(connection)

    async with serving(never) as (_, client):
        request = asyncio.create_task(send(client))
        await asked.wait()
        await client.close()
        with pytest.raises(TransportError, match="the client is closed") as caught:
            await asyncio.wait_for(request, 1)

    assert caught.value.sent


async def test_closing_ends_a_stream_that_is_being_read():
    async with serving(chunked(b"x", then=hang)) as (_, client), client.stream(GET) as stream:
        chunks = stream.chunks()
        assert await anext(chunks) == b"x"
        reading = asyncio.ensure_future(anext(chunks))
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(TransportError, match="closed"):
            await asyncio.wait_for(reading, 1)


@pytest.mark.parametrize(
    "scenario",
    [
        test_one_connection_serves_one_request_after_the_other,
        test_an_answer_without_a_length_ends_with_its_connection,
        test_what_comes_unasked_closes_the_connection,
        test_a_packed_stream_is_read_as_it_arrives,
        test_a_stream_that_nobody_reads_stops_the_server,
        test_closing_ends_what_is_under_way,
        test_no_more_than_a_hundred_requests_are_under_way_and_the_others_wait_their_turn,
    ],
    ids=lambda scenario: scenario.__name__.removeprefix("test_"),
)
def test_on_uvloop_too(scenario):
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario())
