"""Seeds of many scenarios, until a time is over; and that each is the same run everywhere."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from dynamo_operator.simulation import Plan, Scenario, run, shrink, swarm
from dynamo_operator.simulation.explore import Report
from tests.simulation.scenarios import SCENARIOS

ROOT = Path(__file__).resolve().parents[2]
CHUNK = 100
"""Seeds of one scenario in a row."""
_HASH_SEEDS = ("1", "977")


def soak(
    names: Sequence[str], *, first: int, seeds: int | None, minutes: float, workers: int | None
) -> int:
    """Run chunk after chunk of seeds, scenario by scenario, until they or the time are over.

    Args:
        names: of the scenarios.
        first: seed.
        seeds: how many of each; None: as many as there is time for.
        minutes: for how long; at least one chunk of each scenario is run when `seeds` is None.
        workers: processes; None: one each core.
    """
    started, reports = time.monotonic(), dict[str, list[Report]]()
    for start, size in _chunks(first, seeds):
        for name in names:
            report = swarm(SCENARIOS[name], seeds=range(start, start + size), workers=workers)
            reports.setdefault(name, []).append(report)
            print(
                f"{name}: seeds {start} to {start + size - 1}, {report.seconds:.0f} s", flush=True
            )
            if report.failures:
                return _fail(SCENARIOS[name], report)
        if seeds is None and time.monotonic() - started >= minutes * 60:
            break
    for name, done in reports.items():
        hours = sum(report.virtual_seconds for report in done) / 3600
        ran = sum(report.ran for report in done)
        print(f"{name}: {ran} seeds held, {hours:.0f} virtual hours")
    return 0


def _chunks(first: int, seeds: int | None) -> Iterator[tuple[int, int]]:
    done = 0
    while seeds is None or done < seeds:
        size = CHUNK if seeds is None else min(CHUNK, seeds - done)
        yield first + done, size
        done += size


def _fail(scenario: Scenario, report: Report) -> int:
    trial = report.failures[0].trial
    print(f"FAILED: {len(report.failures)} of {report.ran} seeds; the first, made smaller:\n")
    print(shrink(scenario, run(scenario, plan=trial.plan)).story(scenario))
    return 1


def compare_hashes(names: Sequence[str], *, first: int, seeds: int) -> int:
    """Run each seed in two processes with other orders of sets, and compare what they trace.

    Args:
        names: of the scenarios, to which the seeds are dealt out in turn.
        first: seed.
        seeds: how many in all.
    """
    started = time.monotonic()
    for position, name in enumerate(names):
        dealt = range(first + position, first + seeds, len(names))
        began = time.monotonic()
        one, other = _hashes(name, dealt)
        bad = [seed for seed, a, b in zip(dealt, one, other, strict=True) if a != b]
        print(
            f"{name}: {len(dealt) - len(bad)} of {len(dealt)} seeds trace the same,"
            f" {len(set(one))} traces, {time.monotonic() - began:.0f} s",
            flush=True,
        )
        if bad:
            print(f"FAILED: other runs elsewhere: seeds {', '.join(map(str, bad[:10]))}")
            return 1
    print(
        f"{seeds} of {seeds} seeds trace the same in two processes, with PYTHONHASHSEED"
        f" {' and '.join(_HASH_SEEDS)}, {time.monotonic() - started:.0f} s"
    )
    return 0


def _hashes(name: str, seeds: range) -> list[list[str]]:
    """Return the traces of the seeds, by one process after the other."""
    code = f"from hack.soaks.seeds import print_hashes; print_hashes({name!r}, {seeds!r})"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in _HASH_SEEDS
    ]
    told = [process.communicate()[0].split() for process in processes]
    for process, traces in zip(processes, told, strict=True):
        if process.returncode or len(traces) != len(seeds):
            sys.exit(f"FAILED: {name}: a process ended after {len(traces)} of {len(seeds)} seeds")
    return told


def print_hashes(name: str, seeds: range) -> None:
    """Print the trace of each seed, a line each."""
    for seed in seeds:
        print(run(SCENARIOS[name], plan=Plan.drawn(seed)).trace_hash)
