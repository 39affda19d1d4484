"""Finds, makes and deletes what a Run owns, never touching what it does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from dynamo_operator.aisimulate.document import dump_document
from dynamo_operator.api.labels import RUN_UID_LABEL
from dynamo_operator.api.names import input_config_map_name, job_name
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRun
from dynamo_operator.runtime import CachedReader
from dynamo_operator.runtime.apply import matches
from dynamo_operator.runtime.builtin_kinds import ConfigMap, Job, Pod, RoleBinding
from dynamo_operator.runtime.client import Client, Reader
from dynamo_operator.runtime.client.errors import AlreadyExistsError, ConflictError, NotFoundError
from dynamo_operator.runtime.models import KubeModel
from informers.indexers import BY_OWNER_UID
from informers.objects import ObjectKey, ResourceType, controller_ref
from reconcilers.run.errors import InvalidExecutionError, OwnershipConflictError
from reconcilers.run.execution import Execution, digest, read_frozen
from reconcilers.run.freeze import Freezer
from reconcilers.run.job import render_job
from reconcilers.run.manifests import (
    is_owned_by,
    render_config_map,
    render_role,
    render_role_binding,
    render_service_account,
    require_owned,
)
from reconcilers.run.status import is_terminal
from reconcilers.run.status_writer import StatusWriter

Child = TypeVar("Child", bound=KubeModel)

_CORE_EVENT = ResourceType("", "v1", "Event", "events")


class Children:
    """The objects of one Run: ConfigMap, ServiceAccount, Role, RoleBinding, Job; and the Job's Pod.

    Args:
        reader: the manager's cached reader.
        live: a reader without cache. "Not in the cache" is never taken for "gone".
        client: writes; create is the lock, the names are deterministic.
        freezer: decides what a new Run is executed with.
    """

    def __init__(
        self, reader: CachedReader, live: Reader, client: Client, freezer: Freezer
    ) -> None:
        self._reader = reader
        self._live = live
        self._client = client
        self._freezer = freezer

    async def jobs_of(self, run: DynamoGraphDeploymentRun) -> list[Job]:
        """Return the Jobs that the cache knows to be controlled by the Run."""
        return await self._reader.by_index(Job, BY_OWNER_UID, run.uid)

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
        """Return the newest warning event about a Job or its Pod that does not run, or ""."""
        pod = await self.pod_of(job)
        about = pod if pod is not None else job
        events = await self._live.list(
            _CORE_EVENT,
            namespace=job.key.namespace,
            fields={"involvedObject.uid": about.uid, "type": "Warning"},
        )
        if not events:
            return ""
        newest = max(
            events, key=lambda event: event.get("lastTimestamp") or event.get("eventTime") or ""
        )
        return f"{newest.get('reason', '')}: {newest.get('message', '')}"

    async def ensure_frozen_execution(self, status: StatusWriter) -> Execution:
        """Return what the Run is executed with, freezing and recording it the first time.

        Raises:
            InvalidExecutionError: what was recorded is gone, another object, or changed.
            OwnershipConflictError: an object of that name is not what we would have made.
            WaitingError: topology or a pull secret is not to be had yet.
            LoweringError: the spec cannot be lowered.
        """
        run = status.run
        recorded = run.status.execution_snapshot
        if recorded is not None:
            key = ObjectKey(run.key.namespace, recorded.name)
            config_map = await self._find(ConfigMap, key)
            if config_map is None:
                raise InvalidExecutionError(
                    f"ConfigMap {key}, which holds what this Run executes, is gone;"
                    " it is never rebuilt with possibly other settings"
                )
            return read_frozen(config_map, uid=recorded.uid, sha256=recorded.sha256)
        frozen = await self._freezer.freeze(run)
        desired = render_config_map(run, dump_document(frozen.document), frozen.execution)
        config_map = await self._create_frozen(run, desired)
        await status.frozen(config_map, digest(config_map.data), frozen.document)
        return frozen.execution

    async def ensure_publisher_access(self, run: DynamoGraphDeploymentRun) -> None:
        """Make ServiceAccount, Role and RoleBinding as they should be, whatever drifted.

        Raises:
            OwnershipConflictError: one of that name is not the Run's, or binds another role.
        """
        await self._ensure(run, render_service_account(run))
        await self._ensure(run, render_role(run))
        binding = render_role_binding(run)
        found = await self._find(RoleBinding, binding.key)
        if found is not None and found.role_ref != binding.role_ref:
            raise OwnershipConflictError(
                f"RoleBinding {found.key} binds {found.role_ref.get('kind')}"
                f" {found.role_ref.get('name')}; it stays untouched: delete it, then run again"
            )
        await self._ensure(run, binding)

    async def ensure_job(
        self, status: StatusWriter, cached: Sequence[Job], execution: Execution
    ) -> Job:
        """Return the Run's one Job, creating it only when there never was one.

        Raises:
            InvalidExecutionError: there are two, or the recorded one is gone.
            OwnershipConflictError: a Job of that name is not the Run's.
            ConflictError: the Run is not what it was when the pass began.
        """
        run = status.run
        jobs = cached or await self._live_jobs_of(run)
        if len(jobs) > 1:
            names = ", ".join(sorted(job.key.name for job in jobs))
            raise InvalidExecutionError(f"Jobs {names} both belong to this Run; there must be one")
        recorded = run.status.job_ref
        if jobs:
            job = jobs[0]
            if recorded is not None and job.uid != recorded.uid:
                raise InvalidExecutionError(
                    f"Job {job.key.name} has uid {job.uid}, the Run recorded {recorded.uid}"
                )
        elif recorded is not None:
            raise InvalidExecutionError(
                f"Job {recorded.name} is gone; a search is not run twice:"
                " change spec.rerun.reason of the Request for a new Run"
            )
        else:
            job = await self._create_job(status, execution)
        if recorded is None:
            await status.job_created(job)
        return job

    async def execution_remains(self, run: DynamoGraphDeploymentRun) -> bool:
        """Whether a Job of the Run, or a Pod of one, still exists."""
        if await self._live_jobs_of(run):
            return True
        labels = {RUN_UID_LABEL: run.uid}
        pods = await self._live.list(Pod, namespace=run.key.namespace, labels=labels)
        return any(_belongs_to_a_job(pod) for pod in pods)

    async def delete_jobs(self, run: DynamoGraphDeploymentRun) -> None:
        """Delete the Run's Jobs, Pods first."""
        for job in await self._live_jobs_of(run):
            if job.is_deleting:
                continue
            try:
                await self._client.delete(Job, job.key, uid=job.uid, propagation="Foreground")
            except NotFoundError:
                continue

    async def _create_job(self, status: StatusWriter, execution: Execution) -> Job:
        run = status.run
        current = await self._live.find(DynamoGraphDeploymentRun, run.key)
        # Creating a Job cannot be undone: the owner must still be the one that this pass looked at.
        if current is None or current.uid != run.uid or current.is_deleting or is_terminal(current):
            raise ConflictError(
                409, "Conflict", f"Run {run.key} changed while its Job was prepared"
            )
        config_map = input_config_map_name(run.key.name, run.uid)
        desired = render_job(run, execution, config_map)
        try:
            return await self._client.create(desired, owner=run)
        except AlreadyExistsError:
            return await self._owned(run, Job, desired.key)

    async def _create_frozen(self, run: DynamoGraphDeploymentRun, desired: ConfigMap) -> ConfigMap:
        found = await self._live.find(ConfigMap, desired.key)
        if found is None:
            try:
                return await self._client.create(desired, owner=run)
            except AlreadyExistsError:
                found = await self._live.get(ConfigMap, desired.key)
        require_owned("ConfigMap", found, run)
        if found.data != desired.data or not found.immutable or found.binary_data:
            # An owner reference can be forged; the content cannot be both forged and harmless.
            raise OwnershipConflictError(
                f"ConfigMap {found.key} differs from what this Run would be executed with;"
                " it stays untouched: delete it, then run again"
            )
        return found

    async def _ensure(self, run: DynamoGraphDeploymentRun, desired: Child) -> None:
        kind = type(desired)
        found = await self._find(kind, desired.key)
        if found is None:
            try:
                await self._client.create(desired, owner=run)
                return
            except AlreadyExistsError:
                found = await self._live.get(kind, desired.key)
        require_owned(kind.resource_type.kind, found, run)
        if not matches(found, desired):
            desired.metadata.uid = found.uid  # the server refuses the write on any other instance
            await self._client.apply(desired, owner=run, force=True)

    async def _find(self, kind: type[Child], key: ObjectKey) -> Child | None:
        return await self._reader.find(kind, key) or await self._live.find(kind, key)

    async def _owned(
        self, run: DynamoGraphDeploymentRun, kind: type[Child], key: ObjectKey
    ) -> Child:
        found = await self._live.get(kind, key)
        require_owned(kind.resource_type.kind, found, run)
        if found.is_deleting:
            raise ConflictError(
                409, "Conflict", f"{kind.resource_type.kind} {key} is being deleted"
            )
        return found

    async def _live_jobs_of(self, run: DynamoGraphDeploymentRun) -> list[Job]:
        labels = {RUN_UID_LABEL: run.uid}
        listed = await self._live.list(Job, namespace=run.key.namespace, labels=labels)
        named = await self._live.find(
            Job, ObjectKey(run.key.namespace, job_name(run.key.name, run.uid))
        )
        jobs = {job.uid: job for job in (*listed, *([named] if named else []))}
        return [job for job in jobs.values() if is_owned_by(job, run)]


def _belongs_to_a_job(pod: Pod) -> bool:
    reference = controller_ref(pod)
    return reference is not None and reference.kind == Job.resource_type.kind
