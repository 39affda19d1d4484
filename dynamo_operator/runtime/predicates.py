"""Predicates: which changes of a watched object matter.

A predicate sees one event and says whether it goes on to the enqueue function. Those that compare
an object with its former self filter updates only: an object that appears or goes always passes.
What is dropped, and by which predicate, is counted and told in the debug log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from dynamo_operator.runtime.selectors import label_matcher
from informers.events import Added, Deleted, ObjectEvent, Updated

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
        or (not new.generation and not event.is_resync)
    )


def intent_changed(*, labels: Iterable[str] = (), annotations: Iterable[str] = ()) -> Predicate:
    """Pass what `generation_changed` passes, and changes of some labels and annotations.

    For kinds whose users say what they want in metadata, too.

    Args:
        labels: names of the labels that matter.
        annotations: names of the annotations that matter.
    """
    label_names, annotation_names = tuple(labels), tuple(annotations)

    def changed(event: ObjectEvent) -> bool:
        if generation_changed(event) or not isinstance(event, Updated):
            return True
        old, new = event.old, event.object
        return _differs(old.labels, new.labels, label_names) or _differs(
            old.annotations, new.annotations, annotation_names
        )

    return _named(changed, "intent_changed")


def by_event(
    *,
    added: Callable[[Added], bool] | None = None,
    updated: Callable[[Updated], bool] | None = None,
    deleted: Callable[[Deleted], bool] | None = None,
) -> Predicate:
    """Ask another function for each kind of event; what has none passes.

    Example:
        >>> never_deleted = by_event(deleted=lambda event: False)
    """

    def asked(event: ObjectEvent) -> bool:
        match event:
            case Added():
                return added is None or added(event)
            case Updated():
                return updated is None or updated(event)
            case Deleted():
                return deleted is None or deleted(event)

    return _named(asked, "by_event")


def resource_version_changed(event: ObjectEvent) -> bool:
    """Anything changed: what does not pass is a resync."""
    return not isinstance(event, Updated) or not event.is_resync


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
    return _named(lambda event: matches(event.object.labels), "label_selector")


def and_(*predicates: Predicate) -> Predicate:
    """Pass what every predicate passes; stops at the first that does not."""
    return _named(lambda event: all(predicate(event) for predicate in predicates), "and_")


def or_(*predicates: Predicate) -> Predicate:
    """Pass what any predicate passes."""
    return _named(lambda event: any(predicate(event) for predicate in predicates), "or_")


def not_(predicate: Predicate) -> Predicate:
    """Pass what the predicate does not."""
    return _named(lambda event: not predicate(event), f"not_({name_of(predicate)})")


def name_of(predicate: Predicate) -> str:
    """Return what a predicate is called in logs and metrics."""
    name = getattr(predicate, "__name__", "")
    return name or type(predicate).__name__


def _named(predicate: Predicate, name: str) -> Predicate:
    predicate.__name__ = name
    return predicate


def _differs(old: Mapping[str, str], new: Mapping[str, str], names: Iterable[str]) -> bool:
    return any(old.get(name) != new.get(name) for name in names)
