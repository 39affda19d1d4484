"""From a controller's declaration to one that runs: handlers, queue, reconciler, loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

from dynamo_operator.runtime.cache import Cache, owner_key
from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.codec import resource_type_of
from dynamo_operator.runtime.client.reader import Reader
from dynamo_operator.runtime.controller import Controller, ReconcilerFactory
from dynamo_operator.runtime.declaration import Declaration
from dynamo_operator.runtime.error_policy import PANIC_PAUSE_SECONDS, ErrorPolicy, PanicReport
from dynamo_operator.runtime.event_recorder import EventRecorder
from dynamo_operator.runtime.metrics import Metrics
from dynamo_operator.runtime.reconcile_loop import ReconcileLoop
from dynamo_operator.runtime.reconciler import Reconciler
from dynamo_operator.runtime.running_controller import Poll, RunningController
from dynamo_operator.runtime.sources import Watch, enqueue_handler
from informers.clock import Clock, Random
from informers.objects import ObjectKey
from informers.shared_informer import Handler
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
    events: EventRecorder | None = None


def build(controller: Controller, parts: ControllerParts) -> RunningController:
    """Declare what the controller watches and make what runs it.

    Events queue up from now on; nothing is reconciled before the result runs.
    """
    primary = parts.cache.declare(
        controller.resource_type,
        indexes=controller.indexes,
        optional=controller.watches[0].optional,
    )
    report = _panic_report(controller, primary, parts.events)

    def make() -> tuple[WorkQueue[ObjectKey], ReconcileLoop]:
        queue = _queue(controller, parts)
        return queue, _loop(controller, parts, queue, report)

    def declare(watch: Watch) -> Declaration:
        return parts.cache.declare(
            watch.kind,
            labels=watch.labels,
            fields=watch.fields,
            metadata_only=watch.metadata_only,
            optional=watch.optional,
        )

    def handler(queue: WorkQueue[ObjectKey], watch: Watch) -> Handler:
        resource_type = resource_type_of(watch.kind)
        return enqueue_handler(
            queue,
            resource_type,
            watch.enqueue,
            (*controller.event_filters, *watch.predicates),
            priority=watch.priority,
            low_priority=controller.low_priority,
            filtered=parts.metrics.event_filter(controller.name, resource_type),
        )

    poll = None
    if controller.poll_every_seconds is not None:
        poll = Poll(
            primary, controller.poll_every_seconds, parts.random, priority=controller.low_priority
        )
    return RunningController(
        controller.name,
        make=make,
        primary=primary,
        watches=controller.watches,
        declare=declare,
        handler=handler,
        channels=controller.channels,
        poll=poll,
        cache_sync_timeout_seconds=controller.cache_sync_timeout_seconds,
        needs_leadership=controller.needs_leadership,
    )


def _queue(controller: Controller, parts: ControllerParts) -> WorkQueue[ObjectKey]:
    return WorkQueue(
        rate_limiter=controller.rate_limiter(parts.random),
        clock=parts.clock,
        observer=parts.metrics.queue(controller.name),
        ageing_seconds=controller.ageing_seconds,
    )


def _loop(
    controller: Controller,
    parts: ControllerParts,
    queue: WorkQueue[ObjectKey],
    report: PanicReport,
) -> ReconcileLoop:
    errors = ErrorPolicy(controller.on_error, panic_limit=controller.panic_limit, report=report)
    return ReconcileLoop(
        name=controller.name,
        kind=controller.resource_type.kind,
        reconciler=_reconciler(controller, parts),
        queue=queue,
        errors=errors,
        concerns=lambda key: (
            bool(key.cluster) or parts.cache.covers(controller.resource_type, key.namespace)
        ),
        workers=controller.max_concurrent_reconciles,
        timeout_seconds=controller.reconcile_timeout_seconds,
        before_reconcile=_own_write_gate(controller, parts.cache),
        metrics=parts.metrics.controller(controller.name, controller.max_concurrent_reconciles),
        clock=parts.clock,
        random=parts.random,
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


def _panic_report(
    controller: Controller, primary: Declaration, events: EventRecorder | None
) -> PanicReport:
    resource_type = controller.resource_type

    def report(key: ObjectKey, error: Exception, count: int) -> None:
        if events is None:
            return
        found = (cache.informer.lister.find(key) for cache in primary)
        uid = next((obj.uid for obj in found if obj is not None), "")
        about: dict[str, Any] = {
            "apiVersion": resource_type.api_version,
            "kind": resource_type.kind,
            "metadata": {"namespace": key.namespace, "name": key.name, "uid": uid},
        }
        events.record(
            about,
            type="Warning",
            reason="ReconcilePanicked",
            action="Reconcile",
            note=f"controller {controller.name!r} failed {count} times in a row by a defect, "
            f"{type(error).__name__}: {error}; it tries again every {PANIC_PAUSE_SECONDS / 60:g} "
            "minutes, and when something changes",
        )

    return report
