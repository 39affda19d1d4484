"""The Lease that candidates compete for: what is known of it, and what to write into it.

Nothing here does I/O or compares the times that others wrote: a candidate measures, by its own
monotonic clock, how long the record has not changed before its eyes.

    what was seen last            when it may be claimed
    nobody's, or our own          at once
    another's                     once it has not changed for the duration that it names
    no Lease, and none before     at once
    no Lease any more             when the record that was there would have run out: its holder may
                                  not have noticed yet

A duration that is missing, or beyond ten minutes, was written by nobody who competes in earnest;
the candidate's own takes its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from math import ceil, inf
from typing import Any, Final

from dynamo_operator.runtime.builtin_kinds import Lease
from informers.objects import ObjectKey
from informers.resource_versions import is_at_least, is_older

LONGEST_LEASE_SECONDS: Final = 600.0

_MOST_TRANSITIONS: Final = 2**31 - 1  # the field is an int32
_RELEASED_SECONDS: Final = 1


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """What a Lease says of its holder; whatever is of the wrong form counts as absent."""

    holder: str = ""
    duration_seconds: float | None = None
    acquire_time: str = ""
    renew_time: str = ""
    transitions: int = 0

    @classmethod
    def of(cls, lease: Mapping[str, Any]) -> LeaseRecord:
        """Read a Lease's JSON."""
        spec = lease.get("spec")
        if not isinstance(spec, Mapping):
            return cls()
        return cls(
            _text(spec.get("holderIdentity")),
            _positive(spec.get("leaseDurationSeconds")),
            _text(spec.get("acquireTime")),
            _text(spec.get("renewTime")),
            int(_positive(spec.get("leaseTransitions")) or 0),
        )


class LeaseView:
    """What one candidate has seen of the Lease, and what follows.

    Args:
        key: the Lease's.
        identity: the candidate's, which no other candidate has.
        lease_seconds: the duration that it claims, and assumes where another's cannot be.
        labels: what it writes on the Lease, beside the labels that are there.
    """

    def __init__(
        self, key: ObjectKey, *, identity: str, lease_seconds: float, labels: Mapping[str, str]
    ) -> None:
        self.key = key
        self.record: LeaseRecord = LeaseRecord()
        self.is_known: bool = False
        self._identity = identity
        self._lease_seconds = lease_seconds
        self._labels = dict(labels)
        self._lease: Mapping[str, Any] | None = None
        self._version = ""
        self._claimable_at = -inf

    @property
    def exists(self) -> bool:
        """Whether there is a Lease, as far as is known."""
        return self._lease is not None

    @property
    def is_ours(self) -> bool:
        """Whether this candidate holds it."""
        return self.exists and self.record.holder == self._identity

    @property
    def is_others(self) -> bool:
        """Whether another candidate holds it."""
        return self.exists and self.record.holder not in ("", self._identity)

    @property
    def version(self) -> str:
        """The newest that was seen of it, even if it was deleted since; "" before any."""
        return self._version

    @property
    def claimable_at(self) -> float:
        """When it may be claimed, in monotonic time."""
        return self._claimable_at

    @property
    def reference(self) -> dict[str, Any]:
        """The Lease as an Event refers to it."""
        metadata = (self._lease or {}).get("metadata") or {}
        of_type = Lease.resource_type
        return {
            "apiVersion": of_type.api_version,
            "kind": of_type.kind,
            "metadata": {
                "namespace": self.key.namespace,
                "name": self.key.name,
                "uid": metadata.get("uid", ""),
            },
        }

    def see(self, lease: Mapping[str, Any], now: float, *, asked_at: str = "") -> bool:
        """Take a Lease as it was read or written; return whether that was news.

        Args:
            lease: the Lease.
            now: monotonic time.
            asked_at: the version that was known before the server was asked for it. An answer
                from before that comes from a server that was set back, to a backup say, and counts.
        """
        version = str((lease.get("metadata") or {}).get("resourceVersion") or "")
        is_late = self.is_known and self._version and is_at_least(self._version, version)
        if is_late and not is_older(version, asked_at):
            return False
        record = LeaseRecord.of(lease)
        changed = not self.exists or record != self.record
        self.is_known, self._lease, self._version = True, lease, version
        if changed:
            self.record = record
            self._claimable_at = now + self._duration() if self.is_others else -inf
        return changed

    def see_none(self, now: float, *, last_version: str = "") -> bool:
        """Take that there is no Lease; return whether that was news.

        Args:
            now: monotonic time.
            last_version: of the Lease that was deleted, if that is how it is known.
        """
        if last_version and is_older(last_version, self._version):
            return False
        changed = self.exists or not self.is_known
        if changed and not self.is_others:
            self._claimable_at = -inf
        self.is_known = True
        self._lease = None
        return changed

    def claim(self, now: datetime) -> dict[str, Any]:
        """Return the Lease that makes this candidate its holder, or says that it still is."""
        time = _micro_time(now)
        held = self.record.holder == self._identity
        transitions = self.record.transitions + (0 if held or self.record == LeaseRecord() else 1)
        return self._changed(
            holderIdentity=self._identity,
            leaseDurationSeconds=ceil(self._lease_seconds),
            acquireTime=self.record.acquire_time if held and self.record.acquire_time else time,
            renewTime=time,
            leaseTransitions=min(transitions, _MOST_TRANSITIONS),
        )

    def release(self, now: datetime) -> dict[str, Any]:
        """Return the Lease as nobody's."""
        time = _micro_time(now)
        return self._changed(
            holderIdentity="",
            leaseDurationSeconds=_RELEASED_SECONDS,
            acquireTime=time,
            renewTime=time,
            leaseTransitions=self.record.transitions,
        )

    def _changed(self, **spec: Any) -> dict[str, Any]:
        present = self._lease or {}
        metadata = dict(present.get("metadata") or {})
        metadata |= {"namespace": self.key.namespace, "name": self.key.name}
        labels = {**(metadata.get("labels") or {}), **self._labels}
        if labels:
            metadata["labels"] = labels
        return {**present, "metadata": metadata, "spec": {**(present.get("spec") or {}), **spec}}

    def _duration(self) -> float:
        duration = self.record.duration_seconds
        if duration is None or duration > LONGEST_LEASE_SECONDS:
            return self._lease_seconds
        return duration


def _micro_time(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _positive(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        return None
    return float(value)
