"""Tells nodes that went silent from those that are well, and ends the Pods that were on them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dynamo_operator.local_cluster.cluster_controller import ClusterController
from dynamo_operator.local_cluster.node_health import (
    evicting_taints,
    readiness,
    seconds_left,
    silent_conditions,
    wanted_taints,
)
from dynamo_operator.local_cluster.pod_facts import has_ended, is_ready
from dynamo_operator.local_cluster.pod_status import parse_time, timestamp
from dynamo_operator.runtime.builtin_kinds import Lease, Node, Pod
from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.errors import ConflictError, NotFoundError
from dynamo_operator.runtime.client.reader import Reader
from dynamo_operator.runtime.client.writes import PatchType
from dynamo_operator.runtime.controller import Controller
from dynamo_operator.runtime.enqueue import enqueue_mapped
from dynamo_operator.runtime.event_recorder import EventRecorder
from dynamo_operator.runtime.manager import Manager
from dynamo_operator.runtime.reconciler import Result
from dynamo_operator.runtime.selectors import by_field
from dynamo_operator.runtime.sources import Watch
from informers.clock import Clock
from informers.events import ObjectEvent
from informers.objects import CachedObject, ObjectKey

LEASE_NAMESPACE = "kube-node-lease"

_NAME = "node-controller"
_GRACE_SECONDS = 50.0  # kube-controller-manager's --node-monitor-grace-period
_STARTUP_GRACE_SECONDS = 60.0
_NODE_OF_POD = by_field("spec.nodeName")


class NodeLifecycle(ClusterController):
    """Marks silent nodes, taints them, and deletes the Pods that do not tolerate it."""

    name = _NAME

    def add_to(self, manager: Manager) -> None:
        """Add what this controls to the manager."""
        reconciler = NodeReconciler(
            manager.reader, manager.client, events=manager.events, clock=self._clock
        )
        manager.cache.declare(Pod, indexes=[_NODE_OF_POD])
        manager.add(
            Controller(
                Node,
                watches=[
                    Watch(Lease, enqueue=enqueue_mapped(_node_of_lease)),
                    Watch(Pod, enqueue=enqueue_mapped(_node_of_pod)),
                    Watch(Node, enqueue=reconciler.all_nodes),
                ],
                reconciler=reconciler,
                name=_NAME,
                needs_leadership=False,
            )
        )


@dataclass(slots=True)
class _Sign:
    """The last sign of life of a node: what it wrote, and when that was seen here."""

    node: str
    written: tuple[str, str]
    seen_at: float


class NodeReconciler:
    """Looks after one node.

    Times that the node wrote are never compared with this machine's: only whether they changed.
    """

    def __init__(
        self, reader: Reader, client: Client, *, events: EventRecorder, clock: Clock
    ) -> None:
        self._reader = reader
        self._client = client
        self._events = events
        self._clock = clock
        self._signs: dict[str, _Sign] = {}
        self._tainted_since: dict[str, dict[str, datetime]] = {}  # by UID of the node, and by key

    def all_nodes(self, event: ObjectEvent) -> Iterable[ObjectKey]:
        """Every node: whether one is ready matters for the others' Pods."""
        return [ObjectKey("", sign.node) for sign in self._signs.values()]

    async def reconcile(self, key: ObjectKey) -> Result:
        """Observe the node, its Lease and its Pods; mark, taint and evict."""
        node = await self._reader.find(Node, key)
        if node is None:
            self._forget(key.name)
            return Result.done()
        lease = await self._reader.find(Lease, ObjectKey(LEASE_NAMESPACE, key.name))
        grace = _GRACE_SECONDS if readiness(node) else _STARTUP_GRACE_SECONDS
        left = self._hear(node, lease) + grace - self._clock.monotonic()
        try:
            if left <= 0:
                node = await self._mark_silent(node)
            node = await self._taint(node)
            waits = await self._look_after_pods(node)
        except ConflictError:
            return Result.backoff("the Node changed since it was read")
        if left > 0:
            waits.append(left)
        return Result.requeue(after=min(waits) + 0.001) if waits else Result.done()

    def _forget(self, name: str) -> None:
        for uid in [uid for uid, sign in self._signs.items() if sign.node == name]:
            del self._signs[uid]
            self._tainted_since.pop(uid, None)

    def _hear(self, node: Node, lease: Lease | None) -> float:
        """Take note of a sign of life; returns when the last one was seen."""
        conditions = node.status.get("conditions") or ()
        beats = [c.get("lastHeartbeatTime", "") for c in conditions if c["type"] == "Ready"]
        renewed = "" if lease is None else str(lease.spec.get("renewTime", ""))
        written = (renewed, beats[0] if beats else "")
        known = self._signs.get(node.uid)
        if known is None or known.written != written:
            known = self._signs[node.uid] = _Sign(node.key.name, written, self._clock.monotonic())
        return known.seen_at

    async def _mark_silent(self, node: Node) -> Node:
        if readiness(node) == "Unknown":
            return node
        # The cache may be what is silent.
        live = await self._client.find(Lease, ObjectKey(LEASE_NAMESPACE, node.key.name))
        renewed = "" if live is None else str(live.spec.get("renewTime", ""))
        if renewed != self._signs[node.uid].written[0]:
            raise ConflictError(409, "Conflict", "the node's Lease was renewed")
        status = {**node.status, "conditions": silent_conditions(node, self._clock.now())}
        self._events.record(
            node,
            reason="NodeNotReady",
            action="NodeNotReady",
            note=f"Node {node.key.name} status is now: NodeNotReady",
        )
        changed = node.model_copy(update={"status": status})
        return await self._client.replace(changed, subresource="status")

    async def _taint(self, node: Node) -> Node:
        nodes = await self._reader.list(Node)
        may_evict = any(readiness(each) == "True" for each in nodes)
        taints = wanted_taints(node, self._clock.now(), may_evict=may_evict)
        if taints == list(node.spec.get("taints") or ()):
            return node
        spec = {name: value for name, value in node.spec.items() if name != "taints"}
        if taints:
            spec["taints"] = taints
        return await self._client.replace(node.model_copy(update={"spec": spec}))

    async def _look_after_pods(self, node: Node) -> list[float]:
        """Mark and evict the node's Pods; returns in how many seconds others are due."""
        waits: list[float] = []
        since, now = self._since(node), self._clock.now()
        pods = await self._reader.list(Pod, fields={"spec.nodeName": node.key.name})
        for pod in pods:
            if has_ended(pod):
                continue
            # An agent that says itself that its node is not ready speaks for its Pods, too.
            if readiness(node) == "Unknown" and is_ready(pod):
                await self._mark_unready(pod)
            left = None if pod.is_deleting else seconds_left(pod, node, since, now)
            if left is not None and left > 0:
                waits.append(left)
            elif left is not None:
                await self._evict(pod)
        return waits

    def _since(self, node: Node) -> dict[str, datetime]:
        """Since when each of the taints is there that end Pods."""
        known, now = self._tainted_since.get(node.uid, {}), self._clock.now()
        since = {
            taint["key"]: parse_time(taint.get("timeAdded")) or known.get(taint["key"], now)
            for taint in evicting_taints(node)
        }
        self._tainted_since[node.uid] = since
        return since

    async def _mark_unready(self, pod: Pod) -> None:
        note = "Node is not ready"
        self._events.record(
            pod, type="Warning", reason="NodeNotReady", action="NodeNotReady", note=note
        )
        await self._set_condition(pod, {"type": "Ready", "status": "False"})

    async def _evict(self, pod: Pod) -> None:
        self._events.record(
            pod,
            reason="TaintManagerEviction",
            action="TaintManagerEviction",
            note=f"Marking for deletion Pod {pod.key}",
        )
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
        }
        await self._set_condition(pod, condition)
        try:
            await self._client.delete(Pod, pod.key, uid=pod.uid)
        except (NotFoundError, ConflictError):
            return

    async def _set_condition(self, pod: Pod, condition: dict[str, Any]) -> None:
        # Conditions are merged by type: those of others stay.
        condition = {**condition, "lastTransitionTime": timestamp(self._clock.now())}
        patch = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        try:
            await self._client.patch(
                Pod, pod.key, patch, subresource="status", patch_type=PatchType.STRATEGIC
            )
        except (NotFoundError, ConflictError):
            return


def _node_of_lease(obj: CachedObject) -> Sequence[ObjectKey]:
    return [ObjectKey("", obj.key.name)] if obj.key.namespace == LEASE_NAMESPACE else []


def _node_of_pod(obj: CachedObject) -> Iterable[ObjectKey]:
    for name in _NODE_OF_POD.function(obj):
        if name:
            yield ObjectKey("", name)
