"""Our operators' lives with every crash in turn, and the day's share of random ones."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dynamo_operator.simulation.enumeration import PHASES, Enumeration
from dynamo_operator.simulation.explore import enumerate_faults, reference_of, swarm
from tests.simulation.scenarios import SCENARIOS

pytestmark = pytest.mark.simulation

SEARCHES = ("search", "supersede", "cancel", "refuse")
LIVES = (*SEARCHES, "relay")
SEEDS_A_DAY = 12
_YEARS_OF_DAYS = 3650


@pytest.mark.parametrize("name", LIVES)
def test_a_process_may_die_at_any_moment_of_a_life(name):
    scenario = SCENARIOS[name]
    points = Enumeration(reference_of(scenario).history).crash_points()

    report = enumerate_faults(scenario, classes=["crash"])

    print(report.told())  # noqa: T201 - the number is to be seen
    assert report.failures == [], report.told()
    assert report.crash_points == report.ran == points
    assert points >= 50 * len(PHASES)


@pytest.mark.parametrize("name", SEARCHES)
def test_random_faults_break_nothing_today(name):
    today = datetime.now(UTC).toordinal() % _YEARS_OF_DAYS
    seeds = range(today * SEEDS_A_DAY, (today + 1) * SEEDS_A_DAY)

    report = swarm(SCENARIOS[name], seeds=seeds)

    assert report.failures == [], report.told()
