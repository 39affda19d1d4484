"""This module checks Events, those of events.k8s.io as the core Events that they are kept as.

What core v1 takes is little; events.k8s.io asks for more, and lets nothing but a series change.
"""

from __future__ import annotations

from typing import Final

from dynamo_operator.apiserver.events_conversion import to_core
from dynamo_operator.apiserver.kinds.rules import Errors, immutable, invalid, problems, required
from dynamo_operator.apiserver.object_metadata import qualified_name
from dynamo_operator.apiserver.resources import Object

_MOST: Final = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}
_UNSET: Final = ("firstTimestamp", "lastTimestamp", "count")
_FIXED: Final = (
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "type",
    "eventTime",
    "action",
    "related",
)


def validate_core_event(event: Object) -> Errors:
    """Check what any Event has to be."""
    yield from _place_errors(event)
    if event.get("eventTime") is not None:
        yield from _reporter_errors(event, "reportingComponent")


def validate_event(event: Object) -> Errors:
    """Check what any Event of events.k8s.io has to be."""
    core = to_core(event)
    yield from _place_errors(core)
    if core.get("eventTime") is not None:
        yield from _reporter_errors(core, "reportingController")


def validate_new_event(event: Object) -> Errors:
    """Check a new Event of events.k8s.io."""
    core = to_core(event)
    yield from _series_errors(core)
    if core.get("eventTime") is None:
        yield required("eventTime")
    if core.get("type") not in ("Normal", "Warning"):
        yield invalid("type", "", f"has invalid value: {core.get('type') or ''}")
    for field in _UNSET:
        if core.get(field):
            yield invalid(field, "", "needs to be unset")
    source = core.get("source") or {}
    if source.get("component") or source.get("host"):
        yield invalid("source", "", "needs to be unset")


def validate_event_update(new: Object, old: Object) -> Errors:
    """Check a change through events.k8s.io."""
    after, before = to_core(new), to_core(old)
    if after.get("series") != before.get("series"):
        yield from _series_errors(after)
    for field in _FIXED:
        yield from immutable(field, after.get(field), before.get(field))
    for field, kept in (
        ("reportingController", "reportingComponent"),
        ("reportingInstance", "reportingInstance"),
    ):
        yield from immutable(field, after.get(kept) or "", before.get(kept) or "")


def _place_errors(event: Object) -> Errors:
    place, about = event["metadata"].get("namespace"), event.get("involvedObject") or {}
    named = about.get("namespace") or ""
    of_old = event.get("eventTime") is None
    if (of_old and named and named != place) or (
        not named and place not in ("default", *(() if of_old else ("kube-system",)))
    ):
        yield invalid("involvedObject.namespace", named, "does not match event.namespace")


def _reporter_errors(event: Object, controller_field: str) -> Errors:
    controller = event.get("reportingComponent") or ""
    if not controller:
        yield required(controller_field)
    yield from problems(controller_field, controller, qualified_name(controller))
    for field, most in _MOST.items():
        text = event.get(field) or ""
        if not text and field != "message":
            yield required(field)
        if len(text.encode()) > most:
            yield invalid(field, "", f"can have at most {most} characters")


def _series_errors(event: Object) -> Errors:
    series = event.get("series")
    if series is not None:
        if (series.get("count") or 0) < 2:
            yield invalid("series.count", "", "should be at least 2")
        if not series.get("lastObservedTime"):
            yield required("series.lastObservedTime")
