"""This module reads and writes metadata.managedFields."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal

from dynamo_operator.apiserver import field_sets
from dynamo_operator.apiserver.field_sets import FieldSet

Operation = Literal["Apply", "Update"]
ManagerId = tuple[str, str, str, str]
"""Manager, operation, subresource, and for updates the apiVersion: one entry each."""

_MAX_UPDATE_MANAGERS: Final = 10
_ANCIENT: Final = "ancient-changes"


@dataclass(frozen=True, slots=True)
class ManagedEntry:
    """One manager's fields."""

    manager: str
    operation: Operation
    api_version: str
    fields: FieldSet
    time: str | None = None
    subresource: str = ""

    @property
    def id(self) -> ManagerId:
        """What tells this entry from others."""
        version = self.api_version if self.operation == "Update" else ""
        return (self.manager, self.operation, self.subresource, version)

    @property
    def words(self) -> str:
        """The entry as a conflict names it."""
        text = f'"{self.manager}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        if self.operation == "Update":
            text += f" using {self.api_version}"
        return text

    def to_json(self) -> dict[str, Any]:
        """Return the entry as it stands in an object."""
        entry: dict[str, Any] = {
            "manager": self.manager,
            "operation": self.operation,
            "apiVersion": self.api_version,
        }
        if self.time:
            entry["time"] = self.time
        entry |= {"fieldsType": "FieldsV1", "fieldsV1": field_sets.encode(self.fields)}
        return {**entry, "subresource": self.subresource} if self.subresource else entry


Managed = dict[ManagerId, ManagedEntry]


def read(obj: Mapping[str, Any] | None) -> Managed:
    """Return the managers of an object."""
    metadata = (obj or {}).get("metadata") or {}
    entries = [
        ManagedEntry(
            manager=str(item.get("manager", "")),
            operation="Apply" if item.get("operation") == "Apply" else "Update",
            api_version=str(item.get("apiVersion", "")),
            fields=field_sets.decode(item.get("fieldsV1")),
            time=str(item["time"]) if item.get("time") else None,
            subresource=str(item.get("subresource", "")),
        )
        for item in metadata.get("managedFields") or []
        if isinstance(item, dict) and item
    ]
    return {entry.id: entry for entry in entries}


def is_reset(obj: Mapping[str, Any]) -> bool:
    """Whether a client asks to forget all managers: managedFields is `[{}]`."""
    return bool((obj.get("metadata") or {}).get("managedFields") == [{}])


def write(obj: Mapping[str, Any], managed: Managed) -> dict[str, Any]:
    """Return a copy of `obj` with these managers, those without fields left out."""
    result = copy.copy(dict(obj))
    metadata = {k: v for k, v in (obj.get("metadata") or {}).items() if k != "managedFields"}
    kept = _capped([entry for entry in managed.values() if entry.fields])
    if kept:
        kept.sort(
            key=lambda e: (e.operation, e.time or "", e.manager, e.api_version, e.subresource)
        )
        metadata["managedFields"] = [entry.to_json() for entry in kept]
    result["metadata"] = metadata
    return result


def timestamp(now: datetime) -> str:
    """Return the moment as managedFields record it."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _capped(entries: list[ManagedEntry]) -> list[ManagedEntry]:
    """Merge the oldest update managers of a version into one when there are too many."""
    updates = [e for e in entries if e.operation == "Update"]
    if len(updates) <= _MAX_UPDATE_MANAGERS:
        return entries
    updates.sort(key=lambda e: (e.manager != _ANCIENT, e.time or ""))
    oldest = updates[: len(updates) - _MAX_UPDATE_MANAGERS + 1]
    return [e for e in entries if e not in oldest] + _merged(oldest)


def _merged(entries: Iterable[ManagedEntry]) -> list[ManagedEntry]:
    buckets: Managed = {}
    for entry in entries:
        renamed = replace(entry, manager=_ANCIENT)
        earlier = buckets.get(renamed.id)
        fields = renamed.fields | (earlier.fields if earlier else field_sets.EMPTY)
        buckets[renamed.id] = replace(renamed, fields=fields)
    return list(buckets.values())
