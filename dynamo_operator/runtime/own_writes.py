"""Own writes that an informer has not shown yet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from informers.clock import Clock
from informers.objects import ObjectKey
from informers.resource_versions import is_at_least
from informers.store import Lister

OwnerKey = tuple[str, str, ObjectKey]
"""API group, kind and key of the object whose reconcile has to wait for a write."""


DOUBT_SECONDS: Final = 60.0
"""How long the server may still be at work on a write whose answer did not come."""


@dataclass(slots=True)
class PendingWrite:
    """The newest writes to one object; `overdue` once somebody waited for them in vain.

    Until `in_doubt_until` nobody knows what came of one of them, so there is nothing to wait for.
    """

    key: ObjectKey
    resource_version: str = ""
    deleted_uid: str = ""
    owners: dict[OwnerKey, None] = field(default_factory=dict)
    overdue: bool = False
    in_doubt_until: float = 0.0


class OwnWrites:
    """The pending writes to the objects of one informer.

    A write is pending until the informer's resource version reaches the written one, or the object
    itself shows it; a deletion until the object of that UID is gone. Versions grow with time in one
    resource type, so an entry also ends when somebody else deletes or recreates the object. A write
    in doubt is pending, and overdue from the beginning, for as long as the server may still take
    it: the API server alone knows what there is.
    """

    def __init__(self, lister: Lister, clock: Clock) -> None:
        self._lister = lister
        self._clock = clock
        self._pending: dict[ObjectKey, PendingWrite] = {}
        self._by_owner: dict[OwnerKey, dict[ObjectKey, None]] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def wrote(self, key: ObjectKey, resource_version: str, owners: Iterable[OwnerKey]) -> None:
        """Record that a write of that key was answered with a resource version."""
        pending = self._record(key, owners)
        if not is_at_least(pending.resource_version, resource_version):
            pending.resource_version = resource_version
        pending.deleted_uid = ""
        self.settle()

    def deleted(self, key: ObjectKey, uid: str, owners: Iterable[OwnerKey]) -> None:
        """Record that the object of that key and UID was deleted."""
        self._record(key, owners).deleted_uid = uid
        self.settle()

    def doubted(self, key: ObjectKey, owners: Iterable[OwnerKey]) -> None:
        """Record that a write of that key may have been taken; an empty name is any name."""
        pending = self._record(key, owners)
        pending.overdue = True
        pending.in_doubt_until = self._clock.monotonic() + DOUBT_SECONDS

    def pending(self, key: ObjectKey) -> PendingWrite | None:
        """Return the write to that key that is not visible yet."""
        pending = self._pending.get(key)
        if pending is not None and self._is_visible(pending):
            self._drop(pending)
            return None
        return pending

    def pending_in(self, namespace: str) -> list[PendingWrite]:
        """Return the writes in a namespace ("": in any) that are not visible yet."""
        return [
            pending
            for key in tuple(self._pending)
            if (not namespace or key.namespace == namespace)
            and (pending := self.pending(key)) is not None
        ]

    def pending_for(self, owner: OwnerKey) -> list[PendingWrite]:
        """Return the writes that the owner's next reconcile has to see."""
        keys = self._by_owner.get(owner)
        if not keys:
            return []
        return [p for key in tuple(keys) if (p := self.pending(key)) is not None]

    def settle(self) -> None:
        """Forget what has become visible; entries are in the order of their first write."""
        while self._pending:
            oldest = next(iter(self._pending.values()))
            if not self._is_visible(oldest):
                return
            self._drop(oldest)

    def _record(self, key: ObjectKey, owners: Iterable[OwnerKey]) -> PendingWrite:
        pending = self.pending(key)
        if pending is None:
            pending = self._pending[key] = PendingWrite(key)
        pending.overdue = self._is_in_doubt(pending)
        for owner in owners:
            pending.owners[owner] = None
            self._by_owner.setdefault(owner, {})[key] = None
        return pending

    def _is_visible(self, pending: PendingWrite) -> bool:
        if self._is_in_doubt(pending):
            return False
        wanted, deleted_uid = pending.resource_version, pending.deleted_uid
        if wanted and not self._lister.has_seen(pending.key, wanted):
            return False
        return not deleted_uid or self._lister.is_gone(pending.key, deleted_uid)

    def _is_in_doubt(self, pending: PendingWrite) -> bool:
        until = pending.in_doubt_until
        return until > 0 and until > self._clock.monotonic()

    def _drop(self, pending: PendingWrite) -> None:
        del self._pending[pending.key]
        for owner in pending.owners:
            keys = self._by_owner[owner]
            keys.pop(pending.key, None)
            if not keys:
                del self._by_owner[owner]
