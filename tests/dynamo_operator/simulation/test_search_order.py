"""What is run first where a search ends with the first plan that fails."""

from dynamo_operator.simulation import Plan
from dynamo_operator.simulation.enumeration import Trial
from dynamo_operator.simulation.explore import enumerate_faults
from dynamo_operator.simulation.search_order import most_different_first
from tests.dynamo_operator.simulation.scenarios import RIGHT, WRONG


def trials(count, fault_class, verb, resource="jobs"):
    return [Trial(fault_class, str(n), verb, resource, Plan(seed=n)) for n in range(count)]


def told(found):
    return [(t.fault_class, t.verb, t.fault) for t in found]


def test_every_group_has_its_turn_before_any_has_another_and_writes_come_before_reads():
    found = most_different_first(
        [*trials(3, "crash", "list"), *trials(2, "crash", "create"), *trials(1, "lag", "create")]
    )

    assert told(found) == [
        ("crash", "create", "1"),
        ("lag", "create", "0"),
        ("crash", "list", "1"),
        ("crash", "create", "0"),
        ("crash", "list", "0"),
        ("crash", "list", "2"),
    ]


def test_in_a_group_the_next_one_is_in_the_middle_of_what_was_not_looked_at():
    found = most_different_first(trials(7, "crash", "create"))

    assert [trial.fault for trial in found] == ["3", "1", "5", "0", "2", "4", "6"]


def test_all_are_run_in_the_end_and_none_twice():
    many = [
        t for n, verb in enumerate(("get", "create", "watch")) for t in trials(9 + n, "a", verb)
    ]

    assert sorted(told(most_different_first(many))) == sorted(told(many))


def test_an_enumeration_that_ends_with_the_first_failure_runs_the_most_different_plans_first():
    whole = enumerate_faults(WRONG, classes=["slow", "crash"], workers=1)
    first = enumerate_faults(WRONG, classes=["slow", "crash"], workers=1, stop_at_first=True)
    short = enumerate_faults(RIGHT, workers=1, budget_seconds=0.0)

    (failure,) = first.failures
    assert failure.trial in [each.trial for each in whole.failures]
    assert first.ran < whole.ran == whole.generated
    assert (short.ran, short.failures) == (1, [])
