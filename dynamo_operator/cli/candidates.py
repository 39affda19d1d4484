"""Candidates as people compare them: a summary of each, a table, a chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

from dynamo_operator.api.labels import CANDIDATE_ID_LABEL
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentCandidate
from dynamo_operator.cli.table import format_table

_MODES = {"agg": "aggregated", "disagg": "disaggregated"}
_SIZES = {"tp": "tp", "pp": "pp", "attention_dp": "dp", "moe_tp": "moe-tp", "moe_ep": "ep"}


@dataclass(frozen=True, slots=True)
class CandidateSummary:
    """One candidate in a line.

    `throughput` is in output tokens per second, `ttft` and `itl` are mean milliseconds; None where
    the search did not measure it.
    """

    id: str
    mode: str
    backend: str
    parallelism: str
    gpus: int
    score: float | None
    throughput: float | None
    ttft: float | None
    itl: float | None


def summarize(candidate: DynamoGraphDeploymentCandidate) -> CandidateSummary:
    """Read what the search published of a candidate."""
    metrics = candidate.status.metrics or {}
    performance = metrics.get("performance") or {}
    parameters = candidate.spec.get("parameters") or {}
    mode = str(parameters.get("deployment_mode", ""))
    roles = ("prefill_", "decode_") if mode == "disagg" else ("",)
    return CandidateSummary(
        id=candidate.labels.get(CANDIDATE_ID_LABEL, candidate.key.name),
        mode=_MODES.get(mode, mode),
        backend=str(parameters.get("backend") or candidate.spec.get("backendFramework") or ""),
        parallelism=" + ".join(_shape(parameters, role) for role in roles),
        gpus=int(metrics.get("usedGpus") or 0),
        score=metrics.get("score"),
        throughput=performance.get("output_throughput_tok_s"),
        ttft=performance.get("mean_ttft_ms"),
        itl=performance.get("mean_itl_ms") or performance.get("mean_tpot_ms"),
    )


def candidate_table(candidates: Sequence[DynamoGraphDeploymentCandidate]) -> str:
    """Return a table of candidates in the order given, best first."""
    header = (
        *("RANK", "CANDIDATE", "MODE", "BACKEND", "PARALLELISM", "GPUS", "SCORE"),
        *("TOKENS/S", "TTFT MS", "ITL MS"),
    )
    rows = [
        (
            str(rank),
            each.id.removeprefix("evaluated-point-"),
            each.mode,
            each.backend,
            each.parallelism,
            str(each.gpus),
            _shown(each.score),
            _shown(each.throughput),
            _shown(each.ttft),
            _shown(each.itl),
        )
        for rank, each in enumerate(map(summarize, candidates), start=1)
    ]
    return format_table(header, rows)


def candidate_chart(candidates: Sequence[DynamoGraphDeploymentCandidate]) -> str:
    """Return an SVG of score against GPUs, one point for each candidate, its rank beside it."""
    width, height, margin = 640, 400, 60
    points = [each for each in map(summarize, candidates) if each.score is not None]
    most_gpus = max((each.gpus for each in points), default=1)
    top = max((each.score or 0 for each in points), default=1.0) or 1.0

    def place(each: CandidateSummary) -> tuple[float, float]:
        across = margin + (width - 2 * margin) * each.gpus / max(most_gpus, 1)
        up = height - margin - (height - 2 * margin) * (each.score or 0) / top
        return across, up

    marks = []
    for rank, each in enumerate(points, start=1):
        x, y = place(each)
        colour = "#1a7f37" if rank == 1 else "#0969da"
        label = escape(f"{rank}: {each.mode} {each.backend} {each.parallelism}")
        marks.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="{colour}">'
            f"<title>{label}</title></circle>"
            f'<text x="{x + 9:.1f}" y="{y + 4:.1f}" font-size="12">{rank}</text>'
        )
    bottom, right = height - margin, width - margin
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
            ' font-family="sans-serif">',
            f'<rect width="{width}" height="{height}" fill="white"/>',
            f'<path d="M{margin} {margin}V{bottom}H{right}" fill="none" stroke="#57606a"/>',
            f'<text x="{width / 2:.0f}" y="{height - 20}" text-anchor="middle">GPUs'
            f" (0 to {most_gpus})</text>",
            f'<text x="{margin}" y="{margin - 20}">score (0 to {_shown(top)}),'
            " higher is better</text>",
            *marks,
            "</svg>",
            "",
        )
    )


def _shape(parameters: Mapping[str, Any], role: str) -> str:
    """Say replicas and the sizes that are not one, e.g. `2 x tp4`, `prefill 1 x tp1`."""
    sizes = [
        f"{short}{parameters[role + name]}"
        for name, short in _SIZES.items()
        if (parameters.get(role + name) or 1) != 1
    ]
    shape = f"{parameters.get(role + 'replicas', 1)} x {' '.join(sizes) or 'tp1'}"
    return f"{role.rstrip('_')} {shape}" if role else shape


def _shown(number: float | None) -> str:
    if number is None:
        return "-"
    return f"{number:.0f}" if abs(number) >= 100 else f"{number:.2f}"
