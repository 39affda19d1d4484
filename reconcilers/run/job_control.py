"""The one Job of a Run: found, created once, looked at, deleted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dynamo_operator.api.labels import RUN_UID_LABEL
from dynamo_operator.api.names import input_config_map_name, job_name
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRun
from dynamo_operator.runtime import CachedReader
from dynamo_operator.runtime.builtin_kinds import Job, Pod
from dynamo_operator.runtime.client import Client, Reader
from dynamo_operator.runtime.client.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from dynamo_operator.runtime.finalizers import remove_finalizer
from informers.indexers import BY_OWNER_UID, Index
from informers.objects import KubeObject, ObjectKey, ResourceType, controller_ref
from reconcilers.run.children import create_child
from reconcilers.run.errors import InvalidExecutionError, OwnershipConflictError
from reconcilers.run.execution import Execution
from reconcilers.run.job import UNRECORDED_FINALIZER, render_job
from reconcilers.run.manifests import is_owned_by, require_owned
from reconcilers.run.status_writer import StatusWriter


def _owner_of_leaving(job: KubeObject) -> tuple[str, ...]:
    owner = controller_ref(job) if job.is_deleting else None
    return () if owner is None else (str(ObjectKey(job.key.namespace, owner.name)),)


LEAVING_JOBS = Index("leaving", _owner_of_leaving)
"""Jobs that are being deleted, by the key of their owner, which may be gone already."""

_CORE_EVENT = ResourceType("", "v1", "Event", "events")


class JobControl:
    """The Job of a Run, and that Job's Pod.

    A Job is the Run's by its controller's UID, or because the Run recorded it. What the cache has
    is enough to go on with; whatever cannot be undone is decided on a live read.

    Args:
        reader: the manager's cached reader.
        live: a reader without cache.
        client: writes; the Job's name is deterministic, so its create is the lock.
    """

    def __init__(self, reader: CachedReader, live: Reader, client: Client) -> None:
        self._reader = reader
        self._live = live
        self._client = client

    async def current(self, run: DynamoGraphDeploymentRun) -> Job | None:
        """Return the Run's one Job if the cache has it, and no other of the Run's."""
        jobs = await self._cached(run)
        return jobs[0] if len(jobs) == 1 and _is_the_one(run, jobs[0]) else None

    async def ensure(self, status: StatusWriter, execution: Execution) -> Job:
        """Return the Run's one Job, creating it only when there never was one.

        Raises:
            InvalidExecutionError: there are two, or the recorded one is gone.
            OwnershipConflictError: a Job of that name is not the Run's, or was given to another.
            InvalidInputError: the server refuses the Job for good.
            ConflictError: the Run is not what it was when the pass began.
        """
        run = status.run
        job = await self.current(run)
        if job is None:
            job = _only(run, await self._confirmed(run))
        if job is None:
            job = await self._create(run, execution)
        elif not is_owned_by(job, run):
            job = await self._take_back(run, job)
        if run.status.job_ref is None:
            await status.job_created(job)
        await self._let_go(job)
        return job

    async def let_go(self, key: ObjectKey, run: DynamoGraphDeploymentRun | None) -> None:
        """Hold no Job of a Run that will not make one any more, nor of an earlier one of its name.

        Args:
            key: of the Run.
            run: as the cache has it; None when the cache has none.
        """
        jobs = await self._cached(run) if run is not None and _is_over(run) else []
        for job in jobs:
            await self._let_go(job)
        leaving = await self._reader.by_index(Job, LEAVING_JOBS.name, str(key))
        others = [job for job in leaving if run is None or not is_owned_by(job, run)]
        latest = await self._live.find(DynamoGraphDeploymentRun, key) if others else None
        for job in others:
            if latest is None or _is_over(latest) or not is_owned_by(job, latest):
                await self._let_go(job)

    async def pod_of(self, job: Job, *, live: bool = False) -> Pod | None:
        """Return the newest Pod that the Job controls, or None."""
        if live:
            labels = {RUN_UID_LABEL: job.labels.get(RUN_UID_LABEL, "")}
            pods = await self._live.list(Pod, namespace=job.key.namespace, labels=labels)
        else:
            pods = await self._reader.by_index(Pod, BY_OWNER_UID, job.uid)
        owned = [pod for pod in pods if is_owned_by(pod, job)]
        return max(owned, key=lambda pod: pod.metadata.creation_timestamp or "", default=None)

    async def warning_about(self, job: Job) -> str:
        """Return the newest warning event about a Job's Pod, or about a Job without Pod, or ""."""
        pod = await self.pod_of(job)
        about = pod if pod is not None else job
        events = await self._live.list(
            _CORE_EVENT,
            namespace=job.key.namespace,
            fields={"involvedObject.uid": about.uid, "type": "Warning"},
        )
        if pod is not None and pod.spec.get("nodeName"):
            events = [event for event in events if event.get("reason") != "FailedScheduling"]
        newest = max(events, key=_last_seen, default=None)
        return f"{newest.get('reason', '')}: {newest.get('message', '')}" if newest else ""

    async def remains(self, run: DynamoGraphDeploymentRun) -> bool:
        """Whether a Job of the Run, or a Pod of its Job, still exists."""
        if await self._confirmed(run):
            return True
        labels = {RUN_UID_LABEL: run.uid}
        pods = await self._live.list(Pod, namespace=run.key.namespace, labels=labels)
        return any(_belongs_to_job_of(run, pod) for pod in pods)

    async def delete(self, run: DynamoGraphDeploymentRun) -> None:
        """Delete the Run's Jobs, their Pods first."""
        for job in await self._confirmed(run):
            await self._let_go(job)
            if job.is_deleting:
                continue
            try:
                await self._client.delete(Job, job.key, uid=job.uid, propagation="Foreground")
            except NotFoundError:
                continue

    async def _create(self, run: DynamoGraphDeploymentRun, execution: Execution) -> Job:
        latest = await self._live.find(DynamoGraphDeploymentRun, run.key)
        # Creating a Job cannot be undone: the Run must still be the one that this pass looked at.
        if latest is None or latest.resource_version != run.resource_version:
            raise ConflictError(
                409, "Conflict", f"Run {run.key} changed while its Job was prepared"
            )
        config_map = input_config_map_name(run.key.name, run.uid)
        desired = render_job(run, execution, config_map)
        try:
            return await create_child(self._client, desired, run)
        except AlreadyExistsError:
            found = await self._live.get(Job, desired.key)
            require_owned("Job", found, run)
            return found

    async def _take_back(self, run: DynamoGraphDeploymentRun, job: Job) -> Job:
        """Make a Job the Run's again: else nobody hears of it, and it outlives its Run."""
        desired = Job.new(job.key.name, namespace=job.key.namespace)
        try:
            return await self._client.apply(desired, owner=run, uid=job.uid)
        except InvalidError:
            raise OwnershipConflictError(
                f"Job {job.key.name} of this Run was given to another controller"
            ) from None

    async def _let_go(self, job: Job) -> None:
        await remove_finalizer(self._client, job, UNRECORDED_FINALIZER)

    async def _cached(self, run: DynamoGraphDeploymentRun) -> list[Job]:
        return await self._reader.by_index(Job, BY_OWNER_UID, run.uid)

    async def _confirmed(self, run: DynamoGraphDeploymentRun) -> list[Job]:
        """Return the Run's Jobs as the API server has them now, by label, name, or known before."""
        namespace = run.key.namespace
        listed = await self._live.list(Job, namespace=namespace, labels={RUN_UID_LABEL: run.uid})
        found = {job.key: job for job in listed}
        expected = ObjectKey(namespace, job_name(run.key.name, run.uid))
        for key in sorted({expected, *(job.key for job in await self._cached(run))} - found.keys()):
            job = await self._live.find(Job, key)
            if job is not None:
                found[key] = job
        return [job for job in found.values() if is_owned_by(job, run) or _is_recorded(run, job)]


