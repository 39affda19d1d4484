"""The same controller on this runtime, on Go's controller-runtime and on kopf, side by side.

Each run starts one real control plane. In every round each framework gets a namespace full of new
Widgets (see `hack.benchmarks.twins`), and then in turn: converges from nothing, idles, follows
changes, and starts again with everything in place. The rounds take turns, so that what disturbs the
machine disturbs all alike, and medians of the rounds are compared. Processor time and memory are
those of the framework's process alone, as the kernel counts them; requests are counted in the API
server's audit log.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from dynamo_operator.runtime.builtin_kinds import ConfigMap, Namespace, Pod
from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.models import KubeModel
from dynamo_operator.testing.cluster import ADMIN_GROUPS, Cluster
from dynamo_operator.testing.control_plane_binaries import ControlPlaneMissingError
from hack.benchmarks import peer_installs
from hack.benchmarks.measurement import Bar, Measurement
from informers.objects import ObjectKey, ResourceType

ROUNDS = 5
QUICK_ROUNDS = 2
WIDGETS = 5_000
FEWEST_WIDGETS = 1_000  # with fewer, starting would be most of it
CACHED = 20_000
FEWEST_CACHED = 4_000  # a process's memory moves by steps: fewer objects would be lost in them
IDLE_SECONDS = 30.0
CHANGES_PER_SECOND = 30
CHANGE_SECONDS = 20.0
MIB = 1024 * 1024

_AT_ONCE = 32  # requests of the driver, when it fills a namespace
_PATIENCE_SECONDS = 600.0
_TICKS = os.sysconf("SC_CLK_TCK")
_BENCH_GROUPS = ("bench", *ADMIN_GROUPS)
_WIDGETS_PATH = "/apis/bench.test/v1/namespaces/{namespace}/widgets"


class Widget(KubeModel):
    """What the controllers work on; the driver needs no fields of it."""

    resource_type = ResourceType("bench.test", "v1", "Widget", "widgets")
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


WIDGET_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.bench.test"},
    "spec": {
        "group": "bench.test",
        "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["size"],
                                "properties": {"size": {"type": "integer"}},
                            },
                            "status": {
                                "type": "object",
                                # kopf keeps its progress here
                                "x-kubernetes-preserve-unknown-fields": True,
                                "properties": {"size": {"type": "integer"}},
                            },
                        },
                    }
                },
            }
        ],
    },
}


@dataclass(frozen=True, slots=True)
class Round:
    """What one framework did in one round; seconds, bytes, or numbers of requests."""

    first_watch_seconds: float
    converge_seconds: float
    converge_cpu_seconds: float
    writes: int
    failed_writes: int
    resident_bytes: float
    idle_requests: int
    idle_cpu_seconds: float
    latency_p50_seconds: float
    latency_p99_seconds: float
    restart_seconds: float
    restart_cpu_seconds: float


@dataclass(slots=True)
class Framework:
    """One of the three, and what was measured of it."""

    name: str
    command: list[str]
    variables: dict[str, str] = field(default_factory=dict)
    rounds: list[Round] = field(default_factory=list)
    bytes_per_object: dict[str, float] = field(default_factory=dict)  # cached, by kind

    def median(self, name: str) -> float:
        """Return the median of one number over the rounds."""
        return float(statistics.median(getattr(each, name) for each in self.rounds))


class Process:
    """A framework's process at work."""

    def __init__(self, process: asyncio.subprocess.Process, started: float) -> None:
        self._process = process
        self.started = started

    async def settled(self) -> float:
        """Wait until it says that it has settled; return the seconds since its start."""
        assert self._process.stdout is not None
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while line := await self._process.stdout.readline():
                if line.strip() == b"settled":
                    return time.time() - self.started
        raise RuntimeError("the process ended before it had settled")

    @property
    def cpu_seconds(self) -> float:
        """Processor time so far."""
        stat = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / _TICKS

    @property
    def resident_bytes(self) -> int:
        """Resident memory now."""
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError("the process has ended")


def peers(scale: float) -> list[Measurement]:
    """Beside controller-runtime and kopf: converge, idle, follow changes, start again, cache."""
    try:
        return asyncio.run(_peers(_frameworks(), scale))
    except (peer_installs.PeerMissingError, ControlPlaneMissingError) as missing:
        _tell(f"peers: skipped: {missing}")
        return []


