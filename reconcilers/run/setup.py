"""Puts the Run controller into a manager."""

from __future__ import annotations

import json
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
from dynamo_operator.runtime.client import Client, codec
from dynamo_operator.runtime.client.errors import NotFoundError
from informers.events import ObjectEvent
from informers.indexers import BY_OWNER_UID, Index
from informers.objects import CachedObject, ObjectKey
from informers.work_queue import Priority
from reconcilers.run.children import Children
from reconcilers.run.errors import WaitingError
from reconcilers.run.freeze import Freezer
from reconcilers.run.job_control import LEAVING_JOBS, JobControl
from reconcilers.run.outcome import job_condition
from reconcilers.run.reconciler import RunReconciler
from reconcilers.run.settings import RunSettings

FIELD_MANAGER = "dynamo-operator-run"

_HARDWARE_RETRY_SECONDS = 30.0
_CONCURRENCY = 8
_BY_UID = Index("uid", lambda obj: (obj.uid,))


def add_to(manager: Manager, settings: RunSettings, *, gpus: GpuDiscovery | None = None) -> None:
    """Add the Run controller.

    Args:
        manager: not yet, or already, running.
        settings: the operator's; each Run freezes them when it begins.
        gpus: finds GPUs per node; by default from the labels of the cluster's nodes.
    """
    reader, live = manager.reader, manager.uncached_reader
    found = gpus or GpuDiscovery(live, fetch=None, clock=manager.clock)

    async def gpus_per_node() -> int:
        try:
            return await found.gpus_per_node()
        except GpuDiscoveryError as error:
            if settings.fallback_gpus_per_node is not None:
                return settings.fallback_gpus_per_node
            raise WaitingError(
                CompletedReason.WAITING_FOR_HARDWARE,
                f"{error}; the operator's --fallback-gpus-per-node would do without",
                _HARDWARE_RETRY_SECONDS,
            ) from error

    async def candidate_api_served() -> bool:
        return await _serves_candidates(manager.client)

    client = manager.client.with_field_manager(FIELD_MANAGER)
    reconciler = RunReconciler(
        reader=reader,
        live=live,
        client=client,
        events=manager.events,
        clock=manager.clock,
        children=Children(reader, live, client, Freezer(live, settings, gpus_per_node)),
        jobs=JobControl(reader, live, client),
        candidate_api_served=candidate_api_served,
    )
    manager.add(_controller(manager, reconciler))


def _controller(manager: Manager, reconciler: RunReconciler) -> Controller:
    runs = manager.cache.declare(DynamoGraphDeploymentRun, indexes=[_BY_UID])
    manager.cache.declare(Job, indexes=[LEAVING_JOBS])

    def runs_of_request(request: CachedObject) -> Iterable[ObjectKey]:
        for cache in runs:
            for run in cache.informer.lister.by_index(BY_OWNER_UID, request.uid):
                yield run.key

    def run_of_pod(pod: CachedObject) -> Iterable[ObjectKey]:
        for cache in runs:
            for run in cache.informer.lister.by_index(_BY_UID, pod.labels[RUN_UID_LABEL]):
                yield run.key

    own_children = (ConfigMap, ServiceAccount, Role, RoleBinding)
    to_run = enqueue_owner(DynamoGraphDeploymentRun)
    return Controller(
        DynamoGraphDeploymentRun,
        name="run",
        field_manager=FIELD_MANAGER,
        owns=[Job],
        watches=[
            # Where many Runs begin at once, one whose Job has ended does not wait behind them all.
            Watch(Job, enqueue=to_run, predicates=[_has_ended], priority=Priority.HIGH),
            Watch(DynamoGraphDeploymentRequest, enqueue=enqueue_mapped(runs_of_request)),
            Watch(Pod, enqueue=enqueue_mapped(run_of_pod), labels=RUN_UID_LABEL),
            *(Watch(kind, enqueue=to_run, labels=RUN_UID_LABEL) for kind in own_children),
        ],
        reconciler=reconciler,
        max_concurrent_reconciles=_CONCURRENCY,
    )


def _has_ended(event: ObjectEvent) -> bool:
    job = codec.decode(Job, event.object.data)
    return any(job_condition(job, kind) is not None for kind in ("Complete", "Failed"))


async def _serves_candidates(client: Client) -> bool:
    """Ask anew each time, and by discovery: the CRD itself may not be readable."""
    wanted = DynamoGraphDeploymentCandidate.resource_type
    try:
        answer = await client.request("GET", f"/apis/{wanted.api_version}")
    except NotFoundError:
        return False
    resources = json.loads(answer.body).get("resources") or ()
    return any(resource.get("name") == wanted.plural for resource in resources)
