"""Why relays cannot be brought up to what they should be."""

from __future__ import annotations

from dynamo_operator.api.conditions import ReadyReason


class RelayError(Exception):
    """A pass over one relay stops; the text is one line that names the object.

    Args:
        message: what is wrong with which object, and the way out.
        retry_seconds: when to look again without an event; None for a growing delay.
    """

    reason: ReadyReason

    def __init__(self, message: str, *, retry_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_seconds = retry_seconds


class OwnershipConflictError(RelayError):
    """An object of a child's name is not the relay's; it stays untouched."""

    reason = ReadyReason.OWNERSHIP_CONFLICT


class ApplyFailedError(RelayError):
    """The API server refused a child, or its withdrawal."""

    reason = ReadyReason.APPLY_FAILED
