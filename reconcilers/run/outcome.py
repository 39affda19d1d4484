"""What an execution's Job and Pod say about its Run: pure, first match wins.

Only the Job conditions Complete and Failed are terminal: while SuccessCriteriaMet or FailureTarget
stand alone, Pods still run and the publisher may be writing its last snapshot.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dynamo_operator.api.conditions import CompletedReason
from dynamo_operator.api.planner_contract import PLANNER_CONTAINER
from dynamo_operator.api.publisher_contract import (
    PUBLISHER_CONTAINER,
    PublisherExit,
    TerminationMessage,
)
from dynamo_operator.runtime.builtin_kinds import Job, Pod

PLANNER_EXIT_BAD_INPUT = 2

# The line that `aisimulate` puts below what its own child process said before it failed.
_SUPERVISORS_LINE = re.compile(r"aisimulate: execution process exited with status -?\d+")
# AISimulate could not get the model's config.json.
_NO_MODEL = "HuggingFaceDownloadError"
_MODEL_HINT = (
    "; let the planner's envFromSecret name a Secret with HF_TOKEN, or its cachePVC a Hugging Face "
    "cache that holds the model"
)
_WAITING_IS_NORMAL = frozenset({"", "ContainerCreating", "PodInitializing"})


@dataclass(frozen=True, slots=True)
class Running:
    """The execution goes on; `problem` says what keeps it waiting, if anything does."""

    started: bool
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Broken:
    """The publisher is lost while the planner runs: the Job has to go, then the Run ends so."""

    reason: CompletedReason
    message: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The execution is over."""

    reason: CompletedReason
    message: str


Verdict = Running | Broken | Finished


@dataclass(frozen=True, slots=True)
class _Exit:
    code: int
    signal: int
    reason: str
    message: str

    @property
    def is_clean(self) -> bool:
        return self.code == 0 and self.signal == 0

    def describe(self) -> str:
        """Say code or signal, the runtime's reason, and the last telling line left behind."""
        how = f"exit code {self.code}"
        if self.signal:
            how = f"{how}, signal {self.signal}"
        if self.reason not in ("", "Error", "Completed"):
            how = f"{how} ({self.reason})"
        last_line = _last_telling_line(self.message)
        return f"{how}: {last_line}" if last_line else how


def decide(job: Job, pod: Pod | None) -> Verdict:
    """Judge an execution.

    Args:
        job: the Run's Job as last read.
        pod: its Pod, or None when there is none (not yet, or not any more).
    """
    planner = _exit_of(pod, PLANNER_CONTAINER)
    publisher = _exit_of(pod, PUBLISHER_CONTAINER)
    complete = job_condition(job, "Complete")
    failed = job_condition(job, "Failed")
    if complete is None and failed is None:
        return _judge_unfinished(job, pod, planner, publisher)
    if failed is not None and failed.get("reason") == "DeadlineExceeded":
        return Finished(CompletedReason.DEADLINE_EXCEEDED, str(failed.get("message", "")))
    if publisher is not None and publisher.code == PublisherExit.PROTOCOL_VIOLATION:
        return _publisher_violation(publisher)
    if publisher is not None and publisher.code == PublisherExit.RUN_FAILED:
        return Finished(*_reported_failure(publisher))
    if planner is not None and planner.code == PLANNER_EXIT_BAD_INPUT:
        return Finished(
            CompletedReason.INVALID_INPUT, f"AISimulate refused the input, {planner.describe()}"
        )
    if planner is not None and not planner.is_clean:
        return Finished(CompletedReason.FAILED, _planner_failure(planner, pod))
    if publisher is not None and not publisher.is_clean:
        return Finished(
            CompletedReason.PUBLISHER_FAILED, f"the publisher ended with {publisher.describe()}"
        )
    if complete is not None:
        return Finished(CompletedReason.SUCCEEDED, "the search is complete")
    return Finished(CompletedReason.FAILED, _why_without_exits(failed or {}, pod))


def is_pod_over(pod: Pod | None) -> bool:
    """Whether the Pod is known to have ended, so that its exit codes are there."""
    return pod is not None and pod.status.get("phase") in ("Succeeded", "Failed")


def job_condition(job: Job, kind: str) -> Mapping[str, Any] | None:
    """Return the Job's condition of that type when its status is True, else None."""
    for condition in job.status.get("conditions") or ():
        if condition.get("type") == kind and condition.get("status") == "True":
            return condition  # type: ignore[no-any-return] # free-form JSON of the Job's status
    return None


