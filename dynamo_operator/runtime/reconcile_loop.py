"""The loop of one controller: workers that take keys, reconcile, and decide what follows.

One attempt at a key runs from `get` to `done` of the work queue, so a key is never reconciled twice
at once. What follows is decided before `done`:

    outcome                     failures of the key   back in the queue           counted as
    Result.done()               forgotten             no                          success
    Result.requeue(after=s)     forgotten             after s                     requeue_after
    Result.backoff(reason)      counted               after the key's delay       requeue
    TerminalError               forgotten             no                          error
    any other exception         as the error policy's result; by default backoff  error

After a refusal with a Retry-After nothing brings the key back before that time, events included.

A key that comes back keeps the priority with which it was taken, unless the result says another. An
exception is a reconcile's normal way to fail; one that can only be a defect (a TypeError, a
KeyError, ...) is counted as a panic too and logged with its traceback.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from dynamo_operator.runtime.defects import DEFECTS
from dynamo_operator.runtime.error_policy import ErrorPolicy, asked_pause
from dynamo_operator.runtime.log_context import ReconcileLogContext
from dynamo_operator.runtime.metrics import ControllerMetrics
from dynamo_operator.runtime.reconciler import Reconciler, Result
from informers.clock import Clock, Random
from informers.errors import QueueShutDownError
from informers.objects import ObjectKey
from informers.work_queue import QueueItem, Trigger, WorkQueue

_RETRY: Final = Trigger("retry")
_BACKOFF: Final = Trigger("backoff")
_REQUEUE: Final = Trigger("requeue")
_ONCE: Final = Trigger("once")

_UUID_FIXED_BITS: Final = 0xF000 << 64 | 0xC000 << 48
_UUID_VERSION_4: Final = 0x4000 << 64 | 0x8000 << 48

_log = structlog.get_logger(__name__)


class ReconcileLoop:
    """Reconciles the keys of one queue until it is shut down.

    Args:
        name: the controller's name.
        kind: the kind that keys name, for the log.
        reconciler: what is called for each key.
        queue: where keys come from.
        errors: decides what follows an error.
        concerns: whether a key is the controller's at all; one that is not is dropped.
        workers: how many keys are reconciled at once.
        timeout_seconds: time limit of one reconcile.
        before_reconcile: awaited before each attempt, outside its time limit.
        metrics: where attempts are counted.
        clock: measures durations.
        random: makes reconcile identifiers.
    """

    def __init__(
        self,
        *,
        name: str,
        kind: str,
        reconciler: Reconciler,
        queue: WorkQueue[ObjectKey],
        errors: ErrorPolicy,
        concerns: Callable[[ObjectKey], bool],
        workers: int,
        timeout_seconds: float | None,
        before_reconcile: Callable[[ObjectKey], Awaitable[None]],
        metrics: ControllerMetrics,
        clock: Clock,
        random: Random,
    ) -> None:
        self._name = name
        self._kind = kind
        self._reconciler = reconciler
        self._queue = queue
        self._errors = errors
        self._concerns = concerns
        self._workers = workers
        self._timeout_seconds = timeout_seconds
        self._before_reconcile = before_reconcile
        self._metrics = metrics
        self._clock = clock
        self._random = random
        self._held_until: dict[ObjectKey, float] = {}
        metrics.watch_queue(queue.statistics)

    async def run(self) -> None:
        """Reconcile until cancelled.

        The first cancellation shuts the queue down and waits for the reconciles in progress; a
        second one cancels them.
        """
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(self._work(), name=f"{self._name} worker {number}")
            try:
                await asyncio.Event().wait()
            finally:
                self._queue.shut_down()
                await self._queue.wait_drained()

    async def reconcile(self, key: ObjectKey) -> Result:
        """Reconcile a key once, beside the queue, and return the result; nothing follows from it.

        Raises:
            Exception: whatever the reconciler raised.
        """
        with self._log_context(key, trigger=_ONCE, attempt=1):
            outcome, _ = await self._reconcile(key)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def _work(self) -> None:
        try:
            await self._take_and_attempt()
        except asyncio.CancelledError:
            if not self._queue.is_shut_down:
                # A task group takes a cancelled task for one that ended.
                raise RuntimeError(
                    f"controller {self._name!r}: a worker was cancelled from outside"
                ) from None
            raise

    async def _take_and_attempt(self) -> None:
        while True:
            try:
                item = await self._queue.get()
            except QueueShutDownError:
                return
            try:
                if self._concerns(item.key):
                    await self._attempt_unless_held(item)
                else:
                    self._held_until.pop(item.key, None)
                    self._queue.forget(item.key)
                    self._errors.passed(item.key)
                    _log.debug("key dropped", controller=self._name, key=str(item.key))
            finally:
                self._queue.done(item.key)

    async def _attempt_unless_held(self, item: QueueItem[ObjectKey]) -> None:
        wait = self._held_until.get(item.key, 0.0) - self._clock.monotonic()
        if wait > 0:  # an event does not make a server that asked for a pause any better
            self._queue.add(item.key, priority=item.priority, after=wait, trigger=item.trigger)
            return
        self._held_until.pop(item.key, None)
        await self._attempt(item)

    async def _attempt(self, item: QueueItem[ObjectKey]) -> None:
        self._metrics.active_workers.inc()
        try:
            with self._log_context(item.key, trigger=item.trigger, attempt=item.attempts):
                outcome, seconds = await self._reconcile(item.key)
                result = self._follow_up(item, outcome, seconds)
                self._metrics.reconciled(result, seconds)
        finally:
            self._metrics.active_workers.dec()

    def _log_context(
        self, key: ObjectKey, *, trigger: Trigger | None, attempt: int
    ) -> ReconcileLogContext:
        return ReconcileLogContext(
            controller=self._name,
            kind=self._kind,
            key=key,
            reconcile_id=_random_uuid(self._random),
            trigger=str(trigger or ""),
            attempt=attempt,
        )

    async def _reconcile(self, key: ObjectKey) -> tuple[Result | Exception, float]:
        """Return what came of one attempt, and its seconds."""
        seconds = self._timeout_seconds
        deadline = None if seconds is None else asyncio.timeout(seconds)
        started = self._clock.monotonic()
        outcome: Result | Exception
        try:
            await self._before_reconcile(key)
            started = self._clock.monotonic()
            if deadline is None:
                outcome = _checked(await self._reconciler.reconcile(key))
            else:
                async with deadline:
                    outcome = _checked(await self._reconciler.reconcile(key))
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # The reconciler's own business, e.g. it awaited a task that somebody cancelled.
            outcome = _cancelled_inside(error)
        except Exception as error:  # noqa: BLE001 - the loop outlives whatever a reconciler raises
            outcome = error
        if deadline is not None and deadline.expired():
            self._metrics.timeouts.inc()
        return outcome, self._clock.monotonic() - started

    def _follow_up(
        self, item: QueueItem[ObjectKey], outcome: Result | Exception, seconds: float
    ) -> str:
        """Put the key back as the outcome wants, and name the outcome."""
        if isinstance(outcome, Exception):
            self._failed(item, outcome, seconds)
            return "error"
        self._errors.passed(item.key)
        if outcome.backoff_reason is not None:
            self._put_back(item, outcome, backoff=_BACKOFF)
            _log.info("reconcile backs off", reason=outcome.backoff_reason)
            return "requeue"
        self._put_back(item, outcome)
        return "success" if outcome.requeue_after is None else "requeue_after"

    def _failed(self, item: QueueItem[ObjectKey], error: Exception, seconds: float) -> None:
        self._metrics.errors.inc()
        is_defect = isinstance(error, DEFECTS)
        if is_defect:
            self._metrics.panics.inc()
        result = self._errors.judge(item.key, error)
        self._put_back(item, result, backoff=_RETRY)
        asked = asked_pause(error)
        if asked and result == Result.requeue(after=asked):
            self._held_until[item.key] = self._clock.monotonic() + asked
        event = "reconcile failed"
        if result.requeue_after is None and result.backoff_reason is None:
            self._metrics.terminal_errors.inc()
            event = "reconcile failed for good"
        if is_defect:
            _log.error(event, exc_info=error, duration_seconds=seconds)
        else:
            text = f"{type(error).__name__}: {error}"
            _log.error(event, error=text, duration_seconds=seconds)

    def _put_back(
        self, item: QueueItem[ObjectKey], result: Result, *, backoff: Trigger = _BACKOFF
    ) -> None:
        priority = item.priority if result.priority is None else result.priority
        if result.backoff_reason is not None:
            self._queue.add(
                item.key,
                priority=priority,
                after=result.longest_backoff or 0.0,
                rate_limited=True,
                trigger=backoff,
            )
            return
        self._queue.forget(item.key)
        after = result.requeue_after
        if after is not None:
            self._queue.add(item.key, priority=priority, after=after, trigger=_REQUEUE)


def _random_uuid(random: Random) -> str:
    """Return a UUID of version 4 as text; the class for them takes three times as long."""
    digits = f"{random.getrandbits(128) & ~_UUID_FIXED_BITS | _UUID_VERSION_4:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _checked(result: object) -> Result:
    if not isinstance(result, Result):
        raise TypeError(f"reconcile returned {result!r}: must be a Result")
    return result


def _cancelled_inside(cause: BaseException) -> RuntimeError:
    error = RuntimeError("the reconciler raised CancelledError, although nobody cancelled it")
    error.__cause__ = cause
    return error
