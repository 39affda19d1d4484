"""How fast Pods come into a cache, and how much room they take there."""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from dynamo_operator.runtime.builtin_kinds import Pod
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.enqueue import enqueue_self
from dynamo_operator.runtime.sources import enqueue_handler
from hack.benchmarks.measurement import Bar, Measurement
from hack.benchmarks.pods import PodServer, event_line
from hack.benchmarks.processes import cost_of
from informers.indexers import BY_NAMESPACE, BY_OWNER_UID
from informers.objects import ObjectKey
from informers.shared_informer import SharedInformer
from informers.store import Lister
from informers.work_queue import WorkQueue

_EVENTS = 20_000
_EVENT_KEYS = 1_000
_LISTED = 10_000
_GROWTH_KEYS = 10_000
_GROWTH_ROUNDS = 100
_WARM_UP_ROUNDS = 20


class _Fed:
    """An informer of a server's Pods with a work queue behind it."""

    def __init__(self, server: PodServer) -> None:
        self.queue: WorkQueue[ObjectKey] = WorkQueue()
        self.informer = SharedInformer(
            Client.over(server).list_watch(Pod),
            indexes=(BY_NAMESPACE, BY_OWNER_UID),
            use_watch_list=False,
        )
        self.informer.add_handler(enqueue_handler(self.queue, Pod.resource_type, enqueue_self, ()))

    async def run_until(self, version: int) -> None:
        """Run until the cache is at that version."""
        running = asyncio.create_task(self.informer.run())
        try:
            await self.informer.wait_synced()
            await self.informer.wait_until(_is_at(version))
        finally:
            running.cancel()
            await asyncio.wait([running])


def events(scale: float) -> list[Measurement]:
    """Events of a watch of 5 KB Pods: cut, decoded, stored, indexed, enqueued; on one core."""
    count = max(2_000, int(_EVENTS * scale))
    lines = [event_line(n % _EVENT_KEYS, n + 2) for n in range(count)]
    fed = _Fed(PodServer(_EVENT_KEYS, lines))
    seconds = asyncio.run(_cpu_seconds_of_events(fed, count + 1))
    json_seconds = _cpu_seconds_of_json(lines[:1_000])
    typed_seconds = asyncio.run(_cpu_seconds_of_typed_watch(lines[: max(50, int(500 * scale))]))
    return [
        Measurement("watch events", count / seconds, "1/s", Bar(25_000, at_least=True)),
        Measurement("watch events, each", seconds / count * 1e6, "us"),
        Measurement(
            "watch event to json.loads of its line",
            seconds / count / json_seconds,
            "ratio",
            Bar(1.5, side_by_side=True),
        ),
        Measurement(
            "watch event to kubernetes_asyncio's decoding",
            seconds / count / typed_seconds,
            "ratio",
            Bar(0.1, side_by_side=True),
        ),
    ]


def _is_at(version: int) -> Callable[[Lister], bool]:
    return lambda lister: lister.resource_version == str(version)


async def _cpu_seconds_of_events(fed: _Fed, version: int) -> float:
    """Run from the end of the list to that version."""
    running = asyncio.create_task(fed.informer.run())
    try:
        await fed.informer.wait_synced()
        started = time.process_time()
        await fed.informer.wait_until(_is_at(version))
        return time.process_time() - started
    finally:
        running.cancel()
        await asyncio.wait([running])


def listing(scale: float) -> list[Measurement]:
    """A list of 10,000 Pods into a cache with two indexes, and into a queue."""
    count = max(500, int(_LISTED * scale))
    fed = _Fed(PodServer(count))
    started = time.process_time()
    asyncio.run(fed.run_until(1))
    seconds = time.process_time() - started
    return [
        Measurement(f"list of {count:,} Pods, CPU", seconds, "s", Bar(count / _LISTED)),
        Measurement("listed Pod, each", seconds / count * 1e6, "us"),
    ]


