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
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import fields
from typing import Any

from dynamo_operator.runtime.builtin_kinds import ConfigMap, Namespace, Pod
from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.models import KubeModel
from dynamo_operator.testing.cluster import ADMIN_GROUPS, Cluster
from dynamo_operator.testing.control_plane_binaries import ControlPlaneMissingError
from hack.benchmarks import caches, controllers, peer_installs, peer_report
from hack.benchmarks.measurement import Measurement
from hack.benchmarks.peer_processes import (
    PATIENCE_SECONDS,
    Converge,
    Framework,
    Round,
    running,
)
from hack.go_programs import ProgramMissingError
from informers.objects import ObjectKey, ResourceType

ROUNDS = 5
QUICK_ROUNDS = 2
WIDGETS = 5_000
FEWEST_WIDGETS = 1_000  # with fewer, starting would be most of it
CACHED = 20_000
FEWEST_CACHED = 4_000  # a process's memory moves by steps: fewer objects would be lost in them
IDLE_SECONDS = 30.0
CHANGES_PER_SECOND = 30
CHANGE_SECONDS = 10.0

_AT_ONCE = 32  # requests of the driver, when it fills a namespace
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


def peers(scale: float) -> list[Measurement]:
    """Beside controller-runtime and kopf: converge, idle, follow changes, start again, cache."""
    try:
        frameworks = _frameworks()
        run = asyncio.run(_peers(frameworks, scale))
    except (ProgramMissingError, ControlPlaneMissingError) as missing:
        _tell(f"peers: skipped: {missing}")
        return []
    made = peer_report.compare(*frameworks, widgets=run.widgets)
    if scale >= 1:
        alone = [*caches.events(scale), *controllers.queue(scale), *controllers.reconcile(scale)]
        peer_report.write_page(frameworks, made, alone, run)
    return made


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


async def _peers(frameworks: list[Framework], scale: float) -> peer_report.Run:
    rounds = ROUNDS if scale >= 1 else QUICK_ROUNDS
    async with Cluster.start(
        mode="real", controllers=["namespaces"], crds=[WIDGET_CRD], environ=os.environ
    ) as cluster:
        await cluster.client.create(Namespace.new("warm-up"))
        for framework in frameworks:
            kubeconfig = cluster.kubeconfig(f"bench-warm-up-{framework.name}", _BENCH_GROUPS)
            async with running(framework, kubeconfig, "warm-up", 1):
                await asyncio.sleep(5)  # its files are in memory from now on
        for number in range(rounds):
            for framework in frameworks:
                _tell(f"round {number + 1} of {rounds}: {framework.name}")
                name = f"{framework.name}-{number}"
                one = await _round(cluster, framework, name, scale, idle=number == 0)
                framework.rounds.append(one)
                if _widgets(scale) > FEWEST_WIDGETS:
                    framework.few.append(await _few(cluster, framework, f"{name}-few"))
                numbers = {f.name: getattr(one, f.name) for f in fields(one)}
                _tell("  " + ", ".join(f"{n} {v:.4g}" for n, v in numbers.items() if v is not None))
        cached = max(FEWEST_CACHED, int(CACHED * scale))
        await _measure_caches(cluster, frameworks[:2], cached)
    return peer_report.Run(rounds=rounds, widgets=_widgets(scale), cached=cached)


async def _fill(cluster: Cluster, namespace: str, count: int) -> list[str]:
    """Make a namespace with so many Widgets; return their names."""
    await cluster.client.create(Namespace.new(namespace))
    names = [f"widget-{number}" for number in range(count)]
    await _at_once(
        lambda name: cluster.client.create(Widget.new(name, namespace=namespace, spec={"size": 1})),
        names,
    )
    return names


async def _few(cluster: Cluster, framework: Framework, namespace: str) -> Converge:
    names = await _fill(cluster, namespace, FEWEST_WIDGETS)
    kubeconfig = cluster.kubeconfig(f"bench-{namespace}", _BENCH_GROUPS)
    async with (
        _Statuses(cluster.client, namespace) as statuses,
        running(framework, kubeconfig, namespace, FEWEST_WIDGETS) as process,
    ):
        await statuses.wait_for(dict.fromkeys(names, 1))
        return Converge(time.time() - process.started, process.cpu_seconds)


async def _round(
    cluster: Cluster, framework: Framework, namespace: str, scale: float, *, idle: bool
) -> Round:
    names = await _fill(cluster, namespace, _widgets(scale))
    count = len(names)
    user = f"bench-{namespace}"
    kubeconfig = cluster.kubeconfig(user, _BENCH_GROUPS)
    async with _Statuses(cluster.client, namespace) as statuses:
        async with running(framework, kubeconfig, namespace, count) as process:
            await statuses.wait_for(dict.fromkeys(names, 1))
            converge_seconds = time.time() - process.started
            converge_cpu_seconds = process.cpu_seconds
            await process.settled()
            await asyncio.sleep(2)
            requests = [entry for entry in cluster.audit.entries if entry.user.name == user]
            writes = [entry for entry in requests if entry.is_write]
            first_watch = min(entry.received for entry in requests if entry.verb == "watch")
            first_watch_seconds = first_watch.timestamp() - process.started
            resident_bytes = process.resident_bytes
            idle_requests: int | None = None
            idle_cpu_seconds: float | None = None
            if idle:
                cpu_before = process.cpu_seconds
                await asyncio.sleep(IDLE_SECONDS * min(1, scale * 4))
                idle_cpu_seconds = process.cpu_seconds - cpu_before
                now = sum(entry.user.name == user for entry in cluster.audit.entries)
                idle_requests = now - len(requests)
            latencies = await _follow_changes(cluster.client, namespace, names, statuses, scale)
        async with running(framework, kubeconfig, namespace, count) as process:
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
        idle_requests=idle_requests,
        idle_cpu_seconds=idle_cpu_seconds,
        latency_p50_seconds=quantiles[49],
        latency_p99_seconds=quantiles[98],
        restart_seconds=restart_seconds,
        restart_cpu_seconds=restart_cpu_seconds,
    )


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
        async with asyncio.timeout(PATIENCE_SECONDS):
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
                async with running(framework, kubeconfig, namespace, 0, kind) as process:
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


def _widgets(scale: float) -> int:
    return max(FEWEST_WIDGETS, int(WIDGETS * scale))


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
