"""From a run that broke something to the fewest faults that still break the same.

Faults are left out by delta debugging (Zeller and Hildebrandt, "Simplifying and Isolating
Failure-Inducing Input", IEEE TSE 2002), then callbacks are put back into the order of arrival.
Each candidate is a run; it counts only if the very same invariant does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from dynamo_operator.simulation.end_state import Reference
from dynamo_operator.simulation.plans import Deed, Fault, Plan
from dynamo_operator.simulation.runs import Outcome, run
from dynamo_operator.simulation.scenario import Scenario

T = TypeVar("T")

MOST_RUNS = 400


def shrink(
    scenario: Scenario,
    outcome: Outcome,
    *,
    invariant: str = "",
    reference: Reference | None = None,
    most_runs: int = MOST_RUNS,
) -> Outcome:
    """Return the run of a smaller plan in which the same invariant does not hold.

    Args:
        scenario: that was run.
        outcome: in which something did not hold.
        invariant: its name; by default the first that did not.
        reference: what the scenario came to without faults, as the run was given it.
        most_runs: after which the smallest plan so far is good enough.

    Raises:
        ValueError: everything held.
    """
    if outcome.passed:
        raise ValueError(f"{outcome.scenario}: every invariant held, there is nothing to shrink")
    return _Shrinker(
        scenario, outcome, invariant or outcome.violations[0].invariant, reference, most_runs
    ).smallest()


class _Shrinker:
    def __init__(
        self,
        scenario: Scenario,
        outcome: Outcome,
        invariant: str,
        reference: Reference | None,
        most_runs: int,
    ) -> None:
        self._scenario = scenario
        self._best = outcome
        self._invariant = invariant
        self._reference = reference
        self._left = most_runs

    def smallest(self) -> Outcome:
        if self._best.plan.tape:
            self._try(tape={})  # most bugs need no order of their own
        self._minimize_faults()
        if self._best.plan.tape:
            entries = list(self._best.plan.tape.items())
            minimized(entries, lambda kept: self._try(tape=dict(kept)))
            self._minimize_faults()
        self._soften()
        return self._best

    def _minimize_faults(self) -> None:
        minimized(self._best.plan.faults, lambda kept: self._try(faults=tuple(kept)))

    def _soften(self) -> None:
        """Try shorter times, which make a story shorter."""
        for number, fault in enumerate(self._best.plan.faults):
            softer = _softer(fault.do)
            if softer is not None:
                faults = list(self._best.plan.faults)
                faults[number] = Fault(at=fault.at, do=softer)
                self._try(faults=tuple(faults))

    def _try(self, **changes: object) -> bool:
        """Run a changed plan; keep it if it still breaks the same."""
        if self._left <= 0:
            return False
        self._left -= 1
        plan: Plan = self._best.plan.model_copy(update=changes)
        found = run(self._scenario, plan=plan, reference=self._reference)
        if any(violation.invariant == self._invariant for violation in found.violations):
            # What was left of the tape is what the run made use of.
            self._best = found
            return True
        return False


def minimized(items: Sequence[T], breaks: Callable[[Sequence[T]], bool]) -> list[T]:
    """Return the items without any that can be left out: 1-minimal, in their order.

    Args:
        items: which together break something.
        breaks: whether some of them still do.
    """
    kept = list(items)
    if kept and breaks([]):
        return []
    parts = 2
    while len(kept) >= 2:
        size = max(1, len(kept) // parts)
        chunks = [kept[start : start + size] for start in range(0, len(kept), size)]
        for number, chunk in enumerate(chunks):
            rest = [item for other in chunks[:number] + chunks[number + 1 :] for item in other]
            if parts == 2 and len(chunks) == 2 and breaks(chunk):
                kept, parts = list(chunk), 2
                break
            if breaks(rest):
                kept, parts = rest, max(2, parts - 1)
                break
        else:
            if size == 1:
                break
            parts = min(len(kept), 2 * parts)
    return kept


def _softer(deed: Deed) -> Deed | None:
    seconds = getattr(deed, "seconds", None)
    if seconds is None or seconds <= 1.0:
        return None
    return deed.model_copy(update={"seconds": 1.0})