def residence(scale: float) -> list[Measurement]:
    """Resident bytes of a 5 KB Pod in the cache, as a dict, and as a generated model."""
    count = max(1_000, int(4_000 * scale))
    cached, as_dict, model = (
        cost_of(_KEEP[form].format(count=count)).resident_bytes / count
        for form in ("cached", "dict", "model")
    )
    return [
        Measurement("cached Pod", cached, "bytes"),
        Measurement("Pod as a dict", as_dict, "bytes"),
        Measurement("Pod as a V1Pod", model, "bytes"),
        Measurement("cached Pod to dict", cached / as_dict, "ratio", Bar(0.3, side_by_side=True)),
        Measurement("cached Pod to V1Pod", cached / model, "ratio", Bar(0.2, side_by_side=True)),
    ]


def growth(scale: float) -> list[Measurement]:
    """A million events on 10,000 keys, each key worked on: what stays in memory after a warm-up."""
    keys = max(50, int(_GROWTH_KEYS * scale))
    watch = _GrowthWatch(keys)
    fed = _Fed(PodServer(keys, watch))
    asyncio.run(_grow(fed, keys))
    gone = fed.queue.statistics()
    left = sum(gone.ready.values()) + gone.waiting + gone.parked + len(fed.informer.lister)
    grown = (watch.resident[-1] - watch.resident[0]) / watch.resident[0]
    return [
        Measurement("events", keys * _GROWTH_ROUNDS, "events"),
        Measurement("memory growth", 100 * grown, "%", Bar(5.0)),
        Measurement("keys left after deletion", left, "keys", Bar(0, side_by_side=True)),
    ]


# The interpreter's own imports come before what is measured.
_PODS = """
from hack.benchmarks.pods import encoded
lines = (encoded(number, 1) for number in range({count}))
next(lines)
"""
_KEEP = {
    "cached": f"""
from dynamo_operator.runtime.client.codec import decode_cached
{_PODS}
before = memory('VmRSS')
kept = [decode_cached(line) for line in lines]
""",
    "dict": f"""
{_PODS}
before = memory('VmRSS')
kept = [json.loads(line) for line in lines]
""",
    "model": f"""
import asyncio
from types import SimpleNamespace
from kubernetes_asyncio.client import ApiClient
{_PODS}
async def keep():
    async with ApiClient() as client:
        return [client.deserialize(SimpleNamespace(data=line), 'V1Pod') for line in lines]
before = memory('VmRSS')
kept = asyncio.run(keep())
""",
}


async def _grow(fed: _Fed, keys: int) -> None:
    async def work() -> None:
        while True:
            item = await fed.queue.get()
            fed.queue.done(item.key)
            fed.queue.forget(item.key)

    worker = asyncio.create_task(work())
    await fed.run_until(keys * (_GROWTH_ROUNDS + 1) + 1)
    while fed.queue.get_nowait() is not None:
        pass
    worker.cancel()
    await asyncio.wait([worker])


class _GrowthWatch:
    """The lines of the watch, round by round; in the last round every key is deleted."""

    def __init__(self, keys: int) -> None:
        self._keys = keys
        self.resident: list[int] = []

    def __iter__(self) -> Iterator[bytes]:
        version = 2
        for turn in range(_GROWTH_ROUNDS + 1):
            if turn >= _WARM_UP_ROUNDS:
                gc.collect()
                self.resident.append(_resident_bytes())
            kind = "DELETED" if turn == _GROWTH_ROUNDS else "MODIFIED"
            for number in range(self._keys):
                yield event_line(number, version, kind)
                version += 1


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def _cpu_seconds_of_json(lines: list[bytes]) -> float:
    started = time.process_time()
    for line in lines:
        json.loads(line)
    return (time.process_time() - started) / len(lines)


async def _cpu_seconds_of_typed_watch(lines: list[bytes]) -> float:
    from kubernetes_asyncio.watch import Watch

    watch = Watch()
    try:
        started = time.process_time()
        for line in lines:
            watch.unmarshal_event(line, "V1Pod")
        return (time.process_time() - started) / len(lines)
    finally:
        await watch.close()
