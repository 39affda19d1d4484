"""Specs and overrides that nobody can have meant; seeded."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

GOOD: dict[str, Any] = {
    "model": {"name": "m"},
    "backends": ["vllm"],
    "hardware": {"gpu": {"sku": "h200_sxm", "budget": 8}},
    "workload": {"static": {"inputTokens": 1, "outputTokens": 1, "load": {"concurrency": 1}}},
    "objective": {"mode": "optimize", "metric": "throughput"},
    "recommendation": {"maxCandidates": 5},
}
_TEXTS = (
    *("", "\x00", "\u2028\u2029", "e\u0301" * 40, "\U0001f4a5" * 300, "a\nb", "\u202egnp", "NaN"),
    *("'; --", "${jndi}", "../" * 20, "A" * 5_000, "0x10", "1_000", "null", "800ms"),
)
_NUMBERS = (-1, 0, 2**31, 2**63 - 1, -(2**63), 1e308, 5e-324, -0.5, 0.1 + 0.2)


def deep(levels: int) -> Any:
    """Objects in one another."""
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


def bad_value(draw: random.Random, good: Any) -> Any:
    """A value that cannot stand where `good` does."""
    kinds: list[Any] = [
        draw.choice(_TEXTS) if not isinstance(good, str) else draw.choice(_NUMBERS),
        [good, {}],
        {draw.choice(_TEXTS) or "x": good},
        deep(draw.randrange(5, 90)),
        ["x"] * draw.randrange(200, 3_000),
        not isinstance(good, bool),
    ]
    return draw.choice(kinds)


def paths(node: Any, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every path to a value that is no object."""
    for key, value in node.items():
        if isinstance(value, dict):
            yield from paths(value, (*prefix, key))
        else:
            yield (*prefix, key)


def put(spec: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """A copy with another value at a path."""
    copy = dict(spec)
    head, *rest = path
    inner = copy.get(head)
    copy[head] = (
        put(inner if isinstance(inner, dict) else {}, tuple(rest), value) if rest else value
    )
    return copy


def bad_specs(seed: int, count: int) -> Iterator[dict[str, Any]]:
    """Good specs but for one typed value."""
    draw = random.Random(seed)
    known = [*paths(GOOD)]
    for _ in range(count):
        path = draw.choice(known)
        good: Any = GOOD
        for key in path:
            good = good[key]
        yield put(GOOD, path, bad_value(draw, good))


_TARGETS = (
    "engine.backend engine.mode engine.model engine.hardware engine.workers.decode engine.workers "
    "traffic.load.concurrency traffic.load.type traffic.stop.requests traffic.source.input_tokens "
    "traffic.source.type optimizer.max_trials optimization.target optimization.constraints "
    "evaluation.sla.ttft_ms dgdr_run.name dgdr_run.namespace dgdr_run.max_candidates dgdr_run "
    "dgdr_run.snapshot_dir dgdr_run.snapshot_interval_seconds engine traffic optimizer nonsense"
)

_FREE_TEXTS = ("model", "hardware")  # any text may be one


def bad_overrides(seed: int, count: int) -> Iterator[dict[str, Any]]:
    """Good specs but for a patch that AISimulate, the operator or the server cannot take."""
    draw = random.Random(seed)
    for _ in range(count):
        path = tuple(draw.choice(_TARGETS.split()).split("."))
        values: list[Any] = [["x", {}], deep(draw.randrange(80, 300)), {"\u2028": 1}, -1, True]
        if path[-1] not in _FREE_TEXTS:
            values.append(draw.choice(_TEXTS))
        value = draw.choice(values)
        yield {**GOOD, "aisimulate": {"inputOverrides": put({}, path, value)}}
