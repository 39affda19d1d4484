"""Tells who answers for a Service: EndpointSlices of the Pods that it selects."""

from __future__ import annotations

from collections.abc import Iterable

from dynamo_operator.local_cluster.cluster_controller import ClusterController
from dynamo_operator.local_cluster.endpoint_slice_plan import (
    MANAGED_BY,
    MANAGER,
    SERVICE_NAME,
    SlicePlan,
    plan_slices,
)
from dynamo_operator.local_cluster.replica_set_controller import is_namespace_ending
from dynamo_operator.local_cluster.selections import Selections
from dynamo_operator.runtime.builtin_kinds import EndpointSlice, Node, Pod, Service
from dynamo_operator.runtime.cached_reader import CachedReader
from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.errors import ApiError, ConflictError, NotFoundError
from dynamo_operator.runtime.controller import Controller
from dynamo_operator.runtime.enqueue import by_label
from dynamo_operator.runtime.manager import Manager
from dynamo_operator.runtime.reconciler import Result
from dynamo_operator.runtime.selectors import label_matcher
from dynamo_operator.runtime.sources import Watch
from informers.events import ObjectEvent
from informers.objects import ObjectKey

_NAME = "endpointslice-controller"
_WORKERS = 4


class EndpointSlices(ClusterController):
    """Keeps the EndpointSlices of Services that have a selector."""

    name = _NAME

    def add_to(self, manager: Manager) -> None:
        """Add what this controls to the manager."""
        reconciler = ServiceReconciler(manager.reader, manager.client)
        manager.add(
            Controller(
                Service,
                watches=[
                    Watch(Pod, enqueue=reconciler.selections.enqueue),
                    Watch(
                        EndpointSlice,
                        enqueue=by_label(SERVICE_NAME),
                        labels={MANAGED_BY: MANAGER},
                    ),
                    Watch(Node, enqueue=reconciler.waiting),
                ],
                reconciler=reconciler,
                max_concurrent_reconciles=_WORKERS,
                name=_NAME,
                needs_leadership=False,
            )
        )


class ServiceReconciler:
    """Brings the slices of one Service up to date."""

    def __init__(self, reader: CachedReader, client: Client) -> None:
        self.selections = Selections()
        self._reader = reader
        self._client = client
        self._waiting: set[ObjectKey] = set()

    def waiting(self, event: ObjectEvent) -> Iterable[ObjectKey]:
        """The Services with Pods on a Node that was not there."""
        return tuple(self._waiting)

    async def reconcile(self, key: ObjectKey) -> Result:
        """Observe the Service, its Pods and slices, plan, act."""
        service = await self._reader.find(Service, key)
        selector = None if service is None else service.spec.get("selector")
        self._waiting.discard(key)
        if service is None or not selector or service.spec.get("type") == "ExternalName":
            # Slices of a Service that is gone go with it; those without a selector are others'.
            self.selections.forget(key)
            return Result.done()
        self.selections.learn(key, label_matcher(selector) or (lambda _: False))
        pods = await self._reader.list(Pod, namespace=key.namespace, labels=selector)
        slices = await self._reader.list(
            EndpointSlice,
            namespace=key.namespace,
            labels={SERVICE_NAME: key.name, MANAGED_BY: MANAGER},
        )
        nodes = {node.key.name: node for node in await self._reader.list(Node)}
        present = [each for each in slices if not each.is_deleting]
        plan = plan_slices(service, pods, present, nodes)
        if plan.unplaced:
            self._waiting.add(key)
        try:
            await self._act(service, plan)
        except ConflictError:
            return Result.backoff("an EndpointSlice changed since it was read")
        return Result.done()

    async def _act(self, service: Service, plan: SlicePlan) -> None:
        # The garbage collector is about to delete the slices of a Service that is being deleted.
        for body in [] if service.is_deleting else plan.create:
            try:
                await self._client.create(body, kind=EndpointSlice.resource_type)
            except ApiError as error:
                if is_namespace_ending(error):
                    return
                raise
        for each in plan.replace:
            await self._client.replace(each)
        for each in plan.delete:
            try:
                await self._client.delete(EndpointSlice, each.key, uid=each.uid)
            except NotFoundError:
                continue
