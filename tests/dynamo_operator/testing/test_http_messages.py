import asyncio

import pytest

from dynamo_operator.testing.http_messages import MessageError, pieces, read_body, read_head

HEAD = b"GET / HTTP/1.1\r\nHost: lab\r\nX-Empty:\r\n"


def reader(data, *, limit=2**16):
    made = asyncio.StreamReader(limit=limit)
    made.feed_data(data)
    made.feed_eof()
    return made


async def head_of(source):
    head = await read_head(source)
    assert head is not None
    return head


async def everything(source):
    head = await head_of(source)
    return [piece async for piece in pieces(source, head)]


async def test_a_head_is_sent_on_as_it_came():
    head = await head_of(reader(HEAD + b"\r\n"))

    assert head.start == "GET / HTTP/1.1"
    assert (head.header("host"), head.header("x-empty"), head.header("absent")) == ("lab", "", "")
    assert head.to_bytes() == HEAD.replace(b"X-Empty:", b"X-Empty: ") + b"\r\n"


async def test_no_head_is_none():
    assert await read_head(reader(b"")) is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(HEAD, "ended within a head", id="cut"),
        pytest.param(b"GET / HTTP/1.1\r\nnonsense\r\n\r\n", "nonsense.* no colon", id="no colon"),
        pytest.param(b"x" * 200 + b"\r\n\r\n", "no end", id="long"),
    ],
)
async def test_what_is_no_head_is_said(data, message):
    with pytest.raises(MessageError, match=message):
        await read_head(reader(data, limit=100))


async def test_a_body_of_a_length_leaves_what_follows():
    source = reader(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 404")

    assert b"".join(await everything(source)) == b"abc"
    assert await source.read() == b"HTTP/1.1 404"


async def test_chunks_come_one_by_one_with_their_frames():
    chunks = [b"3\r\nabc\r\n", b"A;x=y\r\n0123456789\r\n", b"0\r\n", b"Trailer: t\r\n", b"\r\n"]
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    source = reader(head + b"".join(chunks) + b"next")

    assert await everything(source) == chunks
    assert await source.read() == b"next"


async def test_a_body_of_no_length_ends_with_the_connection():
    assert b"".join(await everything(reader(b"HTTP/1.1 200 OK\r\n\r\nabc"))) == b"abc"


async def test_a_request_of_no_length_has_no_body():
    source = reader(HEAD + b"\r\nnext")

    assert await read_body(source, await head_of(source)) == b""


@pytest.mark.parametrize(
    "data",
    [
        b"Content-Length: 5\r\n\r\nabc",
        b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n3\r\nab",
        b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
    ],
    ids=["length", "last chunk", "within a chunk", "no number"],
)
async def test_a_body_that_is_cut_short_is_an_error(data):
    with pytest.raises(MessageError):
        await everything(reader(b"HTTP/1.1 200 OK\r\n" + data))


@pytest.mark.parametrize(
    ("head", "closes"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", False),
        (b"HTTP/1.1 200 OK\r\nConnection: Close\r\n\r\n", True),
        (b"HTTP/1.0 200 OK\r\n\r\n", True),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n", False),
    ],
)
async def test_who_closes_says_so(head, closes):
    assert (await head_of(reader(head))).closes is closes
