"""The level-triggered pass over one Run: observe, decide, act; each step is safe to repeat."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from dynamo_operator.aisimulate.overrides import LoweringError
from dynamo_operator.api.conditions import CompletedReason, ConditionType, find_condition
from dynamo_operator.api.labels import REQUEST_GENERATION_LABEL
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest, DynamoGraphDeploymentRun
from dynamo_operator.runtime import CachedReader, EventRecorder, Result
from dynamo_operator.runtime.builtin_kinds import Job
from dynamo_operator.runtime.client import Client, Reader
from dynamo_operator.runtime.client.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    RequestTooLargeError,
)
from informers.clock import Clock
from informers.objects import ObjectKey, controller_ref
from reconcilers.run.children import Children
from reconcilers.run.errors import InvalidExecutionError, OwnershipConflictError, WaitingError
from reconcilers.run.outcome import Broken, Finished, Running, Verdict, decide
from reconcilers.run.status import is_terminal, recorded_ending
from reconcilers.run.status_writer import StatusWriter

_POLL_SECONDS = 5.0
_RETRY_SECONDS = 30.0


class RunReconciler:
    """Executes each Run as exactly one Job and reflects that Job in the Run's status.

    Args:
        reader: the manager's cached reader.
        live: a reader without cache; nothing irreversible is decided without it.
        client: writes.
        events: where transitions are told.
        clock: time of conditions.
        children: makes and finds what a Run owns.
        candidate_api_served: whether Candidates can be written now.
    """

    def __init__(
        self,
        *,
        reader: CachedReader,
        live: Reader,
        client: Client,
        events: EventRecorder,
        clock: Clock,
        children: Children,
        candidate_api_served: Callable[[], Awaitable[bool]],
    ) -> None:
        self._reader = reader
        self._live = live
        self._client = client
        self._events = events
        self._clock = clock
        self._children = children
        self._candidate_api_served = candidate_api_served

    async def reconcile(self, key: ObjectKey) -> Result:
        """Advance the Run of that key by as much as can be done now."""
        run = await self._reader.find(DynamoGraphDeploymentRun, key)
        if run is None or run.is_deleting or is_terminal(run):
            return Result.done()
        status = StatusWriter(run, self._client, self._clock)
        try:
            return await self._advance(status)
        except WaitingError as wait:
            await status.waiting(wait.reason, wait.message)
            return Result.requeue(after=wait.retry_seconds)
        except ForbiddenError as error:
            # A quota, or a right that is missing for now: say so, and look again slowly.
            self._tell_problem(status.run, error.message)
            await status.waiting(CompletedReason.PENDING, error.message)
            return Result.requeue(after=_RETRY_SECONDS)
        except ConflictError:
            return Result.backoff("the Run or a child changed since it was read")
        except (LoweringError, InvalidError, RequestTooLargeError) as error:
            return await self._end(status, CompletedReason.INVALID_INPUT, str(error))
        except InvalidExecutionError as error:
            return await self._end(status, CompletedReason.INVALID_EXECUTION, str(error))
        except OwnershipConflictError as error:
            return await self._end(status, CompletedReason.OWNERSHIP_CONFLICT, str(error))

    async def _advance(self, status: StatusWriter) -> Result:
        run = status.run
        jobs = await self._children.jobs_of(run)
        if len(jobs) == 1 and _is_recorded(run, jobs[0]):
            verdict = await self._judge(jobs[0])
            if isinstance(verdict, Finished):
                return await self._finish(status, verdict.reason, verdict.message, jobs[0])
        if (recorded := recorded_ending(run)) is not None:
            return await self._end(status, *recorded)
        request = await self._controlling_request(run)
        if request is None:
            message = "no DynamoGraphDeploymentRequest controls this Run; Requests make Runs"
            return await self._end(status, CompletedReason.INVALID_INPUT, message)
        if (newer := _accepted_generation(request)) > _generation_of(run):
            message = f"generation {newer} of Request {request.key} was accepted"
            return await self._end(status, CompletedReason.SUPERSEDED, message)
        if not jobs and not await self._candidate_api_served():
            raise WaitingError(
                CompletedReason.CANDIDATE_API_UNAVAILABLE,
                "DynamoGraphDeploymentCandidate nvidia.com/v1beta2 is not served; apply its CRD",
                _RETRY_SECONDS,
            )
        execution = await self._children.ensure_frozen_execution(status)
        await self._children.ensure_publisher_access(run)
        job = await self._children.ensure_job(status, jobs, execution)
        return await self._reflect(status, job)

    async def _reflect(self, status: StatusWriter, job: Job) -> Result:
        verdict = await self._judge(job)
        match verdict:
            case Finished(reason, message):
                return await self._finish(status, reason, message, job)
            case Broken(reason, message):
                return await self._end(status, reason, message)
            case Running(started=True):
                start_time = job.status.get("startTime")
                await status.waiting(CompletedReason.RUNNING, "", start_time=start_time)
                return Result.done()
            case Running(problem=problem):
                problem = problem or await self._children.warning_about(job)
                self._tell_problem(status.run, problem)
                await status.waiting(CompletedReason.PENDING, problem)
                return Result.requeue(after=_POLL_SECONDS)

    async def _judge(self, job: Job) -> Verdict:
        pod = await self._children.pod_of(job)
        verdict = decide(job, pod)
        if pod is None and isinstance(verdict, Finished):
            # Exit codes decide, and the cache may only not have the Pod.
            verdict = decide(job, await self._children.pod_of(job, live=True))
        return verdict

    async def _controlling_request(
        self, run: DynamoGraphDeploymentRun
    ) -> DynamoGraphDeploymentRequest | None:
        reference = controller_ref(run)
        if reference is None or reference.kind != DynamoGraphDeploymentRequest.resource_type.kind:
            return None
        key = ObjectKey(run.key.namespace, reference.name)
        readers: tuple[Reader, ...] = (self._reader, self._live)
        for reader in readers:
            request = await reader.find(DynamoGraphDeploymentRequest, key)
            if request is not None and request.uid == reference.uid:
                return request
        return None

    async def _end(self, status: StatusWriter, reason: CompletedReason, message: str) -> Result:
        """End a Run whose Job must go first; the recorded reason survives a restart."""
        if not await self._children.execution_remains(status.run):
            return await self._finish(status, reason, message, None)
        await status.ending(reason, message)
        await self._children.delete_jobs(status.run)
        return Result.requeue(after=_POLL_SECONDS)

    async def _finish(
        self, status: StatusWriter, reason: CompletedReason, message: str, job: Job | None
    ) -> Result:
        if (recorded := recorded_ending(status.run)) is not None:
            reason, message = recorded
        await status.ended(reason, message, job)
        self._events.record(
            status.run,
            type="Normal" if reason is CompletedReason.SUCCEEDED else "Warning",
            reason=str(reason),
            action="Complete",
            note=message or "the search is complete",
        )
        return Result.done()

    def _tell_problem(self, run: DynamoGraphDeploymentRun, problem: str) -> None:
        if problem and problem != run.status.execution_message:
            self._events.record(
                run, type="Warning", reason="ExecutionWaiting", action="Execute", note=problem
            )


def _is_recorded(run: DynamoGraphDeploymentRun, job: Job) -> bool:
    return run.status.job_ref is not None and run.status.job_ref.uid == job.uid


def _accepted_generation(request: DynamoGraphDeploymentRequest) -> int:
    accepted = find_condition(request.status.conditions, ConditionType.ACCEPTED)
    if accepted is None or accepted.status != "True":
        return 0
    return accepted.observed_generation or 0


def _generation_of(run: DynamoGraphDeploymentRun) -> int:
    text = run.labels.get(REQUEST_GENERATION_LABEL, "")
    return int(text) if text.isdigit() else 0
