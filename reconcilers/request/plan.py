"""What a Request's Runs mean for the Request: pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dynamo_operator.api.conditions import (
    AcceptedReason,
    CompletedReason,
    Condition,
    ConditionType,
    find_condition,
    with_condition,
)
from dynamo_operator.api.labels import REQUEST_GENERATION_LABEL
from dynamo_operator.api.v1beta2 import (
    DynamoGraphDeploymentCandidate,
    DynamoGraphDeploymentRequest,
    DynamoGraphDeploymentRun,
    RunPhase,
)

RECENT_RUNS = 10
_MESSAGE_LIMIT = 32768


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The Accepted condition that a pass came to."""

    status: bool
    reason: AcceptedReason
    message: str = ""


def generation_of(run: DynamoGraphDeploymentRun) -> int:
    """Return the Request generation that a Run searches, 0 when its label does not say."""
    text = run.labels.get(REQUEST_GENERATION_LABEL, "")
    return int(text) if text.isdigit() else 0


def is_over(run: DynamoGraphDeploymentRun) -> bool:
    """Whether a Run is terminal."""
    return run.status.phase in (RunPhase.SUCCEEDED, RunPhase.FAILED)


def newest_first(runs: Sequence[DynamoGraphDeploymentRun]) -> list[DynamoGraphDeploymentRun]:
    """Order Runs by the generation that they search, newest first."""
    return sorted(runs, key=lambda run: (generation_of(run), run.key.name), reverse=True)


def prunable(
    runs: Sequence[DynamoGraphDeploymentRun], generation: int, limit: int
) -> list[DynamoGraphDeploymentRun]:
    """Return the terminal Runs beyond the newest `limit`, never the current generation's."""
    over = [run for run in newest_first(runs) if is_over(run) and not run.is_deleting]
    return [run for run in over[limit:] if generation_of(run) != generation]


def desired_status(
    request: DynamoGraphDeploymentRequest,
    runs: Sequence[DynamoGraphDeploymentRun],
    best: DynamoGraphDeploymentCandidate | None,
    acceptance: Acceptance,
    *,
    now: datetime,
) -> dict[str, Any]:
    """Return the Request's whole status; all of it is this controller's.

    Args:
        request: as read.
        runs: the Runs that it controls.
        best: the first Candidate of the current generation's Run, if there is one.
        acceptance: what this pass came to.
        now: time of conditions whose status flips.
    """
    current = next((run for run in runs if generation_of(run) == request.generation), None)
    time = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    accepted = Condition(
        type=ConditionType.ACCEPTED,
        status="True" if acceptance.status else "False",
        reason=acceptance.reason,
        message=acceptance.message[:_MESSAGE_LIMIT],
        observed_generation=request.generation,
    )
    conditions = with_condition(request.status.conditions, accepted, now=time)
    conditions = with_condition(conditions, _completed(request, current, acceptance), now=time)
    status: dict[str, Any] = {
        "observedGeneration": request.generation,
        "conditions": [condition.to_dict() for condition in conditions],
    }
    recent = newest_first(runs)[:RECENT_RUNS]
    if recent:
        status["recentRunRefs"] = [
            {
                "name": run.key.name,
                "generation": generation_of(run),
                "phase": str(run.status.phase or RunPhase.PENDING),
            }
            for run in recent
        ]
    if current is not None:
        status["activeRunRef"] = {"name": current.key.name}
        status["phase"] = str(current.status.phase or RunPhase.PENDING)
    if best is not None:
        score = (best.status.metrics or {}).get("score")
        status["best"] = {"candidate": best.key.name}
        if score is not None:
            status["best"]["score"] = score
    return status


def _completed(
    request: DynamoGraphDeploymentRequest,
    current: DynamoGraphDeploymentRun | None,
    acceptance: Acceptance,
) -> Condition:
    mirrored = None
    if current is not None:
        mirrored = find_condition(current.status.conditions, ConditionType.COMPLETED)
    if mirrored is None:
        why = "the Run has not begun" if current is not None else f"no Run: {acceptance.reason}"
        return Condition(
            type=ConditionType.COMPLETED,
            status="False",
            reason=CompletedReason.PENDING,
            message=why,
            observed_generation=request.generation,
        )
    return Condition(
        type=ConditionType.COMPLETED,
        status=mirrored.status,
        reason=mirrored.reason,
        message=mirrored.message,
        observed_generation=request.generation,
    )
