"""A failing run is made small, told, and played again."""

import pytest

from dynamo_operator.simulation import Plan, Recording, run, shrink
from dynamo_operator.simulation.shrinking import minimized
from tests.dynamo_operator.simulation.scenarios import ONE_ECHO, RIGHT, WRONG


def first_failure():
    for seed in range(60):
        outcome = run(WRONG, plan=Plan.drawn(seed))
        if not outcome.passed:
            return outcome
    raise AssertionError("no seed found the bug")


@pytest.fixture(scope="module")
def failed():
    return first_failure()


@pytest.fixture(scope="module")
def small(failed):
    return shrink(WRONG, failed)


def test_a_found_bug_shrinks_to_the_one_fault_that_it_needs(small):
    assert small.plan.decisions == 1
    assert {violation.invariant for violation in small.violations} == {ONE_ECHO.name}


def test_the_story_has_the_fault_the_writes_and_the_command(small):
    story = small.story(WRONG)

    assert f"!! 0.012 {ONE_ECHO.name}" in story
    assert "  1. " in story
    assert "operator/1     create configmaps/default/a-2-echo" in story
    assert "simulate tests.dynamo_operator.simulation.scenarios:WRONG --plan '{" in story


def test_a_recording_plays_again_and_says_where_other_code_leaves_it(failed):
    recording = Recording.model_validate_json(failed.recording().model_dump_json())

    same, other = run(WRONG, plan=recording), run(RIGHT, plan=recording)

    assert same.diverged == ""
    assert same.trace_hash == failed.trace_hash
    assert other.diverged.startswith("step ")


def test_what_holds_cannot_be_shrunk():
    with pytest.raises(ValueError, match="echo: every invariant held"):
        shrink(RIGHT, run(RIGHT))


@pytest.mark.parametrize("needed", [(), (3,), (0, 9), (2, 3, 7), tuple(range(10))])
def test_nothing_can_be_left_out_of_what_is_left(needed):
    left = minimized(list(range(10)), lambda kept: set(needed) <= set(kept))

    assert tuple(left) == needed
