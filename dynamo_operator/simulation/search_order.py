"""The order in which plans are run when the first that fails ends the search, or a time does.

Plans at calls of one verb and resource with faults of one class mostly come to the same. So each
such group has one plan run, then each another one, those in the middle between what was run first;
and those at writes, where an operator is most easily hurt, come before the others of their round.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import TypeVar

from dynamo_operator.simulation.enumeration import Trial
from dynamo_operator.simulation.history import WRITE_VERBS

T = TypeVar("T")


def most_different_first(trials: Iterable[Trial]) -> list[Trial]:
    """Return all trials, the more like one before them the later."""
    groups: dict[tuple[str, str, str], list[Trial]] = {}
    for trial in trials:
        groups.setdefault((trial.fault_class, trial.verb, trial.resource), []).append(trial)
    rounds = zip_longest(*(_halved(group) for group in groups.values()))
    return [
        trial
        for each in rounds
        for trial in sorted(
            (trial for trial in each if trial is not None),
            key=lambda trial: trial.verb not in WRITE_VERBS,
        )
    ]


def _halved(items: Sequence[T]) -> Iterator[T]:
    """Yield the middle one, then the middle ones of both halves, and so on."""
    parts = [items]
    while parts:
        rest = list[Sequence[T]]()
        for part in parts:
            middle = len(part) // 2
            yield part[middle]
            rest += [half for half in (part[:middle], part[middle + 1 :]) if half]
        parts = rest
