"""The part of a Run's status that its controller owns: pure.

The publisher owns the rest (progress, candidateRefs, lastProgressTime, message); server-side apply
keeps the two apart, so every write here carries all of our fields and none of anybody else's.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from dynamo_operator.api.conditions import CompletedReason, Condition, ConditionType
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRun, RunPhase
from dynamo_operator.runtime.builtin_kinds import Job
from dynamo_operator.runtime.conditions import find_condition, format_time, set_condition
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
)
_ENDINGS = frozenset(CompletedReason) - {
    CompletedReason.PENDING,
    CompletedReason.RUNNING,
    CompletedReason.WAITING_FOR_HARDWARE,
    CompletedReason.WAITING_FOR_IMAGE_PULL_SECRETS,
    CompletedReason.CANDIDATE_API_UNAVAILABLE,
}
MESSAGE_LIMIT = 4096


def owned_status(run: DynamoGraphDeploymentRun) -> dict[str, Any]:
    """Return our fields of the status as they are."""
    status = run.status.to_dict()
    owned = {name: status[name] for name in _OWNED if name in status}
    completed = find_condition(run.status.conditions, ConditionType.COMPLETED)
    return {**owned, "conditions": [completed.to_dict()]} if completed is not None else owned


def recorded_ending(run: DynamoGraphDeploymentRun) -> tuple[CompletedReason, str] | None:
    """Return the reason and message with which a Run is being ended, its Job not yet gone."""
    condition = find_condition(run.status.conditions, ConditionType.COMPLETED)
    if condition is None or condition.status == "True" or condition.reason not in _ENDINGS:
        return None
    return CompletedReason(condition.reason), condition.message


def waiting(
    run: DynamoGraphDeploymentRun, reason: CompletedReason, message: str, *, now: datetime
) -> dict[str, Any]:
    """Return the status of a Run that goes on; its phase never goes back."""
    is_running = run.status.phase == RunPhase.RUNNING or reason is CompletedReason.RUNNING
    if is_running and reason is CompletedReason.PENDING:
        reason = CompletedReason.RUNNING
    phase = RunPhase.RUNNING if is_running else RunPhase.PENDING
    return _status(run, phase, "False", reason, message, now)


def ending(
    run: DynamoGraphDeploymentRun, reason: CompletedReason, message: str, *, now: datetime
) -> dict[str, Any]:
    """Return the status that records why a Run ends before its Job is gone."""
    phase = RunPhase(run.status.phase or RunPhase.PENDING)
    return _status(run, phase, "False", reason, message, now)


def ended(
    run: DynamoGraphDeploymentRun,
    reason: CompletedReason,
    message: str,
    job: Job | None,
    *,
    now: datetime,
) -> dict[str, Any]:
    """Return the terminal status; Job and times are the Job's own where there is one."""
    succeeded = reason is CompletedReason.SUCCEEDED
    phase = RunPhase.SUCCEEDED if succeeded else RunPhase.FAILED
    status = _status(run, phase, "True", reason, message, now)
    started, completed = _job_times(job)
    if started:
        status.setdefault("startTime", started)
    if job is not None:
        status.setdefault("jobRef", reference_to(job))
    status["completionTime"] = completed or format_time(now)
    return status


def reference_to(job: Job) -> dict[str, str]:
    """Return `jobRef` for a Job."""
    return {"name": job.key.name, "uid": job.uid}


def _status(
    run: DynamoGraphDeploymentRun,
    phase: RunPhase,
    completed: str,
    reason: CompletedReason,
    message: str,
    now: datetime,
) -> dict[str, Any]:
    message = message[:MESSAGE_LIMIT]
    condition = Condition(
        type=ConditionType.COMPLETED,
        status=completed,
        reason=reason,
        message=message,
        observed_generation=run.generation,
    )
    conditions = [c for c in run.status.conditions if c.type == ConditionType.COMPLETED]
    set_condition(conditions, condition, now=now)
    return {
        **owned_status(run),
        "observedGeneration": run.generation,
        "phase": str(phase),
        "executionMessage": message,
        "conditions": [each.to_dict() for each in conditions],
    }


def _job_times(job: Job | None) -> tuple[str | None, str | None]:
    if job is None:
        return None, None
    failed: Mapping[str, Any] = job_condition(job, "Failed") or {}
    completed = job.status.get("completionTime") or failed.get("lastTransitionTime")
    return job.status.get("startTime"), completed
