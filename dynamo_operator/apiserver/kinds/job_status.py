"""This module checks what is written to a Job's status, in the real server's order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dynamo_operator.apiserver.kinds.rules import Errors, at_least, invalid, required
from dynamo_operator.apiserver.resources import Object
from dynamo_operator.apiserver.status import OMITTED, FieldError

_TERMINAL: Final = ("Failed", "Complete", "FailureTarget")
_ENDS: Final = frozenset({"Complete", "Failed"})
_CONDITIONS: Final = "status.conditions"


def validate_job_status(new: Object, old: Object) -> Errors:
    """Find what is wrong with a change of the status."""
    before, after = old.get("status") or {}, new.get("status") or {}
    for field in ("active", "succeeded", "failed", "ready", "terminating"):
        yield from at_least(f"status.{field}", after.get(field), 0)
    were, are = _true_conditions(before), _true_conditions(after)
    yield from _completion_errors(before, after, were, are)
    yield from _finished_errors(new, before, after, were ^ are)
    for end in _TERMINAL:
        if end in were - are:
            yield _conditions(f"cannot disable the terminal {end}=True condition")
    for field in ("failed", "succeeded"):
        if (after.get(field) or 0) < (before.get(field) or 0):
            detail = f"cannot decrease the {field} counter"
            yield invalid(f"status.{field}", after.get(field) or 0, detail)
    completed, completes = before.get("completionTime"), after.get("completionTime")
    if completed and completes and completes != completed:
        yield invalid("status.completionTime", completes, "field is immutable")
    started, starts = before.get("startTime"), after.get("startTime")
    if started and starts != started and not new["spec"].get("suspend"):
        detail = "field is immutable for unsuspended job once set"
        yield invalid("status.startTime", starts, detail)
    if "SuccessCriteriaMet" in were - are:
        yield _conditions("cannot disable the SuccessCriteriaMet=True condition")


def _completion_errors(
    before: Mapping[str, Any], after: Mapping[str, Any], were: set[str], are: set[str]
) -> Errors:
    changed, moment = were ^ are, after.get("completionTime")
    if {"Complete", "Failed"} <= are and changed & {"Complete", "Failed"}:
        yield _conditions("cannot set Complete=True and Failed=true conditions")
    if {"Complete", "FailureTarget"} <= are and changed & {"Complete", "FailureTarget"}:
        yield _conditions("cannot set Complete=True and FailureTarget=true conditions")
    if "Complete" in changed or moment != before.get("completionTime"):
        if moment and "Complete" not in are:
            detail = "cannot set completionTime when there is no Complete=True condition"
            yield invalid("status.completionTime", moment, detail)
        if not moment and "Complete" in are:
            yield required("status.completionTime", "completionTime is required for Complete jobs")
    for end, first in (("Failed", "FailureTarget"), ("Complete", "SuccessCriteriaMet")):
        if end in are & changed and first not in are:
            yield _conditions(f"cannot set {end}=True condition without the {first}=true condition")


def _finished_errors(
    job: Object, before: Mapping[str, Any], after: Mapping[str, Any], changed: set[str]
) -> Errors:
    finished = bool(_ENDS & _true_conditions(after))
    for field in ("active", "terminating"):
        if field == "terminating" and finished and _lacks_start(job, before, after, changed):
            yield required("status.startTime", "startTime is required for finished job")
        concerned = bool(changed & _ENDS) or after.get(field) != before.get(field)
        if finished and concerned and after.get(field):
            yield invalid(f"status.{field}", after[field], f"{field}>0 is invalid for finished job")
    concerned = any(after.get(field) != before.get(field) for field in ("ready", "active"))
    if concerned and (after.get("ready") or 0) > (after.get("active") or 0):
        yield invalid("status.ready", after["ready"], "cannot set more ready pods than active")


def _lacks_start(
    job: Object, before: Mapping[str, Any], after: Mapping[str, Any], changed: set[str]
) -> bool:
    spec = job["spec"]
    if after.get("startTime") or (spec.get("suspend") and spec.get("completions") == 0):
        return False
    return bool(changed & _ENDS) or bool(before.get("startTime"))


def _true_conditions(status: Mapping[str, Any]) -> set[str]:
    return {c.get("type", "") for c in status.get("conditions") or () if c.get("status") == "True"}


def _conditions(detail: str) -> FieldError:
    return invalid(_CONDITIONS, OMITTED, detail)
