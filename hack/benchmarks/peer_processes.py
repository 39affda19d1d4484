"""The processes of the frameworks that are compared, and what is measured of them."""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

PATIENCE_SECONDS = 600.0

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Round:
    """What one framework did in one round; seconds, bytes, or numbers of requests."""

    first_watch_seconds: float
    converge_seconds: float
    converge_cpu_seconds: float
    writes: int
    failed_writes: int
    resident_bytes: float
    idle_requests: int | None  # only the first round waits for that
    idle_cpu_seconds: float | None
    latency_p50_seconds: float
    latency_p99_seconds: float
    restart_seconds: float
    restart_cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Converge:
    """A cold start until all is as wanted; seconds."""

    converge_seconds: float
    converge_cpu_seconds: float


@dataclass(slots=True)
class Framework:
    """One of the three, and what was measured of it."""

    name: str
    command: list[str]
    variables: dict[str, str] = field(default_factory=dict)
    rounds: list[Round] = field(default_factory=list)
    few: list[Converge] = field(default_factory=list)  # of FEWEST_WIDGETS
    bytes_per_object: dict[str, float] = field(default_factory=dict)  # cached, by kind

    def median(self, name: str) -> float:
        """Return the median of one number over the rounds that have it."""
        values = [getattr(each, name) for each in self.rounds]
        return float(statistics.median(value for value in values if value is not None))

    def median_of_few(self, name: str) -> float:
        """Return the median of one number over the rounds with few Widgets."""
        return float(statistics.median(getattr(each, name) for each in self.few))


class Process:
    """A framework's process at work."""

    def __init__(self, process: asyncio.subprocess.Process, started: float) -> None:
        self._process = process
        self.started = started

    async def settled(self) -> float:
        """Wait until it says that it has settled; return the seconds since its start."""
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
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


@asynccontextmanager
async def running(
    framework: Framework, kubeconfig: Path, namespace: str, count: int, cache: str = ""
) -> AsyncGenerator[Process]:
    """Run a framework for the length of the block; see `hack.benchmarks.twins`."""
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
