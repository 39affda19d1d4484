"""What has to change in the API for it to show a report; decided without I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dynamo_operator.api.conditions import (
    Condition,
    ConditionType,
    EvaluatedReason,
    is_condition_true,
)
from dynamo_operator.api.labels import CANDIDATE_ID_LABEL, RUN_UID_LABEL
from dynamo_operator.api.names import candidate_name
from dynamo_operator.api.publisher_contract import PUBLISHER_STATUS_FIELDS
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentCandidate, DynamoGraphDeploymentRun
from dynamo_operator.publisher.observe import Report, Result
from dynamo_operator.runtime.models import OwnerReferenceModel
from informers.objects import controller_ref

Candidate = DynamoGraphDeploymentCandidate
Run = DynamoGraphDeploymentRun


@dataclass(frozen=True, slots=True)
class Plan:
    """In this order: create, complete, set the Run's status (unless it is so), delete."""

    create: tuple[Candidate, ...]
    complete: tuple[tuple[Candidate, Result], ...]
    status: dict[str, Any] | None
    delete: tuple[Candidate, ...]


class ForeignObjectError(Exception):
    """An object of a name that we need belongs to somebody else."""


def plan(report: Report, run: Run, existing: Iterable[Candidate], *, now: str) -> Plan:
    """Return the way from what exists to what the report says.

    Args:
        report: what the search reports.
        run: the Run, as read now.
        existing: the Run's Candidates, and perhaps others of the same labels.
        now: RFC 3339 time.

    Raises:
        ForeignObjectError: a Candidate of a needed name is not this Run's.
    """
    by_name = {candidate.key.name: candidate for candidate in existing}
    create, complete = [], []
    names = []
    for result in report.results:
        name = candidate_name(run.key.name, result.id)
        names.append(name)
        found = by_name.pop(name, None)
        if found is None:
            create.append(desired_candidate(result, run))
        else:
            check_ours(found, run, result.id)
        if found is None or not is_complete(found):
            complete.append((found or create[-1], result))
    obsolete = [c for c in by_name.values() if is_ours(c, run) and not c.is_deleting]
    status = desired_status(report, run, names, now=now)
    return Plan(
        create=tuple(create),
        complete=tuple(complete),
        status=None if status == published_status(run) else status,
        delete=tuple(sorted(obsolete, key=lambda candidate: candidate.key)),
    )


def desired_candidate(result: Result, run: Run) -> Candidate:
    """Return a result as the object to create.

    blockOwnerDeletion is false: it needs a right on the owner's finalizers, which we do without.
    """
    candidate = Candidate.new(
        candidate_name(run.key.name, result.id),
        namespace=run.key.namespace,
        labels={RUN_UID_LABEL: run.uid, CANDIDATE_ID_LABEL: result.id},
        spec=result.spec,
    )
    owner = OwnerReferenceModel(
        api_version=run.resource_type.api_version,
        kind=run.resource_type.kind,
        name=run.key.name,
        uid=run.uid,
        controller=True,
        block_owner_deletion=False,
    )
    candidate.metadata.owner_references = [owner]
    return candidate


def candidate_status(result: Result, *, now: str) -> dict[str, Any]:
    """Return a Candidate's status; it is written once."""
    evaluated = Condition(
        type=ConditionType.EVALUATED,
        status="True",
        reason=EvaluatedReason.EVALUATED,
        message="measured by AISimulate",
        last_transition_time=now,
    )
    return {"metrics": result.metrics, "conditions": [evaluated.to_dict()]}


def desired_status(report: Report, run: Run, names: Iterable[str], *, now: str) -> dict[str, Any]:
    """Return the publisher's part of the Run's status."""
    refs = [{"name": name} for name in names]
    progress = {
        "round": report.progress.round,
        "evaluated": report.progress.evaluated,
        "published": len(refs),
    }
    before = published_status(run)
    is_same = before.get("progress") == progress and "lastProgressTime" in before
    status: dict[str, Any] = {
        "progress": progress,
        "candidateRefs": refs,
        "lastProgressTime": before["lastProgressTime"] if is_same else now,
    }
    return {**status, "message": report.message} if report.message else status


def published_status(run: Run) -> dict[str, Any]:
    """Return what the Run's status has of the publisher's fields."""
    status: Mapping[str, Any] = run.status.to_dict()
    return {name: status[name] for name in PUBLISHER_STATUS_FIELDS if name in status}


def is_ours(candidate: Candidate, run: Run) -> bool:
    """Return whether the Run controls the Candidate."""
    owner = controller_ref(candidate)
    return owner is not None and owner.uid == run.uid


def check_ours(candidate: Candidate, run: Run, id_: str) -> None:
    """Raise ForeignObjectError unless the Candidate is this Run's of that id."""
    if not is_ours(candidate, run) or candidate.labels.get(CANDIDATE_ID_LABEL) != id_:
        raise ForeignObjectError(
            f"candidate {candidate.key} exists and is not controlled by run {run.key} "
            f"({run.uid}) as {id_}: delete or rename it"
        )


def is_complete(candidate: Candidate) -> bool:
    """Return whether its status was written."""
    status = candidate.status
    return status.metrics is not None and is_condition_true(
        status.conditions, ConditionType.EVALUATED
    )
