"""Rolls Deployments out: one ReplicaSet for each template, the old ones replaced by the new one."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from dynamo_operator.local_cluster.claims import claim
from dynamo_operator.local_cluster.cluster_controller import ClusterController
from dynamo_operator.local_cluster.deployment_plan import DeploymentPlan, plan_deployment
from dynamo_operator.local_cluster.deployment_revisions import REVISION, find_new
from dynamo_operator.local_cluster.deployment_sizes import is_rolling
from dynamo_operator.local_cluster.deployment_status import StatusDraft
from dynamo_operator.local_cluster.pod_facts import has_ended, selector_matcher
from dynamo_operator.local_cluster.replica_set_controller import (
    is_namespace_ending,
    replica_set_controller,
)
from dynamo_operator.local_cluster.selections import Selections
from dynamo_operator.runtime.builtin_kinds import Deployment, Pod, ReplicaSet
from dynamo_operator.runtime.cached_reader import CachedReader
from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    NotFoundError,
)
from dynamo_operator.runtime.controller import Controller
from dynamo_operator.runtime.enqueue import enqueue_owner
from dynamo_operator.runtime.event_recorder import EventRecorder
from dynamo_operator.runtime.manager import Manager
from dynamo_operator.runtime.owner_references import is_controlled_by
from dynamo_operator.runtime.reconciler import Result
from dynamo_operator.runtime.sources import Watch
from informers.clock import Clock
from informers.indexers import BY_OWNER_UID
from informers.objects import ObjectKey, controller_ref

_NAME = "deployment-controller"
_WORKERS = 4


class DeploymentController(ClusterController):
    """Runs Deployments, and the ReplicaSets that they are made of."""

    name = _NAME

    def add_to(self, manager: Manager) -> None:
        """Add what this controls to the manager."""
        reconciler = DeploymentReconciler(
            manager.reader, manager.client, events=manager.events, clock=self._clock
        )
        manager.add(replica_set_controller(manager))
        manager.add(
            Controller(
                Deployment,
                watches=[
                    Watch(ReplicaSet, enqueue=enqueue_owner(Deployment)),
                    Watch(ReplicaSet, enqueue=reconciler.selections.enqueue_orphans),
                ],
                reconciler=reconciler,
                max_concurrent_reconciles=_WORKERS,
                name=_NAME,
                needs_leadership=False,
            )
        )


class DeploymentReconciler:
    """Brings one Deployment on."""

    def __init__(
        self, reader: CachedReader, client: Client, *, events: EventRecorder, clock: Clock
    ) -> None:
        self.selections = Selections()
        self._reader = reader
        self._client = client
        self._events = events
        self._clock = clock

    async def reconcile(self, key: ObjectKey) -> Result:
        """Observe the Deployment and its ReplicaSets, plan, act."""
        deployment = await self._reader.find(Deployment, key)
        if deployment is None:
            self.selections.forget(key)
            return Result.done()
        matches = selector_matcher(deployment.spec.get("selector"))
        self.selections.learn(key, matches)
        candidates = [
            replica_set
            for replica_set in await self._reader.list(ReplicaSet, namespace=key.namespace)
            if controller_ref(replica_set) is None or is_controlled_by(replica_set, deployment)
        ]
        try:
            replica_sets = await claim(self._client, deployment, candidates, matches)
            plan = plan_deployment(
                deployment,
                replica_sets,
                pods_run=await self._pods_run(deployment, replica_sets),
                now=self._clock.now(),
            )
            return await self._act(deployment, plan)
        except ConflictError:
            return Result.backoff("the Deployment or a ReplicaSet changed since it was read")

    async def _pods_run(self, deployment: Deployment, replica_sets: Sequence[ReplicaSet]) -> bool:
        """Whether old Pods of a Deployment that is recreated may still run."""
        if is_rolling(deployment):
            return False
        new = find_new(deployment, replica_sets)
        for replica_set in replica_sets:
            if replica_set is not new:
                pods = await self._reader.by_index(Pod, BY_OWNER_UID, replica_set.uid)
                if not all(map(has_ended, pods)):
                    return True
        return False

    async def _act(self, deployment: Deployment, plan: DeploymentPlan) -> Result:
        if plan.create is not None and not await self._create(deployment, plan.create):
            return Result.backoff("another ReplicaSet has the name that the new one was to have")
        for replica_set in plan.replace:
            await self._client.replace(replica_set)
        for note in plan.events:
            self._events.record(
                deployment, reason="ScalingReplicaSet", action="ScalingReplicaSet", note=note
            )
        for replica_set in plan.delete:
            await self._delete(replica_set)
        await self._write(deployment, plan.status, plan.revision)
        if plan.requeue_after is not None:
            return Result.requeue(after=plan.requeue_after)
        return Result.done()

    async def _create(self, deployment: Deployment, body: dict[str, Any]) -> bool:
        """Create the new ReplicaSet; returns False when its name is another's.

        Then the Deployment's next try is under another name.
        """
        try:
            await self._client.create(body, kind=ReplicaSet.resource_type)
        except AlreadyExistsError:
            key = ObjectKey(deployment.key.namespace, body["metadata"]["name"])
            live = await self._client.find(ReplicaSet, key)
            if live is None:
                raise
            if is_controlled_by(live, deployment) and find_new(deployment, [live]) is not None:
                raise ConflictError(409, "Conflict", "the ReplicaSet is not in the cache") from None
            collisions = int(deployment.status.get("collisionCount", 0)) + 1
            status = {**deployment.status, "collisionCount": collisions}
            await self._write(deployment, status, None)
            return False
        except ApiError as error:
            if not is_namespace_ending(error):
                await self._say_create_failed(deployment, body["metadata"]["name"], error)
            raise
        return True

    async def _say_create_failed(self, deployment: Deployment, name: str, error: ApiError) -> None:
        note = f'Failed to create new replica set "{name}": {error.message}'
        reason = "ReplicaSetCreateError"
        self._events.record(deployment, type="Warning", reason=reason, action=reason, note=note)
        draft = StatusDraft(deployment, self._clock.now())
        draft.note_create_failed(note)
        await self._write(deployment, draft.as_read(), None)

    async def _delete(self, replica_set: ReplicaSet) -> None:
        """Delete a ReplicaSet as it was read: one that has got Pods since then stays."""
        try:
            await self._client.delete(
                ReplicaSet,
                replica_set.key,
                uid=replica_set.uid,
                resource_version=replica_set.resource_version,
                propagation="Background",
            )
        except NotFoundError:
            return

    async def _write(
        self, deployment: Deployment, status: dict[str, Any], revision: str | None
    ) -> None:
        """Write the status, and with it the revision's annotation: it is part of no generation."""
        if status == deployment.status and revision is None:
            return
        body = deepcopy(deployment.to_dict())
        body["status"] = status
        if revision is not None:
            body["metadata"].setdefault("annotations", {})[REVISION] = revision
        await self._client.replace(Deployment.model_validate(body), subresource="status")
