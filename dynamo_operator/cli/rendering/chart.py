"""Candidates as a chart: score against GPUs, as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from xml.sax.saxutils import escape

from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentCandidate
from dynamo_operator.cli.rendering.candidates import CandidateSummary, summarize

_WIDTH, _HEIGHT = 800, 480
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 760, 70, 420
_MIDDLE = (_LEFT + _RIGHT) // 2
_MOST_TICKS = 8
_LABEL_HEIGHT = 14
_LETTER_WIDTH = 6  # of a label, roughly: enough to keep labels apart


@dataclass(frozen=True, slots=True)
class _Axis:
    """Maps values from 0 to `top` to pixels, with a tick at each multiple of `step`."""

    step: float
    top: float
    start: int
    end: int

    @classmethod
    def up_to(cls, value: float, start: int, end: int, *, whole: bool = False) -> _Axis:
        """Return an axis whose steps are 1, 2 or 5 times a power of ten."""
        least = max(value, 1.0 if whole else 1e-9) / _MOST_TICKS
        power = 10.0 ** math.floor(math.log10(least))
        step = next(power * digit for digit in (1, 2, 5, 10) if power * digit >= least * 0.999)
        step = max(step, 1.0) if whole else step
        return cls(step, step * max(math.ceil(value / step), 1), start, end)

    def place(self, value: float) -> float:
        """Return the pixel of a value."""
        return self.start + (self.end - self.start) * value / self.top

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Yield the pixel and the text of each tick."""
        for index in range(round(self.top / self.step) + 1):
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
        return f'<text {place} font-size="11">{escape(self.text)}</text>'


def candidate_chart(candidates: Sequence[DynamoGraphDeploymentCandidate], *, title: str) -> str:
    """Return an SVG with a point for each candidate, its rank and parallelism beside it."""
    ranked = [
        (rank, each, each.score)
        for rank, each in enumerate(map(summarize, candidates), start=1)
        if each.score is not None
    ]
    gpus = _Axis.up_to(
        max((each.gpus for _, each, _ in ranked), default=1), _LEFT, _RIGHT, whole=True
    )
    scores = _Axis.up_to(max((score for _, _, score in ranked), default=1), _BOTTOM, _TOP)
    marks: list[str] = []
    labels: list[_Label] = []
    for rank, each, score in ranked:
        x, y = gpus.place(each.gpus), scores.place(score)
        marks.append(_point(rank, each, x, y))
        labels.append(_label(f"{rank}: {each.parallelism}", x, y, labels))
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
            ' font-family="sans-serif" font-size="12">',
            f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
            f'<text x="{_LEFT}" y="28" font-size="16" font-weight="bold">{escape(title)}</text>',
            f'<text x="{_LEFT}" y="{_TOP - 18}">score, higher is better</text>',
            f'<text x="{_MIDDLE}" y="{_HEIGHT - 16}" text-anchor="middle">GPUs</text>',
            *_grid(gpus, scores),
            *marks,
            *(label.svg() for label in labels),
            "</svg>",
            "",
        )
    )


def _grid(gpus: _Axis, scores: _Axis) -> Iterator[str]:
    for y, text in scores.ticks():
        yield f'<path d="M{_LEFT} {y:.1f}H{_RIGHT}" stroke="#eaeef2"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
    for x, text in gpus.ticks():
        yield f'<path d="M{x:.1f} {_BOTTOM}v5" stroke="#57606a"/>'
        yield f'<text x="{x:.1f}" y="{_BOTTOM + 20}" text-anchor="middle">{text}</text>'
    yield f'<path d="M{_LEFT} {_TOP}V{_BOTTOM}H{_RIGHT}" fill="none" stroke="#57606a"/>'


def _point(rank: int, each: CandidateSummary, x: float, y: float) -> str:
    colour = "#1a7f37" if rank == 1 else "#0969da"
    title = escape(f"{rank}: {each.mode} {each.backend} {each.parallelism}")
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="{colour}"><title>{title}</title></circle>'
    )


def _label(text: str, x: float, y: float, others: Sequence[_Label]) -> _Label:
    """Return the label of a point, where there is more room, below those that it would cover."""
    ends_there = x > _MIDDLE
    label = _Label(text, x - 10 if ends_there else x + 10, y + 4, ends_there)
    while any(label.overlaps(other) for other in others):
        label = replace(label, y=label.y + _LABEL_HEIGHT)
    return label
