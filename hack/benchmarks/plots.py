"""Bar charts as SVG: three bars beside each other are not worth a plotting library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from hack.benchmarks.measurement import number

_COLORS = ("#2a6fdb", "#e08a1e", "#8a8f98")
_WIDTH, _BAR, _GAP, _LEFT, _TOP = 640, 20, 16, 250, 64
_TEXT = 'font-family="sans-serif" font-size="13"'


@dataclass(frozen=True, slots=True)
class Bars:
    """What is drawn.

    Args:
        title: over the plot.
        unit: of the values, shown beside the title.
        series: names of the bars of a group, in order.
        groups: values by group, one for each series.
    """

    title: str
    unit: str
    series: Sequence[str]
    groups: Mapping[str, Sequence[float]]


def plot(bars: Bars) -> str:
    """Return the SVG of horizontal bars, in groups, each with its value."""
    most = max((value for values in bars.groups.values() for value in values), default=0.0) or 1.0
    scale = (_WIDTH - _LEFT - 90) / most
    parts, y = [_words(12, 24, f"{bars.title} ({bars.unit})", weight="bold")], _TOP
    if len(bars.series) > 1:
        parts += _legend(bars.series)
    for group, values in bars.groups.items():
        middle = y + len(values) * _BAR / 2 + 4
        parts.append(_words(_LEFT - 10, middle, group, anchor="end"))
        for color, value in zip(_COLORS, values, strict=False):
            parts.append(
                f'<rect x="{_LEFT}" y="{y}" width="{max(1.0, value * scale):.1f}" '
                f'height="{_BAR - 3}" fill="{color}"/>'
            )
            parts.append(_words(_LEFT + value * scale + 6, y + 13, number(value)))
            y += _BAR
        y += _GAP
    size = f'width="{_WIDTH}" height="{y}" viewBox="0 0 {_WIDTH} {y}"'
    background = f'<rect width="{_WIDTH}" height="{y}" fill="white"/>'
    lines = "\n".join([background, *parts])
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {_TEXT}>\n{lines}\n</svg>\n'


def _legend(series: Sequence[str]) -> list[str]:
    parts, x = [], 12
    for color, name in zip(_COLORS, series, strict=False):
        parts.append(f'<rect x="{x}" y="36" width="12" height="12" fill="{color}"/>')
        parts.append(_words(x + 18, 47, name))
        x += 40 + 8 * len(name)
    return parts


def _words(x: float, y: float, text: str, *, anchor: str = "start", weight: str = "") -> str:
    bold = f' font-weight="{weight}"' if weight else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{bold}>{escape(text)}</text>'
