"""What AISimulate refuses in `traffic` beyond its schema: our port of its rules, pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from dynamo_operator.aisimulate.violations import Violation, at, shown

Section = Mapping[str, Any]

_FIELDS_OF_LOAD: Final = {
    "concurrency": {"concurrency"},
    "poisson": {"requests_per_second", "sessions_per_second", "seed"},
    "constant_rate": {"requests_per_second", "sessions_per_second"},
    "kv_capacity_fraction": {"fraction"},
    "trace_timestamps": {
        "speedup",
        "agentic_lanes",
        "agentic_snapshot",
        "agentic_warmup",
        "agentic_profile",
    },
}
_LOAD_FIELDS: Final = frozenset().union(*_FIELDS_OF_LOAD.values())
_REQUEST_STOPS: Final = ("requests", "requests_per_load_unit")
_SESSION_STOPS: Final = ("sessions", "sessions_per_load_unit")
_AGENTIC_FORMATS: Final = ("agentic_mooncake", "weka")
_INPUT_TOKENS: Final = 1024


def traffic_violations(traffic: Section) -> Iterator[Violation]:
    """Yield what is wrong with a `traffic` section that the schema accepts."""
    source, load = traffic["source"], traffic["load"]
    yield from _load_violations(load)
    if source["type"] == "trace":
        yield from _trace_source_violations(source)
        yield from _trace_violations(traffic)
    else:
        yield from _synthetic_source_violations(source)
        yield from _synthetic_violations(traffic)
    yield from _agentic_violations(traffic)


def load_type(traffic: Section) -> str:
    """Return the kind of load; AISimulate's default is concurrency."""
    return str(at(traffic, "load", "type") or "concurrency")


def _load_violations(load: Section) -> Iterator[Violation]:
    kind = load.get("type", "concurrency")
    accepted = _FIELDS_OF_LOAD[kind]
    given = {
        name for name in _LOAD_FIELDS if load.get(name) is not None and load[name] is not False
    }
    for name in sorted(given - accepted):
        yield Violation(
            ("traffic", "load", name),
            f"does not go with load type {kind}, which takes {', '.join(sorted(accepted))}",
            rivals=(("traffic", "load", name),),
        )
    if kind == "kv_capacity_fraction" and "fraction" not in given:
        yield Violation(("traffic", "load", "fraction"), f"is missing for load type {kind}")
    if kind == "concurrency" and "concurrency" in load and load["concurrency"] is None:
        yield Violation(("traffic", "load", "concurrency"), f"is missing for load type {kind}")
    for name in (
        "concurrency",
        "requests_per_second",
        "sessions_per_second",
        "fraction",
        "speedup",
    ):
        lowest = at(load, name, "range", "min")
        if lowest is not None and lowest <= 0:
            yield Violation(("traffic", "load", name, "range", "min"), "must be above 0")


def _synthetic_source_violations(source: Section) -> Iterator[Violation]:
    cached = source.get("cached_prefix_tokens", 0)
    if cached > source.get("input_tokens", _INPUT_TOKENS):
        yield Violation(
            ("traffic", "source", "cached_prefix_tokens"), "must be at most input_tokens"
        )
    session = source.get("session") or {}
    if session.get("shared_prefix_ratio", 0) > 0 and not session.get("prefix_groups"):
        yield Violation(
            ("traffic", "source", "session", "prefix_groups"),
            "must be above 0 where shared_prefix_ratio is",
        )


def _synthetic_violations(traffic: Section) -> Iterator[Violation]:
    kind, load = load_type(traffic), traffic["load"]
    unit = "requests" if traffic["source"]["type"] == "synthetic" else "sessions"
    other = "sessions" if unit == "requests" else "requests"
    if kind == "trace_timestamps":
        yield Violation(("traffic", "load", "type"), "trace_timestamps needs a trace source")
    if kind in ("poisson", "constant_rate") and load.get(f"{unit}_per_second") is None:
        yield Violation(
            ("traffic", "load", f"{unit}_per_second"), f"is missing for load type {kind}"
        )
    if load.get(f"{other}_per_second") is not None:
        yield Violation(
            ("traffic", "load", f"{other}_per_second"),
            f"does not go with source type {traffic['source']['type']}: use {unit}_per_second",
        )
    yield from _stop_violations(traffic.get("stop"), unit)


