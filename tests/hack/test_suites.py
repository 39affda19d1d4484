"""The list of suites that hack/test runs."""

from __future__ import annotations

import runpy
from pathlib import Path

HACK_TEST = runpy.run_path(str(Path(__file__).parents[2] / "hack/test"))


def test_the_budgets_add_up_to_no_more_than_45_minutes():
    assert sum(minutes for _, minutes, _ in HACK_TEST["SUITES"]) <= 45


def test_every_suite_has_a_name_of_its_own():
    names = [name for name, _, _ in HACK_TEST["SUITES"]]

    assert len(set(names)) == len(names)
