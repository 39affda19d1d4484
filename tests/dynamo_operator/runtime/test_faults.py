"""What goes wrong between a manager and its API server: nothing of it reaches the reconcilers."""

import asyncio
import itertools
from typing import Any

import pytest

from dynamo_operator.runtime.builtin_kinds import ConfigMap
from dynamo_operator.runtime.client import (
    DeadlineExceededError,
    HttpResponse,
    TooManyRequestsError,
    UnknownOutcomeError,
)
from dynamo_operator.runtime.controller import Controller
from dynamo_operator.runtime.reconciler import Result
from tests.dynamo_operator.runtime.faulty_transport import (
    Fault,
    FaultyTransport,
    error_line,
    refusal,
)
from tests.dynamo_operator.runtime.widgets import Widget, key, widget, widget_cluster

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def cluster():
    async with widget_cluster() as cluster:
        yield cluster


@pytest.fixture
def transport(cluster):
    return FaultyTransport(cluster)


class Seen:
    """A reconciler that notes the sizes that it saw."""

    def __init__(self):
        self.sizes: list[tuple[str, int | None]] = []
        self.reader: Any = None

    async def reconcile(self, key):
        found = await self.reader.find(Widget, key)
        self.sizes.append((key.name, found.spec.get("size") if found else None))
        return Result.done()


@pytest.fixture
def seen():
    return Seen()


@pytest.fixture
def manager(cluster, transport, seen):
    """A context: a manager whose one controller notes what it sees."""

    def run(**options):
        controller = Controller(Widget, reconciler=seen)
        return cluster.manager(controller, client=transport.client, **options)

    return run


def first_watches(count, *faults):
    """Choose these faults in turn for the first so many watches of widgets."""
    numbers = iter(range(count))

    def choose(sent):
        if sent.verb != "WATCH" or not sent.path.endswith("/widgets"):
            return None
        number = next(numbers, None)
        return None if number is None else faults[number % len(faults)]

    return choose


async def until(predicate):
    for _ in range(3600):  # seconds of virtual time
        if predicate():
            return
        await asyncio.sleep(1)
    pytest.fail("it did not come to that in an hour")


async def until_seen(seen, *entries):
    await until(lambda: {*entries} <= {*seen.sizes})


def versions(transport):
    return [w.query.get("resourceVersion", "") for w in transport.of("WATCH", "widgets")]


async def test_the_time_of_silence_can_be_chosen(cluster, transport, seen, manager):
    muted = asyncio.Event()
    transport.choose = first_watches(1, Fault(goes_on=True, muted=muted))
    await cluster.client.create(widget("a", spec={"size": 1}))
    async with manager(watch_idle_seconds=10) as running:
        seen.reader = running.reader
        await until_seen(seen, ("a", 1))
        muted.set()
        await cluster.client.create(widget("b", spec={"size": 2}))
        await until_seen(seen, ("b", 2))

    first, second = transport.of("WATCH", "widgets")[:2]
    assert 9.9 <= second.time - first.time < 13


@pytest.mark.parametrize("code", [500, 503, 504, 403])
async def test_an_error_inside_a_stream_stops_nothing(cluster, transport, seen, manager, code):
    transport.choose = first_watches(3, Fault(chunks=(error_line(code),)))
    await cluster.client.create(widget("a", spec={"size": 1}))
    async with manager() as running:
        seen.reader = running.reader
        await until_seen(seen, ("a", 1))
        await cluster.client.create(widget("b", spec={"size": 2}))
        await until_seen(seen, ("b", 2))


async def test_fifty_429s_neither_end_a_watch_nor_come_faster_than_one_a_second(
    cluster, transport, seen, manager
):
    answer = HttpResponse(429, {}, b"Too many requests, please try again later.\n")
    muted = asyncio.Event()
    await cluster.client.create(widget("a", spec={"size": 1}))
    transport.choose = first_watches(1, Fault(goes_on=True, muted=muted))
    async with manager() as running:
        seen.reader = running.reader
        await until_seen(seen, ("a", 1))
        muted.set()
        transport.choose = first_watches(50, Fault(refusal=answer))
        await cluster.client.create(widget("b", spec={"size": 2}))
        await until_seen(seen, ("b", 2))

    times = [sent.time for sent in transport.of("WATCH", "widgets")]
    assert len(times) == 52
    assert transport.of("GET", "widgets") == []
    for begin in times:
        assert sum(begin <= time < begin + 10 for time in times) <= 11


@pytest.mark.parametrize(
    "answer",
    [refusal(429, retry_after="7"), refusal(429, details={"retryAfterSeconds": 7})],
    ids=["header", "details"],
)
async def test_a_write_that_is_throttled_waits_as_long_as_it_is_asked_to(transport, answer):
    transport.choose = lambda sent: Fault(refusal=answer) if len(transport.sent) < 3 else None

    await transport.client.create(ConfigMap.new("a"))

    times = [sent.time for sent in transport.sent]
    assert all(7 <= b - a <= 8.5 for a, b in itertools.pairwise(times))
    transport.choose = lambda _: Fault(refusal=answer)
    with pytest.raises(TooManyRequestsError):
        await transport.client.patch(ConfigMap, key("a"), {"data": {}})


@pytest.mark.parametrize(
    "fault",
    [Fault(refusal=refusal(410, "Expired")), Fault(chunks=(error_line(410, "Expired"),))],
    ids=["status", "event"],
)
async def test_an_expired_version_is_never_asked_for_twice(
    cluster, transport, seen, manager, fault
):
    muted = asyncio.Event()
    await cluster.client.create(widget("a", spec={"size": 1}))
    transport.choose = first_watches(1, Fault(goes_on=True, muted=muted))
    async with manager() as running:
        seen.reader = running.reader
        await until_seen(seen, ("a", 1))
        muted.set()
        transport.choose = first_watches(1, fault)
        await cluster.client.delete(Widget, key("a"))
        await cluster.client.create(widget("b", spec={"size": 2}))
        await until_seen(seen, ("a", None), ("b", 2))
        assert [found.key.name for found in await running.reader.list(Widget)] == ["b"]

    expired = versions(transport)[1]
    assert expired
    assert versions(transport).count(expired) == 1


async def test_calls_without_an_answer_end_after_30_seconds(transport):
    async def never(request, *, timeout_seconds):
        await asyncio.sleep(timeout_seconds)
        raise DeadlineExceededError(f"{request}: no answer in time")

    transport._transport.send = never
    loop = asyncio.get_running_loop()

    for call in (
        transport.client.get(ConfigMap, key("a")),
        transport.client.list(ConfigMap),
        transport.client.request("GET", "/version"),
    ):
        began = loop.time()
        with pytest.raises(DeadlineExceededError):
            await call
        assert loop.time() - began == pytest.approx(30)
    began = loop.time()
    with pytest.raises(UnknownOutcomeError):
        await transport.client.create(ConfigMap.new("a"))
    assert loop.time() - began == pytest.approx(30)


async def test_managers_run_side_by_side_in_a_loop_of_somebody_elses(cluster):
    """As an application's lifespan would: start, serve, stop, with signals left to it."""
    first, second = Seen(), Seen()
    await cluster.client.create(widget("a", spec={"size": 1}))
    one = cluster.manager(Controller(Widget, reconciler=first))
    two = cluster.manager(Controller(Widget, reconciler=second))
    before = asyncio.all_tasks()
    async with one as left, two as right:
        first.reader, second.reader = left.reader, right.reader
        await until_seen(first, ("a", 1))
        await until_seen(second, ("a", 1))

    assert asyncio.all_tasks() == before
