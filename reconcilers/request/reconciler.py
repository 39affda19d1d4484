"""The level-triggered pass over one Request: exactly one Run for each accepted generation."""

from __future__ import annotations

from collections.abc import Sequence

from dynamo_operator.admission.defaulting import complete
from dynamo_operator.api.conditions import AcceptedReason, CompletedReason, ConditionType
from dynamo_operator.api.names import run_name
from dynamo_operator.api.v1beta2 import (
    DynamoGraphDeploymentCandidate,
    DynamoGraphDeploymentRequest,
    DynamoGraphDeploymentRun,
    SearchSpec,
)
from dynamo_operator.runtime import CachedReader, EventRecorder, Result
from dynamo_operator.runtime.client import Client, Reader
from dynamo_operator.runtime.client.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    RequestTooLargeError,
)
from dynamo_operator.runtime.conditions import find_condition, is_condition_true
from dynamo_operator.runtime.event_recorder import EventType
from informers.clock import Clock
from informers.indexers import BY_OWNER_UID
from informers.objects import ObjectKey, controller_ref
from reconcilers.request.completion import Completion, HardwareUnknownError, InvalidInputError
from reconcilers.request.plan import (
    Acceptance,
    active_run,
    desired_status,
    newest_first,
    owned_status,
    prunable,
    render_run,
    unfinished_before,
)
from reconcilers.statuses import write_status

_HARDWARE_RETRY_SECONDS = 30.0
_CONFLICT_RETRY_SECONDS = 60.0


