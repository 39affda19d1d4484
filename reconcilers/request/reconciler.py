"""The level-triggered pass over one Request: exactly one Run for each accepted generation."""

from __future__ import annotations

from collections.abc import Sequence

from dynamo_operator.api.conditions import AcceptedReason, ConditionType, find_condition
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
    SearchSpec,
)
from dynamo_operator.runtime import CachedReader, EventRecorder, Result
from dynamo_operator.runtime.client import Client, Reader
from dynamo_operator.runtime.client.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidError,
    NotFoundError,
    RequestTooLargeError,
)
from informers.clock import Clock
from informers.indexers import BY_OWNER_UID
from informers.objects import ObjectKey, controller_ref
from reconcilers.request.completion import Completion, HardwareUnknownError, InvalidInputError
from reconcilers.request.plan import (
    Acceptance,
    desired_status,
    generation_of,
    is_over,
    newest_first,
    prunable,
)

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
        runs = [run for run in owned if not run.is_deleting]
        acceptance, created = await self._accept(request, owned)
        if created is not None:
            runs = [run for run in runs if run.uid != created.uid] + [created]
        await self._write_status(request, runs, acceptance)
        for run in prunable(runs, request.generation, self._history_limit):
            await self._prune(run)
        return _next_look(acceptance)

    async def _accept(
        self, request: DynamoGraphDeploymentRequest, owned: Sequence[DynamoGraphDeploymentRun]
    ) -> tuple[Acceptance, DynamoGraphDeploymentRun | None]:
        """Decide about the current generation, making its Run if it is due."""
        accepted = Acceptance(True, AcceptedReason.RUN_CREATED)
        current = next((r for r in owned if generation_of(r) == request.generation), None)
        if current is not None and not current.is_deleting:
            return accepted, None
        if _had_its_run(request):
            name = run_name(request.key.name, request.uid, request.generation)
            found = await self._live.find(
                DynamoGraphDeploymentRun, ObjectKey(request.key.namespace, name)
            )
            if found is not None and not found.is_deleting:
                return accepted, found
            return _run_deleted(name), None
        try:
            spec = await self._completion.complete(request)
        except InvalidInputError as error:
            return Acceptance(False, AcceptedReason.INVALID_INPUT, str(error)), None
        except HardwareUnknownError as error:
            return Acceptance(False, AcceptedReason.WAITING_FOR_HARDWARE, str(error)), None
        active = [r for r in newest_first(owned) if not is_over(r) and not r.is_deleting]
        if active:
            message = (
                f"Run {active[0].key.name} of generation {generation_of(active[0])} ends first"
            )
            return Acceptance(True, AcceptedReason.WAITING_FOR_ACTIVE_RUN, message), None
        return await self._create_run(request, spec)

    async def _create_run(
        self, request: DynamoGraphDeploymentRequest, spec: SearchSpec
    ) -> tuple[Acceptance, DynamoGraphDeploymentRun | None]:
        latest = await self._live.find(DynamoGraphDeploymentRequest, request.key)
        # A stale copy must not start a search that nobody asks for any more.
        if (
            latest is None
            or latest.uid != request.uid
            or latest.is_deleting
            or latest.generation != request.generation
        ):
            raise ConflictError(409, "Conflict", f"Request {request.key} is not what was read")
        desired = _render_run(request, spec)
        try:
            run = await self._client.create(desired, owner=request)
        except AlreadyExistsError:
            return await self._judge_existing(request, desired)
        except (InvalidError, RequestTooLargeError) as error:
            return Acceptance(False, AcceptedReason.INVALID_INPUT, error.message), None
        note = f"created Run {run.key.name} for generation {request.generation}"
        self._events.record(
            request, type="Normal", reason="RunCreated", action="CreateRun", note=note
        )
        return Acceptance(True, AcceptedReason.RUN_CREATED), run

    async def _judge_existing(
        self, request: DynamoGraphDeploymentRequest, desired: DynamoGraphDeploymentRun
    ) -> tuple[Acceptance, DynamoGraphDeploymentRun | None]:
        """Say what the object is that already has the Run's name: ours, leaving, or foreign."""
        found = await self._live.find(DynamoGraphDeploymentRun, desired.key)
        if found is None:
            raise ConflictError(409, "Conflict", f"Run {desired.key} was deleted just now")
        reference = controller_ref(found)
        if reference is None or reference.uid != request.uid:
            message = (
                f"Run {desired.key.name} exists and is not this Request's; delete or rename it"
            )
            return Acceptance(False, AcceptedReason.NAME_CONFLICT, message), None
        if found.is_deleting:
            message = f"Run {desired.key.name} of an earlier time is being deleted"
            return Acceptance(True, AcceptedReason.WAITING_FOR_OLD_RUN, message), None
        same_spec = found.spec.to_dict() == desired.spec.to_dict()
        if not same_spec or generation_of(found) != request.generation:
            message = f"Run {desired.key.name} exists with another spec; delete it"
            return Acceptance(False, AcceptedReason.NAME_CONFLICT, message), None
        return Acceptance(True, AcceptedReason.RUN_CREATED), found

    async def _write_status(
        self,
        request: DynamoGraphDeploymentRequest,
        runs: Sequence[DynamoGraphDeploymentRun],
        acceptance: Acceptance,
    ) -> None:
        best = await self._best(request, runs)
        now = self._clock.now()
        status = desired_status(request, runs, best, acceptance, now=now)
        if status == request.status.to_dict():
            return
        self._tell(request, acceptance)
        await self._client.apply_status(request, status, resource_version=request.resource_version)

    def _tell(self, request: DynamoGraphDeploymentRequest, acceptance: Acceptance) -> None:
        before = find_condition(request.status.conditions, ConditionType.ACCEPTED)
        told = before is not None and (
            before.reason,
            before.message,
            before.observed_generation,
        ) == (
            acceptance.reason,
            acceptance.message,
            request.generation,
        )
        if not told and acceptance.reason is not AcceptedReason.RUN_CREATED:
            self._events.record(
                request,
                type="Normal" if acceptance.status else "Warning",
                reason=str(acceptance.reason),
                action="Accept",
                note=acceptance.message,
            )

    async def _best(
        self, request: DynamoGraphDeploymentRequest, runs: Sequence[DynamoGraphDeploymentRun]
    ) -> DynamoGraphDeploymentCandidate | None:
        current = next((run for run in runs if generation_of(run) == request.generation), None)
        if current is None or not current.status.candidate_refs:
            return None
        key = ObjectKey(request.key.namespace, current.status.candidate_refs[0].name)
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


def _had_its_run(request: DynamoGraphDeploymentRequest) -> bool:
    """Whether status says that this very generation got its Run (later deleted, or not)."""
    accepted = find_condition(request.status.conditions, ConditionType.ACCEPTED)
    return (
        accepted is not None
        and accepted.reason in (AcceptedReason.RUN_CREATED, AcceptedReason.RUN_DELETED)
        and accepted.observed_generation == request.generation
    )


def _run_deleted(name: str) -> Acceptance:
    message = f"Run {name} was deleted; change spec.rerun.reason for a new one"
    return Acceptance(True, AcceptedReason.RUN_DELETED, message)


def _render_run(
    request: DynamoGraphDeploymentRequest, spec: SearchSpec
) -> DynamoGraphDeploymentRun:
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


def _next_look(acceptance: Acceptance) -> Result:
    match acceptance.reason:
        case AcceptedReason.WAITING_FOR_HARDWARE:
            return Result.requeue(after=_HARDWARE_RETRY_SECONDS)
        case AcceptedReason.NAME_CONFLICT | AcceptedReason.WAITING_FOR_OLD_RUN:
            return Result.requeue(after=_CONFLICT_RETRY_SECONDS)
        case _:
            return Result.done()
