"""Leader election, declared: which Lease, its times, and the fence that they make.

    0                                renew deadline                 lease
    |--- it leads, its writes go out ---|--- nobody writes -----------|--- others may claim -->

Time zero is when the leader *began* its last successful renewal. At the deadline the fence refuses
writes by the clock alone, whatever is running, paused or blocked. Nothing that comes later prolongs
it: neither an answer that was on its way, nor a renewal, which the same fence refuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from typing import Final, Literal

from dynamo_operator.runtime.lease import LONGEST_LEASE_SECONDS
from dynamo_operator.runtime.permissions import Permission
from informers.clock import Clock
from informers.objects import ObjectKey

RETRY_JITTER: Final = 1.2
"""By how much a pause between two tries is stretched at most."""


class LeaderElectionError(RuntimeError):
    """The Lease cannot be had, whatever time passes: its namespace is not there."""


class LeadershipLostError(RuntimeError):
    """The Lease was lost while leading; the leader-bound work has ended."""


@dataclass(frozen=True, slots=True)
class LeaderElection:
    """Which Lease a manager needs before it does leader-bound work, and how it competes for it.

    Args:
        name: of the Lease: candidates of one name compete with each other and with no others.
        namespace: of the Lease.
        identity: who the candidate is, e.g. the Pod's name; default the host's name. A random
            suffix makes it unique.
        lease_seconds: how long others wait for a renewal before they take over.
        renew_deadline_seconds: after so long without a renewal this candidate stops its work.
        retry_seconds: how often the holder renews, and how often candidates look that may not
            watch.
        release_on_exit: give the Lease up at a stop, so that others need not wait for its end.
        on_lost: end the manager with LeadershipLostError, or compete again in the same process.
        labels: of the Lease; others that are on it stay.

    Raises:
        ValueError: what cannot be.
    """

    name: str
    namespace: str
    identity: str = ""
    lease_seconds: float = 15.0
    renew_deadline_seconds: float = 10.0
    retry_seconds: float = 2.0
    release_on_exit: bool = True
    on_lost: Literal["exit", "campaign"] = "exit"
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for option in ("name", "namespace"):
            if not getattr(self, option):
                raise ValueError(f"leader election: {option} is empty: must name a Lease")
        if self.on_lost not in ("exit", "campaign"):
            raise ValueError(f"leader election: on_lost={self.on_lost!r}: must be exit or campaign")
        lease, deadline, retry = (
            self.lease_seconds,
            self.renew_deadline_seconds,
            self.retry_seconds,
        )
        if not 0 < retry * RETRY_JITTER < deadline < lease <= LONGEST_LEASE_SECONDS:
            raise ValueError(
                f"leader election: lease_seconds={lease:g}, renew_deadline_seconds={deadline:g}, "
                f"retry_seconds={retry:g}: must be {LONGEST_LEASE_SECONDS:g} >= lease > "
                f"renew deadline > {RETRY_JITTER:g} * retry > 0"
            )

    @property
    def key(self) -> ObjectKey:
        """The Lease's."""
        return ObjectKey(self.namespace, self.name)


def lease_permissions(name: str) -> tuple[Permission, ...]:
    """Return what a candidate may do in the Lease's namespace, and nowhere else.

    It records Events there, too, which every manager may do where it works.
    """
    leases = ("coordination.k8s.io", ("leases",))
    return (
        Permission(*leases, ("create",)),
        Permission(*leases, ("get", "list", "watch", "update"), names=(name,)),
    )


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time by both clocks: the monotonic one may stand still while a machine sleeps."""

    monotonic: float
    wall: datetime


class Leadership:
    """Until when this process leads: the fence of what leader-bound work writes.

    A wall clock that is set forward can only end a term early, one that is set back does nothing.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: Moment | None = None
        self._seconds = 0.0

    def moment(self) -> Moment:
        """Return the present one."""
        return Moment(self._clock.monotonic(), self._clock.now())

    def seconds_left(self) -> float:
        """Return for how long it surely leads still; zero or less when it does not."""
        if self._since is None:
            return -inf
        slept = (self._clock.now() - self._since.wall).total_seconds()
        return self._seconds - max(self._clock.monotonic() - self._since.monotonic, slept)

    def begin(self, since: Moment, seconds: float) -> None:
        """Lead for so long."""
        self._since, self._seconds = since, seconds

    def extend(self, since: Moment, seconds: float) -> bool:
        """Lead for so long, if the time before has not run out; return whether that is so."""
        if self.seconds_left() <= 0:
            return False
        self._since, self._seconds = since, seconds
        return True

    def end(self) -> None:
        """Lead no more."""
        self._since = None
