"""How fast the embedded API server is in this process: its start, creates, and watches."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import Callable

from dynamo_operator.apiserver import ADMIN, ApiServer, Request
from dynamo_operator.apiserver.messages import ByteStream, Response
from hack.benchmarks.measurement import Bar, Measurement
from hack.benchmarks.processes import cheapest

_ROUNDS = 5
_CREATES = 2_000
_WATCHES = 20
_EVENTS = 1_000
_PATH = "/api/v1/namespaces/default/configmaps"
_HEADERS = {"content-type": "application/json", "user-agent": "bench/1"}

_START = """
import asyncio
from dynamo_operator.apiserver import ADMIN, ApiServer, Request
async def main():
    global started, cpu
    started, cpu = time.perf_counter(), time.process_time()  # importing is not starting
    server = ApiServer()
    body = b'{"metadata":{"name":"a"},"data":{"a":"1"}}'
    headers = {"content-type": "application/json"}
    path = "/api/v1/namespaces/default/configmaps"
    made = await server.handle(Request("POST", path, headers=headers, body=body, user=ADMIN))
    assert made.status == 201
asyncio.run(main())
"""


def start(scale: float) -> list[Measurement]:
    """An API server in the process of its caller, until its first object is stored."""
    cost = cheapest(_START, tries=5 if scale >= 1 else 2)
    return [
        Measurement("in-process API server start", cost.seconds, "s", Bar(0.2)),
        Measurement("in-process API server start, CPU", cost.cpu_seconds, "s"),
    ]


def creates(scale: float) -> list[Measurement]:
    """Creates in the process: validated, defaulted, owned, stored, audited, answered; one core."""
    count = max(200, int(_CREATES * scale))
    bodies = [_config_map(number) for number in range(count)]
    create_seconds, json_seconds = [], []
    for _ in range(_ROUNDS):  # in turn, so that what else the machine does hits both
        create_seconds.append(_cpu_seconds(lambda: asyncio.run(_create_all(bodies))) / count)
        json_seconds.append(_cpu_seconds(lambda: _as_json(bodies)) / count)
    each = min(create_seconds)
    return [
        Measurement("in-process creates", 1 / each, "1/s", Bar(3_000, at_least=True)),
        Measurement("in-process create, each", each * 1e6, "us"),
        Measurement(
            "in-process create to json of its object there and back",
            each / min(json_seconds),
            "ratio",
            Bar(80, side_by_side=True),
        ),
    ]


def watches(scale: float) -> list[Measurement]:
    """Events in the process to 20 watches that select by label, commits included; one core."""
    count = max(100, int(_EVENTS * scale))
    bodies = [_config_map(number) for number in range(count)]
    many, one = [], []
    for _ in range(_ROUNDS):
        many.append(_cpu_seconds(lambda: asyncio.run(_deliver_all(bodies, _WATCHES))))
        one.append(_cpu_seconds(lambda: asyncio.run(_deliver_all(bodies, 1))))
    delivered = _WATCHES * count
    return [
        Measurement("watch deliveries", delivered / min(many), "1/s", Bar(20_000, at_least=True)),
        Measurement("watch delivery, each", min(many) / delivered * 1e6, "us"),
        Measurement(
            "20 watches of a kind to one",
            min(many) / min(one),
            "ratio",
            Bar(6, side_by_side=True),
        ),
    ]


def _config_map(number: int) -> bytes:
    metadata = {"name": f"config-{number}", "namespace": "default", "labels": {"app": "bench"}}
    data = {f"key-{n}": f"value-{n}" for n in range(4)}
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    return json.dumps(obj).encode()


def _as_json(bodies: list[bytes]) -> None:
    for body in bodies:
        json.dumps(json.loads(body)).encode()


async def _create_all(bodies: list[bytes]) -> ApiServer:
    server = ApiServer()
    for body in bodies:
        await _create(server, body)
    return server


async def _create(server: ApiServer, body: bytes) -> None:
    request = Request("POST", _PATH, headers=_HEADERS, body=body, user=ADMIN)
    answer = await server.handle(request)
    if answer.status != 201:
        raise RuntimeError(f"a create was answered {answer.status}: {answer.body!r}")


async def _deliver_all(bodies: list[bytes], watchers: int) -> None:
    server = ApiServer()
    query = [("watch", "true"), ("labelSelector", "app=bench")]
    streams = [
        await server.handle(Request("GET", _PATH, query, _HEADERS, user=ADMIN))
        for _ in range(watchers)
    ]
    async with asyncio.TaskGroup() as group:
        for stream in streams:
            group.create_task(_take(stream, len(bodies)))
        for body in bodies:
            await _create(server, body)
            await asyncio.sleep(0)  # lets every watch deliver: no batches


async def _take(watch: Response, count: int) -> None:
    body: ByteStream | bytes = watch.body
    if isinstance(body, bytes):
        raise RuntimeError(f"a watch was answered {body!r}")
    taken = 0
    async for chunk in body:
        taken += chunk.count(b"\n")
        if taken >= count:
            break
    await body.aclose()


def _cpu_seconds(work: Callable[[], object]) -> float:
    gc.collect()
    started = time.process_time()
    work()
    return time.process_time() - started
