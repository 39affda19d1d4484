"""The caches of two operators, kept for hours of virtual time through whatever happens to them.

Somebody edits objects at random. Every minute all watches are cut; every few hours the API server
is out of reach for ten minutes; every few hours a process goes, perhaps the leader, and another
comes. Every hour the editing pauses. Then, within a few minutes:

    - every operator's cache is what the server has, object by object;
    - the leader has answered every edit;
    - no handler and no reconcile met a defect.

Afterwards the server forgets its history and its audit log, and what the process holds in memory is
noted. When everything has stopped, no task is left and the event loop has nothing to complain of.
"""

from __future__ import annotations

import asyncio
import gc
import json
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from dynamo_operator.runtime.builtin_kinds import ConfigMap
from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.errors import TransportError
from dynamo_operator.runtime.client.http import HttpRequest, HttpResponse, HttpStream
from dynamo_operator.runtime.client.reader import Reader
from dynamo_operator.runtime.controller import Controller, ReconcilerFactory
from dynamo_operator.runtime.leader_election import LeaderElection
from dynamo_operator.runtime.manager import Manager
from dynamo_operator.runtime.reconciler import Result
from dynamo_operator.testing.cluster import Cluster
from dynamo_operator.testing.in_process_transport import InProcessTransport
from informers.objects import ObjectKey

NAMESPACE = "default"
SETTLED_WITHIN_SECONDS = 600.0
MOST_GROWTH = 0.05
"""Of memory, over the last two thirds of a world that is long enough to tell."""
_PAGE_BYTES = 4096


class InvariantError(AssertionError):
    """Something is not as it must be; says what, in which run."""


@dataclass(frozen=True, slots=True)
class Climate:
    """What happens how often, in seconds."""

    edit_seconds: float = 2.0
    cut_seconds: float = 60.0
    outage_every_seconds: float = 6 * 3600.0
    outage_seconds: float = 600.0
    new_process_seconds: float = 4 * 3600.0
    rest_seconds: float = 3600.0


