"""What a simulated manager holds in its memory: caches, queues, and what went wrong in it."""

from __future__ import annotations

from collections.abc import Mapping

from dynamo_operator.apiserver.storage import StorageKey
from dynamo_operator.runtime.manager import Manager
from informers.objects import ObjectKey

Caches = Mapping[StorageKey, Mapping[ObjectKey, str]]
"""Resource versions by object, of each resource that is cached whole."""


def caches_of(program: object) -> Caches:
    """Return what a program has cached; nothing if it is no Manager."""
    if not isinstance(program, Manager):
        return {}
    found: dict[StorageKey, dict[ObjectKey, str]] = {}
    for cache in program.cache:
        scope = cache.scope
        if scope.namespace or scope.labels or scope.fields:
            continue
        resource = (scope.resource_type.group, scope.resource_type.plural)
        objects = cache.informer.lister.list()
        found[resource] = {obj.key: obj.resource_version for obj in objects}
    return found


def leftovers_of(program: object) -> Mapping[str, int]:
    """Return what a program at rest has left to do, by name; nothing if it is no Manager."""
    if not isinstance(program, Manager):
        return {}
    queues = [controller.queue for controller in program.controllers.values()]
    return {"keys ready": sum(len(queue) for queue in queues)}


def defects_of(program: object) -> list[str]:
    """Say what failed in a program that no fault of the outside explains."""
    if not isinstance(program, Manager):
        return []
    counters = {
        "reconciles": program.metrics.reconcile_panics,
        "event handlers": program.metrics.handler_errors,
    }
    found = []
    for what, counter in counters.items():
        if counter.total:
            found.append(f"{counter.total:.0f} {what} failed by a defect")
    return found
