"""Every fault that could befall a scenario, one after the other: the plans of an enumeration.

The run without faults says which calls an operator makes and which events its watches deliver. For
each of these moments there is a plan for each fault that can happen at it:

    crash       the process dies before the call, when the server has done it, or with the answer
    twice       the process dies when a write is done, and its successor at one of the next
    stop        the process is told to stop at the call, or while the call hangs
    ambiguous   the call's outcome is unknown: done or not, the answer lost or an error
    refusal     the server refuses: 429 and its Retry-After in all forms, 500, 503, 403
    conflict    somebody else changes the object just before the write
    slow        the answer comes only after five seconds, in which much happens
    outage      for a minute the API server is not to be reached
    late        the process dies while its write is on the way; it arrives later
    leaders     another process of the operator is at work at the same time
    pause       the process is frozen at the call
    clock       the wall clock jumps by an hour, forward or back
    owner       a user deletes, or deletes and makes anew, an object of a primary kind at the call,
                while the operator sees it, does not see it, or starts anew on an older view
    child       a user deletes what the call made, at once, in the end, or while no process is there
    watch       a watch is late, silent, repeats an event, or ends at it: in order, torn, with 410
    unobserved  a kind's changes happen unseen: its watch is away, and history is compacted
    lag         a kind's cache is behind while the operator goes on
    restart     a new process begins on a server that is some versions behind

What cannot change anything is left out and counted: a conflict for a write that creates.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from dynamo_operator.apiserver.storage import StorageKey
from dynamo_operator.runtime.models import KubeModel
from dynamo_operator.simulation.history import EVENTS, LEASES, Call, History
from dynamo_operator.simulation.invariants.invariant import controller_uid, is_operator, storage_key
from dynamo_operator.simulation.plans import (
    At,
    Compact,
    Cut,
    Deed,
    Delay,
    Delete,
    Duplicate,
    Fail,
    Fault,
    Freeze,
    Garble,
    Hang,
    Jump,
    Kill,
    Lose,
    Overlap,
    Partition,
    Pause,
    Phase,
    Plan,
    Stall,
    Terminate,
    Touch,
    at,
)

PHASES: Final[tuple[Phase, ...]] = ("before", "applied", "after")
CLASSES: Final = (
    "crash",
    "twice",
    "stop",
    "ambiguous",
    "refusal",
    "conflict",
    "slow",
    "outage",
    "late",
    "leaders",
    "pause",
    "clock",
    "owner",
    "child",
    "watch",
    "unobserved",
    "lag",
    "restart",
)

_RETRY_AFTERS = ("1", "30", "3600", "-1", "0", "soon", "Tue, 01 Jan 2030 00:00:20 GMT", "")
_VERSIONS_BEHIND = (1, 3, 8)
_WRITES_BETWEEN_DEATHS = 2
"""A process that dies twice does so again at one of so many writes after the first."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A plan to be run, and what it is about.

    Args:
        fault_class: one of those above.
        fault: what happens, in a word or two, e.g. "kill applied".
        verb: of the call at which it happens.
        resource: plural of that call, with its subresource.
        plan: what is run.
        comparable: whether the run has to come to what it comes to without faults.
    """

    fault_class: str
    fault: str
    verb: str
    resource: str
    plan: Plan
    comparable: bool = True


@dataclass(slots=True)
class Enumeration:
    """The trials of one scenario.

    Args:
        history: of its run without faults.
        primaries: kinds that users delete while the operator works.
        classes: which faults are tried.
        seed: of all plans.
    """

    history: History
    primaries: Sequence[type[KubeModel] | StorageKey] = ()
    classes: Collection[str] = CLASSES
    seed: int = 0
    pruned: int = field(default=0, init=False)
    """How many plans were left out because they cannot change anything."""

    def crash_points(self) -> int:
        """Return how many crash points there are: three of each call."""
        return len(self.calls()) * len(PHASES)

    def calls(self) -> list[Call]:
        """Return the calls of the operator, until faults end."""
        return calls_under_fault(self.history)

    def trials(self) -> Iterator[Trial]:
        """Yield all trials, class by class."""
        seen: set[str] = set()
        self.pruned = 0
        for name in CLASSES:
            if name not in self.classes:
                continue
            make: Callable[[], Iterator[Trial]] = getattr(self, f"_{name}")
            for trial in make():
                text = trial.plan.to_json()
                if text in seen:
                    self.pruned += 1
                    continue
                seen.add(text)
                yield trial

    def _crash(self) -> Iterator[Trial]:
        for call in self.calls():
            for phase in PHASES:
                yield self._trial("crash", f"kill {phase}", call, (at(call, phase), Kill()))

    def _twice(self) -> Iterator[Trial]:
        writes = self._writes()
        for number, call in enumerate(writes):
            for later in writes[number + 1 :][:_WRITES_BETWEEN_DEATHS]:
                first, second = ((at(each, "applied"), Kill()) for each in (call, later))
                yield self._trial("twice", "kill, kill", call, first, second)

    def _stop(self) -> Iterator[Trial]:
        for call in self.calls():
            yield self._trial("stop", "terminate", call, (at(call), Terminate()))
        for call in self._writes():
            hangs, stop = (at(call), Hang()), At(seconds=call.sent_seconds + 1.0)
            yield self._trial("stop", "terminate in a call", call, hangs, (stop, Terminate()))

    def _ambiguous(self) -> Iterator[Trial]:
        for call in self.calls():
            if call.verb == "watch":
                continue
            deeds: list[tuple[str, Deed]] = [
                ("lost answer", Lose(what="answer")),
                ("garbled", Garble(body="truncated" if call.number % 2 else "html")),
            ]
            if call.is_write:
                deeds += [
                    ("504 done", Fail(code=504, applied=True)),
                    ("500 not done", Fail(code=500)),
                    ("lost request", Lose(what="request")),
                    ("hang", Hang()),
                ]
            else:
                deeds += [("lost connection", Lose(what="connection"))]
            for fault, deed in deeds:
                yield self._trial("ambiguous", fault, call, (at(call), deed))

    def _refusal(self) -> Iterator[Trial]:
        for number, call in enumerate(self.calls()):
            asked = _RETRY_AFTERS[number % len(_RETRY_AFTERS)]
            throttled = Fail(code=429, retry_after=asked)
            yield self._trial("refusal", "429", call, (at(call), throttled))
            code = (503, 500)[number % 2]
            yield self._trial("refusal", str(code), call, (at(call), Fail(code=code)))
            if call.is_write:
                forbidden = (at(call), Fail(code=403))
                yield self._trial("refusal", "403", call, forbidden)

    def _conflict(self) -> Iterator[Trial]:
        for call in self.calls():
            if call.verb not in ("update", "patch", "apply", "delete"):
                self.pruned += call.is_write
                continue
            yield self._trial("conflict", "touch", call, (at(call), Touch()))
            if call.verb != "delete":
                yield self._trial("conflict", "409", call, (at(call), Fail(code=409)))

    def _slow(self) -> Iterator[Trial]:
        for call in self._writes():
            yield self._trial("slow", "slow", call, (at(call, "applied"), Delay(seconds=5.0)))

    def _outage(self) -> Iterator[Trial]:
        for number, call in enumerate(self._writes()):
            away = Partition(seconds=60.0, silent=number % 2 == 1)
            yield self._trial("outage", "outage", call, (at(call), away))

    def _late(self) -> Iterator[Trial]:
        for call in self._writes():
            died = At(seconds=call.sent_seconds + 0.25, actor=call.actor)
            yield self._trial(
                "late", "late write", call, (at(call), Delay(seconds=3.0)), (died, Kill())
            )

    def _leaders(self) -> Iterator[Trial]:
        for call in self._writes():
            yield self._trial("leaders", "overlap", call, (at(call), Overlap()))

    def _pause(self) -> Iterator[Trial]:
        for call in self._writes():
            yield self._trial("pause", "pause", call, (at(call, "after"), Pause(seconds=40.0)))

    def _clock(self) -> Iterator[Trial]:
        for call in self._writes():
            for seconds in (-3600.0, 3600.0):
                yield self._trial(
                    "clock", f"{seconds:+g} s", call, (at(call), Jump(seconds=seconds))
                )

    def _owner(self) -> Iterator[Trial]:
        policies: tuple[Literal["Background", "Foreground"], ...] = ("Background", "Foreground")
        for number, call in enumerate(self.calls()):
            for kind in self.primaries:
                plural = storage_key(kind)[1]
                gone = Delete(resource=plural, propagation=policies[number % 2])
                reborn = Delete(resource=plural, recreate=True)
                unseen = Freeze(resource=plural, seconds=20.0)
                restart = At(seconds=call.sent_seconds + 4.0)
                behind = Kill(behind=(4, 12, 24)[number % 3])
                yield self._deletion(f"delete {plural}", call, (at(call), gone))
                yield self._deletion(f"recreate {plural}", call, (at(call), reborn))
                yield self._deletion(
                    f"delete {plural} unseen", call, (at(call), unseen), (at(call), gone)
                )
                yield self._deletion(
                    f"recreate {plural} unseen", call, (at(call), unseen), (at(call), reborn)
                )
                yield self._deletion(
                    f"recreate {plural}, restart behind",
                    call,
                    (at(call), reborn),
                    (restart, behind),
                )

    def _child(self) -> Iterator[Trial]:
        for call in self._writes():
            if call.verb != "create":
                continue
            made = [c for c in call.commits if c.verb == "create" and controller_uid(c.object)]
            if not made:
                continue
            name = "/".join(part for part in (made[0].key.namespace, made[0].key.name) if part)
            gone = Delete(resource=call.resource[1], name=name)
            yield self._deletion("delete what was made", call, (at(call, "after"), gone))
            later = At(seconds=self.calls()[-1].sent_seconds + 1.0)
            yield self._deletion("delete what was made, later", call, (later, gone))
            away = Kill(restart_after=10.0)
            then = At(seconds=call.sent_seconds + 5.0)
            yield self._deletion(
                "kill, delete what was made", call, (at(call, "after"), away), (then, gone)
            )

    def _deletion(self, fault: str, call: Call, *faults: tuple[At, Deed]) -> Trial:
        name = "child" if "made" in fault else "owner"
        return self._trial(name, fault, call, *faults, comparable=False)

    def _watch(self) -> Iterator[Trial]:
        hows = ("end", "reset", "middle", "expired", "error")
        for call, event in self._events():
            moment = at(call, event=event)
            yield self._trial("watch", "delay", call, (moment, Delay(seconds=10.0)))
            yield self._trial("watch", "repeat", call, (moment, Duplicate()))
            how = hows[event % len(hows)]
            yield self._trial("watch", f"cut {how}", call, (moment, Cut(how=how)))
        for call in self._watches():
            for how in hows:
                last = at(call, event=max(1, _events_of(call, self.history)))
                cut = Cut(how=how)
                yield self._trial("watch", f"cut {how} at the end", call, (last, cut))
            stall = (at(call, event=1), Stall(seconds=600.0))
            yield self._trial("watch", "silent", call, stall)

    def _unobserved(self) -> Iterator[Trial]:
        for call, event in self._events():
            moment = at(call, event=event)
            away = Partition(seconds=12.0, resource=call.resource[1])
            then = At(seconds=_seconds_of(call, event, self.history) + 11.0)
            yield self._trial(
                "unobserved", "away", call, (moment, Cut(how="reset")), (moment, away)
            )
            yield self._trial(
                "unobserved",
                "away and compacted",
                call,
                (moment, Cut(how="expired")),
                (moment, away),
                (then, Compact()),
            )

    def _lag(self) -> Iterator[Trial]:
        kinds = sorted({call.resource[1] for call in self._watches()})
        for call in self._writes():
            mine = {call.resource[1], *(storage_key(kind)[1] for kind in self.primaries)}
            for plural in kinds:
                if plural not in mine:
                    self.pruned += 1
                    continue
                freeze = Freeze(resource=plural, seconds=20.0)
                yield self._trial("lag", f"lag {plural}", call, (at(call), freeze))

    def _restart(self) -> Iterator[Trial]:
        for call in self.calls():
            if call.verb == "watch" or not (call.is_write or call.number % 3 == 0):
                self.pruned += len(_VERSIONS_BEHIND)
                continue
            for behind in _VERSIONS_BEHIND:
                kill = Kill(behind=behind)
                yield self._trial("restart", f"behind {behind}", call, (at(call, "after"), kill))

    def _writes(self) -> list[Call]:
        return [
            call for call in self.calls() if call.is_write and call.resource not in (LEASES, EVENTS)
        ]

    def _watches(self) -> list[Call]:
        return [call for call in self.calls() if call.verb == "watch"]

    def _events(self) -> Iterator[tuple[Call, int]]:
        for call in self._watches():
            for event in range(1, _events_of(call, self.history) + 1):
                yield call, event

    def _trial(
        self,
        fault_class: str,
        fault: str,
        call: Call,
        *faults: tuple[At, Deed],
        comparable: bool = True,
    ) -> Trial:
        made = tuple(Fault(at=moment, do=deed) for moment, deed in faults)
        resource = "/".join(part for part in (call.resource[1], call.subresource) if part)
        plan = Plan(faults=made, seed=self.seed)
        return Trial(fault_class, fault, call.verb, resource, plan, comparable)


def calls_under_fault(history: History) -> list[Call]:
    """Return the calls of operators that were sent before the faults ended."""
    healed = [mark.seconds for mark in history.marks if mark.what == "healed"]
    until = healed[0] if healed else float("inf")
    return [c for c in history.calls if is_operator(c.actor) and c.sent_seconds < until]


def _commits_seen(call: Call, history: History) -> list[float]:
    """Return when those commits were made that a watch of the run told."""
    return [
        commit.seconds
        for commit in history.commits
        if commit.resource == call.resource and commit.seconds >= call.sent_seconds
    ]


def _events_of(call: Call, history: History) -> int:
    """Return about how many events a watch delivered, the bookmark of its beginning included."""
    return len(_commits_seen(call, history)) + 1


def _seconds_of(call: Call, event: int, history: History) -> float:
    commits = _commits_seen(call, history)
    return commits[event - 2] if 2 <= event <= len(commits) + 1 else call.sent_seconds
