"""Deterministic simulation of whole operators: one run after the other, with every fault in turn.

An operator, an embedded API server and everybody around them run in one thread on virtual time. A
seed decides all that is random, a plan says which faults happen at which call, and invariants are
asked at every commit. The same seed and plan give the same run, step by step, in any process.

Names are exported lazily.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynamo_operator.simulation.end_state import Mask, Reference
    from dynamo_operator.simulation.explore import Report, enumerate_faults, swarm
    from dynamo_operator.simulation.history import Call, Commit, History
    from dynamo_operator.simulation.invariants import STANDARD, Invariant, Rest
    from dynamo_operator.simulation.plans import At, Fault, Order, Plan, Recording, at
    from dynamo_operator.simulation.runs import Outcome, Violation, run
    from dynamo_operator.simulation.scenario import Program, Scenario
    from dynamo_operator.simulation.shrinking import shrink
    from dynamo_operator.simulation.weather import Weather
    from dynamo_operator.simulation.world import World

__all__ = [
    "STANDARD",
    "At",
    "Call",
    "Commit",
    "Fault",
    "History",
    "Invariant",
    "Mask",
    "Order",
    "Outcome",
    "Plan",
    "Program",
    "Recording",
    "Reference",
    "Report",
    "Rest",
    "Scenario",
    "Violation",
    "Weather",
    "World",
    "at",
    "enumerate_faults",
    "run",
    "shrink",
    "swarm",
]

_MODULES = {
    "end_state": "Mask Reference",
    "explore": "Report enumerate_faults swarm",
    "history": "Call Commit History",
    "invariants": "STANDARD Invariant Rest",
    "plans": "At Fault Order Plan Recording at",
    "runs": "Outcome Violation run",
    "scenario": "Program Scenario",
    "shrinking": "shrink",
    "weather": "Weather",
    "world": "World",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
