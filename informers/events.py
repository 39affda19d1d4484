"""The two kinds of events: what a watch delivers, and what a store's change tells its handlers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from informers.objects import CachedObject


class WatchEventType(StrEnum):
    """`type` of a watch event on the wire."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    ERROR = "ERROR"


@dataclass(frozen=True, slots=True)
class WatchStatus:
    """The Status object of an ERROR event, or of a refused list or watch."""

    code: int
    reason: str = ""
    message: str = ""
    retry_after_seconds: float | None = None


class WatchEvent(NamedTuple):
    """One decoded line of a watch.

    ADDED, MODIFIED and DELETED carry `object`; BOOKMARK carries `resource_version` and, at the end
    of a WatchList's
    initial events, `initial_events_end` (annotation `k8s.io/initial-events-end`); ERROR carries
    `status`.
    """

    type: WatchEventType
    object: CachedObject | None = None
    resource_version: str = ""
    initial_events_end: bool = False
    status: WatchStatus | None = None


@dataclass(frozen=True, slots=True)
class Added:
    """An object came into the store; `initial` while the handler is being brought up to date."""

    object: CachedObject
    initial: bool = False


@dataclass(frozen=True, slots=True)
class Updated:
    """An object changed.

    `old` and `object` are the same on a resync, and differ in UID after a missed recreation.
    """

    old: CachedObject
    object: CachedObject

    @property
    def is_resync(self) -> bool:
        """Whether nothing changed. Objects without versions are told only when they did."""
        version = self.object.resource_version
        return self.old is self.object or (bool(version) and self.old.resource_version == version)


@dataclass(frozen=True, slots=True)
class Deleted:
    """An object left the store.

    `final_state_unknown` marks a tombstone: the deletion was found by a relist, `object` is the
    last state seen.
    """

    object: CachedObject
    final_state_unknown: bool = False


ObjectEvent = Added | Updated | Deleted
