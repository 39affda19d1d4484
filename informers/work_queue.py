"""The work queue: which key to reconcile next, never the same key twice at once.

States of a key::

    absent --add--> READY --get--> processing --done--> absent
    absent --add(after)--> WAITING --time--> READY

While a key is processing, adding it again makes a second, pending entry for it::

    add--> PARKED --done--> READY           add(after)--> WAITING --time--> PARKED

Invariants:
    - One pending entry for each key at most, and one processing entry.
    - Merging keeps the shorter delay and the higher priority; a ready entry stays ready, and one
      whose priority was raised goes behind those that are there already.
    - READY entries are never of a key that is processing, so the head of a level can be taken.
    - `get` takes an item in the step in which it returns. A waiter is only woken, never handed
      anything, so a cancelled `get` loses nothing.
    - No method awaits between reading and writing; only `get` and `wait_drained` await at all.

Among ready entries the highest priority goes first, and first come first served within one. So that
a steady stream of urgent keys cannot starve the others, an entry that was ready for longer than
`ageing_seconds` gets every `aged_share`-th turn, whatever its level: the one that waited longest.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict, deque
from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, IntEnum
from heapq import heapify, heappop, heappush
from typing import Generic, NamedTuple, TypeVar

from informers.clock import Clock, SystemClock
from informers.errors import QueueShutDownError
from informers.objects import ObjectKey, ResourceType
from informers.observers import QueueObserver
from informers.rate_limiters import ItemExponential, RateLimiter

K = TypeVar("K", bound=Hashable)

AGEING_SECONDS = 30.0
AGED_SHARE = 5


class Priority(IntEnum):
    """Usual priorities; any integer is one."""

    LOW = -100  # an initial list, a resync
    NORMAL = 0
    HIGH = 100


class Trigger(NamedTuple):
    """Why a key was queued, for logs: a reason, and the object that caused it where one did."""

    reason: str
    resource_type: ResourceType | None = None
    key: ObjectKey | None = None

    def __str__(self) -> str:
        if self.resource_type is None:
            return self.reason
        return f"{self.reason} {self.resource_type.kind} {self.key}"


class QueueItem(Generic[K]):
    """What `get` hands out: items of the same key are equal.

    Args:
        key: what was added.
        priority: the highest it was added with.
        attempts: counts this one and the failures before it.
        trigger: why it was added, where that was said.
    """

    __slots__ = ("attempts", "key", "priority", "trigger")

    def __init__(
        self,
        key: K,
        priority: int = Priority.NORMAL,
        attempts: int = 1,
        trigger: Trigger | None = None,
    ) -> None:
        self.key: K = key
        self.priority: int = priority
        self.attempts: int = attempts
        self.trigger: Trigger | None = trigger

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QueueItem) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return (
            f"QueueItem({self.key!r}, priority={self.priority}, attempts={self.attempts}, "
            f"trigger={self.trigger!r})"
        )


@dataclass(frozen=True, slots=True)
class WorkQueueStatistics:
    """A snapshot. Mappings are by priority."""

    ready: Mapping[int, int]
    oldest_ready_seconds: Mapping[int, float]
    waiting: int
    parked: int
    processing: int
    longest_processing_seconds: float
    unfinished_seconds: float
    is_shut_down: bool


class _State(Enum):
    READY = "ready"
    WAITING = "waiting"
    PARKED = "parked"


# Looking a member up in its class costs ten times as much as a global name.
_READY, _WAITING, _PARKED = _State


class _Entry(Generic[K]):
    """A key that is to be handed out some time; gone from the queue once `state` is None."""

    __slots__ = ("key", "priority", "ready_at", "state", "trigger")

    def __init__(self, key: K, priority: int, trigger: Trigger | None) -> None:
        self.key = key
        self.priority = priority
        self.trigger = trigger
        self.state: _State | None = None
        self.ready_at = 0.0


class WorkQueue(Generic[K]):
    """One queue: deduplicated, delayed, by priority, with a growing delay for keys that fail.

    Args:
        rate_limiter: the delays of `add(rate_limited=True)`; per key 5 ms to 1000 s by default.
        clock: measures delays and waits.
        observer: told of every change.
        ageing_seconds: how long an entry waits for a higher priority before it gets its share;
            infinity for strict priorities.
        aged_share: every so many turns one is for such an entry.
    """

    def __init__(
        self,
        *,
        rate_limiter: RateLimiter[K] | None = None,
        clock: Clock | None = None,
        observer: QueueObserver | None = None,
        ageing_seconds: float = AGEING_SECONDS,
        aged_share: int = AGED_SHARE,
    ) -> None:
        if aged_share < 1:
            raise ValueError(f"aged_share={aged_share}: must be at least 1")
        self._limiter: RateLimiter[K] = rate_limiter or ItemExponential()
        self._clock = clock or SystemClock()
        self._observer = observer or QueueObserver()
        self._ageing = ageing_seconds
        self._aged_share = aged_share
        self._pending: dict[K, _Entry[K]] = {}
        self._levels: dict[int, OrderedDict[K, _Entry[K]]] = {}
        self._order: list[int] = []  # the levels that are not empty, highest first
        self._delayed: list[tuple[float, int, _Entry[K]]] = []
        self._waiting = 0
        self._sequence = 0
        self._processing: dict[K, float] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._drained: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = math.inf
        self._turns = 0
        self._shut_down = False

    @property
    def is_shut_down(self) -> bool:
        """Whether there will be no more items."""
        return self._shut_down

    def __len__(self) -> int:
        """Count the ready items."""
        return sum(len(level) for level in self._levels.values())

    def add(
        self,
        key: K,
        *,
        priority: int = Priority.NORMAL,
        after: float = 0.0,
        rate_limited: bool = False,
        trigger: Trigger | None = None,
    ) -> None:
        """Queue `key`, merging with an entry that it already has. Ignored after the shutdown.

        Args:
            key: what to hand out.
            priority: higher goes first.
            after: seconds until it is ready; zero or less for now.
            rate_limited: charge a failure to the key and wait as long as the limiter says; with
                `after` too, the shorter wait counts.
            trigger: why, for logs.

        Raises:
            ValueError: `after` is not a finite number.
        """
        if self._shut_down:
            return
        if after and not math.isfinite(after):
            raise ValueError(f"after={after}: must be a finite number of seconds")
        delay = after
        if rate_limited:
            limited = self._limiter.when(key)
            delay = min(limited, after) if after > 0 else limited
        now = self._clock.monotonic()
        if delay > 0:
            self._observer.retried()
        entry = self._pending.get(key)
        if entry is None:
            entry = self._pending[key] = _Entry(key, priority, trigger)
        else:
            self._raise_priority(entry, priority)
            if entry.state is not _WAITING:
                return
            if delay > 0 and now + delay >= entry.ready_at:
                return
            entry.trigger = trigger or entry.trigger
        if delay > 0:
            self._delay(entry, now + delay)
        else:
            self._make_ready(entry, now)

    async def get(self) -> QueueItem[K]:
        """Wait for the next item and take it; `done` must follow.

        Raises:
            QueueShutDownError: there are no more items.
        """
        while True:
            if self._shut_down:
                raise QueueShutDownError("the work queue is shut down")
            item = self._take()
            if item is not None:
                return item
            getter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                with suppress(ValueError):
                    self._getters.remove(getter)
                if self._order and not getter.cancelled():
                    self._wake_one()  # this wake-up was for an item: pass it on
                raise

    def get_nowait(self) -> QueueItem[K] | None:
        """Take the next item if one is ready; `done` must follow."""
        return None if self._shut_down else self._take()

    def done(self, key: K) -> None:
        """Say that the work on `key` ended; if it was added meanwhile, it becomes ready now.

        Raises:
            ValueError: `key` was not handed out, or is done already.
        """
        started = self._processing.pop(key, None)
        if started is None:
            raise ValueError(f"done({key}): it is not being processed")
        now = self._clock.monotonic()
        self._observer.finished(now - started)
        entry = self._pending.get(key)
        if entry is not None and entry.state is _PARKED:
            self._make_ready(entry, entry.ready_at)
        if not self._processing:
            self._report_drained()

    def forget(self, key: K) -> None:
        """Start the key's growing delay over; a queued or delayed entry stays."""
        self._limiter.forget(key)

    def retries(self, key: K) -> int:
        """Count the failures charged to `key` since it was forgotten."""
        return self._limiter.retries(key)

    def shut_down(self) -> None:
        """Drop what is queued, make every `get` raise and ignore later adds. May be repeated."""
        if self._shut_down:
            return
        self._shut_down = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for level in self._order:
            self._observer.depth_changed(level, 0)
        self._pending.clear()
        self._levels.clear()
        self._order.clear()
        self._delayed.clear()
        self._waiting = 0
        while self._getters:
            self._wake_one()

    async def wait_drained(self) -> None:
        """Wait until no item is being processed."""
        if self._processing:
            drained: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._drained.append(drained)
            await drained

    def statistics(self) -> WorkQueueStatistics:
        """Return a snapshot."""
        now = self._clock.monotonic()
        ages = [now - started for started in self._processing.values()]
        return WorkQueueStatistics(
            ready={p: len(self._levels[p]) for p in self._order},
            oldest_ready_seconds={p: now - self._head(p).ready_at for p in self._order},
            waiting=self._waiting,
            parked=len(self._pending) - self._waiting - len(self),
            processing=len(ages),
            longest_processing_seconds=max(ages, default=0.0),
            unfinished_seconds=sum(ages),
            is_shut_down=self._shut_down,
        )

    def _take(self) -> QueueItem[K] | None:
        now = self._clock.monotonic()
        if self._timer_due <= now:
            self._promote_due()
        if not self._order:
            return None
        priority = self._next_level(now)
        level = self._levels[priority]
        key, entry = level.popitem(last=False)
        self._level_shrank(priority, level)
        del self._pending[key]
        entry.state = None
        self._processing[key] = now
        self._observer.taken(now - entry.ready_at)
        return QueueItem(key, priority, self._limiter.retries(key) + 1, entry.trigger)

    def _next_level(self, now: float) -> int:
        """Choose the level whose head goes next: the highest, or an aged one when it is due."""
        if len(self._order) == 1:
            return self._order[0]
        self._turns += 1
        if self._turns >= self._aged_share:
            oldest = min(self._order[1:], key=lambda level: self._head(level).ready_at)
            if now - self._head(oldest).ready_at > self._ageing:
                self._turns = 0
                return oldest
        return self._order[0]

    def _head(self, priority: int) -> _Entry[K]:
        return next(iter(self._levels[priority].values()))

    def _raise_priority(self, entry: _Entry[K], priority: int) -> None:
        if priority <= entry.priority:
            return
        if entry.state is _READY:
            level = self._levels[entry.priority]
            del level[entry.key]
            self._level_shrank(entry.priority, level)
            entry.priority = priority
            self._append(entry)
        else:
            entry.priority = priority

    def _delay(self, entry: _Entry[K], ready_at: float) -> None:
        """Let `entry` wait until then; an earlier place of it in the heap becomes stale."""
        if entry.state is not _WAITING:
            entry.state = _WAITING
            self._waiting += 1
        entry.ready_at = ready_at
        self._sequence += 1
        heappush(self._delayed, (ready_at, self._sequence, entry))
        if len(self._delayed) > 2 * self._waiting + 64:
            self._delayed = [place for place in self._delayed if _is_current(place)]
            heapify(self._delayed)
        if ready_at < self._timer_due:
            self._set_timer(ready_at)

    def _make_ready(self, entry: _Entry[K], ready_at: float) -> None:
        if entry.state is _WAITING:
            self._waiting -= 1
        entry.ready_at = ready_at
        if entry.key in self._processing:
            entry.state = _PARKED
            return
        entry.state = _READY
        self._append(entry)
        self._observer.added()
        self._wake_one()

    def _append(self, entry: _Entry[K]) -> None:
        level = self._levels.get(entry.priority)
        if level is None:
            level = self._levels[entry.priority] = OrderedDict()
            self._order.append(entry.priority)
            self._order.sort(reverse=True)
        level[entry.key] = entry
        self._observer.depth_changed(entry.priority, len(level))

    def _level_shrank(self, priority: int, level: OrderedDict[K, _Entry[K]]) -> None:
        if not level:
            del self._levels[priority]
            self._order.remove(priority)
        self._observer.depth_changed(priority, len(level))

    def _promote_due(self) -> None:
        """Make every entry ready whose time has come, in the order of those times."""
        now = self._clock.monotonic()
        while self._delayed:
            place = self._delayed[0]
            if _is_current(place):
                if place[0] > now:
                    break
                self._make_ready(place[2], place[0])
            heappop(self._delayed)
        self._set_timer(self._delayed[0][0] if self._delayed else math.inf)

    def _set_timer(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_due = due
        if due < math.inf:
            loop = asyncio.get_running_loop()
            delay = max(0.0, due - self._clock.monotonic())
            self._timer = loop.call_at(loop.time() + delay, self._promote_due)

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _report_drained(self) -> None:
        for drained in self._drained:
            if not drained.done():
                drained.set_result(None)
        self._drained.clear()


def _is_current(place: tuple[float, int, _Entry[K]]) -> bool:
    ready_at, _, entry = place
    return entry.state is _WAITING and entry.ready_at == ready_at
