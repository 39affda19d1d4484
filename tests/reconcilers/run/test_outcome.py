from __future__ import annotations

import pytest

from dynamo_operator.api.conditions import CompletedReason
from dynamo_operator.api.publisher_contract import PublisherOutcome, TerminationMessage
from reconcilers.run.outcome import Broken, Finished, Running, Verdict, decide
from tests.builders import exited, job, pod

COMPLETE = ("Complete", "CompletionsReached")
BACKOFF = ("Failed", "BackoffLimitExceeded")
DEADLINE = ("Failed", "DeadlineExceeded")


def said(outcome: PublisherOutcome, reason: str, message: str) -> str:
    return TerminationMessage(outcome, reason, message).to_json()


NO_CANDIDATE = said(PublisherOutcome.RUN_FAILED, "NoFeasibleCandidate", "nothing fits 1 GPU")
SEARCH_FAILED = said(PublisherOutcome.RUN_FAILED, "Failed", "ValueError: no such model")
VIOLATION = said(PublisherOutcome.PROTOCOL_VIOLATION, "ProtocolViolation", "round went back")


@pytest.mark.parametrize(
    ("conditions", "planner", "publisher", "reason", "text"),
    [
        pytest.param([COMPLETE], exited(0), exited(0), "Succeeded", "", id="both-clean"),
        pytest.param(
            [DEADLINE],
            exited(2),
            exited(3),
            "DeadlineExceeded",
            "DeadlineExceeded",
            id="deadline-first",
        ),
        pytest.param(
            [BACKOFF],
            exited(1),
            exited(3, VIOLATION),
            "ProtocolViolation",
            "round went back",
            id="violation-before-planner",
        ),
        pytest.param(
            [BACKOFF],
            exited(1),
            exited(4, NO_CANDIDATE),
            "NoFeasibleCandidate",
            "nothing fits",
            id="nothing-feasible",
        ),
        pytest.param(
            [BACKOFF],
            exited(0),
            exited(4, SEARCH_FAILED),
            "Failed",
            "no such model",
            id="search-failed",
        ),
        pytest.param(
            [BACKOFF],
            exited(0),
            exited(4, "no JSON"),
            "Failed",
            "no JSON",
            id="unreadable-last-words",
        ),
        pytest.param(
            [BACKOFF],
            exited(2, "first\nengine.mode: bad value\n"),
            exited(0),
            "InvalidInput",
            "engine.mode: bad value",
            id="refused-input",
        ),
        pytest.param(
            [BACKOFF],
            exited(2, "engine.mode: bad\naisimulate: execution process exited with status 2\n"),
            exited(0),
            "InvalidInput",
            "exit code 2: engine.mode: bad",
            id="refused-input-below-the-supervisor",
        ),
        pytest.param(
            [BACKOFF],
            exited(1, "aisimulate: execution process exited with status 1\n"),
            exited(0),
            "Failed",
            "execution process exited with status 1",
            id="nothing-but-the-supervisors-line",
        ),
        pytest.param(
            [BACKOFF],
            exited(1, "aisimulate recommend failed: HuggingFaceDownloadError: Failed to ..."),
            exited(0),
            "Failed",
            "Failed to ...; let the planner's envFromSecret name a Secret with HF_TOKEN",
            id="a-model-out-of-reach",
        ),
        pytest.param(
            [BACKOFF], exited(137, reason="OOMKilled"), exited(0), "Failed", "OOMKilled", id="oom"
        ),
        pytest.param([BACKOFF], exited(139), exited(0), "Failed", "signal 11", id="signal"),
        pytest.param(
            [BACKOFF], exited(0), exited(1), "PublisherFailed", "exit code 1", id="publisher"
        ),
        pytest.param(
            [BACKOFF], exited(0), exited(137), "PublisherFailed", "signal 9", id="publisher-killed"
        ),
    ],
)
def test_a_finished_job_is_judged_by_the_first_matching_rule(
    conditions, planner, publisher, reason, text
):
    verdict = decide(job(*conditions), pod(planner=planner, publisher=publisher))

    assert isinstance(verdict, Finished)
    assert verdict.reason == reason
    assert text in verdict.message


