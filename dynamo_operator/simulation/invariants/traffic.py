"""Invariants about what a process sends, when, and when no more."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

from dynamo_operator.apiserver.storage import StorageKey
from dynamo_operator.simulation.history import EVENTS, LEASES, Call, Commit, History
from dynamo_operator.simulation.invariants.invariant import Rest, Silent, is_operator
from informers.objects import ObjectKey

LONGEST_HEEDED_SECONDS: Final = 30.0
"""A server that asks for longer is asked again after that."""


class Quiet(Silent):
    """I2, I11: where nothing is left to do, nothing is written, and hardly anything read.

    Args:
        most_reads: gets and lists of one resource by one process while it is quiet.
        free: resources that are written all the same.
    """

    name = "I2 quiet at rest"

    def __init__(
        self, *, most_reads: int = 200, free: Collection[StorageKey] = (LEASES, EVENTS)
    ) -> None:
        self._most_reads = most_reads
        self._free = set(free)

    def at_rest(self, rest: Rest) -> Iterator[str]:
        """Look for calls since all was done."""
        reads: defaultdict[tuple[str, int, StorageKey], int] = defaultdict(int)
        for call in reversed(rest.history.calls):
            if call.sent_seconds < rest.quiet_since:
                break
            if not is_operator(call.actor) or call.resource in self._free:
                continue
            if call.is_write:
                yield f"{call}: although all was done at {rest.quiet_since:.3f}"
            elif call.verb in ("get", "list"):
                place = call.actor, call.incarnation, call.resource
                reads[place] += 1
                if reads[place] == self._most_reads + 1:
                    yield f"{call}: one of more than {self._most_reads} reads at rest"


class NoHotLoop(Silent):
    """I2: the same write is not committed again and again while its object is what it was.

    Args:
        most: equal writes of one process to one object in a row, whatever they change of it.
        within_seconds: in which those are.
    """

    name = "I2 no hot loop"

    def __init__(self, *, most: int = 12, within_seconds: float = 60.0) -> None:
        self._most = most
        self._within_seconds = within_seconds
        self._same: dict[tuple[str, int, str], tuple[str, list[float]]] = {}

    def on_call(self, call: Call, history: History) -> Iterator[str]:
        """Compare a write with the ones before it."""
        if not call.is_write or not is_operator(call.actor) or call.resource in (LEASES, EVENTS):
            return
        if not 200 <= call.code < 300:
            return  # what fails is repeated, and may be
        place = call.actor, call.incarnation, call.what
        text = json.dumps(call.body, sort_keys=True)
        before, times = self._same.get(place, ("", []))
        times = [t for t in times if t > call.sent_seconds - self._within_seconds]
        times = [*times, call.sent_seconds] if before == text else [call.sent_seconds]
        self._same[place] = text, times
        if len(times) == self._most + 1:
            yield f"{call}: sent {len(times)} times in {times[-1] - times[0]:.1f} s"


class SingleWriter(Silent):
    """I8: a process that does not hold the Lease sends no write.

    It may write from the moment that it took or renewed the Lease until the renew deadline after
    the moment at which it sent that renewal.

    Args:
        renew_deadline_seconds: for how long a renewal is good.
        slack_seconds: that a write already on its way may take longer.
    """

    name = "I8 only the leader writes"

    def __init__(self, *, renew_deadline_seconds: float, slack_seconds: float = 0.5) -> None:
        self._good_for = renew_deadline_seconds + slack_seconds
        self._renewed: dict[tuple[str, int], float] = {}

    def on_call(self, call: Call, history: History) -> Iterable[str]:
        """Follow renewals."""
        if call.resource == LEASES and is_operator(call.actor) and 200 <= call.code < 300:
            process = call.actor, call.incarnation
            if call.is_write and (call.body or {}).get("spec", {}).get("holderIdentity"):
                self._renewed[process] = call.sent_seconds
            elif call.is_write:
                self._renewed.pop(process, None)  # it gave the Lease back
        return ()

    def on_commit(self, commit: Commit, history: History) -> Iterator[str]:
        """Look whether who writes leads."""
        call = commit.call
        if call is None or not is_operator(commit.actor) or commit.resource in (LEASES, EVENTS):
            return
        renewed = self._renewed.get((commit.actor, commit.incarnation))
        if renewed is None:
            yield f"{commit}: without holding the Lease"
        elif call.sent_seconds > renewed + self._good_for:
            yield (f"{commit}: sent {call.sent_seconds - renewed:.1f} s after its last renewal")


class HonoursRetryAfter(Silent):
    """I9: who is told to come back later does not come back with the same call before.

    Args:
        longest_seconds: for how long at most a server is heeded.
    """

    name = "I9 Retry-After is heeded"

    def __init__(self, *, longest_seconds: float = LONGEST_HEEDED_SECONDS) -> None:
        self._longest = longest_seconds
        self._until: dict[tuple[object, ...], float] = {}

    def on_call(self, call: Call, history: History) -> Iterator[str]:
        """Note how long to stay away, and who did not."""
        place = call.actor, call.incarnation, call.what, *_asker(call)
        if not is_operator(call.actor):
            return
        until = self._until.get(place, 0.0)
        if call.sent_seconds < until - 1e-6:
            yield f"{call}: sent {until - call.sent_seconds:.3f} s before it was to be"
        asked = call.retry_after_seconds
        if call.code in (429, 503) and asked is not None and asked > 0:
            answered = call.answered_seconds or call.sent_seconds
            self._until[place] = answered + min(asked, self._longest)


def _asker(call: Call) -> tuple[object, ...]:
    """Return what tells apart two who ask the same at once: reconciles, and watches of parts."""
    selectors = [pair for pair in call.query if pair[0] in ("labelSelector", "fieldSelector")]
    reconcile = call.reconcile
    who = (reconcile.controller, reconcile.key) if reconcile is not None else ()
    return (*who, *selectors)


class RetryEconomy(Silent):
    """I9: while nothing works, a process does not send more than a budget of calls.

    Args:
        burst: calls of one process in one window that are always fine.
        per_second: calls of one process in addition.
        window_seconds: the length in which is counted.
    """

    name = "I9 faults are not answered with a storm"

    def __init__(
        self, *, burst: int = 200, per_second: float = 5.0, window_seconds: float = 60.0
    ) -> None:
        self._most = burst + int(per_second * window_seconds)
        self._window = window_seconds
        self._failed: defaultdict[tuple[str, int], list[float]] = defaultdict(list)

    def on_call(self, call: Call, history: History) -> Iterator[str]:
        """Count the calls that came to nothing."""
        if not is_operator(call.actor) or (call.code and call.code not in (429, 500, 503, 504)):
            return
        times = self._failed[call.actor, call.incarnation]
        times.append(call.sent_seconds)
        while times and times[0] < call.sent_seconds - self._window:
            times.pop(0)
        if len(times) == self._most + 1:
            yield f"{call}: one of {len(times)} failures in {self._window:g} s"


class Permitted(Silent):
    """I17: an operator asks only for what it may have, and what the server understands.

    Args:
        codes: refusals that no fault of the outside explains.
        may: whether a refused call is in order all the same.
    """

    name = "I17 nothing is asked that is never granted"

    def __init__(
        self,
        *,
        codes: Collection[int] = (400, 401, 403, 405, 413, 422),
        may: Callable[[Call], bool] = lambda call: False,
    ) -> None:
        self._codes = set(codes)
        self._may = may

    def on_call(self, call: Call, history: History) -> Iterator[str]:
        """Look at a refusal that was not injected."""
        if not is_operator(call.actor) or call.fault or call.code not in self._codes:
            return
        if ("sendInitialEvents", "true") in call.query:
            return  # whether a server can do that is found out by asking
        if not self._may(call):
            yield f"{call}: {call.reason}"


class OneAtATime(Silent):
    """I12: a key is never reconciled twice at once by one controller of one process."""

    name = "I12 one reconcile of a key at a time"

    def __init__(self) -> None:
        self._current: dict[tuple[str, int, str, ObjectKey], str] = {}
        self._over: set[tuple[str, int, str, ObjectKey, str]] = set()

    def on_call(self, call: Call, history: History) -> Iterator[str]:
        """Look whether two attempts take turns."""
        reconcile = call.reconcile
        if reconcile is None:
            return
        place = call.actor, call.incarnation, reconcile.controller, reconcile.key
        current = self._current.get(place)
        if current == reconcile.id:
            return
        if (*place, reconcile.id) in self._over:
            yield f"{call}: {reconcile.controller} {reconcile.key} is reconciled twice at once"
            return
        if current is not None:
            self._over.add((*place, current))
        self._current[place] = reconcile.id


class CleanStop(Silent):
    """I16: what is told to stop does so in time, and sends nothing any more.

    Args:
        within_seconds: how long a stop may take; None for any time. What was paused meanwhile is
            not asked.
    """

    name = "I16 a stop is clean"

    def __init__(self, *, within_seconds: float | None = None) -> None:
        self._within_seconds = within_seconds

    def at_rest(self, rest: Rest) -> Iterator[str]:
        """Look for late ends, and for calls later than the end of their process."""
        ends: dict[tuple[str, int], float] = {}
        told: dict[tuple[str, int], float] = {}
        paused: set[tuple[str, int]] = set()
        for mark in rest.history.marks:
            process = mark.actor, mark.incarnation
            if mark.what in ("stopped", "killed"):
                ends.setdefault(process, mark.seconds)
                yield from self._late(mark.seconds, process, told)
            elif mark.what == "told to stop":
                told[process] = float("inf") if process in paused else mark.seconds
            elif mark.what == "paused":
                told[process] = float("inf")
                paused.add(process)
            elif mark.what == "resumed":
                paused.discard(process)
        for call in rest.history.calls:
            end = ends.get((call.actor, call.incarnation))
            if end is not None and call.sent_seconds > end:
                yield f"{call}: its process ended at {end:.3f}"

    def _late(
        self, end: float, process: tuple[str, int], told: Mapping[tuple[str, int], float]
    ) -> Iterator[str]:
        took = end - told.get(process, float("inf"))
        if self._within_seconds is not None and took > self._within_seconds:
            yield f"{process[0]}/{process[1]} took {took:.1f} s to stop"


class Confidential(Silent):
    """I19: none of these texts shows in what operators write or log.

    Args:
        canaries: secrets that were planted in tokens, Secrets and environments.
        allowed: resources that may hold them.
    """

    name = "I19 nothing secret is told"

    def __init__(self, *canaries: str, allowed: Collection[StorageKey] = ()) -> None:
        self._canaries = canaries
        self._allowed = set(allowed)

    def on_commit(self, commit: Commit, history: History) -> Iterator[str]:
        """Look for canaries in what an operator wrote."""
        if not is_operator(commit.actor) or commit.resource in self._allowed:
            return
        text = json.dumps(commit.after)
        for canary in self._canaries:
            if canary in text:
                yield f"{commit}: tells a secret"

    def at_rest(self, rest: Rest) -> Iterator[str]:
        """Look for canaries in the logs."""
        for line in rest.lines:
            if any(canary in line for canary in self._canaries):
                yield "a log line tells a secret"
