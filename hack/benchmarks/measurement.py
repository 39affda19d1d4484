"""A measured number, the bar that it is held against, and the table of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What came of a measurement."""

    OK = "ok"
    MISSED = "MISSED"
    NOT_JUDGED = "not judged"
    NO_BAR = "-"


@dataclass(frozen=True, slots=True)
class Bar:
    """A limit.

    Args:
        limit: the number that just passes.
        at_least: whether more is better.
        side_by_side: whether the value is a ratio of two things measured in the same run, so that
            a slow or busy machine changes nothing about it.
    """

    limit: float
    at_least: bool = False
    side_by_side: bool = False

    def is_met(self, value: float) -> bool:
        """Whether the value passes."""
        return value >= self.limit if self.at_least else value <= self.limit

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {number(self.limit)}"


@dataclass(frozen=True, slots=True)
class Measurement:
    """One line of the table."""

    name: str
    value: float
    unit: str
    bar: Bar | None = None

    def verdict(self, *, side_by_side_only: bool = False) -> Verdict:
        """Hold the value against its bar; `side_by_side_only` leaves absolute bars unjudged."""
        if self.bar is None:
            return Verdict.NO_BAR
        if side_by_side_only and not self.bar.side_by_side:
            return Verdict.NOT_JUDGED
        return Verdict.OK if self.bar.is_met(self.value) else Verdict.MISSED

    def row(self, *, side_by_side_only: bool = False) -> tuple[str, str, str, str, str]:
        """Return the cells: name, value, unit, bar, verdict."""
        bar = str(self.bar) if self.bar else "-"
        verdict = self.verdict(side_by_side_only=side_by_side_only)
        return (self.name, number(self.value), self.unit, bar, str(verdict))


HEADER = ("name", "value", "unit", "bar", "verdict")


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as aligned text; numbers (the second column) to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if i == 1 else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def number(value: float) -> str:
    """Return three significant digits, whole numbers with their thousands apart."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