@dataclass(slots=True)
class CacheReport:
    """What a world saw; bytes are those resident at each rest."""

    virtual_seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    resident_bytes: list[int] = field(default_factory=list)

    @property
    def growth(self) -> float:
        """By how much memory grew after the first third, as a share of it."""
        warm = self.resident_bytes[len(self.resident_bytes) // 3 :]
        return warm[-1] / warm[0] - 1 if len(warm) > 1 else 0.0


async def keep_caches(
    seed: int,
    *,
    hours: float,
    objects: int,
    climate: Climate | None = None,
    reconciler: ReconcilerFactory | None = None,
) -> CacheReport:
    """Run one world.

    Args:
        seed: of everything that is random.
        hours: of virtual time; at least until the first rest.
        objects: how many there are, about.
        climate: how often what happens.
        reconciler: answers edits by setting `done` to what is `wanted`.

    Raises:
        InvariantError: a promise was broken; says which and names the seed.
    """
    loop = asyncio.get_running_loop()
    before, complaints = asyncio.all_tasks(), list[str]()
    loop.set_exception_handler(lambda _loop, context: complaints.append(str(context["message"])))
    try:
        async with Cluster.start(seed=seed) as cluster:
            world = _World(cluster, Random(seed), climate or Climate(), reconciler or _Answers)
            await world.fill(objects)
            started = loop.time()
            try:
                async with asyncio.TaskGroup() as group:
                    world.group = group
                    await world.live(started + hours * 3600)
            except BaseExceptionGroup as failures:
                raise failures.exceptions[0] from None
            world.report.virtual_seconds = loop.time() - started
    except InvariantError as error:
        raise InvariantError(f"seed {seed}: {error}") from None
    finally:
        loop.set_exception_handler(None)
    left = [task.get_name() for task in asyncio.all_tasks() - before if not task.done()]
    if left or complaints:
        raise InvariantError(f"seed {seed}: left behind: {', '.join(left + complaints)}")
    return world.report


class _World:
    def __init__(
        self, cluster: Cluster, random: Random, climate: Climate, reconciler: ReconcilerFactory
    ) -> None:
        self._cluster = cluster
        self._random = random
        self._climate = climate
        self._reconciler = reconciler
        self._operators: list[_Operator] = []
        self._names: list[str] = []
        self._created = self._objects = 0
        self._may_edit = asyncio.Event()
        self._is_out = False
        self.group: asyncio.TaskGroup
        self.report = CacheReport()

    async def fill(self, objects: int) -> None:
        self._objects = objects
        for _ in range(objects):
            await self._create()

    async def live(self, until: float) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(2):
            self._start()
        self._may_edit.set()
        doings = [
            self.group.create_task(doing)
            for doing in (self._edit(), self._cut(), self._break(), self._replace_leader())
        ]
        while loop.time() < until:
            await asyncio.sleep(self._climate.rest_seconds)
            await self._rest()
        for task in doings:
            task.cancel()
        for operator in self._operators:
            await operator.stop()

    # What happens

    async def _edit(self) -> None:
        while True:
            await asyncio.sleep(self._random.expovariate(1 / self._climate.edit_seconds))
            await self._may_edit.wait()
            self.report.counts["edits"] += 1
            if self._random.random() > 0.2:
                key = ObjectKey(NAMESPACE, self._random.choice(self._names))
                data = {"wanted": str(self._random.random())}
                await self._cluster.client.patch(ConfigMap, key, {"data": data})
            elif len(self._names) <= self._objects:
                await self._create()
            else:
                name = self._names.pop(self._random.randrange(len(self._names)))
                await self._cluster.client.delete(ConfigMap, ObjectKey(NAMESPACE, name))

    async def _create(self) -> None:
        self._created += 1
        name = f"object-{self._created}"
        data = {"wanted": "0", "padding": "x" * 1000}
        await self._cluster.client.create(ConfigMap.new(name, namespace=NAMESPACE, data=data))
        self._names.append(name)

    async def _cut(self) -> None:
        while True:
            await asyncio.sleep(self._climate.cut_seconds)
            for operator in self._operators:
                self.report.counts["watches cut"] += operator.transport.cut()

    async def _break(self) -> None:
        while True:
            await asyncio.sleep(self._climate.outage_every_seconds)
            self.report.counts["outages"] += 1
            self._set_out(True)
            await asyncio.sleep(self._climate.outage_seconds)
            self._set_out(False)

    def _set_out(self, is_out: bool) -> None:
        self._is_out = is_out
        for operator in self._operators:
            operator.transport.is_out = is_out
            operator.transport.cut()

    async def _replace_leader(self) -> None:
        while True:
            await asyncio.sleep(self._climate.new_process_seconds)
            self.report.counts["new processes"] += 1
            await self._operators.pop(0).stop()
            self._start()

    def _start(self) -> None:
        numbers = Random(self._random.getrandbits(64))
        operator = _Operator(self._cluster, numbers, self._reconciler)
        operator.transport.is_out = self._is_out
        self._operators.append(operator)
        operator.task = self.group.create_task(operator.run(), name="operator")

    # What has to hold

    async def _rest(self) -> None:
        loop = asyncio.get_running_loop()
        self._may_edit.clear()
        since = loop.time()
        while problem := await self._problem():
            if self._is_out:
                since = loop.time()
            if loop.time() - since > SETTLED_WITHIN_SECONDS:
                raise InvariantError(f"not settled after {SETTLED_WITHIN_SECONDS:g} s: {problem}")
            await asyncio.sleep(5)
        self.report.counts["rests"] += 1
        await self._cluster.forget_history()
        self._cluster.audit.entries.clear()
        gc.collect()
        self.report.resident_bytes.append(_resident_bytes())
        self._may_edit.set()

    async def _problem(self) -> str:
        """Say what is not as it should be, or nothing."""
        if self._is_out:
            return "the server is out of reach"
        listed = await self._cluster.client.list(ConfigMap, namespace=NAMESPACE)
        versions = {obj.key: obj.resource_version for obj in listed}
        unanswered = [o.key for o in listed if o.data.get("done") != o.data.get("wanted")]
        if unanswered:
            return f"{len(unanswered)} edits are unanswered, e.g. of {unanswered[0]}"
        for number, operator in enumerate(self._operators):
            if defects := operator.defects():
                raise InvariantError(
                    f"operator {number}: {defects} defects in handlers or reconciles"
                )
            cached = operator.versions()
            if cached != versions:
                differing = {k for k, _ in cached.items() ^ versions.items()}
                return f"cache {number} differs from the server in {len(differing)} objects"
        return ""


class _Answers:
    """Answers an edit by writing down what was wanted."""

    def __init__(self, reader: Reader, client: Client) -> None:
        self._reader, self._client = reader, client

    async def reconcile(self, key: ObjectKey) -> Result:
        found = await self._reader.find(ConfigMap, key)
        if found is not None and found.data.get("done") != found.data.get("wanted"):
            await self._client.patch(ConfigMap, key, {"data": {"done": found.data["wanted"]}})
        return Result.done()


class _Operator:
    """One process: a manager with a cache, a candidate for the Lease."""

    def __init__(self, cluster: Cluster, random: Random, reconciler: ReconcilerFactory) -> None:
        self.transport = UnreliableTransport(InProcessTransport(cluster.server))
        self._client = Client.over(self.transport, clock=cluster.clock, random=random)
        election = LeaderElection("caches", namespace="kube-system", on_lost="campaign")
        self.manager = Manager(
            self._client,
            namespaces=[NAMESPACE],
            clock=cluster.clock,
            random=random,
            leader_election=election,
        )
        self.manager.add(Controller(ConfigMap, reconciler=reconciler, name="answers"))
        self._declared = self.manager.cache.declare(ConfigMap)
        self.task: asyncio.Task[None]

    async def run(self) -> None:
        try:
            await self.manager.run()
        finally:
            await self._client.close()

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])

    def versions(self) -> Mapping[ObjectKey, str]:
        return {
            obj.key: obj.resource_version
            for cache in self._declared
            for obj in cache.informer.lister.list()
        }

    def defects(self) -> int:
        metrics = self.manager.metrics
        samples = [
            sample
            for counter in (metrics.handler_errors, metrics.reconcile_panics)
            for metric in counter.collect()
            for sample in metric.samples
        ]
        return int(sum(s.value for s in samples if s.name.endswith("_total")))


