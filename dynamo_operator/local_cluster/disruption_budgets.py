"""Says of each PodDisruptionBudget how many of its Pods may be evicted now.

Source: Kubernetes' disruption controller (pkg/controller/disruption). Of the controllers that Pods
may have, it knows ReplicaSets and Deployments; Pods of others leave a budget that needs to know
their number without any eviction (reason SyncFailed), as there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from dynamo_operator.local_cluster.cluster_controller import ClusterController
from dynamo_operator.local_cluster.deployment_sizes import scaled, size_of
from dynamo_operator.local_cluster.pod_facts import is_ready, selector_matcher, selector_text
from dynamo_operator.local_cluster.pod_status import parse_time, timestamp
from dynamo_operator.local_cluster.selections import Selections
from dynamo_operator.runtime.builtin_kinds import (
    Deployment,
    Pod,
    PodDisruptionBudget,
    ReplicaSet,
)
from dynamo_operator.runtime.cached_reader import CachedReader
from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.errors import ConflictError
from dynamo_operator.runtime.controller import Controller
from dynamo_operator.runtime.manager import Manager
from dynamo_operator.runtime.reconciler import Result
from dynamo_operator.runtime.sources import Watch
from informers.clock import Clock
from informers.events import ObjectEvent
from informers.objects import ObjectKey, controller_ref

_NAME = "disruption-controller"
_EVICTION_TIMEOUT = timedelta(minutes=2)  # an evicted Pod that is there still counts again


class DisruptionBudgets(ClusterController):
    """Keeps the status of PodDisruptionBudgets."""

    name = _NAME

    def add_to(self, manager: Manager) -> None:
        """Add what this controls to the manager."""
        reconciler = BudgetReconciler(manager.reader, manager.client, clock=self._clock)
        manager.add(
            Controller(
                PodDisruptionBudget,
                watches=[
                    Watch(Pod, enqueue=reconciler.selections.enqueue),
                    Watch(ReplicaSet, enqueue=reconciler.all_of_namespace),
                    Watch(Deployment, enqueue=reconciler.all_of_namespace),
                ],
                reconciler=reconciler,
                name=_NAME,
                needs_leadership=False,
            )
        )


class BudgetReconciler:
    """Brings the status of one budget up to date."""

    def __init__(self, reader: CachedReader, client: Client, *, clock: Clock) -> None:
        self.selections = Selections()
        self._reader = reader
        self._client = client
        self._clock = clock

    def all_of_namespace(self, event: ObjectEvent) -> Sequence[ObjectKey]:
        """Every budget of the namespace in which a workload changed its size."""
        return self.selections.of_namespace(event.object.key.namespace)

    async def reconcile(self, key: ObjectKey) -> Result:
        """Observe the budget, its Pods and their controllers; write the status."""
        budget = await self._reader.find(PodDisruptionBudget, key)
        if budget is None:
            self.selections.forget(key)
            return Result.done()
        selector = budget.spec.get("selector")
        # An empty selector is every Pod of the namespace; none is no Pod.
        everything = selector is not None and not selector_text(selector)
        matches = (lambda _: True) if everything else selector_matcher(selector)
        self.selections.learn(key, matches)
        pods = await self._reader.list(Pod, namespace=key.namespace)
        pods = [pod for pod in pods if matches(pod.metadata.labels)]
        scale = await self._scale(pods) if _needs_scale(budget) else _Scale()
        now = self._clock.now()
        status = budget_status(budget, pods, scale, now)
        if status != budget.status:
            changed = budget.model_copy(update={"status": status})
            try:
                await self._client.replace(changed, subresource="status")
            except ConflictError:
                return Result.backoff("the budget changed since it was read")
        if not status.get("disruptedPods"):
            return Result.done()
        times = [parse_time(text) or now for text in status["disruptedPods"].values()]
        left = (min(times) + _EVICTION_TIMEOUT - now).total_seconds()
        return Result.requeue(after=max(left, 0) + 1)

    async def _scale(self, pods: Sequence[Pod]) -> _Scale:
        """How many Pods the controllers of some Pods are to have together."""
        scale = _Scale()
        for pod in pods:
            owner = controller_ref(pod)
            if owner is None:
                continue  # counts for nothing: nobody replaces it
            if owner.kind != "ReplicaSet":
                scale.problem = f"{owner.kind} {owner.name}: its scale is not known"
                continue
            replica_set = await self._reader.find(
                ReplicaSet, ObjectKey(pod.key.namespace, owner.name)
            )
            if replica_set is None or replica_set.uid != owner.uid:
                continue
            above = controller_ref(replica_set)
            deployment = None
            if above is not None and above.kind == "Deployment":
                key = ObjectKey(pod.key.namespace, above.name)
                deployment = await self._reader.find(Deployment, key)
            workload = deployment or replica_set
            scale.sizes[workload.uid] = size_of(workload)
        return scale


@dataclass(slots=True)
class _Scale:
    """The sizes of workloads by UID, or why they are not known."""

    sizes: dict[str, int] = field(default_factory=dict)
    problem: str = ""


def budget_status(
    budget: PodDisruptionBudget, pods: Sequence[Pod], scale: _Scale, now: datetime
) -> dict[str, Any]:
    """Compute a budget's status from its Pods and the size of their workloads."""
    if scale.problem:
        failed = _condition(budget, "False", "SyncFailed", scale.problem, now)
        return {**budget.status, "disruptionsAllowed": 0, "conditions": [failed]}
    evicted = _still_evicted(budget, pods, now)
    healthy = sum(
        is_ready(pod) and not pod.is_deleting and pod.key.name not in evicted for pod in pods
    )
    expected, desired = _expected(budget, pods, sum(scale.sizes.values()))
    allowed = max(healthy - desired, 0) if expected > 0 else 0
    status: dict[str, Any] = {
        "observedGeneration": budget.metadata.generation,
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
    }
    if evicted:
        status["disruptedPods"] = evicted
    says = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
    return {**status, "conditions": [_condition(budget, *says, "", now)]}


def _needs_scale(budget: PodDisruptionBudget) -> bool:
    least = budget.spec.get("minAvailable")
    return budget.spec.get("maxUnavailable") is not None or isinstance(least, str)


def _expected(budget: PodDisruptionBudget, pods: Sequence[Pod], scale: int) -> tuple[int, int]:
    """How many Pods there should be, and how many of them healthy."""
    most_missing, least = budget.spec.get("maxUnavailable"), budget.spec.get("minAvailable")
    if most_missing is not None:
        return scale, max(scale - scaled(most_missing, scale, up=True), 0)
    if isinstance(least, str):
        return scale, scaled(least, scale, up=True)
    return len(pods), int(least or 0)


def _still_evicted(
    budget: PodDisruptionBudget, pods: Sequence[Pod], now: datetime
) -> dict[str, str]:
    """The Pods whose eviction was granted and cannot be seen yet."""
    alive = {pod.key.name for pod in pods if not pod.is_deleting}
    granted: Mapping[str, str] = budget.status.get("disruptedPods") or {}
    return {
        name: text
        for name, text in granted.items()
        if name in alive and (parse_time(text) or now) + _EVICTION_TIMEOUT >= now
    }


def _condition(
    budget: PodDisruptionBudget, status: str, reason: str, message: str, now: datetime
) -> dict[str, Any]:
    since = timestamp(now)
    for known in budget.status.get("conditions") or ():
        if known["type"] == "DisruptionAllowed" and known["status"] == status:
            since = known["lastTransitionTime"]
    return {
        "type": "DisruptionAllowed",
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
        "observedGeneration": budget.metadata.generation,
    }
