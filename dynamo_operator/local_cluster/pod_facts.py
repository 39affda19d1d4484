"""What controllers ask of Pods, and of the selectors that choose them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from dynamo_operator.local_cluster.pod_status import parse_time
from dynamo_operator.runtime.builtin_kinds import Pod
from dynamo_operator.runtime.selectors import LabelMatcher, label_matcher

_OPERATORS = {"Exists": "{}", "DoesNotExist": "!{}"}


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """Return a `metav1.LabelSelector` in kubectl's `-l` syntax; "" selects everything."""
    selector = selector or {}
    equal = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    return ",".join([*equal, *map(_expression, selector.get("matchExpressions") or ())])


def selector_matcher(selector: Mapping[str, Any] | None) -> LabelMatcher:
    """Compile a `metav1.LabelSelector`; none, or an empty one, selects nothing here.

    A workload that selected everything would take what is not its own.
    """
    return label_matcher(selector_text(selector)) or (lambda _: False)


def has_ended(pod: Pod) -> bool:
    """Whether none of the Pod's containers will run again."""
    return pod.status.get("phase") in ("Succeeded", "Failed")


def is_active(pod: Pod) -> bool:
    """Whether the Pod counts as a replica."""
    return not has_ended(pod) and not pod.is_deleting


def is_terminating(pod: Pod) -> bool:
    """Whether the Pod is being deleted and may still run."""
    return not has_ended(pod) and pod.is_deleting


def pod_condition(pod: Pod, type_: str) -> Mapping[str, Any] | None:
    """Return a Pod's condition, or None."""
    found: Mapping[str, Any]
    for found in pod.status.get("conditions") or ():
        if found.get("type") == type_:
            return found
    return None


def is_ready(pod: Pod) -> bool:
    """Whether the Pod's condition Ready is true."""
    return ready_since(pod) is not None


def ready_since(pod: Pod) -> datetime | None:
    """Return since when the Pod is ready, the epoch where its condition does not say; else None."""
    condition = pod_condition(pod, "Ready")
    if condition is None or condition.get("status") != "True":
        return None
    time = parse_time(condition.get("lastTransitionTime"))
    return time or datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def available_in(pod: Pod, min_ready_seconds: int, now: datetime) -> timedelta | None:
    """Return how long until a Pod is available, not positive if it is; None for one not ready."""
    since = ready_since(pod)
    return None if since is None else since + timedelta(seconds=min_ready_seconds) - now


def _expression(expression: Mapping[str, Any]) -> str:
    key, operator = expression["key"], expression["operator"]
    if operator in _OPERATORS:
        return _OPERATORS[operator].format(key)
    return f"{key} {operator.lower()} ({','.join(expression.get('values') or ())})"