def _frameworks() -> list[Framework]:
    """Return ours, controller-runtime and kopf, in the order in which they are compared."""
    go_twin = peer_installs.go_twin()
    python, variables = peer_installs.our_python()
    twins = {"PYTHONPATH": str(peer_installs.TWINS)}
    return [
        Framework("ours", [str(python), "-m", "hack.benchmarks.twins.ours"], variables),
        Framework("controller-runtime", [str(go_twin)]),
        Framework("kopf", [str(peer_installs.kopf_python()), "-m", "kopf_twin"], twins),
    ]


async def _peers(frameworks: list[Framework], scale: float) -> list[Measurement]:
    rounds = ROUNDS if scale >= 1 else QUICK_ROUNDS
    async with Cluster.start(
        mode="real", controllers=["namespaces"], crds=[WIDGET_CRD], environ=os.environ
    ) as cluster:
        await cluster.client.create(Namespace.new("warm-up"))
        for framework in frameworks:
            kubeconfig = cluster.kubeconfig(f"bench-warm-up-{framework.name}", _BENCH_GROUPS)
            async with _running(framework, kubeconfig, "warm-up", 1):
                await asyncio.sleep(5)  # its files are in memory from now on
        for number in range(rounds):
            for framework in frameworks:
                _tell(f"round {number + 1} of {rounds}: {framework.name}")
                made = await _round(cluster, framework, f"{framework.name}-{number}", scale)
                framework.rounds.append(made)
                numbers = (f"{f.name} {getattr(made, f.name):.4g}" for f in fields(made))
                _tell("  " + ", ".join(numbers))
        cached = max(FEWEST_CACHED, int(CACHED * scale))
        await _measure_caches(cluster, frameworks[:2], cached)
    return _compare(*frameworks, widgets=_widgets(scale))


async def _round(cluster: Cluster, framework: Framework, namespace: str, scale: float) -> Round:
    count = _widgets(scale)
    await cluster.client.create(Namespace.new(namespace))
    names = [f"widget-{number}" for number in range(count)]
    await _at_once(
        lambda name: cluster.client.create(Widget.new(name, namespace=namespace, spec={"size": 1})),
        names,
    )
    user = f"bench-{namespace}"
    kubeconfig = cluster.kubeconfig(user, _BENCH_GROUPS)
    async with _Statuses(cluster.client, namespace) as statuses:
        async with _running(framework, kubeconfig, namespace, count) as process:
            await statuses.wait_for(dict.fromkeys(names, 1))
            converge_seconds = time.time() - process.started
            converge_cpu_seconds = process.cpu_seconds
            await process.settled()
            await asyncio.sleep(2)
            requests = [entry for entry in cluster.audit.entries if entry.user.name == user]
            writes = [entry for entry in requests if entry.is_write]
            first_watch = min(entry.received for entry in requests if entry.verb == "watch")
            first_watch_seconds = first_watch.timestamp() - process.started
            cpu_before, requests_before = process.cpu_seconds, len(requests)
            resident_bytes = process.resident_bytes
            await asyncio.sleep(IDLE_SECONDS * min(1, scale * 4))
            idle_cpu_seconds = process.cpu_seconds - cpu_before
            idle = [e for e in cluster.audit.entries if e.user.name == user][requests_before:]
            latencies = await _follow_changes(cluster.client, namespace, names, statuses, scale)
        async with _running(framework, kubeconfig, namespace, count) as process:
            restart_seconds = await process.settled()
            restart_cpu_seconds = process.cpu_seconds
    quantiles = statistics.quantiles(latencies, n=100)
    return Round(
        first_watch_seconds=first_watch_seconds,
        converge_seconds=converge_seconds,
        converge_cpu_seconds=converge_cpu_seconds,
        writes=len(writes),
        failed_writes=sum(entry.code >= 400 for entry in writes),
        resident_bytes=resident_bytes,
        idle_requests=len(idle),
        idle_cpu_seconds=idle_cpu_seconds,
        latency_p50_seconds=quantiles[49],
        latency_p99_seconds=quantiles[98],
        restart_seconds=restart_seconds,
        restart_cpu_seconds=restart_cpu_seconds,
    )