class RequestReconciler:
    """Copies each accepted generation of a Request into an immutable Run, and mirrors that Run.

    Args:
        reader: the manager's cached reader.
        live: a reader without cache; "gone" and "not ours" are judged by it alone.
        client: writes. The name of a Run is deterministic, so its create is the lock.
        events: where transitions are told.
        clock: time of conditions.
        completion: defaults and validates a spec as admission would.
        history_limit: terminal Runs to keep, at least 1.
    """

    def __init__(
        self,
        *,
        reader: CachedReader,
        live: Reader,
        client: Client,
        events: EventRecorder,
        clock: Clock,
        completion: Completion,
        history_limit: int = 10,
    ) -> None:
        if history_limit < 1:
            raise ValueError(f"run history limit {history_limit}: must be at least 1")
        self._reader = reader
        self._live = live
        self._client = client
        self._events = events
        self._clock = clock
        self._completion = completion
        self._history_limit = history_limit

    async def reconcile(self, key: ObjectKey) -> Result:
        """Bring Run, status and history of the Request of that key up to date."""
        request = await self._reader.find(DynamoGraphDeploymentRequest, key)
        if request is None or request.is_deleting:
            return Result.done()
        try:
            return await self._advance(request)
        except ConflictError:
            return Result.backoff("the Request changed since it was read")

    async def _advance(self, request: DynamoGraphDeploymentRequest) -> Result:
        owned = await self._reader.by_index(DynamoGraphDeploymentRun, BY_OWNER_UID, request.uid)
        acceptance = await self._accept(request, owned)
        runs = {run.uid: run for run in owned if not run.is_deleting}
        if acceptance.run is not None:
            runs[acceptance.run.uid] = acceptance.run
        await self._write_status(request, list(runs.values()), acceptance)
        for run in prunable(list(runs.values()), request.generation, self._history_limit):
            await self._prune(run)
        return _next_look(acceptance)

    async def _accept(
        self, request: DynamoGraphDeploymentRequest, owned: Sequence[DynamoGraphDeploymentRun]
    ) -> Acceptance:
        """Decide about the current generation, making its Run if it is due."""
        name = run_name(request.key.name, request.uid, request.generation)
        key = ObjectKey(request.key.namespace, name)
        if _had_its_run(request):
            return await self._find_recorded(request, key)
        if await self._reader.find(DynamoGraphDeploymentRun, key) is not None:
            return await self._judge_existing(request, key)
        try:
            completed = await self._completion.complete(request, previous=_latest_spec(owned))
        except InvalidInputError as error:
            return Acceptance(False, AcceptedReason.INVALID_INPUT, str(error))
        except HardwareUnknownError as error:
            return Acceptance(False, AcceptedReason.WAITING_FOR_HARDWARE, str(error))
        older = unfinished_before(owned, request.generation)
        if older is not None:
            message = f"Run {older.key.name} of generation {older.request_generation} ends first"
            return Acceptance(True, AcceptedReason.WAITING_FOR_ACTIVE_RUN, message)
        acceptance = await self._create_run(request, render_run(request, completed.spec))
        for warning in completed.warnings if acceptance.run is not None else ():
            self._record(request, "Warning", "InputWarning", "Accept", warning)
        return acceptance

    async def _find_recorded(
        self, request: DynamoGraphDeploymentRequest, key: ObjectKey
    ) -> Acceptance:
        """Return the Run that status says was created, unless somebody deleted it."""
        readers: tuple[Reader, ...] = (self._reader, self._live)
        for reader in readers:
            run = await reader.find(DynamoGraphDeploymentRun, key)
            if run is not None and _is_controlled_by(run, request) and not run.is_deleting:
                return _has_run(run)
        message = f"Run {key.name} was deleted; change spec.rerun.reason for a new one"
        return Acceptance(True, AcceptedReason.RUN_DELETED, message)

    async def _create_run(
        self, request: DynamoGraphDeploymentRequest, desired: DynamoGraphDeploymentRun
    ) -> Acceptance:
        latest = await self._live.find(DynamoGraphDeploymentRequest, request.key)
        # A stale copy must not start a search that nobody asks for any more, or that was cancelled.
        if latest is None or latest.resource_version != request.resource_version:
            raise ConflictError(409, "Conflict", f"Request {request.key} is not what was read")
        try:
            run = await self._client.create(desired, owner=request)
        except AlreadyExistsError:
            return await self._judge_existing(request, desired.key)
        except (InvalidError, RequestTooLargeError) as error:
            return Acceptance(False, AcceptedReason.INVALID_INPUT, error.message)
        except ForbiddenError as error:
            self._record(request, "Warning", "RunForbidden", "CreateRun", error.message)
            raise
        note = f"created Run {run.key.name} for generation {request.generation}"
        self._record(request, "Normal", AcceptedReason.RUN_CREATED, "CreateRun", note)
        return _has_run(run)

    async def _judge_existing(
        self, request: DynamoGraphDeploymentRequest, key: ObjectKey
    ) -> Acceptance:
        """Say what the object is that already has the Run's name: leaving, foreign, or ours."""
        found = await self._live.find(DynamoGraphDeploymentRun, key)
        if found is None:
            raise ConflictError(409, "Conflict", f"Run {key} was deleted just now")
        if found.is_deleting:
            message = f"Run {key.name} of an earlier time is being deleted"
            return Acceptance(True, AcceptedReason.WAITING_FOR_OLD_RUN, message)
        if not _is_controlled_by(found, request):
            message = f"Run {key.name} exists and is not this Request's; delete or rename it"
            return Acceptance(False, AcceptedReason.NAME_CONFLICT, message)
        # Hardware that the Request leaves open may be discovered otherwise by now.
        spec = complete(request.spec, previous=found.spec)
        if found.request_generation != request.generation or found.spec.to_dict() != spec.to_dict():
            message = f"Run {key.name} exists with another spec or generation; delete it"
            return Acceptance(False, AcceptedReason.NAME_CONFLICT, message)
        return _has_run(found)

    async def _write_status(
        self,
        request: DynamoGraphDeploymentRequest,
        runs: Sequence[DynamoGraphDeploymentRun],
        acceptance: Acceptance,
    ) -> None:
        best = await self._best(active_run(runs, acceptance, request.generation))
        status = desired_status(request, runs, best, acceptance, now=self._clock.now())
        if status == owned_status(request):
            return
        written = await write_status(self._client, request, status)
        self._tell(before=request, after=written)

    def _tell(
        self, *, before: DynamoGraphDeploymentRequest, after: DynamoGraphDeploymentRequest
    ) -> None:
        """Report what a person would ask about; a created Run was reported when it was."""
        accepted = find_condition(after.status.conditions, ConditionType.ACCEPTED)
        if (
            accepted is not None
            and accepted.reason != AcceptedReason.RUN_CREATED
            and accepted != find_condition(before.status.conditions, ConditionType.ACCEPTED)
        ):
            kind: EventType = "Normal" if accepted.status == "True" else "Warning"
            self._record(after, kind, accepted.reason, "Accept", accepted.message)
        completed = find_condition(after.status.conditions, ConditionType.COMPLETED)
        was_completed = is_condition_true(before.status.conditions, ConditionType.COMPLETED)
        if completed is not None and completed.status == "True" and not was_completed:
            kind = "Normal" if completed.reason == CompletedReason.SUCCEEDED else "Warning"
            note = completed.message
            self._record(after, kind, completed.reason, "Complete", note)

    def _record(
        self,
        request: DynamoGraphDeploymentRequest,
        kind: EventType,
        reason: str,
        action: str,
        note: str,
    ) -> None:
        self._events.record(request, type=kind, reason=str(reason), action=action, note=note)

    async def _best(
        self, run: DynamoGraphDeploymentRun | None
    ) -> DynamoGraphDeploymentCandidate | None:
        if run is None or not run.status.candidate_refs:
            return None
        key = ObjectKey(run.key.namespace, run.status.candidate_refs[0].name)
        readers: tuple[Reader, ...] = (self._reader, self._live)
        for reader in readers:
            candidate = await reader.find(DynamoGraphDeploymentCandidate, key)
            if candidate is not None:
                return candidate
        return None

    async def _prune(self, run: DynamoGraphDeploymentRun) -> None:
        try:
            await self._client.delete(
                DynamoGraphDeploymentRun, run.key, uid=run.uid, propagation="Background"
            )
        except (NotFoundError, ConflictError):
            return  # it is gone, or another object by now


