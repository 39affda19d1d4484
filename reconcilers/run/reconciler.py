"""The level-triggered pass over one Run: observe, decide, act; each step is safe to repeat."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from dynamo_operator.api.conditions import CompletedReason, ConditionType
from dynamo_operator.api.v1beta2 import (
    DynamoGraphDeploymentRequest,
    DynamoGraphDeploymentRun,
    RunPhase,
)
from dynamo_operator.runtime import CachedReader, EventRecorder, Result
from dynamo_operator.runtime.builtin_kinds import Job
from dynamo_operator.runtime.client import Client, Reader
from dynamo_operator.runtime.client.errors import ConflictError, ForbiddenError
from dynamo_operator.runtime.conditions import find_condition
from informers.clock import Clock
from informers.objects import ObjectKey, controller_ref
from reconcilers.run.children import Children
from reconcilers.run.errors import EndingError, WaitingError
from reconcilers.run.job_control import JobControl
from reconcilers.run.outcome import Broken, Finished, Running, Verdict, decide, is_pod_over
from reconcilers.run.status import recorded_ending
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
        children: makes and mends what a Run owns beside its Job.
        jobs: makes, finds and deletes the Run's Job.
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
        jobs: JobControl,
        candidate_api_served: Callable[[], Awaitable[bool]],
    ) -> None:
        self._reader = reader
        self._live = live
        self._client = client
        self._events = events
        self._clock = clock
        self._children = children
        self._jobs = jobs
        self._candidate_api_served = candidate_api_served

    async def reconcile(self, key: ObjectKey) -> Result:
        """Advance the Run of that key by as much as can be done now."""
        run = await self._reader.find(DynamoGraphDeploymentRun, key)
        await self._jobs.let_go(key, run)
        if run is None or run.is_deleting or run.is_terminal:
            return Result.done()
        status = StatusWriter(run, self._client, self._clock)
        try:
            return await self._advance_or_say_why_not(status)
        except ConflictError:
            return Result.backoff("the Run or a child changed since it was read")

    async def _advance_or_say_why_not(self, status: StatusWriter) -> Result:
        try:
            return await self._advance(status)
        except EndingError as end:
            return await self._end(status, end.reason, str(end))
        except WaitingError as wait:
            await self._tell_waiting(status, wait.reason, wait.message)
            return Result.requeue(after=wait.retry_seconds)
        except ForbiddenError as error:
            # A quota, or a right that is missing for now: say so, and look again slowly.
            await self._tell_waiting(status, CompletedReason.PENDING, error.message)
            return Result.requeue(after=_RETRY_SECONDS)

    async def _advance(self, status: StatusWriter) -> Result:
        run = status.run
        if (recorded := recorded_ending(run)) is not None:
            return await self._end(status, *recorded)
        job = await self._jobs.current(run)
        if job is not None:
            verdict = await self._judge(job)
            if isinstance(verdict, Finished):
                return await self._finish(status, verdict.reason, verdict.message, job)
        request = await self._controlling_request(run)
        if request is None:
            message = "no DynamoGraphDeploymentRequest controls this Run; Requests make Runs"
            return await self._end(status, CompletedReason.INVALID_INPUT, message)
        if request.is_deleting and run.status.job_ref is None:
            return Result.done()  # the Run is about to be deleted with it
        if (newer := _accepted_generation(request)) > run.request_generation:
            message = f"generation {newer} of Request {request.key} was accepted"
            return await self._end(status, CompletedReason.SUPERSEDED, message)
        if run.status.job_ref is None:
            await self._require_candidate_api()
        execution = await self._children.ensure_frozen_execution(status)
        await self._children.ensure_publisher_access(run)
        job = await self._jobs.ensure(status, execution)
        return await self._reflect(status, job)

    async def _reflect(self, status: StatusWriter, job: Job) -> Result:
        match await self._judge(job):
            case Finished(reason, message):
                return await self._finish(status, reason, message, job)
            case Broken(reason, message):
                return await self._end(status, reason, message)
            case Running(started=True):
                await self._run_on(status, job)
                return Result.done()
            case Running(problem=problem) if problem:
                await self._tell_waiting(status, CompletedReason.PENDING, problem)
                return Result.done()
            case Running():
                # Only events may say why; they are not watched.
                problem = await self._jobs.warning_about(job)
                await self._tell_waiting(status, CompletedReason.PENDING, problem)
                return Result.requeue(after=_POLL_SECONDS)

    async def _run_on(self, status: StatusWriter, job: Job) -> None:
        was_running = status.run.status.phase == RunPhase.RUNNING
        start_time = job.status.get("startTime")
        await status.waiting(CompletedReason.RUNNING, "", start_time=start_time)
        if not was_running:
            note = f"the search runs in Job {job.key.name}"
            self._events.record(status.run, reason="Running", action="Execute", note=note)

    async def _judge(self, job: Job) -> Verdict:
        pod = await self._jobs.pod_of(job)
        verdict = decide(job, pod)
        if isinstance(verdict, Finished) and not is_pod_over(pod):
            # Exit codes decide, and the cache may not have them yet.
            verdict = decide(job, await self._jobs.pod_of(job, live=True))
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

    async def _require_candidate_api(self) -> None:
        if not await self._candidate_api_served():
            raise WaitingError(
                CompletedReason.CANDIDATE_API_UNAVAILABLE,
                "DynamoGraphDeploymentCandidate nvidia.com/v1beta2 is not served; apply its CRD",
                _RETRY_SECONDS,
            )

    async def _tell_waiting(
        self, status: StatusWriter, reason: CompletedReason, problem: str
    ) -> None:
        run = status.run
        if problem and problem != run.status.execution_message:
            self._events.record(
                run, type="Warning", reason="ExecutionWaiting", action="Execute", note=problem
            )
        await status.waiting(reason, problem)

    async def _end(self, status: StatusWriter, reason: CompletedReason, message: str) -> Result:
        """End a Run whose Job must go first; the recorded reason survives a restart."""
        if not await self._jobs.remains(status.run):
            return await self._finish(status, reason, message, None)
        await status.ending(reason, message)
        await self._jobs.delete(status.run)
        return Result.requeue(after=_POLL_SECONDS)

    async def _finish(
        self, status: StatusWriter, reason: CompletedReason, message: str, job: Job | None
    ) -> Result:
        await status.ended(reason, message, job)
        self._events.record(
            status.run,
            type="Normal" if reason is CompletedReason.SUCCEEDED else "Warning",
            reason=str(reason),
            action="Complete",
            note=message,
        )
        return Result.done()


def _accepted_generation(request: DynamoGraphDeploymentRequest) -> int:
    accepted = find_condition(request.status.conditions, ConditionType.ACCEPTED)
    if accepted is None or accepted.status != "True":
        return 0
    return accepted.observed_generation or 0
