"""Puts the Request controller into a manager."""

from __future__ import annotations

from collections.abc import Iterable

from dynamo_operator.admission.validation import EffectiveInputPolicy
from dynamo_operator.api.v1beta2 import (
    DynamoGraphDeploymentCandidate,
    DynamoGraphDeploymentRequest,
    DynamoGraphDeploymentRun,
)
from dynamo_operator.hardware.discovery import GpuDiscovery
from dynamo_operator.runtime import Controller, Manager, Watch, enqueue_mapped
from informers.objects import CachedObject, ObjectKey, controller_ref
from reconcilers.request.completion import Completion
from reconcilers.request.reconciler import RequestReconciler

_CONCURRENCY = 4


def add_to(
    manager: Manager,
    *,
    history_limit: int = 10,
    gpus: GpuDiscovery | None = None,
    policy: EffectiveInputPolicy = EffectiveInputPolicy.DENY,
) -> None:
    """Add the Request controller.

    Args:
        manager: not yet, or already, running.
        history_limit: terminal Runs to keep for each Request.
        gpus: finds SKU and number of GPUs; by default from the labels of the cluster's nodes.
        policy: what becomes of violations in the effective input, as at admission.
    """
    live = manager.uncached_reader
    runs = manager.cache.declare(DynamoGraphDeploymentRun)

    def request_of_candidate(candidate: CachedObject) -> Iterable[ObjectKey]:
        reference = controller_ref(candidate)
        if reference is None:
            return
        for cache in runs:
            run = cache.informer.lister.find(ObjectKey(candidate.key.namespace, reference.name))
            owner = controller_ref(run) if run is not None else None
            if owner is not None:
                yield ObjectKey(candidate.key.namespace, owner.name)

    reconciler = RequestReconciler(
        reader=manager.reader,
        live=live,
        client=manager.client.with_field_manager("dynamo-operator-request"),
        events=manager.events,
        clock=manager.clock,
        completion=Completion(
            gpus or GpuDiscovery(live, fetch=None, clock=manager.clock), policy=policy
        ),
        history_limit=history_limit,
    )
    manager.add(
        Controller(
            DynamoGraphDeploymentRequest,
            name="request",
            field_manager="dynamo-operator-request",
            owns=[DynamoGraphDeploymentRun],
            watches=[
                Watch(DynamoGraphDeploymentCandidate, enqueue=enqueue_mapped(request_of_candidate))
            ],
            reconciler=reconciler,
            max_concurrent_reconciles=_CONCURRENCY,
        )
    )