def _stop_violations(stop: Section | None, unit: str) -> Iterator[Violation]:
    path = ("traffic", "stop")
    own, foreign = (
        (_REQUEST_STOPS, _SESSION_STOPS) if unit == "requests" else (_SESSION_STOPS, _REQUEST_STOPS)
    )
    given = [name for name in own if (stop or {}).get(name) is not None]
    if not given:
        yield Violation(path, f"needs {own[0]} or {own[1]}")
    if len(given) > 1:
        yield Violation(
            path,
            f"must have exactly one of {own[0]} and {own[1]}",
            rivals=tuple((*path, name) for name in given),
        )
    for name in foreign:
        if (stop or {}).get(name) is not None:
            yield Violation(
                (*path, name),
                f"does not go with this source: use {own[0]} or {own[1]}",
                rivals=((*path, name),),
            )
    if (stop or {}).get("max_virtual_time_seconds") is not None:
        yield Violation((*path, "max_virtual_time_seconds"), "needs a trace source")


def _trace_source_violations(source: Section) -> Iterator[Violation]:
    path = ("traffic", "source")
    paths, form = source["paths"], source.get("format", "mooncake")
    if not paths or not all(paths):
        yield Violation((*path, "paths"), "must name at least one file")
    elif form != "dynamo" and len(paths) != 1:
        yield Violation((*path, "paths"), f"must name exactly one file for format {form}")
    if source.get("nested_timestamp_basis") is not None and form != "weka":
        yield Violation((*path, "nested_timestamp_basis"), "goes with format weka only")


def _trace_violations(traffic: Section) -> Iterator[Violation]:
    kind, stop = load_type(traffic), traffic.get("stop") or {}
    form = traffic["source"].get("format", "mooncake")
    load_path, stop_path = ("traffic", "load"), ("traffic", "stop")
    agentic = form in _AGENTIC_FORMATS
    if kind not in ("trace_timestamps", "concurrency"):
        yield Violation((*load_path, "type"), "must be trace_timestamps or concurrency for a trace")
    elif agentic and kind != "trace_timestamps":
        yield Violation((*load_path, "type"), f"must be trace_timestamps for format {form}")
    elif form == "applied_compute_agentic" and kind != "concurrency":
        yield Violation((*load_path, "type"), f"must be concurrency for format {form}")
    for name in (*_REQUEST_STOPS, *_SESSION_STOPS):
        if stop.get(name) is not None:
            yield Violation(
                (*stop_path, name),
                "does not go with a trace, which takes max_virtual_time_seconds",
                rivals=((*stop_path, name),),
            )
    if agentic and stop.get("max_virtual_time_seconds") is not None:
        yield Violation((*stop_path, "max_virtual_time_seconds"), f"not with format {form}")
    if traffic["load"].get("agentic_lanes") is not None and not agentic and form != "dynamo":
        yield Violation(
            (*load_path, "agentic_lanes"), "needs format weka, agentic_mooncake or dynamo"
        )


def _agentic_violations(traffic: Section) -> Iterator[Violation]:
    load, path = traffic["load"], ("traffic", "load")
    for name, needed in (
        ("agentic_profile", "agentic_snapshot"),
        ("agentic_warmup", "agentic_snapshot"),
        ("agentic_snapshot", "agentic_lanes"),
    ):
        if load.get(name) and load.get(needed) is None:
            yield Violation((*path, name), f"needs {needed}")
    if load.get("agentic_profile") and at(traffic, "stop", "max_virtual_time_seconds") is not None:
        yield Violation(
            (*path, "agentic_profile"), "does not go with traffic.stop.max_virtual_time_seconds"
        )
    if traffic["source"]["type"] != "trace" and load.get("agentic_lanes") is not None:
        lanes = shown(load["agentic_lanes"])
        yield Violation((*path, "agentic_lanes"), f"{lanes} needs a trace source")
