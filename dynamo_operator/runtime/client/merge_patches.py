"""JSON merge patches: what turns one state of an object into another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dynamo_operator.runtime.client.reader import M
from dynamo_operator.runtime.client.writes import body_of, key_of

_SERVERS_OWN = ("resourceVersion", "managedFields", "generation")


def merge_patch(
    before: M | Mapping[str, Any], after: M | Mapping[str, Any], *, optimistic_lock: bool = False
) -> dict[str, Any]:
    """Return the merge patch that changes `before` into `after`, for `Client.patch`.

    Lists are replaced as a whole, so two writers of one list undo each other's work: let such a
    patch be refused when the object has changed.

    Args:
        before: the object as it was read.
        after: the same object, changed.
        optimistic_lock: have the patch refused with ConflictError unless the object is still at the
            version of `before`.

    Raises:
        ValueError: they are different objects, or there is no version to insist on.
    """
    old, new = _plain(before), _plain(after)
    if key_of(old) != key_of(new):
        raise ValueError(f"merge patch: {key_of(old)} and {key_of(new)} are different objects")
    version = old["metadata"].get("resourceVersion")
    for metadata in (old["metadata"], new["metadata"]):
        for name in _SERVERS_OWN:
            metadata.pop(name, None)
    patch = _difference(old, new)
    if optimistic_lock:
        if not version:
            raise ValueError(f"merge patch: {key_of(old)} has no resourceVersion to insist on")
        patch = {**patch, "metadata": {**patch.get("metadata", {}), "resourceVersion": version}}
    return patch


def _plain(obj: M | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(obj, Mapping):
        return {**obj, "metadata": dict(obj.get("metadata") or {})}
    return body_of(obj, None)[1]


def _difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {name: None for name in old if name not in new}
    for name, value in new.items():
        if name in old and old[name] == value:
            continue
        before = old.get(name)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            patch[name] = _difference(before, value)
        else:
            patch[name] = value
    return patch
