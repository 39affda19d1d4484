"""Many searches at once: the operator in a process of its own, and planners that end at once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest, DynamoGraphDeploymentRun
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.runtime import Controller, Manager, Result
from dynamo_operator.runtime.builtin_kinds import Job, Pod
from dynamo_operator.runtime.client import Client, Reader
from dynamo_operator.testing.cluster import Cluster
from hack.benchmarks.measurement import Bar, Measurement
from informers.objects import ObjectKey, controller_ref

_REQUESTS = 500
_WORKERS = 16
_PATIENCE = 600.0
_SPEC: dict[str, Any] = {
    "model": {"name": "m"},
    "hardware": {"gpu": {"sku": "h200_sxm", "budget": 8}},
}
_POD_FIELDS = ("containers", "volumes", "restartPolicy")
_STARTED = "2026-11-30T12:00:00Z"
_ENDED = "2026-11-30T12:00:30Z"
_EXITED = {"terminated": {"exitCode": 0, "startedAt": _STARTED, "finishedAt": _ENDED}}


def searches(scale: float) -> list[Measurement]:
    """500 Requests applied at once; each search ends as soon as its Job is there."""
    count = max(10, int(_REQUESTS * scale))
    seconds, delays, peak_bytes, most_jobs = asyncio.run(_search(count))
    delays.sort()
    return [
        Measurement("searches finished", len(delays) / count, "of all", Bar(1.0, at_least=True)),
        Measurement("Jobs of a search, at most", most_jobs, "", Bar(1)),
        Measurement("searches", count / seconds, "1/s"),
        Measurement("Job end to Run end, p50", delays[len(delays) // 2], "s"),
        Measurement("Job end to Run end, p99", delays[int(len(delays) * 0.99)], "s", Bar(2.0)),
        Measurement("operator memory", peak_bytes / 1e6, "MB", Bar(200)),
    ]


class _Planners:
    """Stands for scheduler, kubelet and Job controller: every Job's Pod runs and ends well."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.ended: dict[str, float] = {}
        self._jobs: set[tuple[str, str]] = set()

    @property
    def most_jobs(self) -> int:
        """The most Jobs that one Run ever had."""
        return max(Counter(run for run, _ in self._jobs).values())

    async def reconcile(self, key: ObjectKey) -> Result:
        job = await self._client.find(Job, key)
        owner = controller_ref(job) if job is not None else None
        if job is None or owner is None or job.status:
            return Result.done()
        self._jobs.add((owner.uid, job.uid))
        template = job.spec["template"]
        pod = Pod.new(
            f"{key.name}-x",
            namespace=key.namespace,
            labels=template["metadata"]["labels"],
            spec={name: template["spec"][name] for name in _POD_FIELDS},
        )
        await self._client.create(pod, owner=job)
        statuses = [
            {"name": each["name"], "state": _EXITED, "image": "i", "imageID": ""}
            | {"ready": False, "restartCount": 0}
            for each in template["spec"]["containers"]
        ]
        done = {"phase": "Succeeded", "containerStatuses": statuses}
        await self._client.patch(Pod, pod.key, {"status": done}, subresource="status")
        conditions = [
            {"type": kind, "status": "True", "reason": "CompletionsReached"}
            | {"lastProbeTime": _ENDED, "lastTransitionTime": _ENDED}
            for kind in ("SuccessCriteriaMet", "Complete")
        ]
        times = {"startTime": _STARTED, "completionTime": _ENDED, "succeeded": 1}
        status = {"conditions": conditions, **times}
        await self._client.patch(Job, key, {"status": status}, subresource="status")
        self.ended[owner.uid] = time.perf_counter()
        return Result.done()


class _Ends:
    """Notes when each Run is seen to have succeeded."""

    def __init__(self, reader: Reader, count: int) -> None:
        self._reader = reader
        self._count = count
        self.seen: dict[str, float] = {}
        self.all = asyncio.Event()

    async def reconcile(self, key: ObjectKey) -> Result:
        run = await self._reader.find(DynamoGraphDeploymentRun, key)
        if run is not None and run.status.phase == "Succeeded" and run.uid not in self.seen:
            self.seen[run.uid] = time.perf_counter()
            if len(self.seen) == self._count:
                self.all.set()
        return Result.done()


async def _search(count: int) -> tuple[float, list[float], int, int]:
    """Return the seconds of all, those from each Job's end to its Run's, bytes, most Jobs."""
    async with Cluster.start(mode="http", crds=custom_resource_definitions()) as cluster:
        manager = Manager(cluster.client)
        planners, ends = _Planners(cluster.client), _Ends(manager.reader, count)
        manager.add(Controller(Job, reconciler=planners, max_concurrent_reconciles=_WORKERS))
        manager.add(Controller(DynamoGraphDeploymentRun, reconciler=ends))
        async with manager.running(), _operator(cluster.kubeconfig()) as operator:
            started = time.perf_counter()
            requests = [
                DynamoGraphDeploymentRequest.new(
                    f"search-{number}", namespace="default", spec=_SPEC
                )
                for number in range(count)
            ]
            creations: list[Awaitable[Any]] = [cluster.client.create(each) for each in requests]
            await asyncio.gather(*creations)
            with suppress(TimeoutError):  # told by how many finished
                async with asyncio.timeout(_PATIENCE):
                    await ends.all.wait()
            seconds = time.perf_counter() - started
            peak = _peak_bytes(operator.pid)
    delays = [max(0.0, ends.seen[uid] - planners.ended[uid]) for uid in ends.seen]
    return seconds, delays, peak, planners.most_jobs


@asynccontextmanager
async def _operator(kubeconfig: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dynamo_operator.cli", "start", "--kubeconfig", str(kubeconfig)),
        *("--operator-image=operator:1", "--webhooks=off", "--leader-election.namespace=default"),
        *("--fallback-gpus-per-node=8", "--server.health-probe.port=0"),
        *("--server.metrics.bind-address=127.0.0.1", "--server.metrics.port=0"),
        *("--server.metrics.secure=false", "--server.health-probe.bind-address=127.0.0.1"),
        env={**os.environ},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.wait()


def _peak_bytes(pid: int) -> int:
    """Return the most that a process ever held."""
    (line,) = (
        line
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith("VmHWM:")
    )
    return int(line.split()[1]) * 1024
