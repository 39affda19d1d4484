"""A run told to people: who did what when, what went wrong with it, and how to see it again."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dynamo_operator.simulation.history import Call, Commit, Mark
from dynamo_operator.simulation.invariants.invariant import is_operator
from dynamo_operator.simulation.plans import Plan

if TYPE_CHECKING:
    from dynamo_operator.simulation.runs import Outcome, Violation
    from dynamo_operator.simulation.scenario import Scenario

Step = Call | Commit | Mark
"""What a run consists of, in the order in which it happened."""

_MOST_LINES = 120
_SHOWN_AFTER_SECONDS = 1.0
_REPLAY = "dynamo-operator simulate"


def tell(outcome: Outcome, scenario: Scenario | None = None) -> str:
    """Return the story of a run.

    Args:
        outcome: of the run.
        scenario: from which the command is told that runs it again.
    """
    head = [f"{outcome.scenario}, seed {outcome.plan.seed}"]
    head += [f"  !! {violation}" for violation in outcome.violations[:5]]
    if len(outcome.violations) > 5:
        head.append(f"  and {len(outcome.violations) - 5} more")
    if outcome.diverged:
        head.append(f"  diverged: {outcome.diverged}")
    head.append("faults:" if outcome.plan.faults else "faults: none")
    head += [f"  {number}. {fault}" for number, fault in enumerate(outcome.plan.faults, 1)]
    if outcome.plan.tape:
        head.append(f"callbacks out of the order of arrival: {len(outcome.plan.tape)}")
    lines = list(_lines(outcome))
    if len(lines) > _MOST_LINES:
        cut = len(lines) - _MOST_LINES
        lines = [f"  ... {cut} earlier lines ...", *lines[-_MOST_LINES:]]
    return "\n".join([*head, "", *lines, "", "again:", f"  {command(outcome.plan, scenario)}"])


def command(plan: Plan, scenario: Scenario | None = None) -> str:
    """Return the command that runs a plan."""
    target = target_of(scenario) if scenario is not None else "MODULE:SCENARIO"
    return f"{_REPLAY} {target} --plan {shlex.quote(plan.to_json())}"


def target_of(scenario: Scenario) -> str:
    """Return where a scenario is to be found, as MODULE:NAME, if it is a module's."""
    name = scenario.workload.__module__
    module = sys.modules.get(name)
    if name == "__main__" and module is not None and module.__file__:
        name = Path(module.__file__).stem
    for variable, value in vars(module).items() if module is not None else ():
        if value is scenario:
            return f"{name}:{variable}"
    return f"{name}:SCENARIO"


def trail(steps: Sequence[Step]) -> list[str]:
    """Return each step of a run in a line, by which two runs can be compared."""
    return [_trail_line(step) for step in steps]


def first_difference(recorded: Sequence[str], seen: Sequence[str]) -> str:
    """Say at which step a run went another way than a recorded one; "" if it did not."""
    for number, (was, now) in enumerate(zip(recorded, seen, strict=False), 1):
        if was != now:
            return f"step {number} was `{was}`, and is `{now}` now"
    if len(recorded) > len(seen):
        return f"step {len(seen) + 1} was `{recorded[len(seen)]}`, and the run has ended there now"
    if len(recorded) < len(seen):
        return f"step {len(recorded) + 1} was the end, and is `{seen[len(recorded)]}` now"
    return ""


def _trail_line(step: Step) -> str:
    answer = f" {step.code}" if isinstance(step, Call) else ""
    return f"{_when(step):.6f} {step.actor}/{step.incarnation} {step.what}{answer}"


def _lines(outcome: Outcome) -> Iterator[str]:
    """Yield the steps that matter: writes, faults, what became of processes, and what broke."""
    unanswered = [call for call in outcome.history.calls if call.answered_seconds is None]
    steps = sorted([*outcome.steps_taken, *unanswered], key=_when)
    broken = list(outcome.violations)
    last = broken[-1].seconds if broken else _latest(steps)
    until = last + _SHOWN_AFTER_SECONDS
    for step in steps:
        seconds = _when(step)
        while broken and broken[0].seconds < seconds:
            yield _broken(broken.pop(0))
        if seconds > until:
            break
        if line := _line(step):
            yield f"{seconds:>10.4f}  {line}"
    for violation in broken:
        yield _broken(violation)


def _line(step: Step) -> str:
    match step:
        case Call() if step.fault or (step.is_write and is_operator(step.actor)):
            return f"{_who(step):<14} {step.what:<60} {_answer(step)}"
        case Commit() if not is_operator(step.actor) and step.actor != "admin":
            return f"{step.actor:<14} {step.what:<60} version {step.resource_version}"
        case Mark():
            return f"* {_who(step)} {step.what}" if step.incarnation else f"* {step.what}"
    return ""


def _answer(call: Call) -> str:
    code = str(call.code) if call.code else "no answer"
    made = ", ".join(f"version {commit.resource_version}" for commit in call.commits)
    fault = f"<< {call.fault}" if call.fault else ""
    return " ".join(part for part in (code, made, fault) if part)


def _who(step: Call | Mark) -> str:
    return f"{step.actor}/{step.incarnation}"


def _broken(violation: Violation) -> str:
    return f"{violation.seconds:>10.4f}  !! {violation.invariant}: {violation.what}"


def _when(step: Step) -> float:
    if isinstance(step, Call):
        return step.sent_seconds if step.answered_seconds is None else step.answered_seconds
    return step.seconds


def _latest(steps: Sequence[Step]) -> float:
    return max((_when(step) for step in steps if _line(step)), default=0.0)