@asynccontextmanager
async def _running(
    framework: Framework, kubeconfig: Path, namespace: str, count: int, cache: str = ""
) -> AsyncGenerator[Process]:
    environment = {
        **os.environ,
        "KUBECONFIG": str(kubeconfig),
        "BENCH_NAMESPACE": namespace,
        "BENCH_WIDGETS": str(count),
        "BENCH_CACHE": cache,
        **framework.variables,
    }
    with tempfile.TemporaryFile() as log:
        started = time.time()
        process = await asyncio.create_subprocess_exec(
            *framework.command, env=environment, stdout=subprocess.PIPE, stderr=log
        )
        try:
            async with asyncio.TaskGroup() as group:
                watch = group.create_task(_must_not_end(process))
                yield Process(process, started)
                watch.cancel()
        except BaseException:
            log.seek(0)
            print(log.read()[-3000:].decode(errors="replace"), file=sys.stderr)
            raise
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
            await process.wait()


async def _must_not_end(process: asyncio.subprocess.Process) -> None:
    raise RuntimeError(f"a framework's process ended with code {await process.wait()}")


class _Statuses:
    """Watches the statuses of a namespace's Widgets, with the time at which each was seen."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._path = _WIDGETS_PATH.format(namespace=namespace)
        self._sizes: dict[str, int] = {}
        self._seen_at: dict[tuple[str, int], float] = {}
        self._changed = asyncio.Event()
        self._group = asyncio.TaskGroup()

    async def __aenter__(self) -> _Statuses:
        await self._group.__aenter__()
        self._task = self._group.create_task(self._watch())
        return self

    async def __aexit__(self, *error: Any) -> None:
        self._task.cancel()
        await self._group.__aexit__(*error)

    async def wait_for(self, sizes: dict[str, int]) -> None:
        """Wait until the statuses are these."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while any(self._sizes.get(name) != size for name, size in sizes.items()):
                self._changed.clear()
                await self._changed.wait()
                await asyncio.sleep(0.02)  # look at many changes at once

    def seen_at(self, name: str, size: int) -> float:
        """When a status was seen, on the clock of `time.perf_counter`."""
        return self._seen_at[name, size]

    async def _watch(self) -> None:
        while True:  # a watcher that is slow for a moment is cut off, and begins again
            async with self._client.stream("GET", self._path, query=[("watch", "true")]) as chunks:
                rest = b""
                async for chunk in chunks:
                    *lines, rest = (rest + chunk).split(b"\n")
                    now = time.perf_counter()
                    for event in map(json.loads, lines):
                        if event["type"] != "ERROR":
                            self._take(event["object"], now)
                    self._changed.set()

    def _take(self, widget: dict[str, Any], now: float) -> None:
        name, size = widget["metadata"]["name"], (widget.get("status") or {}).get("size")
        if size is not None and self._sizes.get(name) != size:
            self._sizes[name] = size
            self._seen_at[name, size] = now


async def _follow_changes(
    client: Client, namespace: str, names: list[str], statuses: _Statuses, scale: float
) -> list[float]:
    """Change Widgets at a steady rate; return the seconds from each change to its status."""
    changed = names[: int(CHANGES_PER_SECOND * CHANGE_SECONDS * min(1, scale * 4))]
    begun: dict[str, float] = {}
    started = time.perf_counter()

    async def change(number: int, name: str) -> None:
        await asyncio.sleep(started + number / CHANGES_PER_SECOND - time.perf_counter())
        begun[name] = time.perf_counter()
        await client.patch(Widget, ObjectKey(namespace, name), {"spec": {"size": 2}})

    async with asyncio.TaskGroup() as group:
        for number, name in enumerate(changed):
            group.create_task(change(number, name))
    await statuses.wait_for(dict.fromkeys(changed, 2))
    return [statuses.seen_at(name, 2) - begun[name] for name in changed]


