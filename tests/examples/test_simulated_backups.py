"""The example of a simulation finds its bug, and nothing in the version without it."""

from docs.examples import simulated_backups as example
from dynamo_operator.simulation import enumerate_faults, run, shrink


def test_killing_the_forgetful_operator_at_every_call_finds_the_second_job():
    report = enumerate_faults(example.WRONG, classes=("crash",), workers=1, stop_at_first=True)

    failure = report.failures[0]
    assert failure.invariants == ("I3 at most one of jobs each",)
    small = shrink(example.WRONG, run(example.WRONG, plan=failure.trial.plan))
    story = small.story(example.WRONG)
    assert small.plan.decisions == 1
    assert "create jobs/default/backup-orders-000000" in story
    assert "<< kill" in story
    assert "dynamo-operator simulate docs.examples.simulated_backups:WRONG --plan '{" in story


def test_the_careful_operator_survives_a_kill_at_every_call():
    report = enumerate_faults(example.RIGHT, classes=("crash",), workers=1)

    assert report.failures == []
    assert report.crash_points == report.ran >= 9
