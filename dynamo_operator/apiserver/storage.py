"""The one store: current objects, one global resource version, and the history behind it."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from dynamo_operator.apiserver.messages import to_json
from dynamo_operator.apiserver.resources import Object

StorageKey = tuple[str, str]
"""Group and plural."""

_HISTORY_LIMIT = 50_000


class StoredObject:
    """An object as it was committed: never changed again, its JSON encoded once."""

    __slots__ = ("_data", "_metadata_data", "key", "name", "namespace", "resource_version", "value")

    def __init__(self, value: Object, resource_version: int) -> None:
        metadata = value["metadata"]
        self.value = value
        self.namespace: str = metadata.get("namespace", "")
        self.name: str = metadata["name"]
        self.key = f"{self.namespace}/{self.name}"
        self.resource_version = resource_version
        self._data = b""
        self._metadata_data = b""

    @property
    def labels(self) -> dict[str, str]:
        """`metadata.labels`."""
        return self.value["metadata"].get("labels") or {}

    @property
    def data(self) -> bytes:
        """The object as JSON; apiVersion and kind come first."""
        if not self._data:
            self._data = to_json(self.value)
        return self._data

    @property
    def metadata_data(self) -> bytes:
        """The object as a PartialObjectMetadata."""
        if not self._metadata_data:
            self._metadata_data = to_json(
                {
                    "apiVersion": "meta.k8s.io/v1",
                    "kind": "PartialObjectMetadata",
                    "metadata": self.value["metadata"],
                }
            )
        return self._metadata_data


@dataclass(frozen=True, slots=True)
class Change:
    """One commit. `type` is ADDED, MODIFIED or DELETED.

    `object` of a deletion is the last state carrying the deletion's resource version.
    """

    type: str
    object: StoredObject
    previous: StoredObject | None

    @property
    def resource_version(self) -> int:
        """The version that this commit made."""
        return self.object.resource_version


class CompactedError(Exception):
    """The history no longer reaches that far back."""

    def __init__(self, wanted: int, oldest: int) -> None:
        super().__init__(f"resource version {wanted} is compacted, the oldest is {oldest}")
        self.wanted = wanted
        self.oldest = oldest


class _Table:
    """The objects and the changes of one resource; `keys` is sorted as etcd sorts."""

    def __init__(self) -> None:
        self.objects: dict[str, StoredObject] = {}
        self.keys: list[str] = []
        self.changes: list[Change] = []
        self.lost = 0
        """Version of the latest change that is compacted away."""
        self.listeners: dict[int, Callable[[], None]] = {}


class Storage:
    """All state. Every commit raises the resource version by one and leaves one Change.

    Nothing here awaits: a caller that reads and then commits without awaiting is atomic.

    Args:
        history_limit: how many changes stay before the oldest are compacted.
    """

    def __init__(self, *, history_limit: int = _HISTORY_LIMIT) -> None:
        self._tables: dict[StorageKey, _Table] = {}
        self._history_limit = history_limit
        self._version = 1
        self._compacted = 0
        self._next_listener = 0
        self._on_commit: list[Callable[[StorageKey, Change], None]] = []

    @property
    def resource_version(self) -> int:
        """The version of the latest commit."""
        return self._version

    @property
    def compacted_version(self) -> int:
        """Changes up to this version are gone."""
        return self._compacted

    def get(self, key: StorageKey, namespace: str, name: str) -> StoredObject | None:
        """Return the current object, or None."""
        return self._table(key).objects.get(f"{namespace}/{name}")

    def objects(self, key: StorageKey, namespace: str = "") -> list[StoredObject]:
        """Return the current objects, sorted by key."""
        table = self._table(key)
        keys = table.keys
        if namespace:
            start, end = bisect_left(keys, f"{namespace}/"), bisect_left(keys, f"{namespace}0")
            keys = keys[start:end]
        return [table.objects[k] for k in keys]

    def list_at(self, key: StorageKey, namespace: str, version: int) -> list[StoredObject]:
        """Return the objects as they were at `version`, sorted by key.

        Raises:
            CompactedError: that version is compacted.
        """
        if version >= self._version:
            return self.objects(key, namespace)
        self._require(version)
        objects = dict(self._table(key).objects)
        for change in reversed(self._changes_after(key, version)):
            if change.previous is None:
                objects.pop(change.object.key, None)
            else:
                objects[change.object.key] = change.previous
        return [
            objects[k] for k in sorted(objects) if not namespace or k.startswith(f"{namespace}/")
        ]

    def storage_keys(self) -> Iterator[StorageKey]:
        """Yield the resources that hold or held objects."""
        yield from list(self._tables)

    def put(self, key: StorageKey, value: Object) -> StoredObject:
        """Commit a new or changed object; its resourceVersion is set here."""
        table = self._table(key)
        stored = self._stamp(value)
        previous = table.objects.get(stored.key)
        table.objects[stored.key] = stored
        if previous is None:
            insort(table.keys, stored.key)
        kind = "ADDED" if previous is None else "MODIFIED"
        self._committed(key, table, Change(kind, stored, previous))
        return stored

    def remove(self, key: StorageKey, value: Object) -> StoredObject:
        """Commit a deletion; `value` is the last state."""
        table = self._table(key)
        stored = self._stamp(value)
        previous = table.objects.pop(stored.key)
        del table.keys[bisect_left(table.keys, stored.key)]
        self._committed(key, table, Change("DELETED", stored, previous))
        return stored

    def changes_after(self, key: StorageKey, version: int) -> list[Change]:
        """Return a resource's changes later than `version`, oldest first.

        Raises:
            CompactedError: some of them are compacted.
        """
        self._require(version)
        return self._changes_after(key, version)

    def undelivered(self, key: StorageKey, version: int) -> list[Change]:
        """Return a resource's changes later than `version` to someone who follows it.

        Unlike a newcomer he may be at a compacted version, as long as no change was lost to him.

        Raises:
            CompactedError: some of them are compacted.
        """
        if version < self._table(key).lost:
            raise CompactedError(version, self._compacted)
        return self._changes_after(key, version)

    def compact(self, version: int) -> None:
        """Forget the changes up to `version`, as etcd's compaction does."""
        version = min(version, self._version)
        if version <= self._compacted:
            return
        self._compacted = version
        for key, table in self._tables.items():
            kept = self._changes_after(key, version)
            if len(kept) < len(table.changes):
                table.lost = table.changes[-len(kept) - 1].resource_version
            table.changes = kept
            for listener in list(table.listeners.values()):
                listener()

    def listen(self, key: StorageKey, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back after every commit to a resource; returns how to stop."""
        listeners = self._table(key).listeners
        number = self._next_listener
        self._next_listener += 1
        listeners[number] = callback

        def stop() -> None:
            listeners.pop(number, None)

        return stop

    def on_commit(self, callback: Callable[[StorageKey, Change], None]) -> None:
        """Call back on every commit to any resource, before listeners."""
        self._on_commit.append(callback)

    def _stamp(self, value: Object) -> StoredObject:
        self._version += 1
        metadata: dict[str, Any] = {
            **value["metadata"],
            "resourceVersion": str(self._version),
        }
        ordered = {"apiVersion": value["apiVersion"], "kind": value["kind"], "metadata": metadata}
        rest = {k: v for k, v in value.items() if k not in ordered}
        return StoredObject({**ordered, **rest}, self._version)

    def _committed(self, key: StorageKey, table: _Table, change: Change) -> None:
        table.changes.append(change)
        # Compacting in steps keeps the amortized cost of a commit constant.
        if self._version - self._compacted > self._history_limit * 5 // 4:
            self.compact(self._version - self._history_limit)
        for callback in self._on_commit:
            callback(key, change)
        for listener in list(table.listeners.values()):
            listener()

    def _changes_after(self, key: StorageKey, version: int) -> list[Change]:
        changes = self._table(key).changes
        start = bisect_left(changes, version + 1, key=lambda change: change.resource_version)
        return changes[start:]

    def _require(self, version: int) -> None:
        if version < self._compacted:
            raise CompactedError(version, self._compacted)

    def _table(self, key: StorageKey) -> _Table:
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = _Table()
        return table
