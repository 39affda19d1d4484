"""A search as one HTML page that needs nothing else: no script, no file, no network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from dynamo_operator.aisimulate.violations import dotted
from dynamo_operator.api.conditions import ConditionType, find_condition
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentCandidate, DynamoGraphDeploymentRun
from dynamo_operator.cli.effective_input import EffectiveInput
from dynamo_operator.cli.rendering.candidates import CandidateSummary, shown, summarize
from dynamo_operator.cli.rendering.chart import Point, candidate_point, frontier, scatter_chart
from dynamo_operator.cli.rendering.effective_input import value_text
from dynamo_operator.cli.rendering.terminal import printable

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"

_STYLE: Final = """
:root { color-scheme: light dark; --text: #1f2328; --faint: #59636e; --ground: #ffffff;
  --line: #d1d9e0; --box: #f6f8fa; --good: #1a7f37 }
@media (prefers-color-scheme: dark) { :root { --text: #e6edf3; --faint: #9198a1;
  --ground: #0d1117; --line: #3d444d; --box: #151b23; --good: #3fb950 } }
body { margin: 2rem auto; max-width: 62rem; padding: 0 1rem; color: var(--text);
  background: var(--ground); font: 15px/1.5 system-ui, sans-serif }
h1 { font-size: 1.6rem; overflow-wrap: anywhere } h2 { font-size: 1.2rem; margin-top: 2.2rem }
p.note { color: var(--faint) }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1.2rem }
dt { color: var(--faint) } dd { margin: 0; overflow-wrap: anywhere }
.scroll { overflow-x: auto }
table { border-collapse: collapse; width: 100%; font-size: .9rem }
th, td { text-align: left; padding: .3rem .7rem; border-bottom: 1px solid var(--line) }
th { color: var(--faint); font-weight: 600; white-space: nowrap }
td.number { text-align: right; font-variant-numeric: tabular-nums }
tr.best td { color: var(--good); font-weight: 600 }
td.path, td.value, pre { font-family: ui-monospace, monospace; font-size: .85rem }
td { overflow-wrap: break-word }
pre { background: var(--box); border: 1px solid var(--line); padding: 1rem; overflow-x: auto }
svg { width: 100%; height: auto; border: 1px solid var(--line); margin: .6rem 0 }
@media print { body { max-width: none } pre { white-space: pre-wrap } }
"""


@dataclass(frozen=True, slots=True)
class Report:
    """What a page tells.

    Args:
        run: the search.
        candidates: best first.
        effective_input: what was searched with.
        manifest: YAML of the best deployment, or why there is none.
    """

    run: DynamoGraphDeploymentRun
    candidates: Sequence[DynamoGraphDeploymentCandidate]
    effective_input: EffectiveInput
    manifest: str


@dataclass(frozen=True, slots=True)
class _Cost:
    """A cost that candidates are compared by."""

    name: str
    short: str
    of: Callable[[CandidateSummary], float | None]
    whole: bool = False


_COSTS: Final = (
    _Cost("GPUs", "GPUs", lambda each: float(each.gpus), whole=True),
    _Cost("mean time to first token, ms", "TTFT", lambda each: each.ttft),
    _Cost("mean time between tokens, ms", "ITL", lambda each: each.itl),
)


def report_page(report: Report) -> str:
    """Return the page; whatever names and values say, it is shown as text."""
    title = f"Search {report.run.key.name}"
    return "\n".join(
        (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{_text(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>",
            f"<h1>{_text(title)}</h1>",
            *_facts(report.run, len(report.candidates)),
            *_candidates(report.candidates),
            *_effective_input(report.effective_input),
            *_manifest(report),
            "</body>\n</html>\n",
        )
    )


def _facts(run: DynamoGraphDeploymentRun, candidates: int) -> Iterator[str]:
    gpu = run.spec.hardware.gpu if run.spec.hardware else None
    progress = run.status.progress
    objective = run.spec.objective
    completed = find_condition(run.status.conditions, ConditionType.COMPLETED)
    words = [completed.reason, completed.message] if completed else []
    reason = f" ({': '.join(filter(None, words))})" if any(words) else ""
    facts = {
        "Model": run.spec.model.name,
        "Hardware": f"up to {gpu.budget} x {gpu.sku}" if gpu else "",
        "Objective": objective.metric if objective else "",
        "Namespace": run.key.namespace,
        "Phase": f"{run.status.phase or 'Pending'}{reason}",
        "Started": run.status.start_time,
        "Ended": run.status.completion_time,
        "Evaluated": f"{progress.evaluated if progress else 0} configurations,"
        f" {candidates} kept as Candidates",
    }
    yield "<dl>"
    yield from (f"<dt>{name}</dt><dd>{_text(told)}</dd>" for name, told in facts.items() if told)
    yield "</dl>"


def _candidates(candidates: Sequence[DynamoGraphDeploymentCandidate]) -> Iterator[str]:
    yield "<h2>Candidates</h2>"
    if not candidates:
        yield '<p class="note">The search has kept none.</p>'
        return
    summaries = [*enumerate(map(summarize, candidates), start=1)]
    measured = [(cost, _points(summaries, cost)) for cost in _COSTS]
    on = {
        rank: [
            cost.short
            for cost, points in measured
            if rank in {point.rank for point in frontier(points)}
        ]
        for rank, _ in summaries
    }
    numbers = ("Rank", "Score", "GPUs", "Tokens/s", "TTFT ms", "ITL ms")
    yield '<div class="scroll"><table><thead><tr>'
    yield "".join(f"<th>{name}</th>" for name in (*numbers, "Backend", "Built as", "Frontier"))
    yield "</tr></thead><tbody>"
    for rank, each in summaries:
        cells = (
            *(str(rank), shown(each.score), str(each.gpus)),
            *(shown(each.throughput), shown(each.ttft), shown(each.itl)),
        )
        row = "".join(f'<td class="number">{_text(cell)}</td>' for cell in cells)
        built = f"{each.mode} {each.parallelism}"
        row += "".join(f"<td>{_text(t)}</td>" for t in (each.backend, built, ", ".join(on[rank])))
        yield f'<tr class="best">{row}</tr>' if rank == 1 else f"<tr>{row}</tr>"
    yield "</tbody></table></div>"
    yield (
        '<p class="note">Frontier names the costs for which no other candidate has a better score'
        " at the same cost or less. In the charts it is the line, and what lies behind it is"
        " hollow.</p>"
    )
    for cost, points in measured:
        if points:
            title = f"Score against {cost.name.partition(',')[0]}"
            yield scatter_chart(points, title=title, cost=cost.name, whole=cost.whole)


def _points(summaries: Sequence[tuple[int, CandidateSummary]], cost: _Cost) -> list[Point]:
    points = [candidate_point(rank, each, cost.of(each)) for rank, each in summaries]
    return [point for point in points if point is not None]


def _effective_input(explained: EffectiveInput) -> Iterator[str]:
    yield "<h2>Effective input</h2>"
    yield '<p class="note">What AISimulate was given, and where each value comes from.</p>'
    yield '<div class="scroll"><table><thead><tr>'
    yield "<th>Value of</th><th>is</th><th>because of</th></tr></thead><tbody>"
    for each in explained.values:
        path, value = _breakable(dotted(each.path)), _breakable(value_text(each.value))
        told = _breakable(each.told)
        yield f'<tr><td class="path">{path}</td><td class="value">{value}</td><td>{told}</td></tr>'
    yield "</tbody></table></div>"


def _manifest(report: Report) -> Iterator[str]:
    if report.candidates:
        yield "<h2>Best deployment</h2>"
        yield f'<p class="note">Of Candidate {_text(report.candidates[0].key.name)}.</p>'
        yield f"<pre>{escape(report.manifest)}</pre>"


def _text(value: object) -> str:
    return escape(printable(str(value)))


def _breakable(text: str) -> str:
    """Return escaped text that may break where a path does."""
    return _text(text).replace(".", ".<wbr>").replace("/", "/<wbr>")
