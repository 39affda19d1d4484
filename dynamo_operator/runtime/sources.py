"""Where a controller's keys come from: watches of kinds, and sources for everything else.

A `Source` is whatever sends keys to a queue from `attach` to `detach`: a `Channel` that somebody
feeds, an informer of one's own, e.g. of another cluster, or any object with these methods. What
has to work for it, e.g. to poll a service, is a Runnable of the manager and sends to a channel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog

from dynamo_operator.runtime.client.reader import AnyKind
from dynamo_operator.runtime.enqueue import Enqueue, enqueue_self
from dynamo_operator.runtime.predicates import Predicate, name_of
from informers.events import Added, Deleted, ObjectEvent, Updated
from informers.objects import ObjectKey, ResourceType
from informers.shared_informer import HandlerRegistration, SharedInformer
from informers.work_queue import Priority, Trigger

_SENT = Trigger("channel")

_log = structlog.get_logger(__name__)

Filtered = Callable[[str], None]
"""Told the name of a predicate that dropped an event."""


class KeySink(Protocol):
    """The side of a work queue that takes keys."""

    def add(self, key: ObjectKey, *, priority: int = ..., trigger: Trigger | None = ...) -> None:
        """Queue a key; one that waits already is raised to the higher priority."""


@dataclass(frozen=True, slots=True)
class Watch:
    """A kind to watch, and which keys its changes concern.

    Args:
        kind: what is watched.
        enqueue: from a change to keys; by default the object's own.
        predicates: which changes matter; all of them must pass.
        labels: watch only objects with these labels.
        fields: watch only objects with these fields: what the API server selects by.
        metadata_only: fetch and keep no more than metadata; such a cache serves reads of metadata.
        optional: the kind is a custom resource that need not be defined: watched while it is, and
            without objects while it is not.
        priority: of keys that a change concerns; what is no news has the controller's low one.
    """

    kind: AnyKind
    enqueue: Enqueue = enqueue_self
    predicates: Sequence[Predicate] = ()
    labels: Mapping[str, str] | str | None = None
    fields: Mapping[str, str] | str | None = None
    metadata_only: bool = False
    optional: bool = False
    priority: int = Priority.NORMAL


class Source(Protocol):
    """Sends keys to any number of queues, each from `attach` to `detach`."""

    def attach(self, sink: KeySink) -> None:
        """Send to that queue from now on, first what is known already."""

    def detach(self, sink: KeySink) -> None:
        """Send to that queue no more."""

    async def wait_synced(self) -> None:
        """Wait until what is known at the start was sent; controllers reconcile only after that."""


class Channel:
    """Triggers from outside the cluster: whatever is sent is queued by every controller of it.

    What is sent before a controller is there waits for it.
    """

    def __init__(self) -> None:
        self._sinks: list[KeySink] = []
        self._early: dict[ObjectKey, int] = {}

    def send(self, key: ObjectKey, *, priority: int = Priority.NORMAL) -> None:
        """Queue a key; never waits."""
        if not self._sinks:
            self._early[key] = max(priority, self._early.get(key, priority))
        for sink in self._sinks:
            sink.add(key, priority=priority, trigger=_SENT)

    def attach(self, sink: KeySink) -> None:
        """Send to that queue too."""
        self._sinks.append(sink)
        for key, priority in self._early.items():
            sink.add(key, priority=priority, trigger=_SENT)
        self._early.clear()

    def detach(self, sink: KeySink) -> None:
        """Send to that queue no more."""
        self._sinks.remove(sink)

    async def wait_synced(self) -> None:
        """Return at once: what was sent early is in the queue since `attach`."""


class InformerSource:
    """The objects of an informer that somebody else runs, e.g. one of another cluster.

    Args:
        informer: who runs it also stops it.
        enqueue: from a change to keys.
        predicates: which changes matter; all of them must pass.
        cluster: of the informer; its keys then name it. The reconciler reads `key.local` from that
            cluster.
    """

    def __init__(
        self,
        informer: SharedInformer,
        *,
        enqueue: Enqueue = enqueue_self,
        predicates: Sequence[Predicate] = (),
        cluster: str = "",
    ) -> None:
        self._informer = informer
        self._enqueue = _in_cluster(enqueue, cluster) if cluster else enqueue
        self._predicates = tuple(predicates)
        self._registrations: list[tuple[KeySink, HandlerRegistration]] = []

    def attach(self, sink: KeySink) -> None:
        """Send the keys of every object, and of every change from now on."""
        handler = enqueue_handler(
            sink, self._informer.resource_type, self._enqueue, self._predicates
        )
        self._registrations.append((sink, self._informer.add_handler(handler)))

    def detach(self, sink: KeySink) -> None:
        """Send to that queue no more."""
        for attached, registration in self._registrations:
            if attached is sink:
                registration.remove()
        self._registrations = [pair for pair in self._registrations if pair[0] is not sink]

    async def wait_synced(self) -> None:
        """Wait until the informer's first list was sent."""
        await self._informer.wait_synced()


def _in_cluster(enqueue: Enqueue, cluster: str) -> Enqueue:
    return lambda event: [key._replace(cluster=cluster) for key in enqueue(event)]


def enqueue_handler(
    sink: KeySink,
    resource_type: ResourceType,
    enqueue: Enqueue,
    predicates: Sequence[Predicate],
    *,
    priority: int = Priority.NORMAL,
    low_priority: int = Priority.LOW,
    filtered: Filtered | None = None,
) -> Callable[[ObjectEvent], None]:
    """Return the handler that leads the events of one type to a queue.

    Args:
        sink: the queue.
        resource_type: whose events these are.
        enqueue: from a change to keys.
        predicates: all must pass; asked in this order up to the first that does not.
        priority: of what is news.
        low_priority: of what is no news, i.e. the initial list and resyncs.
        filtered: told of each event that is dropped, and by whom.
    """

    def drop(event: ObjectEvent, predicate: Predicate) -> None:
        name = name_of(predicate)
        if filtered is not None:
            filtered(name)
        if structlog.is_configured():
            _log.debug(
                "event filtered",
                resource=str(resource_type),
                object=str(event.object.key),
                event_type=type(event).__name__,
                predicate=name,
            )

    def handle(event: ObjectEvent) -> None:
        for predicate in predicates:
            if not predicate(event):
                drop(event, predicate)
                return
        is_news, reason = _news(event)
        urgency = priority if is_news else low_priority
        trigger = Trigger(reason, resource_type, event.object.key)
        for key in enqueue(event):
            sink.add(key, priority=urgency, trigger=trigger)

    return handle


def _news(event: ObjectEvent) -> tuple[bool, str]:
    """Return whether anything happened, and what."""
    match event:
        case Added(initial=initial):
            return (False, "listed") if initial else (True, "added")
        case Updated():
            return (False, "resync") if event.is_resync else (True, "updated")
        case Deleted():
            return True, "deleted"
