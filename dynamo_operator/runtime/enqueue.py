"""Enqueue functions: which keys a change of a watched object concerns."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dynamo_operator.runtime.client.codec import resource_type_of
from dynamo_operator.runtime.client.reader import AnyKind
from informers.events import ObjectEvent, Updated
from informers.objects import CachedObject, ObjectKey, OwnerReference

Enqueue = Callable[[ObjectEvent], Iterable[ObjectKey]]


def enqueue_self(event: ObjectEvent) -> Iterable[ObjectKey]:
    """The object's own key."""
    return (event.object.key,)


def enqueue_owner(kind: AnyKind, *, only_controller: bool = True) -> Enqueue:
    """The owner of the given kind; after a change of owner the old one and the new one.

    Owners match by group and kind, whatever version the reference names.

    Args:
        kind: the owners' kind.
        only_controller: take only the reference whose `controller` is true.
    """
    owner_type = resource_type_of(kind)

    def is_wanted(reference: OwnerReference) -> bool:
        return (
            reference.kind == owner_type.kind
            and reference.group == owner_type.group
            and (reference.controller or not only_controller)
        )

    def owners(obj: CachedObject) -> Iterable[ObjectKey]:
        namespace = obj.key.namespace if owner_type.namespaced else ""
        return (ObjectKey(namespace, r.name) for r in obj.owner_references if is_wanted(r))

    return enqueue_mapped(owners)


def enqueue_mapped(function: Callable[[CachedObject], Iterable[ObjectKey]]) -> Enqueue:
    """The keys that a function finds; after an update for the old state and the new, each once."""

    def enqueue(event: ObjectEvent) -> Iterable[ObjectKey]:
        if isinstance(event, Updated) and event.old is not event.object:
            return dict.fromkeys((*function(event.old), *function(event.object)))
        return dict.fromkeys(function(event.object))

    return enqueue


def by_label(label: str, *, namespace: str | None = None) -> Enqueue:
    """The object whose name the label holds.

    Args:
        label: name of the label; objects without it concern nobody.
        namespace: where the named object lives; by default where the labelled one does.
    """

    def named(obj: CachedObject) -> Iterable[ObjectKey]:
        name = obj.labels.get(label)
        if name:
            yield ObjectKey(obj.key.namespace if namespace is None else namespace, name)

    return enqueue_mapped(named)
