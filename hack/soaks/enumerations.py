"""Every fault of every class at every moment of one life, class by class, counted."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

from dynamo_operator.simulation.enumeration import CLASSES, Enumeration, Trial
from dynamo_operator.simulation.explore import Report, explore, reference_of
from tests.simulation.scenarios import SCENARIOS, primaries_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Share:
    """Every so manieth plan of each class: all shares together are all plans, each once.

    Args:
        number: which share, from 1.
        of: how many there are.
    """

    number: int = 1
    of: int = 1

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read "2/5": the second of five shares.

        Raises:
            ValueError: it is none.
        """
        found = re.fullmatch(r"(\d+)/(\d+)", text)
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            raise ValueError(f"{text!r} is no share such as 2/5, the second of five")
        return cls(int(found[1]), int(found[2]))

    def among(self, plans: Sequence[T]) -> Sequence[T]:
        """Return those of this share."""
        return plans[self.number - 1 :: self.of]


def enumerate_life(
    name: str, *, classes: Collection[str], share: Share, workers: int | None
) -> int:
    """Run the plans, tell each class with a digest of its traces; return 1 if anything failed.

    Args:
        name: of the scenario.
        classes: of faults.
        share: which plans of each class.
        workers: processes; None: one each core.
    """
    scenario = SCENARIOS[name]
    reference = reference_of(scenario)
    by_class: dict[str, list[Trial]] = {name: [] for name in CLASSES if name in classes}
    for trial in Enumeration(reference.history, primaries_of(scenario)).trials():
        if trial.fault_class in by_class:
            by_class[trial.fault_class].append(trial)
    reports = list[Report]()
    for fault_class, trials in by_class.items():
        chosen = share.among(trials)
        report = explore(scenario, chosen, reference=reference.end, workers=workers)
        reports.append(report)
        print(f"{name} {fault_class}: {_told(reports[-1:], len(trials))}", flush=True)
        for failure in report.failures:
            print(f"  {failure}\n    {failure.plan.to_json()}", flush=True)
    print(f"{name}: {_told(reports, sum(map(len, by_class.values())))}")
    return 1 if any(report.failures for report in reports) else 0


def _told(reports: Sequence[Report], plans: int) -> str:
    """Tell the sum of some reports on a number of plans."""
    ran, reached, failed = (
        sum(counts)
        for counts in zip(*((r.ran, r.reached, len(r.failures)) for r in reports), strict=True)
    )
    digest = hashlib.blake2b(digest_size=8)
    for trace in sorted(trace for report in reports for trace in report.traces):
        digest.update(trace.encode())
    return (
        f"{ran} of {plans} plans run, {reached} reached all their faults, {failed} failed,"
        f" {sum(report.seconds for report in reports):.0f} s, digest {digest.hexdigest()}"
    )
