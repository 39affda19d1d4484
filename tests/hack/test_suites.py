"""The list of suites that hack/test runs."""

from __future__ import annotations

import runpy
from pathlib import Path

HACK_TEST = runpy.run_path(str(Path(__file__).parents[2] / "hack/test"))


def test_the_budgets_add_up_to_no_more_than_45_minutes():
    assert HACK_TEST["MOST_MINUTES"] == 45
    assert sum(minutes for _, minutes, _ in HACK_TEST["SUITES"]) <= 45


def test_a_suite_may_take_what_others_leave_and_all_together_no_more():
    budgets = [minutes for _, minutes, _ in HACK_TEST["SUITES"]]
    is_too_slow = HACK_TEST["is_too_slow"]

    assert not is_too_slow([budgets[0] + 3, budgets[1] - 4, *budgets[2:]])
    assert is_too_slow([*budgets[:-1], budgets[-1] + 45 - sum(budgets) + 0.1])


def test_every_suite_has_a_name_of_its_own():
    names = [name for name, _, _ in HACK_TEST["SUITES"]]

    assert len(set(names)) == len(names)