def _latest_spec(runs: Sequence[DynamoGraphDeploymentRun]) -> SearchSpec | None:
    """Return what was searched last: the nearest there is to the spec before this generation."""
    return next((run.spec for run in newest_first(runs)), None)


def _had_its_run(request: DynamoGraphDeploymentRequest) -> bool:
    """Whether status says that this very generation got its Run (later deleted, or not)."""
    accepted = find_condition(request.status.conditions, ConditionType.ACCEPTED)
    return (
        accepted is not None
        and accepted.reason in (AcceptedReason.RUN_CREATED, AcceptedReason.RUN_DELETED)
        and accepted.observed_generation == request.generation
    )


def _has_run(run: DynamoGraphDeploymentRun) -> Acceptance:
    message = f"Run {run.key.name} searches this generation"
    return Acceptance(True, AcceptedReason.RUN_CREATED, message, run=run)


def _is_controlled_by(run: DynamoGraphDeploymentRun, request: DynamoGraphDeploymentRequest) -> bool:
    reference = controller_ref(run)
    return reference is not None and reference.uid == request.uid


def _next_look(acceptance: Acceptance) -> Result:
    match acceptance.reason:
        case AcceptedReason.WAITING_FOR_HARDWARE:
            return Result.requeue(after=_HARDWARE_RETRY_SECONDS)
        case AcceptedReason.NAME_CONFLICT | AcceptedReason.WAITING_FOR_OLD_RUN:
            return Result.requeue(after=_CONFLICT_RETRY_SECONDS)
        case _:
            return Result.done()
