"""Candidates as people compare them: a summary of each, and a table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dynamo_operator.api.labels import CANDIDATE_ID_LABEL
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentCandidate
from dynamo_operator.cli.rendering.table import format_table
from dynamo_operator.cli.rendering.terminal import clipped

_LONGEST_VALUE = 60
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


@dataclass(frozen=True, slots=True)
class Difference:
    """A value that two candidates do not share; None where one does not have it."""

    path: tuple[str, ...]
    one: Any
    other: Any

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"path": list(self.path), "one": self.one, "other": self.other}


def candidate_facts(candidate: DynamoGraphDeploymentCandidate) -> dict[tuple[str, ...], Any]:
    """Return what was measured of a candidate, how it is built, and what would be deployed."""
    spec = dict(candidate.spec)
    parameters = spec.pop("parameters", None) or {}
    facts = {"metrics": candidate.status.metrics or {}, "parameters": parameters, "spec": spec}
    return dict(_leaves(facts, ()))


def candidate_differences(
    one: DynamoGraphDeploymentCandidate, other: DynamoGraphDeploymentCandidate
) -> list[Difference]:
    """Return all values that differ, in the order of the first candidate's facts."""
    left, right = candidate_facts(one), candidate_facts(other)
    paths = list(dict.fromkeys([*left, *right]))
    return [
        Difference(path, left.get(path), right.get(path))
        for path in paths
        if left.get(path) != right.get(path)
    ]


def facts_table(facts: Mapping[tuple[str, ...], Any]) -> str:
    """Return facts as a table, a line each."""
    rows = [(_dotted(path), clipped(_told(value), _LONGEST_VALUE)) for path, value in facts.items()]
    return format_table(("OF", "IS"), rows)


def differences_table(differences: Sequence[Difference], *, names: tuple[str, str]) -> str:
    """Return differences as a table, with the change of numbers in percent."""
    if not differences:
        return f"{names[0]} and {names[1]} are the same"
    rows = [
        (
            _dotted(each.path),
            clipped(_told(each.one), _LONGEST_VALUE // 2),
            clipped(_told(each.other), _LONGEST_VALUE // 2),
            _change(each.one, each.other),
        )
        for each in differences
    ]
    return format_table(("OF", *(clipped(name, _LONGEST_VALUE // 2) for name in names), ""), rows)


def candidate_table(
    candidates: Sequence[DynamoGraphDeploymentCandidate], *, with_names: bool = False
) -> str:
    """Return a table of candidates in the order given, best first.

    Args:
        candidates: what is listed.
        with_names: whether to name the objects, too.
    """
    header: tuple[str, ...] = (
        *("RANK", "CANDIDATE", "MODE", "BACKEND", "PARALLELISM", "GPUS", "SCORE"),
        *("TOKENS/S", "TTFT MS", "ITL MS"),
    )
    rows: list[tuple[str, ...]] = [
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
    if with_names:
        header = (*header, "NAME")
        rows = [(*row, each.key.name) for row, each in zip(rows, candidates, strict=True)]
    return format_table(header, rows)


def _leaves(node: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the values of a document; an item of a list is named where it names itself."""
    if isinstance(node, Mapping) and node:
        for key, value in node.items():
            yield from _leaves(value, (*path, str(key)))
    elif isinstance(node, list) and node:
        for index, value in enumerate(node):
            name = value.get("name") if isinstance(value, Mapping) else None
            yield from _leaves(value, (*path, f"[{name or index}]"))
    else:
        yield path, node


def _dotted(path: tuple[str, ...]) -> str:
    return ".".join(path).replace(".[", "[")


def _told(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return "-" if value is None else value if isinstance(value, str) else json.dumps(value)


def _change(one: Any, other: Any) -> str:
    if not (_is_number(one) and _is_number(other) and one):
        return ""
    return f"{(other - one) / abs(one) * 100:+.1f}%"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


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
