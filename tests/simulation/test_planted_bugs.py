"""Bugs of the kinds that other operators had: each is found, by few faults, and by nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from dynamo_operator.simulation import Scenario
from dynamo_operator.simulation.end_state import Reference
from dynamo_operator.simulation.enumeration import Enumeration, Trial
from dynamo_operator.simulation.explore import (
    Report,
    UnsoundScenarioError,
    explore,
    reference_of,
)
from tests.simulation.planted_bugs import PLANTED_BUGS, PlantedBug
from tests.simulation.scenarios import SCENARIOS, primaries_of

MOST_DECISIONS = 5


def test_there_are_bugs_of_many_kinds_each_with_its_source():
    assert len(PLANTED_BUGS) >= 25
    assert len({bug.name for bug in PLANTED_BUGS}) == len(PLANTED_BUGS)
    assert all(bug.source for bug in PLANTED_BUGS)


@pytest.mark.simulation
@pytest.mark.parametrize("bug", [b for b in PLANTED_BUGS if not b.found_by], ids=lambda b: b.name)
def test_a_bug_that_needs_no_fault_is_found_without_one(bug: PlantedBug):
    scenario = SCENARIOS[bug.scenario]

    with bug.planted(), pytest.raises(UnsoundScenarioError):
        reference_of(scenario)


@pytest.mark.simulation
@pytest.mark.parametrize("bug", [b for b in PLANTED_BUGS if b.found_by], ids=lambda b: b.name)
def test_a_bug_is_found_by_faults_that_do_no_harm_without_it(bug: PlantedBug):
    scenario = SCENARIOS[bug.scenario]
    with bug.planted():
        reference = reference_of(scenario)
        trials = list(_trials(bug, scenario))
        found = _judge(scenario, trials, reference.end, stop_at_first=True)
    assert found.failures, f"not found by {found.ran} of {len(trials)} plans: {bug.found_by}"
    failure = found.failures[0]

    without_bug = _judge(scenario, [failure.trial], reference_of(scenario).end)

    assert failure.plan.decisions <= MOST_DECISIONS
    assert without_bug.failures == [], without_bug.told()


def _trials(bug: PlantedBug, scenario: Scenario) -> Sequence[Trial]:
    fault_class, verb, resource = bug.found_by.split()
    history = reference_of(scenario).history
    classes = [fault_class]
    return [
        trial
        for trial in Enumeration(history, primaries_of(scenario), classes).trials()
        if fnmatchcase(trial.verb, verb) and fnmatchcase(trial.resource, resource)
    ]


def _judge(
    scenario: Scenario,
    trials: Sequence[Trial],
    reference: Reference,
    *,
    stop_at_first: bool = False,
) -> Report:
    return explore(scenario, trials, reference=reference, stop_at_first=stop_at_first)


def test_the_documentation_lists_each_bug_with_its_source_and_where_it_is_found():
    page = (Path(__file__).parents[2] / "docs/simulation.md").read_text()

    for bug in PLANTED_BUGS:
        found_by = bug.found_by or "no fault needed"
        assert f"| {bug.name} | {bug.source} | {bug.scenario}: {found_by} |" in page
