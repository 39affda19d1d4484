"""Keeps as many Pods of a ReplicaSet as it asks for, and says how many are ready and available."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from datetime import datetime
from typing import Any

from dynamo_operator.local_cluster.claims import claim
from dynamo_operator.local_cluster.pod_facts import (
    is_active,
    is_terminating,
    selector_matcher,
    selector_text,
)
from dynamo_operator.local_cluster.replica_set_plan import (
    first_to_go,
    lacking,
    next_availability,
    replica_set_status,
)
from dynamo_operator.local_cluster.selections import Selections
from dynamo_operator.runtime.builtin_kinds import Pod, ReplicaSet
from dynamo_operator.runtime.cached_reader import CachedReader
from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.errors import ApiError, ConflictError, NotFoundError
from dynamo_operator.runtime.controller import Controller
from dynamo_operator.runtime.enqueue import enqueue_owner
from dynamo_operator.runtime.event_recorder import EventRecorder, EventType
from dynamo_operator.runtime.manager import Manager
from dynamo_operator.runtime.owner_references import is_controlled_by
from dynamo_operator.runtime.reconciler import Result
from dynamo_operator.runtime.sources import Watch
from informers.clock import Clock
from informers.indexers import BY_OWNER_UID
from informers.objects import ObjectKey, controller_ref

_NAME = "replicaset-controller"
_WORKERS = 4
_LONGEST_NAME_PREFIX = 57


def replica_set_controller(manager: Manager) -> Controller:
    """Return the controller of ReplicaSets, for a manager that has other controllers too."""
    events = EventRecorder(
        manager.client, clock=manager.clock, reporting_controller=_NAME, reporting_instance=_NAME
    )
    manager.add(events)
    client = manager.client.with_field_manager(_NAME)
    reconciler = ReplicaSetReconciler(manager.reader, client, events=events, clock=manager.clock)
    return Controller(
        ReplicaSet,
        watches=[
            Watch(Pod, enqueue=enqueue_owner(ReplicaSet)),
            Watch(Pod, enqueue=reconciler.selections.enqueue_orphans),
        ],
        reconciler=reconciler,
        max_concurrent_reconciles=_WORKERS,
        name=_NAME,
        needs_leadership=False,
    )


class ReplicaSetReconciler:
    """Brings one ReplicaSet on."""

    def __init__(
        self, reader: CachedReader, client: Client, *, events: EventRecorder, clock: Clock
    ) -> None:
        self.selections = Selections()
        self._reader = reader
        self._client = client
        self._events = events
        self._clock = clock

    async def reconcile(self, key: ObjectKey) -> Result:
        """Observe the ReplicaSet and its Pods, create or delete, write the status."""
        replica_set = await self._reader.find(ReplicaSet, key)
        if replica_set is None:
            self.selections.forget(key)
            return Result.done()
        matches = selector_matcher(replica_set.spec.get("selector"))
        self.selections.learn(key, matches)
        try:
            return await self._sync(replica_set, await self._candidates(replica_set))
        except ConflictError:
            return Result.backoff("the ReplicaSet or a Pod changed since it was read")

    async def _candidates(self, replica_set: ReplicaSet) -> list[Pod]:
        """The Pods that the ReplicaSet controls, and those of nobody that it selects."""
        owned = await self._reader.by_index(Pod, BY_OWNER_UID, replica_set.uid)
        selected = await self._reader.list(
            Pod,
            namespace=replica_set.key.namespace,
            labels=selector_text(replica_set.spec.get("selector")),
        )
        return owned + [pod for pod in selected if controller_ref(pod) is None]

    async def _sync(self, replica_set: ReplicaSet, candidates: Sequence[Pod]) -> Result:
        matches = selector_matcher(replica_set.spec.get("selector"))
        active = [pod for pod in candidates if is_active(pod)]
        active = await claim(self._client, replica_set, active, matches)
        terminating = [
            pod
            for pod in candidates
            if is_terminating(pod)
            and is_controlled_by(pod, replica_set)
            and matches(pod.metadata.labels)
        ]
        failure: ApiError | None = None
        now = self._clock.now()
        if not replica_set.is_deleting:
            try:
                await self._balance(replica_set, active, now)
            except ApiError as error:
                failure = error
        text = "" if failure is None else failure.message
        status = replica_set_status(replica_set, active, terminating, now, failure=text)
        if status != replica_set.status:
            changed = replica_set.model_copy(update={"status": status})
            await self._client.replace(changed, subresource="status")
        if failure is not None:
            return Result.backoff(failure.message)
        after = next_availability(replica_set, active, now)
        return Result.done() if after is None else Result.requeue(after=after)

    async def _balance(self, replica_set: ReplicaSet, active: Sequence[Pod], now: datetime) -> None:
        if lacking(replica_set, active) == 0:
            return
        # A Pod too many or too few cannot be taken back: what the cache says is confirmed first.
        live = await self._client.find(ReplicaSet, replica_set.key)
        if live is None or live.uid != replica_set.uid or live.is_deleting:
            return
        active = await self._live_pods(live)
        missing = lacking(live, active)
        if missing > 0:
            await self._create(live, missing)
        elif missing < 0:
            related = await self._related(live)
            for pod in first_to_go(active, -missing, related=related, now=now):
                await self._delete(live, pod)

    async def _live_pods(self, replica_set: ReplicaSet) -> list[Pod]:
        pods = await self._client.list(
            Pod,
            namespace=replica_set.key.namespace,
            labels=selector_text(replica_set.spec.get("selector")),
        )
        return [pod for pod in pods if is_active(pod) and is_controlled_by(pod, replica_set)]

    async def _related(self, replica_set: ReplicaSet) -> list[Pod]:
        """The Pods of every ReplicaSet that the same Deployment controls."""
        owner = controller_ref(replica_set)
        if owner is None:
            return []
        sets = await self._reader.by_index(ReplicaSet, BY_OWNER_UID, owner.uid)
        related: dict[str, Pod] = {}
        for other in sets:
            pods = await self._reader.list(
                Pod,
                namespace=other.key.namespace,
                labels=selector_text(other.spec.get("selector")),
            )
            related |= {pod.uid: pod for pod in pods}
        return list(related.values())

    async def _create(self, replica_set: ReplicaSet, count: int) -> None:
        """Create Pods until one is refused: the others would be, too."""
        for _ in range(count):
            try:
                pod = await self._client.create(pod_of(replica_set), owner=replica_set)
            except ApiError as error:
                if is_namespace_ending(error):
                    return  # nothing can be created there any more
                note = f"Error creating: {error.message}"
                self._record(replica_set, "Warning", "FailedCreate", note)
                raise
            note = f"Created pod: {pod.key.name}"
            self._record(replica_set, "Normal", "SuccessfulCreate", note)

    async def _delete(self, replica_set: ReplicaSet, pod: Pod) -> None:
        try:
            await self._client.delete(Pod, pod.key, uid=pod.uid)
        except (NotFoundError, ConflictError):
            return
        except ApiError as error:
            note = f"Error deleting: {error.message}"
            self._record(replica_set, "Warning", "FailedDelete", note)
            raise
        note = f"Deleted pod: {pod.key.name}"
        self._record(replica_set, "Normal", "SuccessfulDelete", note)

    def _record(self, replica_set: ReplicaSet, type: EventType, reason: str, note: str) -> None:
        self._events.record(replica_set, type=type, reason=reason, action=reason, note=note)


def pod_of(replica_set: ReplicaSet) -> Pod:
    """Return a new Pod from a ReplicaSet's template."""
    template: dict[str, Any] = deepcopy(replica_set.spec.get("template") or {})
    metadata = template.get("metadata") or {}
    kept = {
        name: metadata[name] for name in ("labels", "annotations", "finalizers") if name in metadata
    }
    return Pod.model_validate(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                **kept,
                "generateName": f"{replica_set.key.name[:_LONGEST_NAME_PREFIX]}-",
                "namespace": replica_set.key.namespace,
            },
            "spec": template.get("spec") or {},
        }
    )


def is_namespace_ending(error: ApiError) -> bool:
    """Whether the server refused because the namespace is being deleted."""
    causes = error.details.get("causes") or ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)
