"""Runs batch/v1 Jobs: the right number of Pods, each counted once, an end that stays.

Jobs whose completion is `NonIndexed`. An Indexed Job, or one with a Pod failure policy, is left
alone with a Warning Event: better not run than run wrong.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from dynamo_operator.local_cluster.cluster_controller import ClusterController
from dynamo_operator.local_cluster.job_plan import (
    TRACKING_FINALIZER,
    JobPlan,
    Removal,
    belongs_to,
    finished_condition,
    is_tracked,
    plan_job,
)
from dynamo_operator.runtime.builtin_kinds import Job, Pod
from dynamo_operator.runtime.cached_reader import CachedReader
from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.errors import ApiError, ConflictError, NotFoundError
from dynamo_operator.runtime.controller import Controller
from dynamo_operator.runtime.enqueue import by_label, enqueue_owner
from dynamo_operator.runtime.event_recorder import EventRecorder, EventType
from dynamo_operator.runtime.finalizers import remove_finalizer
from dynamo_operator.runtime.manager import Manager
from dynamo_operator.runtime.reconciler import Result
from dynamo_operator.runtime.sources import Watch
from informers.clock import Clock
from informers.indexers import BY_OWNER_UID
from informers.indexers import by_label as index_by_label
from informers.objects import ObjectKey, controller_ref

_JOB_NAME = "batch.kubernetes.io/job-name"
_CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
_MANAGED_BY = "kubernetes.io/job-controller"
_WORKERS = 4


class JobController(ClusterController):
    """Makes Jobs run."""

    name = "job-controller"

    def add_to(self, manager: Manager) -> None:
        """Add what this controls to the manager."""
        manager.cache.declare(Pod, indexes=[index_by_label(_JOB_NAME)])
        manager.add(
            Controller(
                Job,
                watches=[
                    Watch(Pod, enqueue=enqueue_owner(Job)),
                    # Pods that have lost their Job, and would be held by the finalizer for ever.
                    Watch(Pod, enqueue=by_label(_JOB_NAME)),
                ],
                reconciler=JobReconciler(
                    manager.reader, manager.client, events=manager.events, clock=self._clock
                ),
                max_concurrent_reconciles=_WORKERS,
                name="job-controller",
                needs_leadership=False,
            )
        )


class JobReconciler:
    """Brings one Job on."""

    def __init__(
        self, reader: CachedReader, client: Client, *, events: EventRecorder, clock: Clock
    ) -> None:
        self._reader = reader
        self._client = client
        self._events = events
        self._clock = clock

    async def reconcile(self, key: ObjectKey) -> Result:
        """Observe the Job and its Pods, plan, act."""
        job = await self._reader.find(Job, key)
        await self._release_orphans(key, job)
        if job is None:
            return Result.done()
        if job.spec.get("managedBy", _MANAGED_BY) != _MANAGED_BY:
            return Result.done()
        if (unsupported := _unsupported(job)) and finished_condition(job.status) is None:
            self._record(job, "Warning", "Unsupported", unsupported)
            return Result.done()
        pods = await self._reader.by_index(Pod, BY_OWNER_UID, job.uid)
        plan = plan_job(job, pods, self._clock.now())
        try:
            await self._act(job, plan)
        except ConflictError:
            return Result.backoff("the Job changed since it was read")
        if plan.requeue_after is not None:
            return Result.requeue(after=max(plan.requeue_after, 0.001))
        return Result.done()

    async def _act(self, job: Job, plan: JobPlan) -> None:
        if plan.expired:
            await self._delete_expired(job)
            return
        if plan.status != job.status:
            changed = job.model_copy(update={"status": plan.status})
            await self._client.replace(changed, subresource="status")
        for type_, reason, note in plan.events:
            self._record(job, "Warning" if type_ == "Warning" else "Normal", reason, note)
        for pod in plan.release:
            await self._release(pod)
        for removal in plan.remove:
            await self._remove(job, removal)
        if plan.create:
            await self._create(job, plan.create)

    async def _create(self, job: Job, count: int) -> None:
        # One Pod too many cannot be taken back: what the cache says is confirmed first.
        live = await self._client.list(
            Pod, namespace=job.key.namespace, labels={_CONTROLLER_UID: job.uid}
        )
        owned = [pod for pod in live if belongs_to(pod, job)]
        count = min(count, plan_job(job, owned, self._clock.now()).create)
        for _ in range(count):
            try:
                pod = await self._client.create(pod_of(job), owner=job)
            except ApiError as error:
                self._record(job, "Warning", "FailedCreate", f"Error creating: {error.message}")
                raise
            self._record(job, "Normal", "SuccessfulCreate", f"Created pod: {pod.key.name}")

    async def _remove(self, job: Job, removal: Removal) -> None:
        pod = removal.pod
        if not removal.counts:
            await self._release(pod)
        try:
            await self._client.delete(Pod, pod.key, uid=pod.uid)
        except (NotFoundError, ConflictError):
            return
        self._record(job, "Normal", "SuccessfulDelete", f"Deleted pod: {pod.key.name}")

    async def _release(self, pod: Pod) -> None:
        if is_tracked(pod):
            await remove_finalizer(self._client, pod, TRACKING_FINALIZER)

    async def _release_orphans(self, key: ObjectKey, job: Job | None) -> None:
        """Let go of Pods that were made for a Job of this name which is there no more."""
        pods = await self._reader.by_index(Pod, index_by_label(_JOB_NAME), key.name)
        for pod in pods:
            owner = controller_ref(pod)
            is_ours = job is not None and owner is not None and owner.uid == job.uid
            if pod.key.namespace != key.namespace or not is_tracked(pod) or is_ours:
                continue
            if owner is None or await self._is_gone(key, owner.uid):
                await self._release(pod)

    async def _is_gone(self, key: ObjectKey, uid: str) -> bool:
        live = await self._client.find(Job, key)
        return live is None or live.uid != uid

    async def _delete_expired(self, job: Job) -> None:
        live = await self._client.find(Job, job.key)
        if live is None or live.uid != job.uid or finished_condition(live.status) is None:
            return
        if live.spec.get("ttlSecondsAfterFinished") != job.spec.get("ttlSecondsAfterFinished"):
            return
        await self._client.delete(
            Job,
            live.key,
            uid=live.uid,
            resource_version=live.resource_version,
            propagation="Foreground",
        )

    def _record(self, job: Job, type: EventType, reason: str, note: str) -> None:
        self._events.record(job, type=type, reason=reason, action=reason, note=note)


def pod_of(job: Job) -> Pod:
    """Return a new Pod from a Job's template."""
    template: dict[str, Any] = deepcopy(job.spec.get("template") or {})
    metadata = template.get("metadata") or {}
    names = {
        _CONTROLLER_UID: job.uid,
        "controller-uid": job.uid,
        _JOB_NAME: job.key.name,
        "job-name": job.key.name,
    }
    return Pod.model_validate(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "generateName": f"{job.key.name[:57]}-",
                "namespace": job.key.namespace,
                "labels": {**(metadata.get("labels") or {}), **names},
                "annotations": metadata.get("annotations") or {},
                "finalizers": [*(metadata.get("finalizers") or ()), TRACKING_FINALIZER],
            },
            "spec": template.get("spec") or {},
        }
    )


def _unsupported(job: Job) -> str:
    if job.spec.get("completionMode", "NonIndexed") != "NonIndexed":
        return f"completionMode {job.spec['completionMode']}: this Job controller runs NonIndexed"
    if job.spec.get("podFailurePolicy"):
        return "podFailurePolicy: this Job controller has none"
    return ""
