import asyncio

import pytest

from dynamo_operator.runtime.client import DeadlineExceededError, HttpRequest
from dynamo_operator.runtime.client.rest import RestClient
from dynamo_operator.runtime.client.throttle import Throttle
from dynamo_operator.testing.virtual_time import VirtualClock
from tests.dynamo_operator.runtime.client.scripted_transport import ScriptedTransport, answer

pytestmark = pytest.mark.virtual_time

READ = HttpRequest("GET", "/x")


def throttled(transport, per_second=5.0, burst=10):
    clock = VirtualClock()
    throttle = Throttle(clock, per_second=per_second, burst=burst)
    return RestClient(transport, clock=clock, throttle=throttle)


async def test_a_burst_goes_at_once_and_the_rest_at_the_rate():
    transport = ScriptedTransport(answer())
    rest = throttled(transport)

    for _ in range(15):
        await rest.request(READ)

    assert transport.times == pytest.approx([0.0] * 10 + [0.2, 0.4, 0.6, 0.8, 1.0])


async def test_a_pause_gives_the_burst_back():
    transport = ScriptedTransport(answer())
    rest = throttled(transport)
    for _ in range(10):
        await rest.request(READ)
    await asyncio.sleep(60)

    for _ in range(11):
        await rest.request(READ)

    assert transport.times[10:] == pytest.approx([60.0] * 10 + [60.2])


async def test_a_turn_after_the_deadline_is_refused_and_not_taken():
    transport = ScriptedTransport(answer())
    rest = throttled(transport, per_second=0.1, burst=1)
    await rest.request(READ)

    for _ in range(3):
        with pytest.raises(DeadlineExceededError, match="throttled beyond its deadline"):
            await rest.request(READ, timeout_seconds=5)
    await rest.request(READ)

    assert transport.times == pytest.approx([0.0, 10.0])


async def test_streams_wait_for_their_turn_and_own_connections_do_not():
    transport = ScriptedTransport(answer(200, b"line"))
    rest = throttled(transport, per_second=1.0, burst=1)
    await rest.request(READ)

    async with rest.stream(READ) as stream:
        assert await stream.read() == b"line"
    await rest.with_own_connections("election").request(READ)

    assert transport.times == pytest.approx([0.0, 1.0, 1.0])


@pytest.mark.parametrize(("per_second", "burst"), [(0.0, 1), (-1.0, 1), (1.0, 0)])
async def test_a_limit_that_lets_nothing_through_is_refused(per_second, burst):
    with pytest.raises(ValueError, match="a rate above 0 and a burst of 1 or more"):
        Throttle(VirtualClock(), per_second=per_second, burst=burst)
