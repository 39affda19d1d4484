"""Looks for a planted bug where it should show, and makes sure that nothing shows without it."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from dynamo_operator.simulation import Scenario
from dynamo_operator.simulation.enumeration import Enumeration, Trial
from dynamo_operator.simulation.explore import UnsoundScenarioError, explore, reference_of
from tests.simulation.planted_bugs import PLANTED_BUGS, PlantedBug
from tests.simulation.scenarios import SCENARIOS, primaries_of

MOST_DECISIONS = 5
"""How many faults and changes of order may be needed to show a bug."""
DAYS_OF_A_ROUND = 3
"""In how many days the tests come to every bug once; `hack/soak --bugs` does so at once."""


def bugs_of(day: int) -> list[PlantedBug]:
    """Return the bugs that are looked for on a day.

    Those that need no fault take a second each, and are looked for every day.

    Args:
        day: counted from anywhere, e.g. `date.toordinal()`.
    """
    quick = [bug for bug in PLANTED_BUGS if not bug.found_by]
    slow = [bug for bug in PLANTED_BUGS if bug.found_by]
    return quick + slow[day % DAYS_OF_A_ROUND :: DAYS_OF_A_ROUND]


def problem_with(bug: PlantedBug) -> str:
    """Look for a bug; return in words why it is not found as it says, "" when it is."""
    scenario = SCENARIOS[bug.scenario]
    if not bug.found_by:
        return _problem_without_faults(bug, scenario)
    with bug.planted():
        reference = reference_of(scenario)
        trials = _trials(bug, scenario)
        found = explore(scenario, trials, reference=reference.end, stop_at_first=True)
    if not found.failures:
        return f"not found by {found.ran} of {len(trials)} plans: {bug.found_by}"
    failure = found.failures[0]
    if failure.plan.decisions > MOST_DECISIONS:
        return f"found by {failure.plan.decisions} decisions, more than {MOST_DECISIONS}: {failure}"
    without_bug = explore(scenario, [failure.trial], reference=reference_of(scenario).end)
    if without_bug.failures:
        return f"found without it, too: {without_bug.failures[0]}"
    return ""


def _problem_without_faults(bug: PlantedBug, scenario: Scenario) -> str:
    with bug.planted():
        try:
            reference_of(scenario)
        except UnsoundScenarioError:
            return ""
    return f"{scenario.name} holds with it"


def _trials(bug: PlantedBug, scenario: Scenario) -> Sequence[Trial]:
    fault_class, verb, resource = bug.found_by.split()
    history = reference_of(scenario).history
    return [
        trial
        for trial in Enumeration(history, primaries_of(scenario), [fault_class]).trials()
        if fnmatchcase(trial.verb, verb) and fnmatchcase(trial.resource, resource)
    ]