async def _measure_caches(cluster: Cluster, frameworks: list[Framework], count: int) -> None:
    """Fill in what a cached object takes: what a full cache takes more than an empty one."""
    for kind, make in (("ConfigMap", _config_map), ("Pod", _pod)):
        full, empty = f"full-{kind.lower()}", f"empty-{kind.lower()}"
        for namespace in (full, empty):
            await cluster.client.create(Namespace.new(namespace))
        made = [make(f"object-{number}", full) for number in range(count)]
        await _at_once(cluster.client.create, made)
        for framework in frameworks:
            _tell(f"cache of {count} {kind}s: {framework.name}")
            resident = {}
            for namespace in (full, empty):
                kubeconfig = cluster.kubeconfig(f"bench-{framework.name}", _BENCH_GROUPS)
                async with _running(framework, kubeconfig, namespace, 0, kind) as process:
                    await process.settled()
                    await asyncio.sleep(5)
                    resident[namespace] = process.resident_bytes
            framework.bytes_per_object[kind] = (resident[full] - resident[empty]) / count


def _config_map(name: str, namespace: str) -> ConfigMap:
    return ConfigMap.new(name, namespace=namespace, data={"text": f"{name} " + "x" * 1_100})


def _pod(name: str, namespace: str) -> Pod:
    variables = [{"name": f"VARIABLE_{n}", "value": f"{name}-{n}-" + "y" * 20} for n in range(40)]
    container = {"name": "main", "image": "registry.test/image:1", "env": variables}
    spec = {"containers": [container], "automountServiceAccountToken": False}
    return Pod.new(name, namespace=namespace, spec=spec)


async def _at_once(make: Callable[[Any], Awaitable[Any]], items: list[Any]) -> None:
    waiting = iter(items)

    async def work() -> None:
        for item in waiting:
            await make(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(work())


def _compare(ours: Framework, go: Framework, kopf: Framework, *, widgets: int) -> list[Measurement]:
    """Return the numbers of each, and the ratios that have bars."""
    made = []
    for framework in (ours, go, kopf):
        for each in fields(Round):
            value, unit = framework.median(each.name), _unit(each.name)
            label = each.name.removesuffix("_seconds").removesuffix("_bytes").replace("_", " ")
            value = value / MIB if unit == "MiB" else value
            made.append(Measurement(f"{framework.name}: {label}", value, unit))
    for framework in (ours, go):
        for kind, size in framework.bytes_per_object.items():
            made.append(Measurement(f"{framework.name}: cached {kind}", size, "bytes"))

    def exactly(count: int) -> Bar:
        return Bar(count, side_by_side=True)  # a count is the same on any machine

    def ratio(label: str, name: str, to_go: float | None, to_kopf: float | None) -> None:
        for peer, limit in ((go, to_go), (kopf, to_kopf)):
            if limit is not None:
                value = ours.median(name) / max(peer.median(name), 1e-9)
                bar = Bar(limit, side_by_side=True)
                made.append(Measurement(f"{label} to {peer.name}", value, "ratio", bar))

    ratio("converge, wall", "converge_seconds", 1 / 1.2, 1 / 3)
    ratio("converge, CPU", "converge_cpu_seconds", 0.8, 1 / 5)
    ratio("restart, wall", "restart_seconds", 0.8, 1 / 20)
    ratio("restart, CPU", "restart_cpu_seconds", 0.8, 1 / 20)
    ratio("latency p50", "latency_p50_seconds", 1.0, 1 / 2)
    ratio("latency p99", "latency_p99_seconds", 1.2, 1 / 3)
    ratio("memory", "resident_bytes", 0.9, 1 / 3)
    ratio("first watch", "first_watch_seconds", None, 1 / 8)
    for kind, limit in (("ConfigMap", 0.5), ("Pod", 0.4)):
        value = ours.bytes_per_object[kind] / go.bytes_per_object[kind]
        bar = Bar(limit, side_by_side=True)
        made.append(Measurement(f"cached {kind} to {go.name}", value, "ratio", bar))
    made += [
        Measurement("ours: writes each", ours.median("writes") / widgets, "", exactly(2)),
        Measurement("ours: writes that failed", ours.median("failed_writes"), "", exactly(0)),
        Measurement("ours: requests when idle", ours.median("idle_requests"), "", exactly(0)),
        Measurement("ours: CPU when idle", ours.median("idle_cpu_seconds"), "s", Bar(0.05)),
        Measurement("ours: first watch after", ours.median("first_watch_seconds"), "s", Bar(0.35)),
    ]
    return made


def _widgets(scale: float) -> int:
    return max(FEWEST_WIDGETS, int(WIDGETS * scale))


def _unit(name: str) -> str:
    if name.endswith("_seconds"):
        return "s"
    return "MiB" if name.endswith("_bytes") else ""


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
