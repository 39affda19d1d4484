"""Why a Run waits, or ends before its Job could say how.

EndingError                 the Run ends, its Job deleted first; trying again cannot help
├── InvalidInputError       what the Run asks for cannot be executed
├── InvalidExecutionError   what the Run recorded about its execution does not hold any more
└── OwnershipConflictError  an object of an expected name is not the Run's
WaitingError                the Run goes on once something else is there
"""

from __future__ import annotations

from dynamo_operator.api.conditions import CompletedReason


class EndingError(Exception):
    """The Run ends with `reason`; the text is one line naming the object and what is wrong."""

    reason: CompletedReason


class InvalidInputError(EndingError):
    """The spec cannot be lowered, or the API server refuses an object made from it."""

    reason = CompletedReason.INVALID_INPUT


class InvalidExecutionError(EndingError):
    """A frozen execution, or the recorded Job, cannot be used."""

    reason = CompletedReason.INVALID_EXECUTION


class OwnershipConflictError(EndingError):
    """An object of an expected name is not ours; it stays untouched."""

    reason = CompletedReason.OWNERSHIP_CONFLICT


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