class UnreliableTransport:
    """A transport that can be out of reach and whose open streams can be cut off."""

    def __init__(self, transport: InProcessTransport) -> None:
        self._transport = transport
        self._streams: list[asyncio.Queue[bytes | Exception | None]] = []
        self.is_out = False

    def cut(self) -> int:
        """Break every open stream and return how many there were."""
        for stream in self._streams:
            stream.put_nowait(TransportError("the connection was reset"))
        return len(self._streams)

    async def send(self, request: HttpRequest, *, timeout_seconds: float) -> HttpResponse:
        self._require_reachable(request)
        return await self._transport.send(request, timeout_seconds=timeout_seconds)

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncGenerator[HttpStream]:
        self._require_reachable(request)
        pieces: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        raised: Exception | None = None
        async with self._transport.stream(request) as stream, asyncio.TaskGroup() as group:
            self._streams.append(pieces)
            pump = group.create_task(_pump(stream, pieces))
            try:
                yield _PipedStream(stream, pieces)
            except Exception as error:  # noqa: BLE001 - raised below, where no group wraps it
                raised = error
            finally:
                pump.cancel()
                self._streams.remove(pieces)
        if raised is not None:
            raise raised

    async def close(self) -> None:
        await self._transport.close()

    def _require_reachable(self, request: HttpRequest) -> None:
        if self.is_out:
            raise TransportError(f"{request}: connection refused", sent=False)


class _PipedStream:
    def __init__(self, stream: HttpStream, pieces: asyncio.Queue[bytes | Exception | None]) -> None:
        self._pieces = pieces
        self.status: int = stream.status
        self.headers: Mapping[str, str] = stream.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        while (piece := await self._pieces.get()) is not None:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    async def read(self) -> bytes:
        return b"".join([piece async for piece in self.chunks()])


async def _pump(stream: HttpStream, pieces: asyncio.Queue[Any]) -> None:
    async for chunk in stream.chunks():
        pieces.put_nowait(chunk)
    pieces.put_nowait(None)


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES


def told(report: CacheReport) -> str:
    """Return a report as one line of JSON."""
    return json.dumps(
        {
            "virtual_hours": round(report.virtual_seconds / 3600, 2),
            **report.counts,
            "resident_mib": [round(size / 2**20) for size in report.resident_bytes],
            "growth": round(report.growth, 4),
        }
    )
