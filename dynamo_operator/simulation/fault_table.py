"""The faults of a plan, looked up by call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from dynamo_operator.simulation.history import Call
from dynamo_operator.simulation.plans import Deed, Fault, Phase, name_of, resource_of
from dynamo_operator.simulation.sky import Sky


@dataclass(slots=True)
class Due:
    """What happens to one call."""

    phases: dict[Phase, list[Deed]] = field(default_factory=dict)
    events: dict[int, list[Deed]] = field(default_factory=dict)

    def at(self, *phases: Phase) -> list[Deed]:
        """Return what happens in these phases."""
        if not self.phases:
            return []
        return [deed for phase in phases for deed in self.phases.get(phase, ())]


NOTHING = Due()


class FaultTable:
    """Says what happens to a call, by a plan and by the weather.

    Args:
        faults: those with a time are not about calls, and left out.
        sky: draws more; None: there is no weather.
    """

    def __init__(self, faults: Iterable[Fault], sky: Sky | None = None) -> None:
        self.sky = sky
        self.reached: list[Fault] = []
        self._exact: dict[tuple[str, str, str, str], list[int]] = {}
        self._patterns: list[int] = []
        self._faults = [fault for fault in faults if fault.at.seconds is None]
        self._seen: Counter[int] = Counter()
        for number, fault in enumerate(self._faults):
            place = (fault.at.actor, fault.at.verb, fault.at.resource, fault.at.name)
            if any(c in part for part in place for c in "*?["):
                self._patterns.append(number)
            else:
                self._exact.setdefault(place, []).append(number)

    def due(self, call: Call) -> Due:
        """Count the call, and return what happens to it."""
        if not self._faults and self.sky is None:
            return NOTHING
        due = Due()
        for number in self._candidates(call):
            fault = self._faults[number]
            self._seen[number] += 1
            if fault.at.occurrence in (0, self._seen[number]):
                self.reached.append(fault)
                if fault.at.event:
                    due.events.setdefault(fault.at.event, []).append(fault.do)
                else:
                    due.phases.setdefault(fault.at.phase, []).append(fault.do)
        if self.sky is not None and call.incarnation:
            for phase, deed in self.sky.for_call(call):
                due.phases.setdefault(phase, []).append(deed)
        return due

    def _candidates(self, call: Call) -> list[int]:
        place = (call.actor, call.verb, resource_of(call), name_of(call))
        candidates = self._exact.get(place, [])
        if self._patterns:
            matching = [n for n in self._patterns if self._faults[n].at.matches(call)]
            candidates = [*candidates, *matching]
        return candidates
