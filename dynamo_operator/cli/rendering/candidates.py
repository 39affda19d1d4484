"""Candidates as people compare them: a summary of each, and a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dynamo_operator.api.labels import CANDIDATE_ID_LABEL
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentCandidate
from dynamo_operator.cli.rendering.table import format_table

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
            shown(each.score),
            shown(each.throughput),
            shown(each.ttft),
            shown(each.itl),
        )
        for rank, each in enumerate(map(summarize, candidates), start=1)
    ]
    return format_table(header, rows)


def _shape(parameters: Mapping[str, Any], role: str) -> str:
    """Say replicas and the sizes that are not one, e.g. `2 x tp4`, `prefill 1 x tp1`."""
    sizes = [
        f"{short}{parameters[role + name]}"
        for name, short in _SIZES.items()
        if (parameters.get(role + name) or 1) != 1
    ]
    shape = f"{parameters.get(role + 'replicas', 1)} x {' '.join(sizes) or 'tp1'}"
    return f"{role.rstrip('_')} {shape}" if role else shape


def shown(number: float | None) -> str:
    """Return a measure with the digits that people compare."""
    if number is None:
        return "-"
    return f"{number:.0f}" if abs(number) >= 100 else f"{number:.2f}"
