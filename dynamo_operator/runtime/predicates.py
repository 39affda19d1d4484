"""Predicates: which changes of a watched object matter.

A predicate sees one event and says whether it goes on to the enqueue function. Those that compare
an object with its former self filter updates only: an object that appears or goes always passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dynamo_operator.runtime.selectors import label_matcher
from informers.events import ObjectEvent, Updated

Predicate = Callable[[ObjectEvent], bool]


def generation_changed(event: ObjectEvent) -> bool:
    """The desired state changed, the object began to be deleted, or another took its name.

    Metadata and status updates do not pass, nor does a resync. For kinds that have no generation
    every change passes.
    """
    if not isinstance(event, Updated):
        return True
    old, new = event.old, event.object
    return (
        old.generation != new.generation
        or old.is_deleting != new.is_deleting
        or old.uid != new.uid
        or (not new.generation and old.resource_version != new.resource_version)
    )


def resource_version_changed(event: ObjectEvent) -> bool:
    """Anything changed: what does not pass is a resync."""
    return not isinstance(event, Updated) or (
        event.old.resource_version != event.object.resource_version
    )


def labels_changed(event: ObjectEvent) -> bool:
    """The labels changed."""
    return not isinstance(event, Updated) or event.old.labels != event.object.labels


def annotations_changed(event: ObjectEvent) -> bool:
    """The annotations changed."""
    return not isinstance(event, Updated) or event.old.annotations != event.object.annotations


def label_selector(selector: Mapping[str, str] | str) -> Predicate:
    """Pass objects whose labels (after an update: the new ones) match.

    Args:
        selector: labels that must be equal, or text as in `kubectl -l`.

    Raises:
        ValueError: the text is no selector.
    """
    matches = label_matcher(selector)
    if matches is None:
        return lambda _event: True
    return lambda event: matches(event.object.labels)


def and_(*predicates: Predicate) -> Predicate:
    """Pass what every predicate passes; stops at the first that does not."""
    return lambda event: all(predicate(event) for predicate in predicates)


def or_(*predicates: Predicate) -> Predicate:
    """Pass what any predicate passes."""
    return lambda event: any(predicate(event) for predicate in predicates)


def not_(predicate: Predicate) -> Predicate:
    """Pass what the predicate does not."""
    return lambda event: not predicate(event)
