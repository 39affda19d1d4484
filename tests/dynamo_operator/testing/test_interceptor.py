"""Requests of chosen clients fail or wait, without a socket."""

import asyncio

import pytest

from dynamo_operator.runtime.builtin_kinds import ConfigMap
from dynamo_operator.runtime.client import (
    DeadlineExceededError,
    ServerError,
    TransportError,
    UnknownOutcomeError,
)
from dynamo_operator.testing import (
    Answer,
    Cut,
    HalfAnswer,
    Hang,
    Interceptor,
    Pause,
    Point,
    delay,
)
from informers.objects import ObjectKey

pytestmark = pytest.mark.virtual_time

KEY = ObjectKey("default", "a")
CREATES = Point("POST", ".*/configmaps")


def config_map(name="a"):
    return ConfigMap.new(name, namespace="default", data={"size": "3"})


@pytest.fixture
def interceptor(cluster):
    return Interceptor(cluster.clock)


@pytest.fixture
def client(cluster, interceptor):
    return interceptor.around(cluster.client)


async def test_what_nobody_interferes_with_goes_through_and_is_taken_down(client, interceptor):
    await client.create(config_map())
    await client.get(ConfigMap, KEY)

    created, got = interceptor.requests_of("configmaps")
    assert (created.route.verb, created.status, created.delivered) == ("create", 201, True)
    assert (got.route.verb, got.status) == ("get", 200)
    assert interceptor.requests_of("configmaps", "create", namespace="other") == []


async def test_an_answer_can_be_the_interceptors(client, cluster, interceptor):
    refused = interceptor.inject(CREATES, Answer(500, "InternalError", "etcd is away"))

    with pytest.raises(ServerError, match="etcd is away"):
        await client.create(config_map())

    await refused.reached()
    assert await cluster.client.find(ConfigMap, KEY) is None
    await client.create(config_map())


async def test_a_cut_before_the_server_leaves_the_client_in_doubt_and_nothing_written(
    client, cluster, interceptor
):
    interceptor.inject(CREATES, Cut())

    with pytest.raises(UnknownOutcomeError):
        await client.create(config_map())

    assert await cluster.client.find(ConfigMap, KEY) is None


@pytest.mark.parametrize("fault", [Cut(), HalfAnswer(10)], ids=["none", "half"])
async def test_a_lost_answer_leaves_the_client_in_doubt_and_the_object_written(
    client, cluster, interceptor, fault
):
    interceptor.inject(Point("POST", ".*/configmaps", when="after"), fault)

    with pytest.raises(UnknownOutcomeError):
        await client.create(config_map())

    assert await cluster.client.find(ConfigMap, KEY) is not None


async def test_a_request_that_hangs_meets_its_deadline(client, interceptor):
    interceptor.inject(Point("GET", repeats=True), Hang())
    started = asyncio.get_running_loop().time()

    with pytest.raises(DeadlineExceededError):
        await client.find(ConfigMap, KEY)

    assert asyncio.get_running_loop().time() - started == pytest.approx(30, abs=1)


async def test_what_hangs_goes_on_when_all_is_well_again(client, interceptor):
    hung = interceptor.inject(Point("GET"), Hang())
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(client.find(ConfigMap, KEY))
        await hung.reached()
        interceptor.heal()

    assert reading.result() is None


async def test_a_request_can_be_held_until_something_else_has_happened(
    client, cluster, interceptor
):
    async def somebody_else_is_first():
        await cluster.client.create(config_map())

    interceptor.inject(Point("GET"), Pause(somebody_else_is_first))
    interceptor.inject(Point("GET", nth=2), delay(5))

    assert (await client.get(ConfigMap, KEY)).data == {"size": "3"}
    started = asyncio.get_running_loop().time()
    await client.get(ConfigMap, KEY)
    assert asyncio.get_running_loop().time() - started == 5


async def test_what_a_hook_raises_is_told_to_whoever_waits_for_it(client, interceptor):
    async def broken():
        raise RuntimeError("broken hook")

    held = interceptor.inject(Point("GET"), Pause(broken))
    await client.find(ConfigMap, KEY)

    with pytest.raises(RuntimeError, match="broken hook"):
        await held.reached()


async def test_a_watch_can_break_or_be_refused(client, cluster, interceptor):
    path, watching = "/api/v1/configmaps", [("watch", "true")]
    await cluster.client.create(config_map())
    watch = Point("GET", query="watch=true")
    interceptor.inject(watch, HalfAnswer(10))
    interceptor.inject(Point("GET", query="watch=true", nth=2), Answer(500))

    async with client.stream("GET", path, query=watching) as chunks:
        with pytest.raises(TransportError, match="cut"):
            [chunk async for chunk in chunks]
    with pytest.raises(ServerError):
        async with client.stream("GET", path, query=watching) as chunks:
            [chunk async for chunk in chunks]
