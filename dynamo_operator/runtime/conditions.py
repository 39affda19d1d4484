"""Conditions: what an object says about itself, with the time of the last change of mind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Protocol, Self, TypeVar


class Condition(Protocol):
    """What a model of `status.conditions[]` has."""

    @property
    def type(self) -> str:
        """What the condition is about."""

    @property
    def status(self) -> str:
        """`True`, `False` or `Unknown`."""

    @property
    def reason(self) -> str:
        """One CamelCase word why."""

    @property
    def message(self) -> str:
        """A sentence for people."""

    @property
    def last_transition_time(self) -> str:
        """When `status` last changed, RFC 3339."""

    @property
    def observed_generation(self) -> int | None:
        """The generation that was judged."""

    def model_copy(self, *, update: Mapping[str, Any] | None = None) -> Self:
        """Return a copy with some fields changed; every pydantic model has this."""


C = TypeVar("C", bound=Condition)


def set_condition(conditions: list[C], condition: C, *, now: datetime) -> bool:
    """Put a condition in the place of the one of its type; return whether anything changed.

    The time of the last transition becomes `now` exactly when the status differs from before;
    the one in `condition` is not looked at. It never goes back, even where the clock did.
    """
    index, present = _find(conditions, condition.type)
    if present is not None and _says(present) == _says(condition):
        return False
    if present is not None and present.status == condition.status and present.last_transition_time:
        time = present.last_transition_time
    else:
        time = format_time(_no_earlier(now, present.last_transition_time if present else ""))
    condition = condition.model_copy(update={"last_transition_time": time})
    if present is None:
        conditions.append(condition)
    else:
        conditions[index] = condition
    return True


def _no_earlier(now: datetime, before: str) -> datetime:
    try:
        return max(now, datetime.fromisoformat(before))
    except (ValueError, TypeError):  # no time, or one without a zone: somebody else's
        return now


def find_condition(conditions: Iterable[C], type_: str) -> C | None:
    """Return the condition of that type, or None."""
    return _find(conditions, type_)[1]


def is_condition_true(conditions: Iterable[Condition], type_: str) -> bool:
    """Whether there is a condition of that type whose status is `True`."""
    return any(c.type == type_ and c.status == "True" for c in conditions)


def format_time(time: datetime) -> str:
    """Return a time as `metadata` and conditions hold it: UTC, whole seconds."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _find(conditions: Iterable[C], type_: str) -> tuple[int, C | None]:
    for index, condition in enumerate(conditions):
        if condition.type == type_:
            return index, condition
    return -1, None


def _says(condition: Condition) -> tuple[str, str, str, int | None]:
    return (
        condition.status,
        condition.reason,
        condition.message,
        condition.observed_generation,
    )