def _only(run: DynamoGraphDeploymentRun, jobs: Sequence[Job]) -> Job | None:
    """Return the Run's one Job among all that it owns, None when there never was one."""
    if len(jobs) > 1:
        names = ", ".join(sorted(job.key.name for job in jobs))
        raise InvalidExecutionError(f"Jobs {names} all belong to this Run; there must be one")
    recorded = run.status.job_ref
    if jobs and not _is_the_one(run, jobs[0]):
        expected = f"uid {recorded.uid}" if recorded else job_name(run.key.name, run.uid)
        found = f"Job {jobs[0].key.name} (uid {jobs[0].uid})"
        raise InvalidExecutionError(f"{found} belongs to this Run, whose Job is {expected}")
    if recorded is not None and not jobs:
        raise InvalidExecutionError(
            f"Job {recorded.name} is gone; a search is not run twice:"
            " change spec.rerun.reason of the Request for a new Run"
        )
    return jobs[0] if jobs else None


def _is_over(run: DynamoGraphDeploymentRun) -> bool:
    return run.is_deleting or run.is_terminal


def _is_recorded(run: DynamoGraphDeploymentRun, job: Job) -> bool:
    return run.status.job_ref is not None and run.status.job_ref.uid == job.uid


def _is_the_one(run: DynamoGraphDeploymentRun, job: Job) -> bool:
    """Whether a Job that the Run owns is the one it recorded, or could only just have created."""
    if run.status.job_ref is not None:
        return _is_recorded(run, job)
    return job.key.name == job_name(run.key.name, run.uid)


def _belongs_to_job_of(run: DynamoGraphDeploymentRun, pod: Pod) -> bool:
    reference = controller_ref(pod)
    return (
        reference is not None
        and reference.kind == Job.resource_type.kind
        and reference.name == job_name(run.key.name, run.uid)
    )


def _last_seen(event: dict[str, Any]) -> str:
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return max(time or "" for time in times)
