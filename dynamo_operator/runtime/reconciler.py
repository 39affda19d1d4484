"""The contract of a reconciler: a key in, a decision out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, Self

from dynamo_operator.runtime.client.reader import M, Reader
from informers.objects import ObjectKey

if TYPE_CHECKING:
    from dynamo_operator.runtime.client.client import Client


class TerminalError(Exception):
    """Raised by a reconciler when trying again cannot help: logged and counted, never retried.

    It is recognized through `__cause__` chains too.
    """


@dataclass(frozen=True, slots=True)
class Result:
    """What a reconcile decided.

    Make one with `done`, `requeue` or `backoff`; failures are exceptions. A key that comes back has
    the priority with which it was taken, unless `priority` says another.
    """

    requeue_after: float | None = None
    backoff_reason: str | None = None
    longest_backoff: float | None = None
    priority: int | None = None

    @staticmethod
    def done() -> Result:
        """Nothing more to do until something changes."""
        return _DONE

    @classmethod
    def requeue(cls, *, after: float, priority: int | None = None) -> Self:
        """Look again after that many seconds (> 0); an event in between looks earlier.

        Raises:
            ValueError: `after` is not a positive finite number.
        """
        if not 0 < after < float("inf"):
            raise ValueError(f"requeue after {after}: must be a positive number of seconds")
        return cls(requeue_after=after, priority=priority)

    @classmethod
    def backoff(
        cls, reason: str, *, at_most: float | None = None, priority: int | None = None
    ) -> Self:
        """Look again with this key's growing delay, without an error; `reason` goes to the log.

        Args:
            reason: why there is more to do.
            at_most: seconds (> 0) that the delay does not exceed.
            priority: of the key then.
        """
        return cls(backoff_reason=reason, longest_backoff=at_most, priority=priority)


_DONE = Result()


class Reconciler(Protocol):
    """One unit of desired logic.

    Level-triggered: it gets a key and looks at the world, never at an event.
    """

    async def reconcile(self, key: ObjectKey) -> Result:
        """Bring the world closer to what the object of that key asks for.

        Safe to repeat at any point. Never called twice at once for one key. Anything raised is
        logged, counted and, TerminalError excepted, retried: with the key's growing delay, or as
        the controller's `on_error` has it.
        """


def object_reconciler(
    kind: type[M], reconcile: Callable[[M, Reader, Client], Awaitable[Result]]
) -> Callable[[Reader, Client], Reconciler]:
    """Make a reconciler of a function that gets the object, and is not called without one.

    Args:
        kind: the controller's kind.
        reconcile: called with the object as read, the reader and the client.

    Example:
        >>> async def label(widget: Widget, reader: Reader, client: Client) -> Result:
        ...     await client.patch(Widget, widget.key, {"metadata": {"labels": {"seen": "yes"}}})
        ...     return Result.done()
        >>> def labeller() -> Controller:
        ...     return Controller(Widget, reconciler=object_reconciler(Widget, label))
    """
    return lambda reader, client: _ObjectReconciler(kind, reconcile, reader, client)


class _ObjectReconciler(Generic[M]):
    def __init__(
        self,
        kind: type[M],
        reconcile: Callable[[M, Reader, Client], Awaitable[Result]],
        reader: Reader,
        client: Client,
    ) -> None:
        self._kind = kind
        self._reconcile = reconcile
        self._reader = reader
        self._client = client

    async def reconcile(self, key: ObjectKey) -> Result:
        found = await self._reader.find(self._kind, key)
        if found is None:
            return Result.done()
        return await self._reconcile(found, self._reader, self._client)
