from datetime import UTC, datetime, timedelta, timezone

import pytest

from dynamo_operator.runtime.conditions import (
    find_condition,
    format_time,
    is_condition_true,
    set_condition,
)
from dynamo_operator.runtime.models import KubeStruct

NOW = datetime(2030, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)


class Condition(KubeStruct):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""
    observed_generation: int | None = None


def ready(status, **fields):
    return Condition(type="Ready", status=status, **fields)


def test_a_first_condition_is_added_with_the_present_time():
    conditions: list[Condition] = []

    assert set_condition(conditions, ready("False", reason="Waiting"), now=NOW)

    assert [c.to_dict() for c in conditions] == [
        {
            "type": "Ready",
            "status": "False",
            "reason": "Waiting",
            "lastTransitionTime": "2030-01-01T00:00:00Z",
        }
    ]


def test_saying_the_same_again_changes_nothing():
    conditions: list[Condition] = []
    set_condition(conditions, ready("True", reason="Done"), now=NOW)
    before = [c.to_dict() for c in conditions]

    assert not set_condition(conditions, ready("True", reason="Done"), now=LATER)

    assert [c.to_dict() for c in conditions] == before


@pytest.mark.parametrize(
    "change", [{"reason": "Other"}, {"message": "more"}, {"observed_generation": 2}]
)
def test_another_reason_for_the_same_status_keeps_the_time(change):
    conditions: list[Condition] = []
    set_condition(conditions, ready("False", reason="Waiting"), now=NOW)

    assert set_condition(conditions, ready("False", **{"reason": "Waiting", **change}), now=LATER)

    assert conditions[0].last_transition_time == format_time(NOW)


def test_another_status_moves_the_time_and_only_that_condition():
    conditions: list[Condition] = []
    set_condition(conditions, Condition(type="Other", status="True"), now=NOW)
    set_condition(conditions, ready("False"), now=NOW)

    assert set_condition(conditions, ready("True"), now=LATER)

    assert [(c.type, c.last_transition_time) for c in conditions] == [
        ("Other", format_time(NOW)),
        ("Ready", format_time(LATER)),
    ]


def test_the_time_does_not_go_back_with_the_clock():
    conditions: list[Condition] = []
    set_condition(conditions, ready("False"), now=LATER)

    assert set_condition(conditions, ready("True"), now=NOW)

    assert conditions[0].status == "True"
    assert conditions[0].last_transition_time == format_time(LATER)


def test_a_time_that_is_none_is_replaced():
    conditions = [ready("False", last_transition_time="some day")]

    assert set_condition(conditions, ready("True"), now=NOW)

    assert conditions[0].last_transition_time == format_time(NOW)


def test_the_callers_condition_is_left_alone():
    condition = ready("True", last_transition_time="before")

    set_condition([], condition, now=NOW)

    assert condition.last_transition_time == "before"


def test_conditions_are_looked_up_by_type():
    conditions = [ready("True"), Condition(type="Failed", status="False")]

    assert find_condition(conditions, "Failed") is conditions[1]
    assert find_condition(conditions, "Unknown") is None
    assert is_condition_true(conditions, "Ready")
    assert not is_condition_true(conditions, "Failed")
    assert not is_condition_true(conditions, "Unknown")


def test_times_are_whole_seconds_in_utc():
    time = datetime(2030, 1, 1, 1, 30, 0, 999_999, tzinfo=timezone(timedelta(hours=1)))

    assert format_time(time) == "2030-01-01T00:30:00Z"
