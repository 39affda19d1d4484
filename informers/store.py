"""The local copy of one type's objects: `Store` writes it, `Lister` reads it.

Each method is one step of the event loop: readers see every change whole, indexes included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from informers.events import Added, Deleted, ObjectEvent, Updated, WatchEvent, WatchEventType
from informers.indexers import BY_NAMESPACE, Index
from informers.objects import CachedObject, ObjectKey
from informers.resource_versions import is_at_least, is_older

_DELETED = WatchEventType.DELETED  # a lookup in the class costs ten times as much

IndexFailed = Callable[[Index, CachedObject, Exception], None]


class Store:
    """The only writer of the copy.

    Args:
        indexes: kept from the start; more may be added at any time.
        index_failed: told when an index function raised; the object is then not found through that
            index, and everything else goes on.
    """

    def __init__(
        self, indexes: Iterable[Index] = (), *, index_failed: IndexFailed | None = None
    ) -> None:
        self._contents = _Contents()
        self._index_failed = index_failed
        self._replaced = False
        self.lister: Lister = Lister(self._contents)
        for index in indexes:
            self.add_index(index)

    def add_index(self, index: Index) -> None:
        """Keep `index` from now on, over the present objects too. Adding it again does nothing.

        Raises:
            ValueError: another index has that name.
        """
        tables = self._contents.indexes
        present = tables.get(index.name)
        if present is None:
            table = _IndexTable(index, self._index_failed)
            for obj in self._contents.objects.values():
                table.move(obj.key, None, obj)
            tables[index.name] = table
        elif present.index != index:
            raise ValueError(f"index {index.name!r}: the name is taken by another function")

    def apply(self, event: WatchEvent) -> ObjectEvent | None:
        """Apply one event of a watch and return what changed, if anything did.

        A bookmark moves the resource version only. An event older than the copy (a repeated or
        reordered line) changes nothing.
        """
        obj = event.object
        if obj is None:
            self._advance(event.resource_version)
            return None
        key = obj.key
        old = self._contents.objects.get(key)
        if old is not None and is_older(obj.resource_version, old.resource_version):
            return None
        self._advance(obj.resource_version)
        if event.type is _DELETED:
            if old is None:
                return None
            self._remove(key, old)
            return Deleted(obj)
        self._put(key, old, obj)
        return Added(obj) if old is None else Updated(old, obj)

    def replace(self, objects: Iterable[CachedObject], resource_version: str) -> list[ObjectEvent]:
        """Make the copy equal to a full list and return the difference.

        First a tombstone for every object that is gone, then the list's own order. An object whose
        UID and version (without one: whose JSON) are as before gives no event; a new UID under an
        old name is one Updated.
        """
        contents = self._contents
        listed = {obj.key: obj for obj in objects}
        initial = not self._replaced
        events: list[ObjectEvent] = []
        for key, old in [(k, o) for k, o in contents.objects.items() if k not in listed]:
            self._remove(key, old)
            events.append(Deleted(old, final_state_unknown=True))
        for key, obj in listed.items():
            present = contents.objects.get(key)
            if present is None:
                events.append(Added(obj, initial=initial))
            elif _is_same(present, obj):
                continue
            else:
                events.append(Updated(present, obj))
            self._put(key, present, obj)
        # A list is the one thing that may move the version back: the server's history restarted.
        contents.resource_version = resource_version
        self._replaced = True
        return events

    def _advance(self, resource_version: str) -> None:
        if resource_version and not is_older(resource_version, self._contents.resource_version):
            self._contents.resource_version = resource_version

    def _put(self, key: ObjectKey, old: CachedObject | None, obj: CachedObject) -> None:
        contents = self._contents
        contents.data_bytes += len(obj.data)
        if old is None:
            contents.sorted_keys = None
        else:
            contents.data_bytes -= len(old.data)
            # The key is in memory once, however often the object changes.
            obj = CachedObject._make((old.key, *obj[1:]))
        contents.objects[key] = obj
        for table in contents.indexes.values():
            table.move(key, old, obj)

    def _remove(self, key: ObjectKey, old: CachedObject) -> None:
        contents = self._contents
        del contents.objects[key]
        contents.data_bytes -= len(old.data)
        contents.sorted_keys = None
        for table in contents.indexes.values():
            table.move(key, old, None)


def _is_same(present: CachedObject, obj: CachedObject) -> bool:
    if present.uid != obj.uid or present.resource_version != obj.resource_version:
        return False
    return bool(obj.resource_version) or present.data == obj.data


class Lister:
    """The read side: objects in the order of their keys."""

    __slots__ = ("_contents",)

    def __init__(self, contents: _Contents) -> None:
        self._contents = contents

    @property
    def resource_version(self) -> str:
        """Version of the last event, bookmark or list that was applied; empty before the first."""
        return self._contents.resource_version

    @property
    def data_bytes(self) -> int:
        """Bytes of JSON held."""
        return self._contents.data_bytes

    def __len__(self) -> int:
        return len(self._contents.objects)

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._contents.objects

    def find(self, key: ObjectKey) -> CachedObject | None:
        """Return the object of that key, or None."""
        return self._contents.objects.get(key)

    def get(self, key: ObjectKey) -> CachedObject:
        """Return the object of that key.

        Raises:
            KeyError: there is none.
        """
        return self._contents.objects[key]

    def keys(self) -> list[ObjectKey]:
        """Return all keys, sorted."""
        return list(self._contents.in_order())

    def by_index(self, index: Index | str, value: str) -> list[CachedObject]:
        """Return the objects that the index has under that value.

        BY_NAMESPACE may be asked for without being kept, which pays where there are several.

        Raises:
            KeyError: there is no such index; the message names those there are.
        """
        name = index if isinstance(index, str) else index.name
        table = self._contents.indexes.get(name)
        if table is None:
            if name == BY_NAMESPACE.name:
                return self.list(value)
            known = ", ".join(sorted(self._contents.indexes)) or "none"
            raise KeyError(f"index {name!r} does not exist (there are: {known})")
        objects = self._contents.objects
        return [objects[key] for key in sorted(table.keys.get(value, ()))]

    def has_seen(self, key: ObjectKey, resource_version: str) -> bool:
        """Whether the copy is at least as new, for that key, as a write which gave that version."""
        if is_at_least(self._contents.resource_version, resource_version):
            return True
        obj = self._contents.objects.get(key)
        return obj is not None and is_at_least(obj.resource_version, resource_version)

    def is_gone(self, key: ObjectKey, uid: str) -> bool:
        """Whether no object of that key and UID is held; a successor of the name has another."""
        obj = self._contents.objects.get(key)
        return obj is None or obj.uid != uid

    def list(self, namespace: str = "") -> list[CachedObject]:
        """Return all objects, or those of one namespace."""
        objects = self._contents.objects
        if not namespace:
            return [objects[key] for key in self._contents.in_order()]
        if BY_NAMESPACE.name in self._contents.indexes:
            return self.by_index(BY_NAMESPACE, namespace)
        return [objects[key] for key in self._contents.in_order() if key.namespace == namespace]


class _Contents:
    """What a Store and its Lister share."""

    __slots__ = ("data_bytes", "indexes", "objects", "resource_version", "sorted_keys")

    def __init__(self) -> None:
        self.objects: dict[ObjectKey, CachedObject] = {}
        self.indexes: dict[str, _IndexTable] = {}
        self.resource_version: str = ""
        self.data_bytes: int = 0
        self.sorted_keys: list[ObjectKey] | None = None

    def in_order(self) -> list[ObjectKey]:
        if self.sorted_keys is None:
            self.sorted_keys = sorted(self.objects)
        return self.sorted_keys


class _IndexTable:
    """One index's keys by value."""

    __slots__ = ("_failed", "index", "keys")

    def __init__(self, index: Index, failed: IndexFailed | None) -> None:
        self.index = index
        # Keys are those of dictionaries: sets take three times the room.
        self.keys: dict[str, dict[ObjectKey, None]] = {}
        self._failed = failed

    def move(self, key: ObjectKey, old: CachedObject | None, new: CachedObject | None) -> None:
        """Take `key` from under the values of `old` and put it under those of `new`."""
        if self.index.by_key and old is not None and new is not None:
            return
        before = () if old is None else self._values(old)
        after = () if new is None else self._values(new, report=True)
        if before == after:
            return
        for value in before:
            keys = self.keys.get(value)
            if keys is not None:
                keys.pop(key, None)
                if not keys:
                    del self.keys[value]
        for value in after:
            keys = self.keys.get(value)
            if keys is None:
                keys = self.keys[value] = {}
            keys[key] = None

    def _values(self, obj: CachedObject, *, report: bool = False) -> tuple[str, ...]:
        try:
            return tuple(self.index.function(obj))
        except Exception as error:  # noqa: BLE001 (a caller's function; the object must be kept)
            if report and self._failed is not None:
                self._failed(self.index, obj, error)
            return ()
