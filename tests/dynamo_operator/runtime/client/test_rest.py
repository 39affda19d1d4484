import asyncio
import random

import pytest

from dynamo_operator.runtime.client import (
    DeadlineExceededError,
    HttpRequest,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    TransportError,
    UnauthorizedError,
    UnknownOutcomeError,
)
from dynamo_operator.runtime.client.rest import RestClient
from dynamo_operator.testing.virtual_time import VirtualClock
from tests.dynamo_operator.runtime.client.scripted_transport import (
    ScriptedTransport,
    answer,
    refusal,
)

pytestmark = pytest.mark.virtual_time

READ = HttpRequest("GET", "/api/v1/pods")
WRITES = [HttpRequest(method, "/api/v1/pods") for method in ("POST", "PUT", "PATCH", "DELETE")]


class Tokens:
    """Credentials whose token changes whenever it is rejected."""

    client_certificate = None

    def __init__(self, renewable=True):
        self.number = 1
        self.renewable = renewable

    async def authorization(self):
        return f"Bearer {self.number}"

    def rejected(self, authorization):
        if self.renewable and authorization == f"Bearer {self.number}":
            self.number += 1
        return self.renewable


def rest_client(transport, **options):
    return RestClient(transport, clock=VirtualClock(), random=random.Random(1), **options)


def sent_tokens(transport):
    return [request.headers.get("Authorization") for request in transport.requests]


async def test_a_rejected_token_is_renewed_and_the_request_repeated_once():
    transport = ScriptedTransport(refusal(401), answer(200, {"ok": True}))

    response = await rest_client(transport, credentials=Tokens()).request(WRITES[0])

    assert response.status == 200
    assert sent_tokens(transport) == ["Bearer 1", "Bearer 2"]


async def test_a_token_that_stays_rejected_is_an_error_after_two_requests():
    transport = ScriptedTransport(refusal(401))

    with pytest.raises(UnauthorizedError):
        await rest_client(transport, credentials=Tokens()).request(READ)

    assert len(transport.requests) == 2


async def test_credentials_that_cannot_change_are_not_tried_twice():
    transport = ScriptedTransport(refusal(401))

    with pytest.raises(UnauthorizedError):
        await rest_client(transport, credentials=Tokens(renewable=False)).request(READ)

    assert len(transport.requests) == 1


async def test_a_stream_renews_a_rejected_token_too():
    transport = ScriptedTransport(refusal(401), answer(200, b"lines"))

    async with rest_client(transport, credentials=Tokens()).stream(READ) as stream:
        assert await stream.read() == b"lines"

    assert sent_tokens(transport) == ["Bearer 1", "Bearer 2"]


async def test_a_refused_stream_raises_the_error_it_means():
    transport = ScriptedTransport(refusal(404, "NotFound"))

    with pytest.raises(NotFoundError):
        async with rest_client(transport).stream(READ):
            pytest.fail("the stream was opened")


@pytest.mark.parametrize("request_", [READ, *WRITES], ids=lambda r: r.method)
@pytest.mark.parametrize("code", [429, 503])
async def test_throttled_requests_wait_as_long_as_asked_whatever_the_verb(request_, code):
    transport = ScriptedTransport(refusal(code, retry_after="3"), answer())

    await rest_client(transport).request(request_)

    waited = transport.times[1] - transport.times[0]
    assert 3 <= waited <= 3 * 1.2


async def test_throttling_without_a_time_waits_longer_each_time_and_ends_with_the_deadline():
    transport = ScriptedTransport(answer(429, b"Too many requests, please try again later.\n"))

    with pytest.raises(TooManyRequestsError, match="please try again later"):
        await rest_client(transport).request(WRITES[0], timeout_seconds=30)

    waits = [b - a for a, b in zip(transport.times, transport.times[1:], strict=False)]
    assert waits[:4] == sorted(waits[:4])
    assert waits[0] >= 0.25
    assert transport.times[-1] <= 30


async def test_a_server_that_asks_for_no_wait_is_not_hammered():
    transport = ScriptedTransport(refusal(429, retry_after="0"))

    with pytest.raises(TooManyRequestsError):
        await rest_client(transport).request(READ)

    assert len(transport.requests) == 11
    assert transport.times[-1] >= 2.5


async def test_a_wait_beyond_the_deadline_is_not_begun():
    transport = ScriptedTransport(refusal(429, retry_after="3600"))

    with pytest.raises(TooManyRequestsError) as caught:
        await rest_client(transport).request(READ, timeout_seconds=30)

    assert caught.value.retry_after_seconds == 300
    assert asyncio.get_running_loop().time() == 0


