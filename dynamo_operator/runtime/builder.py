"""From a controller's declaration to one that runs: handlers, queue, reconciler, loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import cast

from dynamo_operator.runtime.cache import Cache, owner_key
from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.codec import resource_type_of
from dynamo_operator.runtime.client.reader import Reader
from dynamo_operator.runtime.controller import Controller, ReconcilerFactory
from dynamo_operator.runtime.metrics import Metrics
from dynamo_operator.runtime.reconcile_loop import ReconcileLoop
from dynamo_operator.runtime.reconciler import Reconciler
from dynamo_operator.runtime.running_controller import Poll, RunningController
from dynamo_operator.runtime.sources import enqueue_handler
from dynamo_operator.runtime.type_cache import TypeCache
from informers.clock import Clock, Random
from informers.objects import ObjectKey
from informers.shared_informer import HandlerRegistration
from informers.work_queue import WorkQueue


@dataclass(frozen=True, slots=True)
class ControllerParts:
    """What a manager gives to each of its controllers."""

    cache: Cache
    reader: Reader
    client: Client
    metrics: Metrics
    clock: Clock
    random: Random


def build(controller: Controller, parts: ControllerParts) -> RunningController:
    """Declare what the controller watches and make what runs it.

    Events queue up from now on; nothing is reconciled before the result runs.
    """
    queue: WorkQueue[ObjectKey] = WorkQueue(
        rate_limiter=controller.rate_limiter(parts.random),
        clock=parts.clock,
        observer=parts.metrics.queue(controller.name),
    )
    loop = ReconcileLoop(
        name=controller.name,
        kind=controller.resource_type.kind,
        reconciler=_reconciler(controller, parts),
        queue=queue,
        workers=controller.max_concurrent_reconciles,
        timeout_seconds=controller.reconcile_timeout_seconds,
        before_reconcile=_own_write_gate(controller, parts.cache),
        metrics=parts.metrics.controller(controller.name, controller.max_concurrent_reconciles),
        clock=parts.clock,
        random=parts.random,
    )
    primary = parts.cache.declare(controller.resource_type, indexes=controller.indexes)
    for channel in controller.channels:
        channel.attach(queue)
    poll = None
    if controller.poll_every_seconds is not None:
        poll = Poll(primary, controller.poll_every_seconds, parts.random)
    return RunningController(
        controller.name,
        loop=loop,
        queue=queue,
        sources=_watch(controller, parts.cache, queue),
        channels=controller.channels,
        poll=poll,
        cache_sync_timeout_seconds=controller.cache_sync_timeout_seconds,
        needs_leadership=controller.needs_leadership,
    )


def _reconciler(controller: Controller, parts: ControllerParts) -> Reconciler:
    given = controller.reconciler
    if isinstance(given, type) or not hasattr(given, "reconcile"):
        make = cast("ReconcilerFactory", given)
        return make(parts.reader, parts.client.with_field_manager(controller.field_manager))
    return given


def _own_write_gate(controller: Controller, cache: Cache) -> Callable[[ObjectKey], Awaitable[None]]:
    resource_type = controller.resource_type

    async def wait(key: ObjectKey) -> None:
        owner = owner_key(resource_type, key)
        cache.attribute_writes_to(owner)
        await cache.wait_for_writes_of(owner)

    return wait


def _watch(
    controller: Controller, cache: Cache, queue: WorkQueue[ObjectKey]
) -> list[tuple[TypeCache, HandlerRegistration]]:
    sources: list[tuple[TypeCache, HandlerRegistration]] = []
    for watch in controller.watches:
        handler = enqueue_handler(
            queue,
            resource_type_of(watch.kind),
            watch.enqueue,
            (*controller.event_filters, *watch.predicates),
        )
        sources += [
            (declared, declared.informer.add_handler(handler))
            for declared in cache.declare(
                watch.kind,
                labels=watch.labels,
                fields=watch.fields,
                metadata_only=watch.metadata_only,
            )
        ]
    return sources
