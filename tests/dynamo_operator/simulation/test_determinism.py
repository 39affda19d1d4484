"""The seed alone decides: in another process, with another order of sets, against the machine."""

import json
import os
import random
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import pytest

from dynamo_operator.simulation import Plan, run
from dynamo_operator.simulation.runs import DETERMINED
from informers.clock import SystemClock
from tests.dynamo_operator.simulation.scenarios import RIGHT, Echo, scenario

ROOT = Path(__file__).parents[3]
SEEDS = 40
HASHES = f"""
import json
from dynamo_operator.simulation import Plan, run
from tests.dynamo_operator.simulation.scenarios import RIGHT
print(json.dumps([run(RIGHT, plan=Plan.drawn(seed)).trace_hash for seed in range({SEEDS})]))
"""


def test_a_seed_is_the_same_run_in_other_processes_whatever_the_order_of_their_sets():
    started = [
        subprocess.Popen(
            [sys.executable, "-c", HASHES],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
        )
        for hash_seed in ("1", "4242")
    ]
    first, second = (json.loads(process.communicate()[0]) for process in started)

    assert len(set(first)) > SEEDS * 0.9
    assert first == second
    assert run(RIGHT, plan=Plan.drawn(7)).trace_hash == first[7]


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda: random.random(), "random.random was called at"),
        (lambda: random.choice("ab"), "random.choice"),
        (lambda: random.Random(), "random.Random() without a seed"),
        (lambda: random.SystemRandom().random(), "random.SystemRandom"),
        (lambda: uuid.uuid4(), "uuid.uuid4"),
        (lambda: os.urandom(4), "os.urandom"),
        (lambda: SystemClock().now(), "SystemClock.now"),
        (lambda: time.sleep(1), "time.sleep"),
        (lambda: threading.Thread(target=print).start(), "Thread.start"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_operator_that_asks_the_machine_is_found_out(ask, told):
    class Asks(Echo):
        async def write(self, found):
            ask()

    outcome = run(scenario(Asks, invariants=(), quiet_seconds=5.0, converge_seconds=5.0))

    found = [v.what for v in outcome.violations if v.invariant == DETERMINED]
    assert any(told in what and "test_determinism.py" in what for what in found), found


def test_the_time_module_tells_virtual_time():
    seen = []

    class Looks(Echo):
        async def write(self, found):
            seen.append((time.time() - 1893456000.0, time.monotonic()))
            await super().write(found)

    run(scenario(Looks))

    assert seen[0] == pytest.approx((0.0025, 0.0025), abs=0.01)
    assert time.time() < 1893456000.0