def pod_problem(pod: Pod | None) -> str:
    """Say why a Pod does not run yet, or "" when nothing is wrong with it."""
    if pod is None:
        return ""
    for condition in pod.status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return f"{condition.get('reason') or 'Unschedulable'}: {condition.get('message', '')}"
    for status in _container_statuses(pod):
        waiting = (status.get("state") or {}).get("waiting") or {}
        if waiting.get("reason", "") not in _WAITING_IS_NORMAL:
            what = f"container {status.get('name')}: {waiting['reason']}"
            return f"{what}: {waiting['message']}" if waiting.get("message") else what
    return ""


def _judge_unfinished(
    job: Job, pod: Pod | None, planner: _Exit | None, publisher: _Exit | None
) -> Verdict:
    # A Pod that is taken away takes the publisher along: that is not the publisher's failure.
    is_leaving = pod is not None and (pod.is_deleting or bool(pod.status.get("reason")))
    if planner is None and publisher is not None and not is_leaving:
        if publisher.code == PublisherExit.PROTOCOL_VIOLATION:
            violation = _publisher_violation(publisher)
            return Broken(violation.reason, violation.message)
        if publisher.code != PublisherExit.RUN_FAILED and not publisher.is_clean:
            return Broken(
                CompletedReason.PUBLISHER_FAILED,
                f"the publisher ended with {publisher.describe()} while the planner was running",
            )
    if held := _what_holds(job):
        return Running(started=False, problem=held)
    started = pod is not None and pod.status.get("phase") in ("Running", "Succeeded", "Failed")
    return Running(started=started, problem="" if started else pod_problem(pod))


def _what_holds(job: Job) -> str:
    """Say what keeps a Job from having a Pod, or "" when nothing does."""
    if job.spec.get("suspend"):
        return "the Job is suspended (a queue may be holding it)"
    if job.spec.get("parallelism") == 0:
        return "the Job's parallelism is 0; 1 lets it run"
    return ""


def _planner_failure(planner: _Exit, pod: Pod | None) -> str:
    hint = _MODEL_HINT if _NO_MODEL in planner.message else ""
    message = f"the planner ended with {planner.describe()}{hint}"
    why = _pod_reason(pod)
    return f"{why}; {message}" if why else message


def _publisher_violation(publisher: _Exit) -> Finished:
    said = TerminationMessage.parse(publisher.message)
    message = said.message if said is not None else publisher.message.strip()
    return Finished(
        CompletedReason.PROTOCOL_VIOLATION, message or "the planner broke the snapshot protocol"
    )


def _reported_failure(publisher: _Exit) -> tuple[CompletedReason, str]:
    said = TerminationMessage.parse(publisher.message)
    if said is None:
        return CompletedReason.FAILED, publisher.message.strip() or "the search reported a failure"
    if said.reason == CompletedReason.NO_FEASIBLE_CANDIDATE:
        return CompletedReason.NO_FEASIBLE_CANDIDATE, said.message or "no feasible candidate found"
    return CompletedReason.FAILED, said.message or "the search reported a failure"


def _why_without_exits(failed: Mapping[str, Any], pod: Pod | None) -> str:
    if why := _pod_reason(pod):
        return why
    reason, message = failed.get("reason", "JobFailed"), failed.get("message", "")
    return f"the Job failed: {reason}: {message}".rstrip(": ")


def _pod_reason(pod: Pod | None) -> str:
    if pod is None or not pod.status.get("reason"):
        return ""
    return f"the Pod ended: {pod.status['reason']}: {pod.status.get('message', '')}".rstrip(": ")


def _last_telling_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if not _SUPERVISORS_LINE.fullmatch(line)]
    return (telling or lines or [""])[-1]


def _exit_of(pod: Pod | None, container: str) -> _Exit | None:
    if pod is None:
        return None
    for status in _container_statuses(pod):
        terminated = (status.get("state") or {}).get("terminated")
        if status.get("name") == container and terminated:
            code = int(terminated.get("exitCode", 0))
            # The kubelet tells a signal only through the shell's convention.
            by_convention = code - 128 if 128 < code <= 128 + 64 else 0
            return _Exit(
                code=code,
                signal=int(terminated.get("signal") or by_convention),
                reason=str(terminated.get("reason", "")),
                message=str(terminated.get("message") or ""),
            )
    return None


def _container_statuses(pod: Pod) -> list[dict[str, Any]]:
    return [
        *(pod.status.get("initContainerStatuses") or ()),
        *(pod.status.get("containerStatuses") or ()),
    ]
