"""Which faults met which calls, and which rare things came about: a green run has to show both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dynamo_operator.simulation.history import LEASES, Call, History
from dynamo_operator.simulation.invariants.invariant import is_operator
from dynamo_operator.simulation.plans import resource_of

Sometimes = Mapping[str, Callable[[History], bool]]
"""What has to come about in some run, or the runs do not try what they are there to try."""


@dataclass(slots=True)
class Coverage:
    """What a number of runs reached.

    Args:
        cells: how many runs had a fault of that name meet that verb and resource.
        came_about: in how many runs each rare thing came about.
    """

    cells: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    came_about: Counter[str] = field(default_factory=Counter)

    def add(self, other: Coverage) -> None:
        """Add other runs'."""
        self.cells.update(other.cells)
        self.came_about.update(other.came_about)

    def missing(self, sometimes: Sometimes) -> list[str]:
        """Return what never came about."""
        return [name for name in sometimes if not self.came_about[name]]

    def table(self) -> str:
        """Return the matrix as text: faults down, verb and resource across, runs in the cells."""
        faults = sorted({fault for fault, _, _ in self.cells})
        lines = []
        for fault in faults:
            cells = {(v, r): n for (f, v, r), n in self.cells.items() if f == fault}
            met = ", ".join(f"{v} {r} {n}" for (v, r), n in sorted(cells.items()))
            lines.append(f"{fault} ({sum(cells.values())}): {met}")
        return "\n".join(lines)


def _answers(history: History, verb: str, code: int) -> bool:
    return any(
        call.verb == verb and call.code == code and not call.fault and is_operator(call.actor)
        for call in history.calls
    )


def _wrote_in_turns(history: History) -> bool:
    """Whether two processes wrote, the first once more after the second."""
    seen: list[tuple[str, int]] = []
    for commit in history.commits:
        process = commit.actor, commit.incarnation
        if is_operator(commit.actor) and (not seen or seen[-1] != process):
            seen.append(process)
    return len(seen) > len(set(seen))


def _arrived_after_the_death(history: History) -> bool:
    deaths = {(m.actor, m.incarnation): m.seconds for m in history.marks if m.what == "killed"}
    return any(
        commit.seconds > deaths.get((commit.actor, commit.incarnation), float("inf"))
        for commit in history.commits
    )


def _repeated(history: History) -> bool:
    """Whether a write was asked for again although it had been done."""
    done: set[tuple[str, str]] = set()
    for call in history.calls:
        if call.verb == "create" and is_operator(call.actor) and call.key.name:
            place = call.what, call.actor
            if place in done and call.code == 409:
                return True
            if call.commits:
                done.add(place)
    return False


SOMETIMES: Sometimes = {
    "a create found the object there": lambda h: _answers(h, "create", 409),
    "a create whose answer was lost was repeated": _repeated,
    "a status write met a newer version": lambda h: _answers(h, "apply", 409),
    "a deletion found nothing": lambda h: _answers(h, "delete", 404),
    "a watch was too old": lambda h: _answers(h, "watch", 410),
    "two processes wrote in turns": _wrote_in_turns,
    "a write arrived after its process had died": _arrived_after_the_death,
}


def cells_of(history: History) -> Counter[tuple[str, str, str]]:
    """Return the faults that calls met, by first word, verb and resource."""
    cells: Counter[tuple[str, str, str]] = Counter()
    for call in history.calls:
        if call.fault and is_operator(call.actor) and call.resource != LEASES:
            for fault in call.fault.split(", "):
                cells[_first_words(fault), call.verb, _place(call)] += 1
    return cells


def _first_words(fault: str) -> str:
    words = fault.split()
    return " ".join(words[:2]) if words[0] in ("fail", "lose", "cut") else words[0]


def _place(call: Call) -> str:
    return resource_of(call) or "discovery"
