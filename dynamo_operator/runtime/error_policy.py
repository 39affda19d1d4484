"""What follows when a reconcile fails: by the error's class, and by how often it was a defect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from dynamo_operator.runtime.client.errors import (
    ServerError,
    TooManyRequestsError,
    TransportError,
    UnknownOutcomeError,
)
from dynamo_operator.runtime.defects import DEFECTS
from dynamo_operator.runtime.reconciler import Result, TerminalError
from informers.errors import ListWatchError
from informers.objects import ObjectKey

PANIC_LIMIT: Final = 10
PANIC_PAUSE_SECONDS: Final = 600.0
OUTAGE_PAUSE_SECONDS: Final = 30.0

# No answer, or none of substance: they say nothing of the key, and end without an event that would
# bring it back.
_OUTAGE = (TransportError, UnknownOutcomeError, ServerError, TooManyRequestsError)
# Errors with which a server may say when to come back.
_REFUSED = (ServerError, TooManyRequestsError, ListWatchError)

PanicReport = Callable[[ObjectKey, Exception, int], None]


class ErrorPolicy:
    """Turns an error into the result that says when its key comes back.

    A key whose reconciles end in defects only, `panic_limit` times in a row, is left alone for ten
    minutes at a time: growing delays are for what passes, and a mistake in the code does not. A
    change of what concerns the key still tries it at once.

    While the API server is away the delay grows to half a minute only, so that all is well again
    soon after it is back. A server that says when to come back is heeded, up to half a minute, too,
    and by what changes meanwhile as well: the loop keeps the key until then.

    Args:
        results: what follows errors of a class and its subclasses; the nearest class counts.
        panic_limit: defects in a row that a key may have; None for any number.
        report: told of every defect beyond them: key, error, how many in a row.
    """

    def __init__(
        self,
        results: Mapping[type[Exception], Result],
        *,
        panic_limit: int | None = PANIC_LIMIT,
        report: PanicReport = lambda key, error, count: None,
    ) -> None:
        self._results = dict(results)
        self._panic_limit = panic_limit
        self._report = report
        self._panics: dict[ObjectKey, int] = {}

    def judge(self, key: ObjectKey, error: Exception) -> Result:
        """Return what follows: done (never), requeue (then), or backoff (the key's delay)."""
        count = self._count_panic(key, error)
        if is_terminal(error):
            return Result.done()
        for error_class in type(error).__mro__:
            if error_class in self._results:
                return self._results[error_class]
        if self._panic_limit is not None and count >= self._panic_limit:
            self._report(key, error, count)
            return Result.requeue(after=PANIC_PAUSE_SECONDS)
        asked = asked_pause(error)
        if asked > 0:
            return Result.requeue(after=asked)
        longest = OUTAGE_PAUSE_SECONDS if isinstance(error, _OUTAGE) else None
        return Result.backoff(str(error), at_most=longest)

    def passed(self, key: ObjectKey) -> None:
        """Note that a reconcile of the key did not fail."""
        if self._panics:
            self._panics.pop(key, None)

    def _count_panic(self, key: ObjectKey, error: Exception) -> int:
        if not isinstance(error, DEFECTS):
            self.passed(key)
            return 0
        self._panics[key] = count = self._panics.get(key, 0) + 1
        return count


def asked_pause(error: Exception) -> float:
    """Return for how many seconds a server that refused wants to be left alone, 0 for at all."""
    asked = error.retry_after_seconds if isinstance(error, _REFUSED) else None
    return min(max(asked or 0.0, 0.0), OUTAGE_PAUSE_SECONDS)


def is_terminal(error: BaseException) -> bool:
    """Whether an error is a TerminalError, was caused by one, or groups nothing else."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        if isinstance(cause, TerminalError):
            return True
        if isinstance(cause, BaseExceptionGroup):
            return all(is_terminal(member) for member in cause.exceptions)
        seen.add(id(cause))
        cause = cause.__cause__
    return False
