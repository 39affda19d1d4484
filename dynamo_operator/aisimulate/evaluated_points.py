"""Evaluated configurations of a search: their identity, their order, and keeping the best."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from dynamo_operator.aisimulate.snapshot import to_json

# What differs between machines, or says how an estimate came about, is not the configuration.
_PRIVATE_PARAMETERS = frozenset(
    {"forward_pass_estimators", "systems_paths", "provenance", "diagnostics"}
)
# These time the simulator itself.
_PRIVATE_METRICS = frozenset(
    {"wall_time_ms", "processed_tokens_per_s", "processed_output_tokens_per_s"}
)


@dataclass(frozen=True, slots=True)
class Point:
    """A feasible evaluated configuration."""

    id: str
    parameters: dict[str, JsonValue]
    canonical: str
    score: float
    used_gpus: int
    metrics: dict[str, JsonValue]
    candidate: Any

    @property
    def rank(self) -> tuple[float, int, str]:
        """Sorts the best first, whatever the order of arrival."""
        return (-self.score, self.used_gpus, self.canonical)


def point_of(candidate: Any) -> Point | None:
    """Return a candidate as a point, or None when it has no finite score."""
    score, used_gpus = candidate.score, candidate.used_gpus
    if score is None or used_gpus is None or not math.isfinite(score):
        return None
    parameters = public_parameters(candidate.config)
    canonical = json.dumps(parameters, sort_keys=True, separators=(",", ":"), allow_nan=False)
    metrics: dict[str, JsonValue] = {"score": float(score), "usedGpus": int(used_gpus)}
    if candidate.objectives:
        metrics["objectives"] = to_json(candidate.objectives)
    metrics["performance"] = to_json(
        {k: v for k, v in (candidate.metrics or {}).items() if k not in _PRIVATE_METRICS}
    )
    return Point(
        id="evaluated-point-" + hashlib.sha256(canonical.encode()).hexdigest()[:12],
        parameters=parameters,
        canonical=canonical,
        score=float(score),
        used_gpus=int(used_gpus),
        metrics=metrics,
        candidate=candidate,
    )


def public_parameters(config: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Return the concrete configuration without what is unset, private or machine-dependent."""
    return {key: _public(to_json(config[key])) for key in sorted(config) if _is_public(config, key)}


def _is_public(mapping: Mapping[str, Any], key: str) -> bool:
    return key not in _PRIVATE_PARAMETERS and mapping[key] is not None


def _public(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return public_parameters(value)
    if isinstance(value, list):
        return [_public(item) for item in value]
    return value


class Retention:
    """The best points seen so far, at most `limit`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._points: dict[str, Point] = {}

    def add(self, point: Point) -> bool:
        """Keep the point if it is among the best; return whether anything changed."""
        known = self._points.get(point.id)
        if known is not None and known.rank <= point.rank:
            return False
        self._points[point.id] = point
        if len(self._points) > self._limit:
            worst = max(self._points.values(), key=lambda p: p.rank)
            del self._points[worst.id]
            return worst.id != point.id
        return True

    def best(self) -> list[Point]:
        """Return the kept points, best first."""
        return sorted(self._points.values(), key=lambda p: p.rank)
