from datetime import UTC, datetime, timedelta

import pytest

from dynamo_operator.local_cluster.job_plan import TRACKING_FINALIZER, plan_job
from dynamo_operator.runtime.builtin_kinds import Job, Pod

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def at(seconds):
    return (NOW + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def job(status=None, *, deleting=False, restart_policy="Never", **spec):
    spec = {
        "completions": 1,
        "parallelism": 1,
        "backoffLimit": 0,
        "template": {"spec": {"restartPolicy": restart_policy}},
        **spec,
    }
    made = Job.new("j", namespace="lab", spec=spec, status=status or {})
    made.metadata.uid = "job-uid"
    if deleting:
        made.metadata.deletion_timestamp = at(0)
    return made


def pod(name, phase="Running", *, tracked=True, deleting=False, restarts=0, ended=0):
    statuses = [{"restartCount": restarts}]
    if phase in ("Succeeded", "Failed"):
        statuses = [{"state": {"terminated": {"finishedAt": at(ended)}}}]
    conditions = [{"type": "Ready", "status": "True"}] if phase == "Running" else []
    status = {"phase": phase, "containerStatuses": statuses, "conditions": conditions}
    made = Pod.new(name, namespace="lab", status=status, spec={})
    made.metadata.uid = name
    made.metadata.finalizers = [TRACKING_FINALIZER] if tracked else []
    made.metadata.creation_timestamp = at(0)
    if deleting:
        made.metadata.deletion_timestamp = at(0)
    return made


def plan(job, *pods, now=NOW):
    return plan_job(job, pods, now)


def true_conditions(status):
    return {c["type"]: c["reason"] for c in status.get("conditions", ()) if c["status"] == "True"}


def names(items):
    return [item.key.name for item in items]


def test_a_new_job_starts_with_its_pods():
    planned = plan(job(completions=3, parallelism=2))

    assert planned.create == 2
    assert planned.status["startTime"] == at(0)


def test_running_pods_are_enough():
    planned = plan(job(), pod("a"))

    assert (planned.create, planned.remove) == (0, ())
    assert planned.status["active"] == planned.status["ready"] == 1


def test_a_success_is_counted_in_three_steps():
    first = plan(job(), pod("a", "Succeeded"))
    second = plan(job(first.status), pod("a", "Succeeded", tracked=False))

    assert first.status["uncountedTerminatedPods"] == {"succeeded": ["a"]}
    assert names(first.release) == ["a"]
    assert true_conditions(first.status) == {"SuccessCriteriaMet": "CompletionsReached"}
    assert second.status["uncountedTerminatedPods"] == {}
    assert second.status["succeeded"] == 1
    assert true_conditions(second.status) == {
        "SuccessCriteriaMet": "CompletionsReached",
        "Complete": "CompletionsReached",
    }
    assert second.status["completionTime"] == at(0)


def test_a_counted_pod_that_is_gone_is_counted_once():
    status = {"uncountedTerminatedPods": {"succeeded": ["a"]}, "startTime": at(0)}

    planned = plan(job(status, completions=2))

    assert planned.status["succeeded"] == 1
    assert planned.create == 1


def test_a_pod_that_was_counted_before_is_not_counted_again():
    planned = plan(job({"succeeded": 1}, completions=2), pod("a", "Succeeded", tracked=False))

    assert planned.status["succeeded"] == 1
    assert planned.create == 1


def test_failures_within_the_limit_are_replaced_after_a_growing_delay():
    failed = [pod("a", "Failed", tracked=False, ended=0)]
    status = {"failed": 1, "startTime": at(0)}

    early = plan(job(status, backoffLimit=3), *failed, now=NOW + timedelta(seconds=4))
    late = plan(job(status, backoffLimit=3), *failed, now=NOW + timedelta(seconds=10))
    twice = plan(
        job({**status, "failed": 2}, backoffLimit=3), *failed, now=NOW + timedelta(seconds=10)
    )

    assert (early.create, early.requeue_after) == (0, 6.0)
    assert late.create == 1
    assert (twice.create, twice.requeue_after) == (0, 10.0)


def test_too_many_failures_end_the_job_and_its_other_pods():
    first = plan(job(parallelism=2, completions=2), pod("a", "Failed"), pod("b"))

    assert true_conditions(first.status) == {"FailureTarget": "BackoffLimitExceeded"}
    assert [(r.pod.key.name, r.counts) for r in first.remove] == [("b", True)]
    assert first.create == 0


def test_failed_is_said_only_when_nothing_runs_and_everything_is_counted():
    target = plan(job(), pod("a", "Failed")).status

    waiting = plan(job(target), pod("a", "Failed", tracked=False), pod("b", deleting=True))
    over = plan(job(waiting.status), pod("a", "Failed", tracked=False))

    assert "Failed" not in true_conditions(waiting.status)
    assert true_conditions(over.status)["Failed"] == "BackoffLimitExceeded"
    assert over.status["failed"] == 2
    assert "completionTime" not in over.status
    assert over.events[-1][:2] == ("Warning", "BackoffLimitExceeded")


def test_restarts_in_place_count_against_the_limit():
    within = plan(job(backoffLimit=3, restart_policy="OnFailure"), pod("a", restarts=2))
    beyond = plan(job(backoffLimit=3, restart_policy="OnFailure"), pod("a", restarts=3))

    assert true_conditions(within.status) == {}
    assert true_conditions(beyond.status) == {"FailureTarget": "BackoffLimitExceeded"}


def test_the_deadline_ends_the_job():
    status = {"startTime": at(0)}

    before = plan(job(status, activeDeadlineSeconds=60), pod("a"), now=NOW + timedelta(seconds=20))
    after = plan(job(status, activeDeadlineSeconds=60), pod("a"), now=NOW + timedelta(seconds=60))

    assert before.requeue_after == 40.0
    assert true_conditions(after.status) == {"FailureTarget": "DeadlineExceeded"}
    assert len(after.remove) == 1


def test_a_suspended_job_loses_its_pods_without_counting_them():
    planned = plan(job({"startTime": at(0)}, suspend=True), pod("a"))

    assert [(r.pod.key.name, r.counts) for r in planned.remove] == [("a", False)]
    assert true_conditions(planned.status) == {"Suspended": "JobSuspended"}
    assert "startTime" not in planned.status


def test_a_resumed_job_starts_anew():
    suspended = plan(job(suspend=True)).status

    planned = plan(job(suspended), now=NOW + timedelta(seconds=9))

    assert planned.status["startTime"] == at(9)
    assert true_conditions(planned.status) == {}
    assert planned.create == 1
    assert planned.events == (("Normal", "Resumed", "Job resumed"),)


def test_too_many_pods_are_reduced_unready_ones_first():
    planned = plan(job(parallelism=1, completions=5), pod("ready"), pod("pending", "Pending"))

    assert [(r.pod.key.name, r.counts) for r in planned.remove] == [("pending", False)]


def test_no_more_pods_run_than_completions_are_missing():
    status = {"succeeded": 2, "startTime": at(0)}

    assert plan(job(status, parallelism=5, completions=3)).create == 1


def test_a_work_queue_ends_with_its_last_pod_after_a_success():
    running = plan(job(completions=None, parallelism=2), pod("a", "Succeeded"), pod("b"))
    ended = plan(
        job(running.status, completions=None, parallelism=2),
        pod("a", "Succeeded", tracked=False),
        pod("b", "Succeeded"),
    )

    assert (running.create, true_conditions(running.status)) == (0, {})
    assert true_conditions(ended.status) == {"SuccessCriteriaMet": "CompletionsReached"}


def test_a_deleted_pod_has_failed_and_is_replaced():
    planned = plan(job(backoffLimit=6), pod("a", deleting=True), now=NOW + timedelta(seconds=60))

    assert planned.status["uncountedTerminatedPods"] == {"failed": ["a"]}
    assert planned.status["terminating"] == 1
    assert planned.create == 1


def test_a_replacement_can_wait_until_the_deleted_pod_has_ended():
    waiting = job(backoffLimit=6, podReplacementPolicy="Failed")
    later = NOW + timedelta(seconds=60)

    going = plan(waiting, pod("a", deleting=True), now=later)
    gone = plan(waiting, pod("a", "Failed", deleting=True), now=later)

    assert (going.create, going.status["uncountedTerminatedPods"]) == (0, {})
    assert (gone.create, gone.status["uncountedTerminatedPods"]) == (1, {"failed": ["a"]})


def test_a_deleted_job_holds_no_pod():
    planned = plan(job(deleting=True), pod("a"), pod("b", "Failed"))

    assert (names(planned.release), planned.create) == (["a", "b"], 0)


@pytest.mark.parametrize(("age", "expired"), [(5, False), (10, True)])
def test_a_finished_job_expires_after_its_time_to_live(age, expired):
    done = {"type": "Complete", "status": "True", "lastTransitionTime": at(0)}

    planned = plan(
        job({"conditions": [done]}, ttlSecondsAfterFinished=10), now=NOW + timedelta(seconds=age)
    )

    assert planned.expired is expired
    assert planned.requeue_after == (None if expired else 5.0)


def test_a_settled_job_changes_nothing():
    settled = plan(job(), pod("a")).status

    assert plan(job(settled), pod("a"), now=NOW + timedelta(hours=1)).status == settled
