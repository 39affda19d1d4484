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
from dynamo_operator.testing import virtual_time
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
