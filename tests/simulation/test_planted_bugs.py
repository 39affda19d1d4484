"""Bugs of the kinds that other operators had: each is found, by few faults, and by nothing else."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.simulation.bug_hunt import DAYS_OF_A_ROUND, bugs_of, problem_with
from tests.simulation.planted_bugs import PLANTED_BUGS, PlantedBug

TODAY = datetime.now(UTC).toordinal()


def test_there_are_bugs_of_many_kinds_each_with_its_source():
    assert len(PLANTED_BUGS) >= 25
    assert len({bug.name for bug in PLANTED_BUGS}) == len(PLANTED_BUGS)
    assert all(bug.source for bug in PLANTED_BUGS)


def test_every_bug_has_its_day():
    days = [bugs_of(day) for day in range(TODAY, TODAY + DAYS_OF_A_ROUND)]

    assert {bug.name for day in days for bug in day} == {bug.name for bug in PLANTED_BUGS}


@pytest.mark.simulation
@pytest.mark.parametrize("bug", bugs_of(TODAY), ids=lambda bug: bug.name)
def test_a_bug_is_found_by_what_does_no_harm_without_it(bug: PlantedBug):
    assert problem_with(bug) == ""


def test_a_bug_that_is_not_there_is_not_found():
    shown_by_nothing = PlantedBug("none", "nobody", "relay", "crash create services", {})
    without_faults = PlantedBug("none", "nobody", "relay", "", {})

    assert problem_with(shown_by_nothing) == "not found by 6 of 6 plans: crash create services"
    assert problem_with(without_faults) == "relay holds with it"


def test_the_documentation_lists_each_bug_with_its_source_and_where_it_is_found():
    page = (Path(__file__).parents[2] / "docs/simulation.md").read_text()

    for bug in PLANTED_BUGS:
        found_by = bug.found_by or "no fault needed"
        assert f"| {bug.name} | {bug.source} | {bug.scenario}: {found_by} |" in page
