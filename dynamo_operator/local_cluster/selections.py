"""Which controllers select an object that nobody controls."""

from __future__ import annotations

from collections.abc import Iterable

from dynamo_operator.runtime.selectors import LabelMatcher
from informers.events import ObjectEvent, Updated
from informers.objects import CachedObject, ObjectKey, controller_ref


class Selections:
    """The selectors of a kind's objects, as their controller last saw them."""

    def __init__(self) -> None:
        self._matchers: dict[ObjectKey, LabelMatcher] = {}

    def learn(self, key: ObjectKey, matches: LabelMatcher) -> None:
        """Remember what an object selects."""
        self._matchers[key] = matches

    def forget(self, key: ObjectKey) -> None:
        """Forget an object that is gone."""
        self._matchers.pop(key, None)

    def of_namespace(self, namespace: str) -> list[ObjectKey]:
        """Return the keys of all of a namespace."""
        return [key for key in self._matchers if key.namespace == namespace]

    def selecting(self, obj: CachedObject) -> Iterable[ObjectKey]:
        """Return the keys of those in the object's namespace that select it."""
        return [
            key
            for key, matches in self._matchers.items()
            if key.namespace == obj.key.namespace and matches(obj.labels)
        ]

    def enqueue(self, event: ObjectEvent) -> Iterable[ObjectKey]:
        """The keys of those that select an object, or did before an update."""
        keys = list(self.selecting(event.object))
        if isinstance(event, Updated):
            keys += self.selecting(event.old)
        return dict.fromkeys(keys)

    def enqueue_orphans(self, event: ObjectEvent) -> Iterable[ObjectKey]:
        """The keys of those that may adopt an object."""
        return () if controller_ref(event.object) else self.selecting(event.object)