def test_a_job_without_pod_is_explained_by_the_job():
    verdict = decide(job(BACKOFF), None)

    assert verdict == Finished(
        CompletedReason.FAILED,
        "the Job failed: BackoffLimitExceeded: because of BackoffLimitExceeded",
    )


def test_an_evicted_pod_is_explained_by_the_pod():
    evicted = pod(phase="Failed", reason="Evicted", message="low on memory")
    evicted.status["containerStatuses"] = []

    verdict = decide(job(BACKOFF), evicted)

    assert verdict == Finished(CompletedReason.FAILED, "the Pod ended: Evicted: low on memory")


@pytest.mark.parametrize("interim", ["FailureTarget", "SuccessCriteriaMet"])
def test_a_job_that_has_only_decided_its_end_still_runs(interim):
    verdict = decide(job((interim, "DeadlineExceeded")), pod())

    assert verdict == Running(started=True)


@pytest.mark.parametrize("code", [0, 4])
def test_the_publisher_may_end_before_the_planner(code):
    assert decide(job(), pod(publisher=exited(code))) == Running(started=True)


@pytest.mark.parametrize(
    ("publisher", "reason"),
    [
        pytest.param(exited(3, VIOLATION), CompletedReason.PROTOCOL_VIOLATION, id="violation"),
        pytest.param(exited(1), CompletedReason.PUBLISHER_FAILED, id="failed"),
        pytest.param(exited(137), CompletedReason.PUBLISHER_FAILED, id="killed"),
    ],
)
def test_a_lost_publisher_breaks_the_execution_while_the_planner_runs(publisher, reason):
    verdict: Verdict = decide(job(), pod(publisher=publisher))

    assert isinstance(verdict, Broken)
    assert verdict.reason is reason


@pytest.mark.parametrize(
    ("waiting_pod", "text"),
    [
        pytest.param(
            pod(
                phase="Pending",
                planner={"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}},
            ),
            "container planner: ImagePullBackOff: no such image",
            id="image",
        ),
        pytest.param(
            pod(
                phase="Pending",
                conditions=[
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "0/1 nodes are available",
                    }
                ],
            ),
            "Unschedulable: 0/1 nodes are available",
            id="unschedulable",
        ),
        pytest.param(
            pod(phase="Pending", planner={"waiting": {"reason": "ContainerCreating"}}),
            "",
            id="normal",
        ),
    ],
)
def test_a_pod_that_does_not_start_says_why(waiting_pod, text):
    assert decide(job(), waiting_pod) == Running(started=False, problem=text)


@pytest.mark.parametrize(
    ("changed", "text"),
    [({"suspend": True}, "suspended"), ({"parallelism": 0}, "parallelism is 0")],
)
def test_a_job_that_somebody_holds_waits(changed, text):
    verdict = decide(job(**changed), None)

    assert isinstance(verdict, Running)
    assert not verdict.started
    assert text in verdict.problem


@pytest.mark.parametrize("leaving", ["deleted", "evicted"])
def test_a_pod_that_is_taken_away_is_not_the_publishers_failure(leaving):
    taken = pod(publisher=exited(137))
    if leaving == "deleted":
        taken.metadata.deletion_timestamp = "2026-11-30T12:00:00Z"
    else:
        taken.status["reason"] = "Evicted"

    assert decide(job(), taken) == Running(started=True)


def test_an_eviction_is_told_beside_the_exit_codes_that_it_caused():
    evicted = pod(
        planner=exited(137), publisher=exited(0), phase="Failed", reason="Evicted", message="disk"
    )

    assert decide(job(BACKOFF), evicted) == Finished(
        CompletedReason.FAILED,
        "the Pod ended: Evicted: disk; the planner ended with exit code 137, signal 9",
    )
