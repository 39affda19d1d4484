"""hack/soak: random searches with fixed seeds, and that what is broken is noticed."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from dynamo_operator.app import build_manager
from dynamo_operator.runtime.builtin_kinds import ConfigMap
from dynamo_operator.runtime.reconciler import Result
from dynamo_operator.testing import virtual_time
from hack.simulation.cache_world import Climate, keep_caches
from hack.simulation.search_world import InvariantError, explore

ROOT = Path(__file__).parents[2]


@pytest.mark.virtual_time
async def test_random_searches_keep_every_promise():
    report = await explore(1, steps=40)

    assert report.counts["runs"] >= report.counts["jobs"] > 0


def test_a_seed_replays_exactly():
    first, second = (virtual_time.run(explore(3, steps=8)) for _ in range(2))

    assert first == second


class Restless:
    """Writes without need."""

    needs_leadership = False

    def __init__(self, client):
        self._client = client

    async def run(self):
        while True:
            name = f"restless-{uuid4()}"
            await self._client.create(ConfigMap.new(name, namespace="default"))
            await asyncio.sleep(60)


@pytest.mark.virtual_time
async def test_an_operator_that_does_not_come_to_rest_is_noticed_and_its_seed_told():
    def build(client, *arguments, **options):
        manager = build_manager(client, *arguments, **options)
        manager.add(Restless(client))
        return manager

    with pytest.raises(BaseExceptionGroup) as raised:
        await explore(7, steps=3, build=build)

    assert raised.group_contains(InvariantError, match="seed 7: .* writes although nothing")


def test_the_script_tells_seeds_and_counts():
    ran = subprocess.run(
        [sys.executable, "hack/soak", "0", "--seed", "5", "--steps", "10"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.startswith("seed 5 ok, ")
    assert "1 worlds (seeds 5 to 5)" in ran.stdout
    assert "operators started" in ran.stdout


HURRIED = Climate(
    edit_seconds=4.0,
    cut_seconds=60.0,
    outage_every_seconds=700.0,
    outage_seconds=150.0,
    new_process_seconds=500.0,
    rest_seconds=900.0,
)


@pytest.mark.virtual_time
async def test_caches_are_what_the_server_has_whatever_happens():
    report = await keep_caches(1, hours=0.5, objects=60, climate=HURRIED)

    assert report.counts["rests"] == 2
    assert report.counts["edits"] > 200
    assert report.counts["outages"] >= 2
    assert report.counts["new processes"] >= 2
    assert report.counts["watches cut"] > 30


@pytest.mark.virtual_time
async def test_edits_that_nobody_answers_are_noticed_and_the_seed_told():
    class Idle:
        def __init__(self, reader, client):
            pass

        async def reconcile(self, key):
            return Result.done()

    with pytest.raises(InvariantError, match=r"seed 4: not settled after 600 s: .* unanswered"):
        await keep_caches(4, hours=0.1, objects=5, climate=HURRIED, reconciler=Idle)
