"""What a run of `hack.benchmarks.peers` says: ratios with their bars, a table and plots."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path

from hack.benchmarks.measurement import Bar, Measurement, Verdict, number
from hack.benchmarks.peer_processes import Framework, Round
from hack.benchmarks.plots import Bars, plot

PAGE = Path(__file__).parents[2] / "docs/performance.md"
PLOTS = PAGE.parent / "performance"
MIB = 1024 * 1024

_BEGIN, _END = "<!-- hack/bench peers: begin -->", "<!-- hack/bench peers: end -->"
_ALONE_BEGIN, _ALONE_END = "<!-- hack/bench: begin -->", "<!-- hack/bench: end -->"
# name of the number, its line in the table, and the most of controller-runtime's and of kopf's
_RATIOS: tuple[tuple[str, str, float | None, float | None], ...] = (
    ("converge_seconds", "converge, wall", 1 / 1.2, 1 / 3),
    ("converge_cpu_seconds", "converge, CPU", 0.8, 1 / 5),
    ("restart_seconds", "restart, wall", 0.8, 1 / 20),
    ("restart_cpu_seconds", "restart, CPU", 0.8, 1 / 20),
    ("latency_p50_seconds", "latency p50", 1.0, 1 / 2),
    ("latency_p99_seconds", "latency p99", 1.2, 1 / 3),
    ("resident_bytes", "memory", 0.9, 1 / 3),
    ("first_watch_seconds", "first watch", None, 1 / 8),
)
_CACHED = (("ConfigMap", 0.5), ("Pod", 0.4))


@dataclass(frozen=True, slots=True)
class Run:
    """How much was measured."""

    rounds: int
    widgets: int
    cached: int


def compare(ours: Framework, go: Framework, kopf: Framework, *, widgets: int) -> list[Measurement]:
    """Return the numbers of each, and the ratios that have bars."""
    made = []
    for framework in (ours, go, kopf):
        for each in fields(Round):
            value, unit = framework.median(each.name), _unit(each.name)
            label = each.name.removesuffix("_seconds").removesuffix("_bytes").replace("_", " ")
            value = value / MIB if unit == "MiB" else value
            made.append(Measurement(f"{framework.name}: {label}", value, unit))
    for framework in (ours, go):
        for kind, size in framework.bytes_per_object.items():
            made.append(Measurement(f"{framework.name}: cached {kind}", size, "bytes"))

    def exactly(count: int) -> Bar:
        return Bar(count, side_by_side=True)  # a count is the same on any machine

    for name, label, to_go, to_kopf in _RATIOS:
        for peer, limit in ((go, to_go), (kopf, to_kopf)):
            if limit is not None:
                value = ours.median(name) / max(peer.median(name), 1e-9)
                bar = Bar(limit, side_by_side=True)
                made.append(Measurement(f"{label} to {peer.name}", value, "ratio", bar))
    for kind, limit in _CACHED:
        value = ours.bytes_per_object[kind] / go.bytes_per_object[kind]
        bar = Bar(limit, side_by_side=True)
        made.append(Measurement(f"cached {kind} to {go.name}", value, "ratio", bar))
    made += [
        Measurement("ours: writes each", ours.median("writes") / widgets, "", exactly(2)),
        Measurement("ours: writes that failed", ours.median("failed_writes"), "", exactly(0)),
        Measurement("ours: requests when idle", ours.median("idle_requests"), "", exactly(0)),
        Measurement("ours: CPU when idle", ours.median("idle_cpu_seconds"), "s", Bar(0.05)),
        Measurement("ours: first watch after", ours.median("first_watch_seconds"), "s", Bar(0.35)),
    ]
    return made


def _unit(name: str) -> str:
    if name.endswith("_seconds"):
        return "s"
    return "MiB" if name.endswith("_bytes") else ""


def write_page(
    frameworks: Sequence[Framework],
    made: Sequence[Measurement],
    alone: Sequence[Measurement],
    run: Run,
) -> None:
    """Put the table and the plots of a run into docs/performance.md.

    Args:
        frameworks: ours, controller-runtime and kopf.
        made: what `compare` made of them.
        alone: what was measured of ours alone.
        run: how much was measured.
    """
    page = PAGE.read_text()
    page = _between(page, _BEGIN, _END, _section(frameworks, made, run))
    page = _between(page, _ALONE_BEGIN, _ALONE_END, _alone(alone))
    PAGE.write_text(page)
    PLOTS.mkdir(exist_ok=True)
    for name, text in _plots(frameworks, alone, run).items():
        (PLOTS / f"{name}.svg").write_text(text)


def _between(page: str, begin: str, end: str, text: str) -> str:
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    return pattern.sub(lambda _: f"{begin}\n{text}\n{end}", page, count=1)


def _section(frameworks: Sequence[Framework], made: Sequence[Measurement], run: Run) -> str:
    ours, go, kopf = frameworks
    verdicts = {each.name: each for each in made}
    rows = [
        ("", "ours", go.name, kopf.name, f"ours to {go.name}", "ours to kopf"),
        ("---",) * 6,
    ]
    for name, label, _to_go, _to_kopf in _RATIOS:
        cells = [_cell(name, framework.median(name), run) for framework in frameworks]
        ratios = [_judged(verdicts.get(f"{label} to {peer.name}")) for peer in (go, kopf)]
        rows.append((_label(name, label), *cells, *ratios))
    for name, label in (("writes", "writes an object"), ("failed_writes", "failed writes")):
        share = run.widgets if name == "writes" else 1
        values = [number(framework.median(name) / share) for framework in frameworks]
        rows.append((label, *values, "", ""))
    for kind, _limit in _CACHED:
        sizes = [f"{framework.bytes_per_object[kind]:,.0f} B" for framework in (ours, go)]
        ratio = _judged(verdicts.get(f"cached {kind} to {go.name}"))
        rows.append((f"cached {kind}", *sizes, "", ratio, ""))
    idle = [number(framework.median("idle_requests")) for framework in frameworks]
    rows.append(("requests when idle", *idle, "", ""))
    idle = [_time(framework.median("idle_cpu_seconds")) for framework in frameworks]
    rows.append(("CPU when idle", *idle, "", ""))
    if ours.few:
        for name, label in (("converge_seconds", "wall"), ("converge_cpu_seconds", "CPU")):
            values = [framework.median_of_few(name) for framework in frameworks]
            ratios = [f"{values[0] / peer:.2f}" for peer in values[1:]]
            rows.append((f"converge of 1,000, {label}", *map(_time, values), *ratios))
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    about = (
        f"{datetime.now(UTC):%d %B %Y}: {run.rounds} rounds of {run.widgets:,} Widgets, caches of "
        f"{run.cached:,} objects; Python {platform.python_version()}, {os.cpu_count()} processors, "
        f"load average at the end {os.getloadavg()[1]:.1f}. Medians; in brackets whether the bar "
        "is met."
    )
    shown = ("converge", "cpu", "latency", "memory")
    images = "\n".join(f"![{name}](performance/{name}.svg)" for name in shown)
    return f"{about}\n\n{table}\n\n{images}"


def _alone(alone: Sequence[Measurement]) -> str:
    rows = [("", "value", "bar"), ("---",) * 3]
    for each in alone:
        value = f"{number(each.value)} {each.unit}".strip()
        rows.append((each.name, value, str(each.bar) if each.bar else ""))
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"{table}\n\n![micro-benchmarks](performance/micro.svg)"


def _plots(
    frameworks: Sequence[Framework], alone: Sequence[Measurement], run: Run
) -> dict[str, str]:
    def bars(title: str, unit: str, groups: dict[str, list[float]]) -> str:
        return plot(Bars(title, unit, [framework.name for framework in frameworks], groups))

    def medians(name: str, factor: float = 1.0) -> list[float]:
        return [framework.median(name) * factor for framework in frameworks]

    rates = {f"{run.widgets:,}": [run.widgets / value for value in medians("converge_seconds")]}
    costs = {f"{run.widgets:,}": medians("converge_cpu_seconds", 1000 / run.widgets)}
    if frameworks[0].few:
        few = [each.median_of_few("converge_seconds") for each in frameworks]
        rates = {"1,000": [1000 / value for value in few], **rates}
        costs = {
            "1,000": [each.median_of_few("converge_cpu_seconds") for each in frameworks],
            **costs,
        }
    latency = {
        "p50": medians("latency_p50_seconds", 1000),
        "p99": medians("latency_p99_seconds", 1000),
    }
    speeds = {each.name: [each.value] for each in alone if each.unit == "1/s"}
    return {
        "converge": bars("Cold converge of so many objects", "objects/s", rates),
        "cpu": bars("Processor time of a cold converge", "ms an object", costs),
        "latency": bars("From a change to its status, 30 changes a second", "ms", latency),
        "memory": bars(
            "Resident memory", "MiB", {f"{run.widgets:,}": medians("resident_bytes", 1 / MIB)}
        ),
        "micro": plot(Bars("On one core", "1/s", ["ours"], speeds)),
    }


def _label(name: str, label: str) -> str:
    return {"converge_cpu_seconds": "converge, CPU an object", "resident_bytes": "memory"}.get(
        name, label
    )


def _cell(name: str, value: float, run: Run) -> str:
    if name == "resident_bytes":
        return f"{value / MIB:.0f} MiB"
    return _time(value / run.widgets if name == "converge_cpu_seconds" else value)


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"


def _judged(measured: Measurement | None) -> str:
    if measured is None or measured.bar is None:
        return ""
    word = "met" if measured.verdict() is Verdict.OK else "missed"
    return f"{measured.value:.2f} ({word}: {measured.bar})"
