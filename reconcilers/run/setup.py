"""Puts the Run controller into a manager."""

from __future__ import annotations

from collections.abc import Iterable

from dynamo_operator.api.conditions import CompletedReason
from dynamo_operator.api.labels import RUN_UID_LABEL
from dynamo_operator.api.v1beta2 import (
    DynamoGraphDeploymentCandidate,
    DynamoGraphDeploymentRequest,
    DynamoGraphDeploymentRun,
)
from dynamo_operator.hardware.discovery import GpuDiscovery
from dynamo_operator.hardware.inventory import GpuDiscoveryError
from dynamo_operator.runtime import Controller, Manager, Watch, enqueue_mapped, enqueue_owner
from dynamo_operator.runtime.builtin_kinds import (
    ConfigMap,
    Job,
    Pod,
    Role,
    RoleBinding,
    ServiceAccount,
)
from dynamo_operator.runtime.client.discovery import Discovery
from informers.indexers import BY_OWNER_UID
from informers.objects import CachedObject, ObjectKey, controller_ref
from reconcilers.run.children import Children
from reconcilers.run.errors import WaitingError
from reconcilers.run.freeze import Freezer
from reconcilers.run.reconciler import RunReconciler
from reconcilers.run.settings import RunSettings

_HARDWARE_RETRY_SECONDS = 30.0
_CONCURRENCY = 8


def add_to(manager: Manager, settings: RunSettings, *, gpus: GpuDiscovery | None = None) -> None:
    """Add the Run controller.

    Args:
        manager: not yet, or already, running.
        settings: the operator's; each Run freezes them when it begins.
        gpus: finds GPUs per node; by default from the labels of the cluster's nodes.
    """
    live = manager.uncached_reader
    found = gpus or GpuDiscovery(live, fetch=None, clock=manager.clock)
    discovery = Discovery(manager.client)

    async def gpus_per_node() -> int:
        try:
            return await found.gpus_per_node()
        except GpuDiscoveryError as error:
            if settings.fallback_gpus_per_node is not None:
                return settings.fallback_gpus_per_node
            raise WaitingError(
                CompletedReason.WAITING_FOR_HARDWARE, str(error), _HARDWARE_RETRY_SECONDS
            ) from error

    async def candidate_api_served() -> bool:
        return await discovery.supports(DynamoGraphDeploymentCandidate.resource_type)

    client = manager.client.with_field_manager("dynamo-operator-run")
    children = Children(manager.reader, live, client, Freezer(live, settings, gpus_per_node))
    reconciler = RunReconciler(
        reader=manager.reader,
        live=live,
        client=client,
        events=manager.events,
        clock=manager.clock,
        children=children,
        candidate_api_served=candidate_api_served,
    )
    runs = manager.cache.declare(DynamoGraphDeploymentRun)
    jobs = manager.cache.declare(Job)

    def runs_of_request(request: CachedObject) -> Iterable[ObjectKey]:
        for cache in runs:
            for run in cache.informer.lister.by_index(BY_OWNER_UID, request.uid):
                yield run.key

    def run_of_pod(pod: CachedObject) -> Iterable[ObjectKey]:
        reference = controller_ref(pod)
        if reference is None:
            return
        for cache in jobs:
            job = cache.informer.lister.find(ObjectKey(pod.key.namespace, reference.name))
            owner = controller_ref(job) if job is not None else None
            if owner is not None:
                yield ObjectKey(pod.key.namespace, owner.name)

    own_children = (ConfigMap, ServiceAccount, Role, RoleBinding)
    to_run = enqueue_owner(DynamoGraphDeploymentRun)
    manager.add(
        Controller(
            DynamoGraphDeploymentRun,
            name="run",
            field_manager="dynamo-operator-run",
            owns=[Job],
            watches=[
                Watch(DynamoGraphDeploymentRequest, enqueue=enqueue_mapped(runs_of_request)),
                Watch(Pod, enqueue=enqueue_mapped(run_of_pod), labels=RUN_UID_LABEL),
                *(Watch(kind, enqueue=to_run, labels=RUN_UID_LABEL) for kind in own_children),
            ],
            reconciler=reconciler,
            max_concurrent_reconciles=_CONCURRENCY,
        )
    )
