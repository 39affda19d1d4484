"""Servers that promise more than they keep, met by a whole cache in virtual time."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from dynamo_operator.runtime.builtin_kinds import Pod, RoleBinding
from dynamo_operator.runtime.cache import Cache
from dynamo_operator.runtime.cached_reader import CachedReader
from dynamo_operator.runtime.client import Client, HttpRequest, HttpResponse, TransportError
from dynamo_operator.runtime.controller import Controller
from dynamo_operator.runtime.manager import Manager
from dynamo_operator.runtime.metrics import Metrics
from dynamo_operator.runtime.reconciler import Result
from dynamo_operator.testing.virtual_time import VirtualClock
from informers.errors import UnwatchableError
from informers.objects import ObjectKey, ResourceType

pytestmark = pytest.mark.virtual_time

PODS = ResourceType("", "v1", "Pod", "pods")
SLICES = ResourceType("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
NODE_METRICS = ResourceType("metrics.lab", "v1", "NodeMetrics", "nodes", namespaced=False)
FOR_EVER = 10.0**6


def status(code, reason):
    return HttpResponse(
        code, {}, json.dumps({"kind": "Status", "code": code, "reason": reason}).encode()
    )


def pod(name, version, **fields):
    metadata = {"name": name, "namespace": "n", "uid": name, "resourceVersion": str(version)}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, **fields}


def added(obj):
    return json.dumps({"type": "ADDED", "object": obj}).encode() + b"\n"


def listed(version, items):
    metadata = {"resourceVersion": version} if version else {}
    return HttpResponse(200, {}, json.dumps({"metadata": metadata, "items": items}).encode())


class Server:
    """Answers lists and watches from two scripts, of which the last steps stay.

    The steps of a watch are lines, seconds of silence, and an error that breaks the stream.
    """

    def __init__(self, *, lists, watches):
        self.lists = list(lists)
        self.watches = list(watches)
        self.requests: list[str] = []

    async def send(self, request, *, timeout_seconds):
        self._note(request)
        return self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]

    @asynccontextmanager
    async def stream(self, request: HttpRequest):
        self._note(request)
        yield _Stream(self.watches.pop(0) if len(self.watches) > 1 else self.watches[0])

    async def close(self) -> None:
        return

    def _note(self, request: HttpRequest):
        query = dict(request.query)
        verb = "watch" if "watch" in query else "list"
        initial = " initial" if "sendInitialEvents" in query else ""
        self.requests.append(f"{verb} {query.get('resourceVersion', '')}{initial}")


class _Stream:
    def __init__(self, steps: Any) -> None:
        self._answer = steps if isinstance(steps, HttpResponse) else None
        self._steps = () if self._answer else steps
        self.status = self._answer.status if self._answer else 200
        self.headers: dict[str, str] = {}

    async def chunks(self) -> AsyncIterator[bytes]:
        for step in self._steps:
            if isinstance(step, Exception):
                raise step
            if isinstance(step, bytes):
                yield step
            else:
                await asyncio.sleep(step)

    async def read(self) -> bytes:
        return self._answer.body if self._answer else b""


@asynccontextmanager
async def cache_on(server, kind):
    clock = VirtualClock()
    client = Client.over(server, clock=clock)
    cache = Cache(client, clock=clock, random=Random(2), metrics=Metrics())
    cache.declare(kind)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(cache.run())
        yield cache, CachedReader(cache, client)
        running.cancel()


def now():
    return asyncio.get_running_loop().time()


async def test_initial_events_that_never_end_are_replaced_by_a_list_that_is_remembered():
    broken = TransportError("connection reset by peer")
    initial = (added(pod("a", 5)), added(pod("b", 6)), 180.0, broken)
    gone = json.dumps({"type": "ERROR", "object": {"kind": "Status", "code": 410}}).encode() + b"\n"
    server = Server(
        lists=[listed("9", [pod("a", 5), pod("b", 6)])],
        watches=[initial, (gone,), (FOR_EVER,)],
    )

    async with cache_on(server, Pod) as (cache, reader):
        await asyncio.sleep(29)
        assert cache.unsynced() == ["pods.v1: no answer yet"]
        await cache.wait_synced(60)
        assert now() <= 60
        assert len(await reader.list(Pod)) == 2
        await asyncio.sleep(30)
        cache.declare(Pod, labels="app=x")
        await asyncio.sleep(1)

    assert server.requests == [
        "watch  initial",
        "list 0",
        "watch 9",
        "list ",
        "watch 9",
        "list 0",  # of another informer of the same type
        "watch 9",
    ]


async def test_null_where_a_list_or_a_map_belongs_stops_nothing():
    bodies = [
        pod("p", 15, status={"containerStatuses": None, "conditions": None}),
        pod("q", 16, metadata={"name": "q", "namespace": "n", "resourceVersion": "16"}),
        {"metadata": {"name": "r", "namespace": "n", "labels": None, "ownerReferences": None}},
    ]
    server = Server(
        lists=[listed("20", bodies)], watches=[status(405, "MethodNotAllowed"), (FOR_EVER,)]
    )

    async with cache_on(server, Pod) as (cache, reader):
        await cache.wait_synced(10)
        pods = await reader.list(Pod, namespace="n")

    assert [found.key.name for found in pods] == ["p", "q", "r"]
    assert [found.labels for found in pods] == [{}, {}, {}]


async def test_null_lists_of_any_kind_are_empty_lists():
    metadata = {"name": "x", "namespace": "n", "uid": "u2", "labels": None, "ownerReferences": None}
    binding = {"metadata": metadata, "roleRef": {"kind": "Role", "name": "x"}, "subjects": None}
    slices = [{"metadata": metadata, "addressType": "IPv4", "endpoints": None, "ports": None}]
    refused = status(405, "MethodNotAllowed")
    bindings = Server(lists=[listed("14", [binding])], watches=[refused, (FOR_EVER,)])
    endpoints = Server(lists=[listed("13", slices)], watches=[refused, (FOR_EVER,)])

    async with cache_on(bindings, RoleBinding) as (cache, reader):
        await cache.wait_synced(10)
        found = await reader.get(RoleBinding, ObjectKey("n", "x"))
    async with cache_on(endpoints, SLICES) as (cache, reader):
        await cache.wait_synced(10)
        (endpoint_slice,) = await reader.list(SLICES)

    assert found.subjects == []
    assert endpoint_slice["kind"] == "EndpointSlice"


async def test_a_list_whose_items_are_null_empties_the_cache():
    gone = json.dumps({"type": "ERROR", "object": {"kind": "Status", "code": 410}}).encode() + b"\n"
    refused = status(405, "MethodNotAllowed")
    server = Server(
        lists=[listed("11", [pod("a", 5)]), listed("12", None)],
        watches=[refused, (5.0, gone), (FOR_EVER,)],
    )

    async with cache_on(server, Pod) as (cache, reader):
        await cache.wait_synced(1)
        assert len(await reader.list(Pod)) == 1
        await asyncio.sleep(10)
        assert await reader.list(Pod) == []


@pytest.mark.parametrize(
    ("version", "requests"),
    [
        pytest.param("7", ["watch  initial", "list 0", "watch 7"], id="list-with-a-version"),
        pytest.param("", ["watch  initial", "list 0"], id="list-without-a-version"),
    ],
)
async def test_a_kind_that_cannot_be_watched_ends_the_start_and_says_what_to_do(version, requests):
    server = Server(lists=[listed(version, [])], watches=[status(405, "MethodNotAllowed")])
    expected = (
        r"^metrics\.lab/v1 NodeMetrics:? does not support watch .*MethodNotAllowed.*poll it instead"
    )

    with pytest.raises(ExceptionGroup) as failures:
        async with cache_on(server, NODE_METRICS):
            await asyncio.sleep(3600)

    (error,) = failures.value.exceptions
    assert failures.group_contains(UnwatchableError, match=expected)
    assert isinstance(error, UnwatchableError)
    assert server.requests == requests


async def test_a_watch_that_goes_silent_is_replaced_in_time_and_counted():
    page = listed("9", [pod("a", 5)])
    server = Server(
        lists=[page],
        watches=[
            status(405, "MethodNotAllowed"),
            (added(pod("b", 10)), FOR_EVER),
            (added(pod("c", 11)), FOR_EVER),
        ],
    )
    clock, metrics = VirtualClock(), Metrics()
    client = Client.over(server, clock=clock)
    cache = Cache(client, clock=clock, random=Random(2), metrics=metrics, watch_idle_seconds=30)
    cache.declare(Pod)

    async with asyncio.TaskGroup() as group:
        running = group.create_task(cache.run())
        await cache.wait_synced()
        await asyncio.sleep(29)
        assert 'reason="idle"' not in metrics.render().decode()
        await asyncio.sleep(2)
        found = await CachedReader(cache, client).list(Pod)
        running.cancel()

    assert [each.key.name for each in found] == ["a", "b", "c"]
    assert server.requests == ["watch  initial", "list 0", "watch 9", "watch 10"]
    idle = 'informer_watches_total{namespace="",reason="idle",resource="pods.v1"} 1.0'
    assert idle in metrics.render().decode()


async def test_lines_that_are_no_watch_events_never_reach_the_cache():
    server = Server(
        lists=[listed("9", [])],
        watches=[
            status(405, "MethodNotAllowed"),
            (b"Too many requests, please try again later.\n",),
            (added(pod("a", 10)), b'{"type":"ADDED","object":{"metadata":{"name":"half'),
            (b"[1, 2, 3]\n",),
            (added(pod("b", 11)), FOR_EVER),
        ],
    )

    async with cache_on(server, Pod) as (cache, reader):
        await cache.wait_synced(10)
        await asyncio.sleep(60)
        found = await reader.list(Pod)

    assert [each.key.name for each in found] == ["a", "b"]
    assert server.requests == [
        "watch  initial",
        "list 0",
        "watch 9",
        "watch 9",
        "watch 10",
        "watch 10",
    ]


async def test_a_stream_that_breaks_in_any_way_is_nobodys_business():
    breaks = [TransportError("reset"), TransportError("TLS: unexpected end"), TimeoutError()]
    server = Server(
        lists=[listed("9", [])],
        watches=[
            status(405, "MethodNotAllowed"),
            *[(added(pod("a", 10 + n)), 2.0, error) for n, error in enumerate(breaks)],
            (added(pod("b", 20)), FOR_EVER),
        ],
    )

    async with cache_on(server, Pod) as (cache, reader):
        await cache.wait_synced(10)
        await asyncio.sleep(60)
        found = await reader.list(Pod)

    assert [(each.key.name, each.resource_version) for each in found] == [("a", "12"), ("b", "20")]


async def test_ten_thousand_objects_are_synced_without_a_worker_and_reconciled_by_one():
    page = listed("99999", [pod(f"p{number}", number + 1) for number in range(10_000)])
    server = Server(lists=[page], watches=[status(405, "MethodNotAllowed"), (FOR_EVER,)])
    clock = VirtualClock()
    may_go_on = asyncio.Event()
    reconciled: list[ObjectKey] = []

    class Slow:
        async def reconcile(self, pod_key):
            await may_go_on.wait()
            reconciled.append(pod_key)
            return Result.done()

    manager = Manager(Client.over(server, clock=clock), clock=clock, random=Random(2))
    manager.add(Controller(Pod, reconciler=Slow()))

    async with manager.running():
        await asyncio.sleep(60)
        assert reconciled == []
        assert len(await manager.reader.list(Pod)) == 10_000
        may_go_on.set()
        await asyncio.sleep(1)

    assert len(set(reconciled)) == len(reconciled) == 10_000


async def test_a_kind_that_cannot_be_watched_can_be_polled():
    def page(*values):
        return listed(
            "", [{"metadata": {"name": f"n{n}"}, "usage": value} for n, value in enumerate(values)]
        )

    server = Server(
        lists=[page("1m", "1m"), page("1m", "2m")], watches=[status(405, "MethodNotAllowed")]
    )
    reconciled: list[str] = []

    class Sees:
        async def reconcile(self, node_key):
            node = await manager.reader.get(NODE_METRICS, node_key)
            reconciled.append(f"{node_key.name} {node['usage']}")
            return Result.done()

    clock = VirtualClock()
    manager = Manager(Client.over(server, clock=clock), clock=clock, random=Random(2))
    manager.cache.poll(NODE_METRICS, every_seconds=60)
    manager.add(Controller(NODE_METRICS, reconciler=Sees()))

    async with manager.running():
        await asyncio.sleep(1)
        assert reconciled == ["n0 1m", "n1 1m"]
        await asyncio.sleep(200)

    assert reconciled[2:] == ["n1 2m"]
    assert set(server.requests) == {"list "}
    with pytest.raises(ValueError, match="is declared: poll it before that"):
        manager.cache.poll(NODE_METRICS, every_seconds=60)
    with pytest.raises(ValueError, match="every_seconds=0: must be positive"):
        manager.cache.poll(PODS, every_seconds=0)
