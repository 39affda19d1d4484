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
)
from dynamo_operator.api.labels import (
    MANAGED_BY,
    MANAGED_BY_LABEL,
    REQUEST_GENERATION_LABEL,
    REQUEST_NAME_ANNOTATION,
    REQUEST_UID_LABEL,
)
from dynamo_operator.api.names import run_name
from dynamo_operator.api.v1beta2 import (
    DynamoGraphDeploymentCandidate,
    DynamoGraphDeploymentRequest,
    DynamoGraphDeploymentRun,
    RunPhase,
    SearchSpec,
)
from dynamo_operator.runtime.conditions import find_condition, set_condition

RECENT_RUNS = 10
_MESSAGE_LIMIT = 32768
_OWN_CONDITIONS = frozenset({ConditionType.ACCEPTED, ConditionType.COMPLETED})


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What a pass came to: the Accepted condition, and the generation's Run if it has one."""

    status: bool
    reason: AcceptedReason
    message: str = ""
    run: DynamoGraphDeploymentRun | None = None


def newest_first(runs: Sequence[DynamoGraphDeploymentRun]) -> list[DynamoGraphDeploymentRun]:
    """Order Runs by the generation that they search, newest first."""
    return sorted(runs, key=lambda run: (run.request_generation, run.key.name), reverse=True)


def unfinished_before(
    runs: Sequence[DynamoGraphDeploymentRun], generation: int
) -> DynamoGraphDeploymentRun | None:
    """Return the newest Run of an older generation that is not over yet."""
    return next(
        (
            run
            for run in newest_first(runs)
            if run.request_generation < generation and not run.is_terminal
        ),
        None,
    )


def prunable(
    runs: Sequence[DynamoGraphDeploymentRun], generation: int, limit: int
) -> list[DynamoGraphDeploymentRun]:
    """Return the terminal Runs beyond the newest `limit`, never the current generation's."""
    over = [run for run in newest_first(runs) if run.is_terminal and not run.is_deleting]
    return [run for run in over[limit:] if run.request_generation != generation]


def active_run(
    runs: Sequence[DynamoGraphDeploymentRun], acceptance: Acceptance, generation: int
) -> DynamoGraphDeploymentRun | None:
    """Return the Run that a Request shows: its generation's, or an older one that still runs."""
    return acceptance.run or unfinished_before(runs, generation)


def render_run(request: DynamoGraphDeploymentRequest, spec: SearchSpec) -> DynamoGraphDeploymentRun:
    """Build the Run of the Request's current generation; its name makes it the only one."""
    return DynamoGraphDeploymentRun.new(
        run_name(request.key.name, request.uid, request.generation),
        namespace=request.key.namespace,
        labels={
            REQUEST_UID_LABEL: request.uid,
            REQUEST_GENERATION_LABEL: str(request.generation),
            MANAGED_BY_LABEL: MANAGED_BY,
        },
        annotations={REQUEST_NAME_ANNOTATION: request.key.name},
        spec=spec.to_dict(),
    )


def owned_status(request: DynamoGraphDeploymentRequest) -> dict[str, Any]:
    """Return the status as it is, but for conditions of other writers."""
    status = request.status.to_dict()
    own = [c for c in status.pop("conditions", ()) if c["type"] in _OWN_CONDITIONS]
    return {**status, "conditions": own} if own else status


def desired_status(
    request: DynamoGraphDeploymentRequest,
    runs: Sequence[DynamoGraphDeploymentRun],
    best: DynamoGraphDeploymentCandidate | None,
    acceptance: Acceptance,
    *,
    now: datetime,
) -> dict[str, Any]:
    """Return the Request's whole status, but for conditions of other writers.

    Args:
        request: as read.
        runs: the Runs that it controls.
        best: the first Candidate of the active Run, if there is one.
        acceptance: what this pass came to.
        now: time of conditions whose status flips.
    """
    conditions = [c for c in request.status.conditions if c.type in _OWN_CONDITIONS]
    set_condition(conditions, _accepted(request, acceptance), now=now)
    set_condition(conditions, _completed(request, acceptance), now=now)
    status: dict[str, Any] = {
        "observedGeneration": request.generation,
        "conditions": [condition.to_dict() for condition in conditions],
    }
    if recent := newest_first(runs)[:RECENT_RUNS]:
        status["recentRunRefs"] = [
            {"name": run.key.name, "generation": run.request_generation, "phase": _phase(run)}
            for run in recent
        ]
    if (active := active_run(runs, acceptance, request.generation)) is not None:
        status["activeRunRef"] = {"name": active.key.name}
        status["phase"] = _phase(active)
    if best is not None:
        status["best"] = {"candidate": best.key.name}
        if (score := (best.status.metrics or {}).get("score")) is not None:
            status["best"]["score"] = score
    return status


def _phase(run: DynamoGraphDeploymentRun) -> str:
    return str(run.status.phase or RunPhase.PENDING)


def _accepted(request: DynamoGraphDeploymentRequest, acceptance: Acceptance) -> Condition:
    return Condition(
        type=ConditionType.ACCEPTED,
        status="True" if acceptance.status else "False",
        reason=acceptance.reason,
        message=acceptance.message[:_MESSAGE_LIMIT],
        observed_generation=request.generation,
    )


def _completed(request: DynamoGraphDeploymentRequest, acceptance: Acceptance) -> Condition:
    """Mirror the Run of the current generation; without one, nothing is completed."""
    run = acceptance.run
    why = "the Run has not begun" if run is not None else f"no Run: {acceptance.reason}"
    mirrored = find_condition(run.status.conditions if run else (), ConditionType.COMPLETED)
    return Condition(
        type=ConditionType.COMPLETED,
        status=mirrored.status if mirrored else "False",
        reason=mirrored.reason if mirrored else CompletedReason.PENDING,
        message=mirrored.message if mirrored else why,
        observed_generation=request.generation,
    )
