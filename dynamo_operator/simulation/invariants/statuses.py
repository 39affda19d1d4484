"""Invariants about what a status says: only forward, only the truth, about the current spec."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from dynamo_operator.apiserver.resources import Object
from dynamo_operator.apiserver.storage import StorageKey
from dynamo_operator.runtime.models import KubeModel
from dynamo_operator.simulation.history import Call, Commit, History
from dynamo_operator.simulation.invariants.invariant import (
    Rest,
    Silent,
    conditions_of,
    is_operator,
    status_of,
    storage_key,
)


class StatusForward(Silent):
    """I6: what a status says of one instance never goes back.

    - A phase is followed only by one that `phases` allows; one that allows none is terminal, and
      then nothing named in `frozen` changes any more.
    - `observedGeneration` and the fields named in `growing` never fall.
    - The fields named in `once` are set once.
    - A condition's `lastTransitionTime` changes if and only if its status does, and never falls.

    Args:
        kind: whose status.
        phases: the phases that may follow each phase; "" is that of an object without one.
        growing: numbers and lists of the status, as dotted paths.
        once: fields of the status, as dotted paths.
        frozen: fields of the status that stay in a terminal phase.
    """

    def __init__(
        self,
        kind: type[KubeModel] | StorageKey,
        *,
        phases: Mapping[str, Collection[str]] | None = None,
        growing: Sequence[str] = (),
        once: Sequence[str] = (),
        frozen: Sequence[str] = (),
    ) -> None:
        self._resource = storage_key(kind)
        self._phases = phases
        self._growing = ("observedGeneration", *growing)
        self._once = once
        self._frozen = frozen
        self.name = f"I6 the status of {self._resource[1]} goes forward"

    def on_commit(self, commit: Commit, history: History) -> Iterator[str]:
        """Compare a status with the one before."""
        if commit.resource != self._resource or commit.before is None or commit.after is None:
            return
        before, after = status_of(commit.before), status_of(commit.after)
        if before == after:
            return
        yield from self._phase(commit, before, after)
        for path in self._growing:
            was, now = _at(before, path), _at(after, path)
            if was is not None and (now is None or _size(now) < _size(was)):
                yield f"{commit}: {path} went from {was} back to {now}"
        for path in self._once:
            was, now = _at(before, path), _at(after, path)
            if was is not None and now != was:
                yield f"{commit}: {path} went from {was} to {now}, although it is set once"
        yield from _transitions(commit)

    def _phase(
        self, commit: Commit, before: Mapping[str, Any], after: Mapping[str, Any]
    ) -> Iterator[str]:
        if self._phases is None:
            return
        was, now = str(before.get("phase") or ""), str(after.get("phase") or "")
        allowed = self._phases.get(was, ())
        if now != was and now not in allowed:
            yield f"{commit}: the phase went from {was or 'none'} to {now or 'none'}"
        if was and not allowed:
            for path in self._frozen:
                if _at(before, path) != _at(after, path):
                    yield f"{commit}: is {was}, and its {path} changed"


class StatusTrue(Silent):
    """I7: what a status claims is so.

    Args:
        kind: whose status.
        name: of the claim, e.g. "a Run that succeeded had a complete Job".
        wrong: returns why the object, as it was just committed, claims what is not so, or "".
    """

    def __init__(
        self,
        kind: type[KubeModel] | StorageKey,
        name: str,
        wrong: Callable[[Object, History], str],
    ) -> None:
        self._resource = storage_key(kind)
        self._wrong = wrong
        self.name = f"I7 {name}"

    def on_commit(self, commit: Commit, history: History) -> Iterator[str]:
        """Hold a new status against the history."""
        if commit.resource != self._resource or commit.after is None:
            return
        if commit.before is not None and status_of(commit.before) == status_of(commit.after):
            return
        why = self._wrong(commit.after, history)
        if why:
            yield f"{commit}: {why}"


class Observed(Silent):
    """I10: every generation is observed, and soon: no resync has to rescue it.

    Args:
        kind: of the objects, whose status has an `observedGeneration`.
        within_seconds: how long after a change of the spec, or after what last befell a process, at
            most; for how long faults held up a call does not count. None asks for it at rest only.
        observed: returns the generation that an object's status speaks of, 0 for none.
        concerns: whether an object is the operator's to observe.
        name: of the invariant, when it stands for something else than I10.
    """

    def __init__(
        self,
        kind: type[KubeModel] | StorageKey,
        *,
        within_seconds: float | None = None,
        observed: Callable[[Object], int] = lambda obj: int(
            status_of(obj).get("observedGeneration") or 0
        ),
        concerns: Callable[[Object], bool] = lambda obj: True,
        name: str = "",
    ) -> None:
        self._resource = storage_key(kind)
        self._within_seconds = within_seconds
        self._observed = observed
        self._concerns = concerns
        self._changed: dict[tuple[str, int], float] = {}
        self.name = name or f"I10 every generation of {self._resource[1]} is observed"

    def on_commit(self, commit: Commit, history: History) -> Iterator[str]:
        """Note when a generation came, and how long it took to be observed."""
        if commit.resource != self._resource or commit.after is None:
            return
        generation = int(commit.after["metadata"].get("generation") or 0)
        came = self._changed.setdefault((commit.uid, generation), commit.seconds)
        if self._within_seconds is None or self._observed(commit.after) < generation:
            return
        if commit.before is not None and self._observed(commit.before) >= generation:
            return
        since = max([came, *(mark.seconds for mark in history.marks)])
        took = commit.seconds - since - _held_up_seconds(history, since)
        if took > self._within_seconds:
            yield f"{commit}: generation {generation} was observed only after {took:.1f} s"

    def at_rest(self, rest: Rest) -> Iterator[str]:
        """Look for a status that speaks of an older generation."""
        for key, obj in rest.history.objects(self._resource).items():
            if "deletionTimestamp" in obj["metadata"] or not self._concerns(obj):
                continue
            generation = int(obj["metadata"].get("generation") or 0)
            if (observed := self._observed(obj)) < generation:
                yield f"{self._resource[1]} {key}: generation {generation}, observed {observed}"


def _held_up_seconds(history: History, since: float) -> float:
    """Return for how long a call of an operator was held up by a fault, since a moment."""
    held, until = 0.0, since
    for call in history.calls:  # in the order in which they were sent
        if call.fault and is_operator(call.actor) and call.answered_seconds is not None:
            begin = max(call.sent_seconds, until)
            held += max(0.0, call.answered_seconds - begin)
            until = max(until, call.answered_seconds)
    return held


class ErrorsSurface(Silent):
    """I17: a write that the server refuses for good is told, and not sent again and again.

    Args:
        primaries: the kinds that are reconciled; a refusal met in the reconcile of one has to show
            in its conditions at rest, unless the same write succeeded later.
        most: how often the same write may be refused so.
        codes: refusals that only somebody else can lift.
    """

    name = "I17 errors are told, not repeated"

    def __init__(
        self,
        *primaries: type[KubeModel] | StorageKey,
        most: int = 3,
        codes: Collection[int] = (400, 413, 422),
    ) -> None:
        self._primaries = [storage_key(kind) for kind in primaries]
        self._most = most
        self._codes = codes
        self._refused: dict[tuple[str, str], tuple[int, Call]] = {}

    def on_call(self, call: Call, history: History) -> Iterator[str]:
        """Count the refusals of the same write."""
        if not call.is_write or not is_operator(call.actor) or call.fault or not call.code:
            return
        # The place alone: a write whose body changes each time is repeated all the same.
        place = call.what, call.reconcile.controller if call.reconcile else ""
        if call.code < 300:
            self._refused.pop(place, None)
        elif call.code in self._codes:
            count = self._refused.get(place, (0, call))[0] + 1
            self._refused[place] = count, call
            if count == self._most + 1:
                yield f"{call}: refused {count} times ({call.reason})"

    def at_rest(self, rest: Rest) -> Iterator[str]:
        """Look whether the objects concerned tell of their refusals."""
        for _, call in self._refused.values():
            if call.reconcile is None:
                continue
            for resource in self._primaries:
                obj = rest.history.objects(resource).get(call.reconcile.key)
                if obj is not None and not _tells_of_trouble(obj):
                    yield f"{resource[1]} {call.reconcile.key} does not tell that {call}"


def _tells_of_trouble(obj: Object) -> bool:
    status = status_of(obj)
    troubled = [c for c in conditions_of(obj).values() if c.get("message")]
    return bool(troubled) or bool(status.get("message") or status.get("executionMessage"))


def _transitions(commit: Commit) -> Iterable[str]:
    before, after = conditions_of(commit.before), conditions_of(commit.after)
    for kind in before.keys() & after.keys():
        was, now = before[kind], after[kind]
        flips = was.get("status") != now.get("status")
        then, since = was.get("lastTransitionTime"), now.get("lastTransitionTime")
        if not flips and then != since:
            yield f"{commit}: {kind} stays {now.get('status')}, and its transition time moved"
        elif flips and then is not None and (since is None or since < then):
            yield f"{commit}: {kind} flips, and its transition time went from {then} to {since}"


def _at(value: Any, path: str) -> Any:
    for part in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def _size(value: Any) -> float:
    return len(value) if isinstance(value, (list, dict, str)) else float(value)
