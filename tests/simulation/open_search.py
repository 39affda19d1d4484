"""Looks for a planted bug as for any other: by every plan there is, then by random faults."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from dynamo_operator.simulation import Scenario, run, shrink
from dynamo_operator.simulation.end_state import Reference
from dynamo_operator.simulation.enumeration import Enumeration
from dynamo_operator.simulation.explore import (
    Failure,
    Report,
    UnsoundScenarioError,
    explore,
    reference_of,
    swarm,
)
from dynamo_operator.simulation.plans import Plan
from dynamo_operator.simulation.search_order import most_different_first
from tests.simulation.bug_hunt import MOST_DECISIONS
from tests.simulation.planted_bugs import PlantedBug
from tests.simulation.scenarios import SCENARIOS, primaries_of

_SEEDS = range(1_000_000)


@dataclass(slots=True)
class Search:
    """What came of looking for a bug.

    Args:
        found_by: faults, verb and resource of the call that they met, or seed; "" when by nothing.
        plans: that were run until it was found.
        decisions: faults and changes of order of the smallest plan that shows it.
        problem: why it does not count as found; "" when it does.
        seconds: that it took to find it, and to make the plan small.
    """

    found_by: str = ""
    plans: int = 0
    decisions: int = 0
    problem: str = ""
    seconds: float = field(default=0.0)

    def __str__(self) -> str:
        found = f"found by {self.found_by}" if self.found_by else "not found"
        problem = f" - {self.problem}" if self.problem else ""
        return (
            f"{found} after {self.plans} plans, {self.decisions} decisions,"
            f" {self.seconds:.0f} s{problem}"
        )


def search_for(
    bug: PlantedBug, *, workers: int | None, swarm_seconds: float, most_plans: int | None = None
) -> Search:
    """Look for a bug, knowing nothing of it but the life in which it is planted.

    Args:
        bug: that is planted.
        workers: processes; None: one each core.
        swarm_seconds: for how long random faults are tried when no enumerated one shows it.
        most_plans: of the enumeration that are run; None: all.
    """
    scenario, search = SCENARIOS[bug.scenario], Search()
    with _timed(search), bug.planted():
        try:
            reference = reference_of(scenario)
        except UnsoundScenarioError:
            search.found_by = "no fault"
            return search
        trials = most_different_first(
            Enumeration(reference.history, primaries_of(scenario)).trials()
        )[:most_plans]
        tried = explore(
            scenario, trials, reference=reference.end, workers=workers, stop_at_first=True
        )
        reports = [tried]
        if not tried.failures and swarm_seconds:
            reports.append(
                swarm(
                    scenario,
                    seeds=_SEEDS,
                    workers=workers,
                    stop_at_first=True,
                    budget_seconds=swarm_seconds,
                )
            )
        search.plans = sum(report.ran for report in reports)
        failure = _first(reports)
        if failure is None:
            search.problem = "nothing shows it"
            return search
        compared = reference.end if failure.trial.comparable else None
        plan = _smallest(scenario, failure, compared)
    _judge(search, scenario, failure, plan)
    return search


def _first(reports: list[Report]) -> Failure | None:
    return next((failure for report in reports for failure in report.failures), None)


def _smallest(scenario: Scenario, failure: Failure, reference: Reference | None) -> Plan:
    outcome = run(scenario, plan=failure.plan, reference=reference)
    if outcome.passed:  # users waited in vain: what a run alone does not judge
        return failure.plan
    return shrink(scenario, outcome, reference=reference).plan


def _judge(search: Search, scenario: Scenario, failure: Failure, plan: Plan) -> None:
    trial = failure.trial
    search.found_by = f"{trial.fault_class} {trial.fault} {trial.verb} {trial.resource}".rstrip()
    search.decisions = plan.decisions
    if plan.decisions > MOST_DECISIONS:
        search.problem = f"more than {MOST_DECISIONS} decisions"
    without_bug = explore(scenario, [trial], reference=reference_of(scenario).end)
    if without_bug.failures:
        search.problem = f"found without it, too: {without_bug.failures[0]}"


@contextmanager
def _timed(search: Search) -> Iterator[None]:
    began = time.monotonic()
    try:
        yield
    finally:
        search.seconds = time.monotonic() - began
