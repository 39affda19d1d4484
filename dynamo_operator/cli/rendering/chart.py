"""Candidates as charts, as SVG: their score against what they cost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape

from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentCandidate
from dynamo_operator.cli.rendering.candidates import CandidateSummary, summarize
from dynamo_operator.cli.rendering.terminal import printable

_WIDTH, _HEIGHT = 800, 480
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 760, 70, 420
_MIDDLE = (_LEFT + _RIGHT) // 2
_MOST_TICKS = 8
_LABEL_HEIGHT = 14
_LETTER_WIDTH = 6  # of a label, roughly: enough to keep labels apart

_STYLE = """\
.ground { fill: #ffffff } .text { fill: #1f2328 }
.label { paint-order: stroke; stroke: #ffffff; stroke-width: 4px }
.grid { stroke: #eaeef2 }
.axis { stroke: #57606a; fill: none } .frontier { stroke: #8250df; stroke-width: 2; fill: none }
.point { fill: #0969da; stroke: #0969da; stroke-width: 2 }
.point.best { fill: #1a7f37; stroke: #1a7f37 } .point.behind { fill: #ffffff }
@media (prefers-color-scheme: dark) {
  .ground { fill: #0d1117 } .text { fill: #e6edf3 } .label { stroke: #0d1117 }
  .grid { stroke: #21262d }
  .axis { stroke: #8b949e } .frontier { stroke: #bc8cff } .point { fill: #58a6ff; stroke: #58a6ff }
  .point.best { fill: #3fb950; stroke: #3fb950 } .point.behind { fill: #0d1117 }
}
"""


@dataclass(frozen=True, slots=True)
class Point:
    """A candidate in a chart.

    Args:
        rank: its place; 1 is the best.
        cost: what it costs; less is better.
        score: its score; more is better.
        label: what stands beside it.
        title: what is told when one points at it.
    """

    rank: int
    cost: float
    score: float
    label: str
    title: str


@dataclass(frozen=True, slots=True)
class _Axis:
    """Maps values from `low` to `high` to pixels, with a tick at each multiple of `step`."""

    step: float
    low: float
    high: float
    start: int
    end: int

    @classmethod
    def over(cls, values: Sequence[float], start: int, end: int, *, whole: bool = False) -> _Axis:
        """Return an axis with zero whose steps are 1, 2 or 5 times a power of ten."""
        low, high = min(0.0, *values, 0.0), max(0.0, *values, 0.0)
        least = max(high - low, 1.0 if whole else 1e-9) / _MOST_TICKS
        power = 10.0 ** math.floor(math.log10(least))
        step = next(power * digit for digit in (1, 2, 5, 10) if power * digit >= least * 0.999)
        step = max(step, 1.0) if whole else step
        top, bottom = math.ceil(high / step), math.floor(low / step)
        return cls(step, step * bottom, step * max(top, bottom + 1), start, end)

    def place(self, value: float) -> float:
        """Return the pixel of a value."""
        return self.start + (self.end - self.start) * (value - self.low) / (self.high - self.low)

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Yield the pixel and the text of each tick."""
        first = round(self.low / self.step)
        for index in range(first, round(self.high / self.step) + 1):
            value = index * self.step
            yield self.place(value), f"{value:.10g}"


@dataclass(frozen=True, slots=True)
class _Label:
    """Text that begins, or ends, at a place."""

    text: str
    x: float
    y: float
    ends_there: bool

    @property
    def left(self) -> float:
        return self.x - self.width if self.ends_there else self.x

    @property
    def width(self) -> int:
        return len(self.text) * _LETTER_WIDTH

    def overlaps(self, other: _Label) -> bool:
        return abs(self.y - other.y) < _LABEL_HEIGHT and (
            self.left < other.left + other.width and other.left < self.left + self.width
        )

    def svg(self) -> str:
        anchor = "end" if self.ends_there else "start"
        place = f'x="{self.x:.1f}" y="{self.y:.1f}" text-anchor="{anchor}"'
        return f'<text class="text label" {place} font-size="11">{_text(self.text)}</text>'


def candidate_chart(candidates: Sequence[DynamoGraphDeploymentCandidate], *, title: str) -> str:
    """Return an SVG with a point for each candidate, its rank and parallelism beside it."""
    ranked = enumerate(map(summarize, candidates), start=1)
    points = [candidate_point(rank, each, each.gpus) for rank, each in ranked]
    scored = [point for point in points if point is not None]
    return scatter_chart(scored, title=title, cost="GPUs", whole=True)


def candidate_point(rank: int, summary: CandidateSummary, cost: float | None) -> Point | None:
    """Return a candidate's point; None where score or cost were not measured."""
    if summary.score is None or cost is None:
        return None
    title = f"{rank}: {summary.mode} {summary.backend} {summary.parallelism}"
    return Point(rank, cost, summary.score, f"{rank}: {summary.parallelism}", title)


def frontier(points: Sequence[Point]) -> list[Point]:
    """Return the points that no other beats in cost and score, cheapest first."""
    kept: list[Point] = []
    for point in sorted(points, key=lambda each: (each.cost, -each.score, each.rank)):
        if not kept or point.score > kept[-1].score:
            kept.append(point)
    return kept


def scatter_chart(points: Sequence[Point], *, title: str, cost: str, whole: bool = False) -> str:
    """Return an SVG with points and their frontier; it follows light and dark by itself.

    Args:
        points: what is drawn.
        title: what stands above.
        cost: name of the horizontal axis.
        whole: whether costs are whole numbers.
    """
    costs = _Axis.over([point.cost for point in points] or [1], _LEFT, _RIGHT, whole=whole)
    scores = _Axis.over([point.score for point in points] or [1], _BOTTOM, _TOP)
    best = frontier(points)
    marks: list[str] = []
    labels: list[_Label] = []
    for point in points:
        x, y = costs.place(point.cost), scores.place(point.score)
        is_behind = point not in best
        marks.append(_mark(point, x, y, is_behind=is_behind))
        labels.append(_label(point.label, x, y, labels, on_the_left=not is_behind))
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
            ' font-family="sans-serif" font-size="12" role="img">',
            f"<style>\n{_STYLE}</style>",
            f'<rect class="ground" width="{_WIDTH}" height="{_HEIGHT}"/>',
            f'<text class="text" x="{_LEFT}" y="28" font-size="16" font-weight="bold">'
            f"{_text(title)}</text>",
            f'<text class="text" x="{_LEFT}" y="{_TOP - 18}">score, higher is better</text>',
            f'<text class="text" x="{_MIDDLE}" y="{_HEIGHT - 16}" text-anchor="middle">'
            f"{_text(cost)}</text>",
            *_grid(costs, scores),
            *_line(best, costs, scores),
            *marks,
            *(label.svg() for label in labels),
            "</svg>",
            "",
        )
    )


def _grid(costs: _Axis, scores: _Axis) -> Iterator[str]:
    for y, text in scores.ticks():
        yield f'<path class="grid" d="M{_LEFT} {y:.1f}H{_RIGHT}"/>'
        yield f'<text class="text" x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
    for x, text in costs.ticks():
        yield f'<path class="axis" d="M{x:.1f} {_BOTTOM}v5"/>'
        yield (
            f'<text class="text" x="{x:.1f}" y="{_BOTTOM + 20}" text-anchor="middle">{text}</text>'
        )
    yield f'<path class="axis" d="M{_LEFT} {_TOP}V{_BOTTOM}H{_RIGHT}"/>'


def _line(best: Sequence[Point], costs: _Axis, scores: _Axis) -> Iterator[str]:
    """Draw the frontier: the best score that can be had for a cost."""
    if len(best) < 2:
        return
    first, *others = [(costs.place(each.cost), scores.place(each.score)) for each in best]
    steps = "".join(f"H{x:.1f}V{y:.1f}" for x, y in others)
    yield (
        f'<path class="frontier" d="M{first[0]:.1f} {first[1]:.1f}{steps}">'
        "<title>frontier: the best score for each cost</title></path>"
    )


def _mark(point: Point, x: float, y: float, *, is_behind: bool) -> str:
    kind = "point best" if point.rank == 1 else "point behind" if is_behind else "point"
    title = _text(point.title)
    place = f'cx="{x:.1f}" cy="{y:.1f}" r="6"'
    return f'<circle class="{kind}" {place}><title>{title}</title></circle>'


def _label(text: str, x: float, y: float, others: Sequence[_Label], *, on_the_left: bool) -> _Label:
    """Return the label of a point, below those that it would cover.

    The frontier leaves a point to the right and reaches it from below: its labels are on the left
    where there is room.
    """
    width = len(text) * _LETTER_WIDTH + 10
    ends_there = x - width > _LEFT if on_the_left else x + width > _WIDTH
    label = _Label(text, x - 10 if ends_there else x + 10, y + 4, ends_there)
    while any(label.overlaps(other) for other in others):
        label = replace(label, y=label.y + _LABEL_HEIGHT)
    return label


def _text(text: str) -> str:
    return escape(printable(text))
