"""Why a Run waits, or ends before anything ran."""

from __future__ import annotations

from dynamo_operator.api.conditions import CompletedReason


class InvalidExecutionError(Exception):
    """A frozen execution cannot be used; one line naming the object and what is wrong with it."""


class OwnershipConflictError(Exception):
    """An object of an expected name is not ours; one line naming it and its owner."""


class WaitingError(Exception):
    """The Run cannot go on yet; it says why, waits, and looks again.

    Args:
        reason: the Completed condition's reason meanwhile.
        message: one line with what is missing and how to provide it.
        retry_seconds: when to look again without an event.
    """

    def __init__(self, reason: CompletedReason, message: str, retry_seconds: float) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.retry_seconds = retry_seconds
