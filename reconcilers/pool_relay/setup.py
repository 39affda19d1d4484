"""Puts the PoolRelay controller into a manager."""

from __future__ import annotations

from collections.abc import Iterable

from dynamo_operator.api.labels import GRAPH_NAME_LABEL, RELAY_UID_LABEL
from dynamo_operator.api.v1alpha1 import DynamoPoolRelay
from dynamo_operator.runtime import (
    Controller,
    Manager,
    Watch,
    by_label,
    enqueue_mapped,
    enqueue_owner,
)
from dynamo_operator.runtime.builtin_kinds import (
    ConfigMap,
    Deployment,
    Pod,
    PodDisruptionBudget,
    Role,
    RoleBinding,
    Service,
    ServiceAccount,
)
from informers.indexers import Index
from informers.objects import CachedObject, ObjectKey
from reconcilers.pool_relay.children import Children
from reconcilers.pool_relay.graphs import ServedComponent, ServedGraph
from reconcilers.pool_relay.reconciler import PoolRelayReconciler
from reconcilers.pool_relay.settings import PoolRelaySettings

FIELD_MANAGER = "dynamo-operator-pool-relay"

_CONCURRENCY = 8
_BY_UID = Index("uid", lambda obj: (obj.uid,))
_CHILDREN = (
    ServiceAccount,
    Role,
    RoleBinding,
    ConfigMap,
    Deployment,
    Service,
    PodDisruptionBudget,
)


def add_to(manager: Manager, settings: PoolRelaySettings | None = None) -> None:
    """Add the PoolRelay controller.

    Args:
        manager: not yet, or already, running.
        settings: the operator's; a change of them rolls the relays that it concerns.
    """
    settings = settings or PoolRelaySettings()
    client = manager.client.with_field_manager(FIELD_MANAGER)
    reader, live = manager.reader, manager.uncached_reader
    relays = manager.cache.declare(DynamoPoolRelay, indexes=[_BY_UID])

    def relay_of_pod(pod: CachedObject) -> Iterable[ObjectKey]:
        for cache in relays:
            for relay in cache.informer.lister.by_index(_BY_UID, pod.labels[RELAY_UID_LABEL]):
                yield relay.key

    to_relay = enqueue_owner(DynamoPoolRelay)
    controller = Controller(
        DynamoPoolRelay,
        name="pool-relay",
        field_manager=FIELD_MANAGER,
        watches=[
            Watch(ServedGraph, optional=True),
            Watch(ServedComponent, enqueue=by_label(GRAPH_NAME_LABEL), optional=True),
            Watch(Pod, enqueue=enqueue_mapped(relay_of_pod), labels=RELAY_UID_LABEL),
            *(Watch(kind, enqueue=to_relay, labels=RELAY_UID_LABEL) for kind in _CHILDREN),
        ],
        reconciler=PoolRelayReconciler(
            reader=reader,
            live=live,
            client=client,
            events=manager.events,
            clock=manager.clock,
            children=Children(reader, live, client, settings.relay),
            settings=settings,
        ),
        max_concurrent_reconciles=_CONCURRENCY,
    )
    manager.add(controller)
