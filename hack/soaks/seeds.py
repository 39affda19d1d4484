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
from tests.simulation.scenarios.pool_relays import POOL_RELAY_SCENARIOS
from tests.simulation.scenarios.relays import RELAY_SCENARIOS
from tests.simulation.scenarios.searches import SEARCH_SCENARIOS
from tests.simulation.scenarios.wandering import WANDERING_SCENARIOS

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        *SEARCH_SCENARIOS,
        *RELAY_SCENARIOS,
        *POOL_RELAY_SCENARIOS,
        *WANDERING_SCENARIOS,
    )
}
CHUNK = 100
"""Seeds of one scenario in a row."""


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
    """Run each seed in two processes with other orders of sets, and compare what they trace."""
    for name in names:
        started = time.monotonic()
        ones, others = (_hashes(name, first, seeds, order) for order in ("1", "977"))
        one, other = (process.communicate()[0].split() for process in (ones, others))
        bad = [first + n for n, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]
        seconds = time.monotonic() - started
        print(
            f"{name}: {len(one) - len(bad)} of {seeds} seeds trace the same,"
            f" {len(set(one))} traces, {seconds:.0f} s"
        )
        if bad or len(one) != seeds:
            print(f"FAILED: other runs elsewhere: seeds {', '.join(map(str, bad[:10]))}")
            return 1
    return 0


def _hashes(name: str, first: int, seeds: int, hash_seed: str) -> subprocess.Popen[str]:
    code = (
        "from hack.soaks.seeds import print_hashes;"
        f"print_hashes({name!r}, range({first}, {first + seeds}))"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )


def print_hashes(name: str, seeds: range) -> None:
    """Print the trace of each seed, a line each."""
    for seed in seeds:
        print(run(SCENARIOS[name], plan=Plan.drawn(seed)).trace_hash)
