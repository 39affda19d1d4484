"""Errors of this package.

InformerError
├── ListWatchError        the server answered a list or a watch with an error status
│   └── ExpiredError      410, or "too large resource version"
├── InformerFailedError   an informer ended by itself
│   ├── UnwatchableError  the type can be listed but not watched: no retry can help
│   └── AccessDeniedError the server forbids the list or watch, and the informer was not to wait
├── ConnectionLostError   the connection failed, broke off, or carried something that is not a watch
├── SyncTimeoutError      the first list did not arrive in time; says the last error seen
└── QueueShutDownError    the work queue was shut down
"""

from __future__ import annotations

from informers.events import WatchStatus


class InformerError(Exception):
    """Root of this package's errors."""


class ListWatchError(InformerError):
    """The server refused a list or a watch.

    Args:
        code: HTTP status, or the code of the Status object inside a stream.
        reason: machine-readable reason of the Status object, possibly empty.
        message: one line for people.
        retry_after_seconds: what the server asked for, or None.
    """

    def __init__(
        self,
        code: int,
        reason: str = "",
        message: str = "",
        *,
        retry_after_seconds: float | None = None,
    ) -> None:
        status = f"{code} {reason}" if reason else str(code)
        super().__init__(f"{status}: {' '.join(message.split())}")
        self.code = code
        self.reason = reason
        self.message = message
        self.retry_after_seconds = retry_after_seconds


class ExpiredError(ListWatchError):
    """The requested resource version is too old (410 Gone, reason Expired) or not reached yet."""


class InformerFailedError(InformerError):
    """An informer ended although nobody stopped it."""


class UnwatchableError(InformerFailedError):
    """The type cannot be watched at all; names it and what is missing."""


class AccessDeniedError(InformerFailedError):
    """The first list or watch is forbidden; names the type and says what to grant."""

    @classmethod
    def raise_if_forbidden(cls, title: str, error: Exception) -> None:
        """Raise it where `error` is a 403; `title` is the type's."""
        if isinstance(error, ListWatchError) and error.code == 403:
            raise cls(f"{title}: {error}; grant its list and watch") from error


class ConnectionLostError(InformerError):
    """The connection failed or broke; the text says how."""


class SyncTimeoutError(InformerError):
    """An informer did not sync in time; names the type and the last list or watch error."""


class QueueShutDownError(InformerError):
    """The work queue is shut down: there are no more items."""


def status_error(status: WatchStatus) -> ListWatchError:
    """Return the error that a Status object stands for."""
    expired = status.code == 410 or status.reason in ("Expired", "Gone")
    not_reached = status.code == 504 and "too large resource version" in status.message.lower()
    return (ExpiredError if expired or not_reached else ListWatchError)(
        status.code,
        status.reason,
        status.message,
        retry_after_seconds=status.retry_after_seconds,
    )
