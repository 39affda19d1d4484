"""What the search says of itself, one look after the other; judged without I/O.

A look is the planner container's exit code, read first, and the snapshot file, read second: a
planner that has exited before the file was read will not write it any more. A `Follower` compares
each look with the one before and raises `ProtocolViolationError` where the search contradicts
itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from dynamo_operator.aisimulate.snapshot import (
    Outcome,
    Phase,
    Progress,
    Snapshot,
    SnapshotCandidate,
    SnapshotError,
    load_documents,
    parse_snapshot,
)
from dynamo_operator.api.v1beta1 import DynamoGraphDeployment

MAX_PUBLISHED = 100
LOOKS_BETWEEN_PLANNER_READS = 3


class ProtocolViolationError(Exception):
    """The planner's reports are not what they must be; one line."""


@dataclass(frozen=True, slots=True)
class Result:
    """A candidate that can be published."""

    id: str
    spec: dict[str, Any]
    metrics: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Report:
    """A snapshot, as far as it concerns the API."""

    phase: Phase
    progress: Progress
    results: tuple[Result, ...]
    reason: str
    message: str

    @property
    def is_terminal(self) -> bool:
        """Whether the search says that it has ended."""
        return self.phase is not Phase.RUNNING


@dataclass(frozen=True, slots=True)
class Look:
    """What one look showed."""

    report: Report | None
    """The newest report, or None before the first."""

    is_new: bool
    """Whether it differs from what was there at the look before."""

    planner_exit: int | None
    """The planner's exit code, or None while it is not known to have exited."""

    @property
    def is_last(self) -> bool:
        """Whether nothing more can come."""
        if self.report is not None and self.report.is_terminal:
            return True
        return self.planner_exit is not None


class Follower:
    """Remembers the last look and judges the next."""

    def __init__(self) -> None:
        self._looks = 0
        self._data: bytes | None = None
        self._report: Report | None = None
        self._planner_exit: int | None = None

    @property
    def wants_planner(self) -> bool:
        """Whether the planner's state is to be read before the next look at the file."""
        ended = self._report is not None and self._report.is_terminal
        is_turn = self._looks % LOOKS_BETWEEN_PLANNER_READS == 0
        return is_turn or ended or self._planner_exit is not None

    def look(self, planner_exit: int | None, data: bytes | None) -> Look:
        """Judge what was read.

        Args:
            planner_exit: the planner's exit code, if it is known to have exited.
            data: the file's bytes, or None while there is none.

        Raises:
            ProtocolViolationError: the file is no snapshot, goes back, or is not terminal although
                the planner exited with 0.
        """
        self._looks += 1
        if planner_exit is not None:
            self._planner_exit = planner_exit
        before = self._report
        if data != self._data:
            self._report = self._read(data, before)
            self._data = data
        report = self._report
        ended = report is not None and report.is_terminal
        if self._planner_exit == 0 and not ended:
            last = f"phase {report.phase}" if report is not None else "no snapshot"
            raise ProtocolViolationError(f"the planner exited with 0 and left {last}")
        return Look(report, report != before, self._planner_exit)

    def _read(self, data: bytes | None, before: Report | None) -> Report:
        if data is None:
            raise ProtocolViolationError("the snapshot file was there and is gone")
        try:
            report = report_of(parse_snapshot(data))
        except SnapshotError as error:
            raise ProtocolViolationError(str(error)) from None
        if before is not None:
            _check_forward(before, report)
        return report


def report_of(snapshot: Snapshot) -> Report:
    """Return what a snapshot means for the API.

    Raises:
        ProtocolViolationError: a manifest is not one v1beta1 DynamoGraphDeployment.
    """
    results = tuple(
        _result(candidate)
        for candidate in snapshot.candidates
        if candidate.outcome is Outcome.MATERIALIZED
    )
    if len(results) > MAX_PUBLISHED:
        raise ProtocolViolationError(
            f"{len(results)} materialized candidates; at most {MAX_PUBLISHED}"
        )
    run = snapshot.run
    message = run.message or run.error or ""
    return Report(run.phase, snapshot.progress, results, run.reason or "", message)


def planner_exit(pod_status: Mapping[str, Any], container: str) -> int | None:
    """Return the exit code of a Pod's container, or None while it has not exited."""
    statuses: Sequence[Any] = pod_status.get("containerStatuses") or ()
    for status in statuses:
        if status.get("name") == container:
            terminated = (status.get("state") or {}).get("terminated")
            return None if terminated is None else int(terminated.get("exitCode", 0))
    return None


def _result(candidate: SnapshotCandidate) -> Result:
    where = f"candidate {candidate.id}: manifest"
    try:
        documents = load_documents((candidate.manifest or "").encode())
    except SnapshotError as error:
        raise ProtocolViolationError(f"{where}: {error}") from None
    documents = [document for document in documents if document is not None]
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise ProtocolViolationError(f"{where}: must be one document; has {len(documents)}")
    manifest = documents[0]
    kind = DynamoGraphDeployment.resource_type
    found = (manifest.get("apiVersion"), manifest.get("kind"))
    if found != (kind.api_version, kind.kind):
        raise ProtocolViolationError(
            f"{where}: is {found[0]} {found[1]}; must be {kind.api_version} {kind.kind}"
        )
    try:
        DynamoGraphDeployment.model_validate(manifest)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        path = ".".join(map(str, problem["loc"]))
        raise ProtocolViolationError(f"{where}: {path}: {problem['msg']}") from None
    spec = manifest["spec"]
    if not isinstance(spec, dict) or "parameters" in spec:
        raise ProtocolViolationError(f"{where}: spec must be an object without parameters")
    return Result(candidate.id, {**spec, "parameters": candidate.parameters}, candidate.metrics)


def _check_forward(before: Report, after: Report) -> None:
    """Progress never goes back; the final count alone may be smaller than an interim one."""
    if before.is_terminal:
        if after != before:
            raise ProtocolViolationError(f"the snapshot changed after phase {before.phase}")
        return
    old, new = before.progress, after.progress
    if new.round < old.round:
        raise ProtocolViolationError(f"progress.round went back from {old.round} to {new.round}")
    if new.round == old.round and new.evaluated < old.evaluated and not after.is_terminal:
        raise ProtocolViolationError(
            f"progress.evaluated went back from {old.evaluated} to {new.evaluated} "
            f"in round {new.round}"
        )
