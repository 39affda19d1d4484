"""The two versions of Event: kept as core v1, also served as events.k8s.io/v1."""

from __future__ import annotations

from typing import Any

from dynamo_operator.apiserver.resources import Object

_RENAMED = (
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
)
_WITHOUT_EMPTY = ("reportingController", "reportingInstance")
_TO_EVENTS = dict(_RENAMED)
_TO_CORE = {new: old for old, new in _RENAMED}


def to_core(event: Object) -> Object:
    """Return an events.k8s.io/v1 Event as core v1."""
    return {"reportingComponent": "", "reportingInstance": "", **_converted(event, _TO_CORE, "v1")}


def from_core(event: Object) -> Object:
    """Return a core v1 Event as events.k8s.io/v1."""
    converted = _converted(event, _TO_EVENTS, "events.k8s.io/v1")
    return {k: v for k, v in converted.items() if v != "" or k not in _WITHOUT_EMPTY}


def _converted(event: Object, names: dict[str, str], api_version: str) -> Object:
    converted: dict[str, Any] = {names.get(name, name): value for name, value in event.items()}
    return {**converted, "apiVersion": api_version}
