"""The part of a Run's status that its controller owns: pure.

The publisher owns the rest (progress, candidateRefs, lastProgressTime, message); server-side apply
keeps the two apart, so every write here carries all of our fields and none of theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from dynamo_operator.api.conditions import (
    CompletedReason,
    Condition,
    ConditionType,
    find_condition,
    with_condition,
)
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRun, RunPhase
from dynamo_operator.runtime.builtin_kinds import Job
from reconcilers.run.outcome import job_condition

_OWNED = (
    "observedGeneration",
    "phase",
    "jobRef",
    "aisimulate",
    "executionSnapshot",
    "startTime",
    "completionTime",
    "executionMessage",
    "conditions",
)
_WAITING = frozenset(
    {
        CompletedReason.PENDING,
        CompletedReason.RUNNING,
        CompletedReason.WAITING_FOR_HARDWARE,
        CompletedReason.WAITING_FOR_IMAGE_PULL_SECRETS,
        CompletedReason.CANDIDATE_API_UNAVAILABLE,
    }
)
MESSAGE_LIMIT = 4096


def owned_status(run: DynamoGraphDeploymentRun) -> dict[str, Any]:
    """Return our fields of the status as they are."""
    status = run.status.to_dict()
    return {name: status[name] for name in _OWNED if name in status}


def is_terminal(run: DynamoGraphDeploymentRun) -> bool:
    """Whether the Run is over; nothing changes such a Run any more."""
    return run.status.phase in (RunPhase.SUCCEEDED, RunPhase.FAILED)


def recorded_ending(run: DynamoGraphDeploymentRun) -> tuple[CompletedReason, str] | None:
    """Return the reason and message with which a Run is being ended, its Job not yet gone."""
    condition = find_condition(run.status.conditions, ConditionType.COMPLETED)
    if condition is None or condition.status == "True" or condition.reason in _WAITING:
        return None
    return CompletedReason(condition.reason), condition.message


def waiting(
    run: DynamoGraphDeploymentRun, reason: CompletedReason, message: str, *, now: datetime
) -> dict[str, Any]:
    """Return the status of a Run that goes on; its phase never goes back."""
    status = _with_condition(run, "False", reason, message, now)
    started = run.status.phase == RunPhase.RUNNING or reason is CompletedReason.RUNNING
    status["phase"] = str(RunPhase.RUNNING if started else RunPhase.PENDING)
    status["executionMessage"] = message[:MESSAGE_LIMIT]
    return status


def ending(
    run: DynamoGraphDeploymentRun, reason: CompletedReason, message: str, *, now: datetime
) -> dict[str, Any]:
    """Return the status that records why a Run ends before its Job is gone."""
    status = _with_condition(run, "False", reason, message, now)
    status["phase"] = str(run.status.phase or RunPhase.PENDING)
    status["executionMessage"] = message[:MESSAGE_LIMIT]
    return status


def ended(
    run: DynamoGraphDeploymentRun,
    reason: CompletedReason,
    message: str,
    job: Job | None,
    *,
    now: datetime,
) -> dict[str, Any]:
    """Return the terminal status; the times are the Job's own where it has them."""
    status = _with_condition(run, "True", reason, message, now)
    succeeded = reason is CompletedReason.SUCCEEDED
    status["phase"] = str(RunPhase.SUCCEEDED if succeeded else RunPhase.FAILED)
    status["executionMessage"] = message[:MESSAGE_LIMIT]
    started, completed = _job_times(job)
    if started and "startTime" not in status:
        status["startTime"] = started
    status["completionTime"] = completed or timestamp(now)
    return status


def timestamp(time: datetime) -> str:
    """Return the RFC 3339 form with whole seconds that Kubernetes uses."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def _with_condition(
    run: DynamoGraphDeploymentRun,
    status: str,
    reason: CompletedReason,
    message: str,
    now: datetime,
) -> dict[str, Any]:
    condition = Condition(
        type=ConditionType.COMPLETED,
        status=status,
        reason=reason,
        message=message[:MESSAGE_LIMIT],
        observed_generation=run.generation,
    )
    placed = with_condition(run.status.conditions, condition, now=timestamp(now))
    return {
        **owned_status(run),
        "observedGeneration": run.generation,
        "conditions": [each.to_dict() for each in placed],
    }


def _job_times(job: Job | None) -> tuple[str | None, str | None]:
    if job is None:
        return None, None
    failed: Mapping[str, Any] = job_condition(job, "Failed") or {}
    completed = job.status.get("completionTime") or failed.get("lastTransitionTime")
    return job.status.get("startTime"), completed
