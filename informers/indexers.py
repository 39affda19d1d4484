"""Indexes: named functions from an object to the values under which it is found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

from informers.objects import CachedObject, controller_ref

IndexFunction = Callable[[CachedObject], Iterable[str]]


@dataclass(frozen=True, slots=True)
class Index:
    """A name, and a pure function that returns the values of an object (any number, or none).

    Where the values follow from the key alone, `by_key` spares asking again at every update.
    """

    name: str
    function: IndexFunction
    by_key: bool = False


def _namespace(obj: CachedObject) -> tuple[str, ...]:
    return (obj.key.namespace,)


def _owner_uid(obj: CachedObject) -> tuple[str, ...]:
    owner = controller_ref(obj)
    return () if owner is None else (owner.uid,)


BY_NAMESPACE = Index("namespace", _namespace, by_key=True)
BY_OWNER_UID = Index("owner-uid", _owner_uid)
"""By the UID of the owner whose `controller` is true."""


@cache
def by_label(name: str) -> Index:
    """Return the index of the values of label `name`; the same index for the same name."""

    def values(obj: CachedObject) -> tuple[str, ...]:
        value = obj.labels.get(name)
        return () if value is None else (value,)

    return Index(f"label:{name}", values)
