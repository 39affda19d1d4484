"""Binds Pending Pods to nodes that they fit on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

from dynamo_operator.local_cluster.cluster_controller import ClusterController
from dynamo_operator.local_cluster.node_fit import explain, pod_requests, unfit_reasons
from dynamo_operator.local_cluster.pod_status import timestamp
from dynamo_operator.runtime.builtin_kinds import Node, Pod
from dynamo_operator.runtime.client import codec
from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.errors import ConflictError, NotFoundError
from dynamo_operator.runtime.client.reader import Reader
from dynamo_operator.runtime.controller import Controller
from dynamo_operator.runtime.event_recorder import EventRecorder
from dynamo_operator.runtime.manager import Manager
from dynamo_operator.runtime.reconciler import Result
from dynamo_operator.runtime.sources import Watch
from informers.clock import Clock
from informers.events import ObjectEvent
from informers.objects import ObjectKey

_NAME = "default-scheduler"


class Scheduler(ClusterController):
    """Gives every Pod a node."""

    name = _NAME
    field_manager = "scheduler"

    def add_to(self, manager: Manager) -> None:
        """Add what this controls to the manager."""
        reconciler = PodScheduler(
            manager.reader, manager.client, events=manager.events, clock=self._clock
        )
        manager.add(
            Controller(
                Pod,
                # Whatever changes on a node or with another Pod may make room.
                watches=[Watch(kind, enqueue=reconciler.waiting) for kind in (Node, Pod)],
                reconciler=reconciler,
                name="scheduler",
                needs_leadership=False,
            )
        )


class PodScheduler:
    """Schedules one Pod at a time."""

    def __init__(
        self, reader: Reader, client: Client, *, events: EventRecorder, clock: Clock
    ) -> None:
        self._reader = reader
        self._client = client
        self._events = events
        self._clock = clock
        self._waiting: set[ObjectKey] = set()
        self._assumed: dict[str, str] = {}  # node by Pod UID, until the cache shows it

    def waiting(self, event: ObjectEvent) -> Iterable[ObjectKey]:
        """The Pods that found no node."""
        return tuple(self._waiting)

    async def reconcile(self, key: ObjectKey) -> Result:
        """Bind the Pod, or say why not."""
        pod = await self._reader.find(Pod, key)
        if pod is None or not _is_to_schedule(pod):
            self._waiting.discard(key)
            return Result.done()
        nodes = await self._reader.list(Node)
        used = await self._used()
        reasons = []
        for node in sorted(nodes, key=lambda node: len(used.get(node.key.name, ()))):
            why_not = unfit_reasons(pod, node, used.get(node.key.name, ()))
            if not why_not:
                self._waiting.discard(key)
                await self._bind(pod, node)
                return Result.done()
            reasons.append(why_not)
        self._waiting.add(key)
        await self._say_unschedulable(pod, explain(reasons))
        return Result.done()

    async def _used(self) -> dict[str, list[Mapping[str, Decimal]]]:
        """Requests of the Pods on each node, those just bound included."""
        used: dict[str, list[Mapping[str, Decimal]]] = {}
        assumed: dict[str, str] = {}
        for pod in await self._reader.list(Pod):
            node = pod.spec.get("nodeName") or self._assumed.get(pod.uid)
            if node is None or pod.status.get("phase") in ("Succeeded", "Failed"):
                continue
            used.setdefault(node, []).append(pod_requests(pod))
            if not pod.spec.get("nodeName"):
                assumed[pod.uid] = node
        self._assumed = assumed
        return used

    async def _bind(self, pod: Pod, node: Node) -> None:
        if pod.uid in self._assumed:
            return
        key = pod.key
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": key.name, "namespace": key.namespace, "uid": pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node.key.name},
        }
        path = f"/api/v1/namespaces/{key.namespace}/pods/{key.name}/binding"
        try:
            await self._client.request("POST", path, body=codec.encode(binding))
        except (ConflictError, NotFoundError):
            return  # bound by somebody, or gone: its next event says which
        self._assumed[pod.uid] = node.key.name
        self._events.record(
            pod,
            reason="Scheduled",
            action="Binding",
            note=f"Successfully assigned {key} to {node.key.name}",
        )

    async def _say_unschedulable(self, pod: Pod, message: str) -> None:
        conditions = {c["type"]: c for c in pod.status.get("conditions") or ()}
        known = conditions.get("PodScheduled", {})
        if known.get("status") == "False" and known.get("message") == message:
            return
        since = timestamp(self._clock.now())
        if known.get("status") == "False":
            since = known.get("lastTransitionTime", since)
        conditions["PodScheduled"] = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": since,
        }
        patch = {
            "metadata": {"resourceVersion": pod.resource_version},
            "status": {"conditions": list(conditions.values())},
        }
        self._events.record(
            pod, type="Warning", reason="FailedScheduling", action="Scheduling", note=message
        )
        await self._client.patch(Pod, pod.key, patch, subresource="status")


def _is_to_schedule(pod: Pod) -> bool:
    spec = pod.spec
    return (
        not spec.get("nodeName")
        and not pod.is_deleting
        and not spec.get("schedulingGates")
        and spec.get("schedulerName", _NAME) == _NAME
        and pod.status.get("phase") not in ("Succeeded", "Failed")
    )