@pytest.mark.parametrize("code", [500, 502, 503, 504])
async def test_a_failing_read_is_repeated(code):
    transport = ScriptedTransport(refusal(code), refusal(code), answer())

    assert (await rest_client(transport).request(READ)).status == 200


@pytest.mark.parametrize("request_", WRITES, ids=lambda r: r.method)
@pytest.mark.parametrize("code", [500, 502, 503, 504])
async def test_a_failing_write_is_not_repeated(request_, code):
    transport = ScriptedTransport(refusal(code))

    with pytest.raises(ServerError):
        await rest_client(transport).request(request_)

    assert len(transport.requests) == 1


async def test_a_read_that_keeps_failing_gives_up_soon():
    transport = ScriptedTransport(TransportError("reset"))

    with pytest.raises(TransportError, match="reset"):
        await rest_client(transport).request(READ)

    assert len(transport.requests) == 4
    assert asyncio.get_running_loop().time() < 3


@pytest.mark.parametrize("request_", WRITES, ids=lambda r: r.method)
async def test_a_write_whose_answer_was_lost_has_an_unknown_outcome(request_):
    transport = ScriptedTransport(TransportError("reset", sent=True))

    with pytest.raises(UnknownOutcomeError, match="reset"):
        await rest_client(transport).request(request_)

    assert len(transport.requests) == 1


async def test_a_write_that_was_never_sent_says_so():
    transport = ScriptedTransport(TransportError("refused", sent=False))

    with pytest.raises(TransportError, match="refused"):
        await rest_client(transport).request(WRITES[0])

    assert len(transport.requests) == 1


async def test_a_read_without_an_answer_ends_at_its_deadline():
    transport = ScriptedTransport(3600.0)

    with pytest.raises(DeadlineExceededError):
        await rest_client(transport).request(READ, timeout_seconds=30)

    assert asyncio.get_running_loop().time() == pytest.approx(30)
    assert len(transport.requests) == 1


async def test_a_read_that_found_no_connection_in_time_is_repeated_within_its_deadline():
    transport = ScriptedTransport(DeadlineExceededError("no connection", sent=False), answer())

    assert (await rest_client(transport).request(READ, timeout_seconds=30)).status == 200


async def test_a_write_without_an_answer_has_an_unknown_outcome():
    transport = ScriptedTransport(3600.0)

    with pytest.raises(UnknownOutcomeError):
        await rest_client(transport).request(WRITES[0], timeout_seconds=30)


async def test_nothing_is_repeated_for_a_caller_that_repeats_by_itself():
    transport = ScriptedTransport(refusal(429, retry_after="1"))

    with pytest.raises(TooManyRequestsError) as caught:
        await rest_client(transport).request(READ, retry=False)

    assert caught.value.retry_after_seconds == 1
    assert len(transport.requests) == 1


async def test_observers_hear_of_every_attempt():
    seen = []
    transport = ScriptedTransport(TransportError("x"), refusal(429, retry_after="1"), answer())
    rest = rest_client(transport, host="lab:6443").with_observer(lambda *call: seen.append(call))

    await rest.request(READ)

    assert [call[:3] for call in seen] == [
        ("<error>", "GET", "lab:6443"),
        ("429", "GET", "lab:6443"),
        ("200", "GET", "lab:6443"),
    ]


async def test_credentials_that_do_not_come_end_with_the_calls_deadline():
    class Hanging(Tokens):
        async def authorization(self):
            await asyncio.Event().wait()
            return ""

    transport = ScriptedTransport(answer())
    rest = rest_client(transport, credentials=Hanging())

    with pytest.raises(DeadlineExceededError, match="no credentials in time"):
        await rest.request(WRITES[0], timeout_seconds=5)
    with pytest.raises(DeadlineExceededError, match="no credentials in time"):
        async with rest.stream(READ):
            pytest.fail("the stream was opened")

    assert asyncio.get_running_loop().time() == pytest.approx(35)
    assert transport.requests == []


async def test_warnings_are_passed_on_one_by_one_also_those_of_streams():
    header = r'299 - "use \"v1\", not C:\\v2", 199 - "no", 299 kube "unknown field"'
    transport = ScriptedTransport(answer(200, b"", warning=header), refusal(404, warning=header))
    seen: list[str] = []
    rest = rest_client(transport).with_warning_observer(seen.append)

    async with rest.stream(READ):
        pass
    with pytest.raises(NotFoundError):
        await rest.request(READ)

    assert seen == ['use "v1", not C:\\v2', "unknown field"] * 2


def test_a_request_shows_neither_headers_nor_body():
    request = HttpRequest("PUT", "/p", (), {"Authorization": "Bearer s3cret"}, b"s3cret")

    assert "s3cret" not in f"{request} {request!r}"
