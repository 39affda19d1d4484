"""Where a controller's keys come from: watches of kinds, and channels for everything else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from dynamo_operator.runtime.enqueue import Enqueue, enqueue_self
from dynamo_operator.runtime.models import KubeModel
from dynamo_operator.runtime.predicates import Predicate
from informers.events import Added, Deleted, ObjectEvent, Updated
from informers.objects import ObjectKey, ResourceType
from informers.work_queue import Priority, Trigger

_SENT = Trigger("channel")


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
        fields: watch only objects with these fields.
        metadata_only: fetch and keep no more than metadata; such a cache serves no reads.
    """

    kind: type[KubeModel] | ResourceType
    enqueue: Enqueue = enqueue_self
    predicates: Sequence[Predicate] = ()
    labels: Mapping[str, str] | str | None = None
    fields: Mapping[str, str] | None = None
    metadata_only: bool = False


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


def enqueue_handler(
    sink: KeySink,
    resource_type: ResourceType,
    enqueue: Enqueue,
    predicates: Sequence[Predicate],
) -> Callable[[ObjectEvent], None]:
    """Return the handler that leads the events of one type to a queue."""

    def handle(event: ObjectEvent) -> None:
        for predicate in predicates:
            if not predicate(event):
                return
        priority, reason = _weight(event)
        trigger = Trigger(reason, resource_type, event.object.key)
        for key in enqueue(event):
            sink.add(key, priority=priority, trigger=trigger)

    return handle


def _weight(event: ObjectEvent) -> tuple[int, str]:
    """Return priority and reason: what is no news, i.e. the initial list and resyncs, is low."""
    match event:
        case Added(initial=initial):
            return (Priority.LOW, "listed") if initial else (Priority.NORMAL, "added")
        case Updated(old=old, object=new):
            if old.resource_version == new.resource_version:
                return Priority.LOW, "resync"
            return Priority.NORMAL, "updated"
        case Deleted():
            return Priority.NORMAL, "deleted"
