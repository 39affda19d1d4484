"""Enumerations and swarms: what is tried, what is reported, and that it is the same every time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dynamo_operator.simulation.enumeration import CLASSES, PHASES, Enumeration
from dynamo_operator.simulation.explore import (
    UnsoundScenarioError,
    enumerate_faults,
    explore,
    reference_of,
    swarm,
)
from dynamo_operator.simulation.history import History
from dynamo_operator.simulation.invariants import EndsAs
from tests.simulation.scenarios.relays import RELAY, RELAYS


@pytest.fixture(scope="module")
def enumeration():
    return Enumeration(reference_of(RELAY).history, [RELAYS])


def test_every_call_has_a_crash_point_in_each_phase(enumeration):
    crashes = [t.plan for t in enumeration.trials() if t.fault_class == "crash"]
    points = {(plan.faults[0].at.model_copy(update={"phase": "before"})) for plan in crashes}

    assert len(crashes) == enumeration.crash_points() == len(enumeration.calls()) * len(PHASES)
    assert len(points) == len(enumeration.calls()) > 50


def test_every_class_of_faults_has_trials_and_none_is_there_twice(enumeration):
    trials = list(enumeration.trials())
    plans = [trial.plan.to_json() for trial in trials]

    assert {trial.fault_class for trial in trials} == set(CLASSES)
    assert len(set(plans)) == len(plans)


def test_a_report_counts_what_was_run_and_what_was_reached(enumeration):
    trials = [t for t in enumeration.trials() if t.verb == "create" and t.fault_class == "crash"]

    report = explore(RELAY, trials[:6], reference=reference_of(RELAY).end, workers=2)

    assert report.failures == []
    assert (report.generated, report.ran, report.reached, report.crash_points) == (6, 6, 6, 6)
    assert report.coverage.cells["kill", "create", "configmaps"] == 6
    assert "6 run" in report.told()


def test_a_run_that_ends_otherwise_is_reported_with_its_plan(enumeration):
    def forbid_a_second_process(history: History) -> list[str]:
        started = sum(mark.what == "started" for mark in history.marks)
        return ["a second process was started"] if started > 1 else []

    invariants = (EndsAs("one process", forbid_a_second_process),)
    scenario = replace(RELAY, invariants=invariants)
    trials = [t for t in enumeration.trials() if t.fault_class in ("crash", "ambiguous")]

    report = explore(scenario, [trials[0], trials[-1]], workers=1)

    (failure,) = report.failures
    assert failure.trial == trials[0]
    assert failure.invariants == ("I1 one process",)
    assert "a second process was started" in str(failure)


def test_a_scenario_that_does_not_hold_without_faults_is_refused():
    scenario = replace(RELAY, invariants=(EndsAs("never", lambda history: ["no"]),))

    with pytest.raises(UnsoundScenarioError, match=r"relay without faults: .* never: no"):
        enumerate_faults(scenario, classes=["crash"])


def test_a_seed_gives_the_same_plan_and_another_seed_another():
    first, again = (swarm(RELAY, seeds=[3], workers=1) for _ in range(2))

    assert [f.plan for f in first.failures] == [f.plan for f in again.failures]
    assert first.coverage == again.coverage
    assert first.virtual_seconds == again.virtual_seconds
