"""Code measured in a process of its own, where nothing else was imported or kept before."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass

_AROUND = """
import gc, json, sys, time
def memory(field):
    for line in open('/proc/self/status'):
        if line.startswith(field + ':'):
            return int(line.split()[1]) * 1024
before, started, cpu = memory('VmRSS'), time.perf_counter(), time.process_time()
{code}
seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
gc.collect()
print(json.dumps([seconds, cpu, memory('VmRSS') - before, memory('VmHWM')]), file=sys.stderr)
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a piece of code took.

    Args:
        seconds: the code alone.
        cpu_seconds: likewise.
        resident_bytes: what the process holds more than before.
        peak_bytes: the most that the process ever held, the interpreter included.
        process_seconds: from starting the process to its end.
    """

    seconds: float
    cpu_seconds: float
    resident_bytes: float
    peak_bytes: float
    process_seconds: float


def cost_of(code: str) -> Cost:
    """Run code in a new interpreter.

    Raises:
        RuntimeError: it failed; the text is its standard error.
    """
    started = time.perf_counter()
    command = [sys.executable, "-c", _AROUND.format(code=code)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    process_seconds = time.perf_counter() - started
    if ran.returncode:
        raise RuntimeError(ran.stderr)
    seconds, cpu_seconds, resident, peak = json.loads(ran.stderr.splitlines()[-1])
    return Cost(seconds, cpu_seconds, resident, peak, process_seconds)


def cheapest(code: str, *, tries: int) -> Cost:
    """Return the least of each over several runs: what disturbs only ever adds."""
    costs = [cost_of(code) for _ in range(tries)]
    return Cost(
        seconds=min(cost.seconds for cost in costs),
        cpu_seconds=min(cost.cpu_seconds for cost in costs),
        resident_bytes=min(cost.resident_bytes for cost in costs),
        peak_bytes=min(cost.peak_bytes for cost in costs),
        process_seconds=min(cost.process_seconds for cost in costs),
    )
