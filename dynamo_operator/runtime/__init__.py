"""The controller runtime: client, cache, controllers, manager; it knows no kind of ours.

What speaks to the API server is in `client`, the built-in kinds are in `builtin_kinds`.

Names are exported lazily (PEP 562): importing `client` alone loads neither manager, controllers nor
cache.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynamo_operator.runtime.access_reviews import ACCESS_REVIEW_PERMISSIONS, AccessReviews
    from dynamo_operator.runtime.apply import ensure
    from dynamo_operator.runtime.cache import (
        Cache,
        CacheError,
        CacheNotStartedError,
        CacheSyncError,
        NotCachedError,
    )
    from dynamo_operator.runtime.cached_reader import CachedReader
    from dynamo_operator.runtime.conditions import (
        find_condition,
        is_condition_true,
        set_condition,
    )
    from dynamo_operator.runtime.controller import Controller
    from dynamo_operator.runtime.declaration import Declaration
    from dynamo_operator.runtime.enqueue import (
        Enqueue,
        by_label,
        enqueue_mapped,
        enqueue_owner,
        enqueue_self,
    )
    from dynamo_operator.runtime.event_recorder import EventRecorder
    from dynamo_operator.runtime.finalizers import (
        ensure_finalizer,
        finalize,
        remove_finalizer,
    )
    from dynamo_operator.runtime.health import HealthCheck, UnhealthyError
    from dynamo_operator.runtime.http_exchange import HttpLimits
    from dynamo_operator.runtime.http_server import HttpServer
    from dynamo_operator.runtime.leader_election import (
        LeaderElection,
        LeaderElectionError,
        LeadershipLostError,
    )
    from dynamo_operator.runtime.log_context import current_reconcile_id
    from dynamo_operator.runtime.manager import (
        Manager,
        ManagerStateError,
        ShutdownTimeoutError,
    )
    from dynamo_operator.runtime.metrics import Metrics
    from dynamo_operator.runtime.models import KubeModel, KubeStruct, ObjectMeta
    from dynamo_operator.runtime.owner_references import (
        OwnershipError,
        is_controlled_by,
        is_owned_by,
        owner_reference,
    )
    from dynamo_operator.runtime.permissions import Permission
    from dynamo_operator.runtime.predicates import (
        Predicate,
        and_,
        annotations_changed,
        by_event,
        generation_changed,
        intent_changed,
        label_selector,
        labels_changed,
        not_,
        or_,
        resource_version_changed,
    )
    from dynamo_operator.runtime.reconciler import (
        Reconciler,
        Result,
        TerminalError,
        object_reconciler,
    )
    from dynamo_operator.runtime.runnables import Runnable
    from dynamo_operator.runtime.running_controller import RunningController
    from dynamo_operator.runtime.selectors import by_field
    from dynamo_operator.runtime.served_kinds import definition_permission
    from dynamo_operator.runtime.serving_certificate import ServingCertificate, TlsCertificate
    from dynamo_operator.runtime.sources import Channel, InformerSource, Source, Watch

__all__ = [
    "ACCESS_REVIEW_PERMISSIONS",
    "AccessReviews",
    "Cache",
    "CacheError",
    "CacheNotStartedError",
    "CacheSyncError",
    "CachedReader",
    "Channel",
    "Controller",
    "Declaration",
    "Enqueue",
    "EventRecorder",
    "HealthCheck",
    "HttpLimits",
    "HttpServer",
    "InformerSource",
    "KubeModel",
    "KubeStruct",
    "LeaderElection",
    "LeaderElectionError",
    "LeadershipLostError",
    "Manager",
    "ManagerStateError",
    "Metrics",
    "NotCachedError",
    "ObjectMeta",
    "OwnershipError",
    "Permission",
    "Predicate",
    "Reconciler",
    "Result",
    "Runnable",
    "RunningController",
    "ServingCertificate",
    "ShutdownTimeoutError",
    "Source",
    "TerminalError",
    "TlsCertificate",
    "UnhealthyError",
    "Watch",
    "and_",
    "annotations_changed",
    "by_event",
    "by_field",
    "by_label",
    "current_reconcile_id",
    "definition_permission",
    "enqueue_mapped",
    "enqueue_owner",
    "enqueue_self",
    "ensure",
    "ensure_finalizer",
    "finalize",
    "find_condition",
    "generation_changed",
    "intent_changed",
    "is_condition_true",
    "is_controlled_by",
    "is_owned_by",
    "label_selector",
    "labels_changed",
    "not_",
    "object_reconciler",
    "or_",
    "owner_reference",
    "remove_finalizer",
    "resource_version_changed",
    "set_condition",
]

_MODULES = {
    "access_reviews": "ACCESS_REVIEW_PERMISSIONS AccessReviews",
    "apply": "ensure",
    "cache": "Cache CacheError CacheNotStartedError CacheSyncError NotCachedError",
    "cached_reader": "CachedReader",
    "conditions": "find_condition is_condition_true set_condition",
    "controller": "Controller",
    "declaration": "Declaration",
    "enqueue": "Enqueue by_label enqueue_mapped enqueue_owner enqueue_self",
    "event_recorder": "EventRecorder",
    "finalizers": "ensure_finalizer finalize remove_finalizer",
    "health": "HealthCheck UnhealthyError",
    "http_exchange": "HttpLimits",
    "http_server": "HttpServer",
    "leader_election": "LeaderElection LeaderElectionError LeadershipLostError",
    "log_context": "current_reconcile_id",
    "manager": "Manager ManagerStateError ShutdownTimeoutError",
    "runnables": "Runnable",
    "metrics": "Metrics",
    "models": "KubeModel KubeStruct ObjectMeta",
    "owner_references": "OwnershipError is_controlled_by is_owned_by owner_reference",
    "permissions": "Permission",
    "predicates": (
        "Predicate and_ annotations_changed by_event generation_changed intent_changed "
        "label_selector labels_changed not_ or_ resource_version_changed"
    ),
    "reconciler": "Reconciler Result TerminalError object_reconciler",
    "running_controller": "RunningController",
    "selectors": "by_field",
    "served_kinds": "definition_permission",
    "serving_certificate": "ServingCertificate TlsCertificate",
    "sources": "Channel InformerSource Source Watch",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
