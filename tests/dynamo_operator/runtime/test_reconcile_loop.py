import asyncio
import contextlib
from itertools import pairwise
from uuid import RFC_4122, UUID

import pytest
import structlog

from dynamo_operator.runtime.client.errors import (
    ServerError,
    TooManyRequestsError,
    TransportError,
    UnknownOutcomeError,
)
from dynamo_operator.runtime.error_policy import ErrorPolicy, is_terminal
from dynamo_operator.runtime.log_context import current_reconcile_id
from dynamo_operator.runtime.metrics import Metrics
from dynamo_operator.runtime.reconcile_loop import ReconcileLoop
from dynamo_operator.runtime.reconciler import Result, TerminalError
from dynamo_operator.testing.virtual_time import VirtualClock
from informers.clock import Random
from informers.errors import ListWatchError
from informers.objects import ObjectKey
from informers.work_queue import Priority, Trigger, WorkQueue

pytestmark = pytest.mark.virtual_time

A, B = ObjectKey("lab", "a"), ObjectKey("lab", "b")


@pytest.fixture(autouse=True)
def logs():
    """Lines with tracebacks take long to print."""
    with structlog.testing.capture_logs() as lines:
        yield lines


class Bench:
    """A loop whose reconciler follows a script for each key, then is done."""

    def __init__(self, *, workers=1, timeout_seconds=None, before=None, **errors):
        self.script = {}
        self.calls = []
        self.panics_reported = []
        self.unconcerned: set[ObjectKey] = set()
        self.metrics = Metrics()
        self.queue: WorkQueue[ObjectKey] = WorkQueue(
            clock=VirtualClock(), observer=self.metrics.queue("w")
        )
        self.loop = ReconcileLoop(
            name="w",
            kind="Widget",
            reconciler=self,
            queue=self.queue,
            errors=ErrorPolicy(errors.pop("results", {}), report=self.report_panic, **errors),
            concerns=lambda key: key not in self.unconcerned,
            workers=workers,
            timeout_seconds=timeout_seconds,
            before_reconcile=before or self.nothing_before,
            metrics=self.metrics.controller("w", workers),
            clock=VirtualClock(),
            random=Random(0),
        )

    def report_panic(self, key, error, count):
        self.panics_reported.append((key.name, type(error).__name__, count))

    async def nothing_before(self, key):
        pass

    async def reconcile(self, key):
        now = asyncio.get_running_loop().time()
        self.calls.append((key.name, round(now, 3)))
        steps = self.script.get(key.name)
        step = steps.pop(0) if steps else Result.done()
        if callable(step):
            step = await step()
        if isinstance(step, BaseException):
            raise step
        return step

    @contextlib.asynccontextmanager
    async def running(self, seconds=0.0):
        """Run the loop for the block and `seconds` more, then stop it and let it end."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.loop.run())
            yield task
            await asyncio.sleep(seconds)
            task.cancel()

    def value(self, name, /, **labels):
        return self.metrics.registry.get_sample_value(name, {"controller": "w", **labels})

    def priorities(self):
        """Those that any item was queued with."""
        return {
            sample.labels["priority"]
            for metric in self.metrics.registry.collect()
            for sample in metric.samples
            if sample.name == "workqueue_depth"
        }

    def results(self):
        names = ("success", "error", "requeue", "requeue_after")
        return {
            name: int(value)
            for name in names
            if (value := self.value("controller_runtime_reconcile_total", result=name))
        }


async def run(bench, *keys, seconds=0.0):
    async with bench.running(seconds):
        for key in keys:
            bench.queue.add(key)


async def test_success_forgets_the_key_and_does_not_requeue_it():
    bench = Bench()
    bench.script["a"] = [OSError("x"), Result.done()]

    await run(bench, A, seconds=3600)

    assert bench.calls == [("a", 0.0), ("a", 0.005)]
    assert bench.queue.retries(A) == 0
    assert bench.results() == {"success": 1, "error": 1}


async def test_requeue_forgets_failures_and_comes_back_after_the_delay():
    bench = Bench()
    bench.script["a"] = [OSError("x"), Result.requeue(after=60), OSError("x"), Result.done()]

    await run(bench, A, seconds=3600)

    assert bench.calls == [("a", 0.0), ("a", 0.005), ("a", 60.005), ("a", 60.01)]
    assert bench.results() == {"success": 1, "error": 2, "requeue_after": 1}


async def test_backoff_delays_grow_without_an_error():
    bench = Bench()
    bench.script["a"] = [Result.backoff("not yet")] * 4

    await run(bench, A, seconds=3600)

    assert bench.calls == [("a", 0.0), ("a", 0.005), ("a", 0.015), ("a", 0.035), ("a", 0.075)]
    assert bench.results() == {"success": 1, "requeue": 4}
    assert bench.value("controller_runtime_reconcile_errors_total") == 0


async def test_an_event_in_between_consumes_the_requeue():
    bench = Bench()
    bench.script["a"] = [Result.requeue(after=60)]

    async with bench.running(seconds=3600):
        bench.queue.add(A)
        await asyncio.sleep(10)
        bench.queue.add(A)

    assert bench.calls == [("a", 0.0), ("a", 10.0)]


@pytest.mark.parametrize("wrapped", [False, True], ids=["bare", "as-cause"])
async def test_a_terminal_error_is_counted_twice_and_never_retried(wrapped):
    bench = Bench()
    terminal = TerminalError("no such thing")
    error = RuntimeError("cannot go on") if wrapped else terminal
    if wrapped:
        error.__cause__ = terminal
    bench.script["a"] = [OSError("x"), error]

    await run(bench, A, seconds=3600)

    assert len(bench.calls) == 2
    assert bench.queue.retries(A) == 0
    assert bench.results() == {"error": 2}
    assert bench.value("controller_runtime_reconcile_errors_total") == 2
    assert bench.value("controller_runtime_terminal_reconcile_errors_total") == 1


async def test_a_group_is_terminal_only_when_all_of_it_is():
    terminal, other = TerminalError("t"), OSError("o")

    assert is_terminal(ExceptionGroup("g", [terminal, ExceptionGroup("h", [terminal])]))
    assert not is_terminal(ExceptionGroup("g", [terminal, other]))


async def test_a_requeue_keeps_the_priority_with_which_the_key_was_taken():
    bench = Bench()
    bench.script["a"] = [OSError("x"), Result.requeue(after=1), Result.backoff("r")]

    async with bench.running(seconds=3600):
        bench.queue.add(A, priority=Priority.LOW)

    assert len(bench.calls) == 4
    assert bench.priorities() == {"-100"}


async def test_a_result_may_say_the_priority_of_what_follows():
    bench = Bench(results={OSError: Result.backoff("again", priority=Priority.HIGH)})
    bench.script["a"] = [
        Result.requeue(after=1, priority=7),
        Result.backoff("r", priority=8),
        OSError("x"),
    ]

    await run(bench, A, seconds=60)

    assert len(bench.calls) == 4
    assert bench.priorities() == {"0", "7", "8", "100"}


async def test_a_short_requeue_never_runs_beside_the_attempt_that_asked_for_it():
    bench = Bench(workers=4)
    at_once = []

    async def quick():
        at_once.append(bench.queue.statistics().processing)
        await asyncio.sleep(0)
        return Result.requeue(after=1e-9)

    bench.script["a"] = [quick] * 50

    await run(bench, A, seconds=1)

    assert at_once == [1] * 50


async def test_errors_of_a_class_are_followed_by_what_the_controller_says():
    bench = Bench(
        results={
            OSError: Result.requeue(after=60),
            FileNotFoundError: Result.done(),
            ValueError: Result.backoff("soon"),
        }
    )
    bench.script["a"] = [ConnectionError("x"), ValueError("y"), FileNotFoundError("z")]

    await run(bench, A, seconds=3600)

    assert bench.calls == [("a", 0.0), ("a", 60.0), ("a", 60.005)]
    assert bench.results() == {"error": 3}
    assert bench.value("controller_runtime_terminal_reconcile_errors_total") == 1
    assert bench.queue.retries(A) == 0


@pytest.mark.parametrize(
    "error",
    [TransportError("refused"), UnknownOutcomeError("lost"), ServerError(503), ServerError(500)],
)
async def test_after_an_outage_of_any_length_keys_come_back_within_half_a_minute(error):
    bench = Bench()
    bench.script["a"] = [error] * 100

    await run(bench, A, seconds=600)

    times = [at for _, at in bench.calls]
    assert 30 < len(times) < 40  # twice a minute, after the short delays of the beginning
    assert max(later - earlier for earlier, later in pairwise(times)) < 30.01


@pytest.mark.parametrize(("asked", "then"), [(7, 7.0), (3600, 30.0)])
@pytest.mark.parametrize("error", [TooManyRequestsError, ServerError, ListWatchError])
async def test_a_server_that_says_when_to_come_back_is_heeded_for_half_a_minute(error, asked, then):
    bench = Bench()
    bench.script["a"] = [error(503, retry_after_seconds=asked)]

    await run(bench, A, seconds=60)

    assert bench.calls == [("a", 0.0), ("a", then)]


async def test_an_event_does_not_bring_a_key_back_before_a_server_wants_it():
    bench = Bench()
    bench.script["a"] = [TooManyRequestsError(429, retry_after_seconds=7)]

    async with bench.running():
        bench.queue.add(A)
        await asyncio.sleep(1)
        bench.queue.add(A, priority=Priority.HIGH)
        bench.queue.add(B)
        await asyncio.sleep(9)
        bench.queue.add(A)
        await asyncio.sleep(1)

    assert bench.calls == [("a", 0.0), ("b", 1.0), ("a", 7.0), ("a", 10.0)]


async def test_an_event_brings_a_key_back_whose_errors_an_operator_judges_itself():
    bench = Bench(results={TooManyRequestsError: Result.requeue(after=5)})
    bench.script["a"] = [TooManyRequestsError(429, retry_after_seconds=7)]

    async with bench.running():
        bench.queue.add(A)
        await asyncio.sleep(1)
        bench.queue.add(A)
        await asyncio.sleep(1)

    assert bench.calls == [("a", 0.0), ("a", 1.0)]


async def test_a_backoff_may_have_a_longest_delay():
    bench = Bench()
    bench.script["a"] = [Result.backoff("soon", at_most=0.02)] * 5

    await run(bench, A, seconds=1)

    assert bench.calls[-3:] == [("a", 0.035), ("a", 0.055), ("a", 0.075)]


async def test_a_terminal_error_stays_terminal_whatever_its_class():
    bench = Bench(results={Exception: Result.requeue(after=1)})
    bench.script["a"] = [TerminalError("never")]

    await run(bench, A, seconds=3600)

    assert len(bench.calls) == 1


async def test_a_key_that_has_only_defects_rests_and_is_reported():
    bench = Bench(panic_limit=3)
    bench.script["a"] = [TypeError("x")] * 5

    await run(bench, A, B, seconds=3600)

    times = [at for name, at in bench.calls if name == "a"]
    assert times == [0.0, 0.005, 0.015, 600.015, 1200.015, 1800.015]
    assert bench.panics_reported == [("a", "TypeError", count) for count in (3, 4, 5)]
    assert bench.value("controller_runtime_reconcile_panics_total") == 5


async def test_a_resting_key_is_tried_at_once_when_something_changes():
    bench = Bench(panic_limit=1)
    bench.script["a"] = [TypeError("x")]

    async with bench.running(seconds=3600):
        bench.queue.add(A)
        await asyncio.sleep(10)
        bench.queue.add(A)

    assert bench.calls == [("a", 0.0), ("a", 10.0)]


@pytest.mark.parametrize("between", [Result.done(), OSError("declared")], ids=["pass", "error"])
async def test_only_defects_in_a_row_count(between):
    bench = Bench(panic_limit=2)
    steps = [TypeError("x"), between, TypeError("x"), Result.done()]
    bench.script["a"] = steps

    async with bench.running(seconds=10):
        bench.queue.add(A)
        await asyncio.sleep(1)
        bench.queue.add(A)

    assert bench.panics_reported == []
    assert len(bench.calls) >= 3


async def test_without_a_limit_defects_are_retried_with_the_growing_delay():
    bench = Bench(panic_limit=None)
    bench.script["a"] = [TypeError("x")] * 15

    await run(bench, A, seconds=3600)

    assert len(bench.calls) == 16
    assert bench.panics_reported == []


async def test_a_key_that_is_none_of_the_controllers_is_dropped_uncounted():
    bench = Bench()
    bench.unconcerned = {A}

    await run(bench, A, B, seconds=1)

    assert [name for name, _ in bench.calls] == ["b"]
    assert bench.results() == {"success": 1}


async def test_a_defect_is_counted_as_a_panic_and_other_keys_go_on():
    bench = Bench()
    bench.script["a"] = [KeyError("spec"), ValueError("a declared error")]

    await run(bench, A, B, seconds=3600)

    assert [name for name, _ in bench.calls] == ["a", "b", "a", "a"]
    assert bench.value("controller_runtime_reconcile_panics_total") == 1
    assert bench.value("controller_runtime_reconcile_errors_total") == 2


async def test_a_reconciler_that_returns_no_result_has_a_defect():
    bench = Bench()

    async def nothing():
        return None

    bench.script["a"] = [nothing]

    with structlog.testing.capture_logs() as logs:
        await run(bench, A, seconds=1)

    assert bench.results() == {"success": 1, "error": 1}
    assert str(logs[0]["exc_info"]) == "reconcile returned None: must be a Result"


async def test_a_worker_survives_a_reconciler_that_raises_cancelled():
    bench = Bench()
    bench.script["a"] = [asyncio.CancelledError()]

    await run(bench, A, B, seconds=1)

    assert [name for name, _ in bench.calls] == ["a", "b", "a"]
    assert bench.results() == {"success": 2, "error": 1}


async def test_duration_is_observed_for_every_outcome_and_no_worker_stays_active():
    bench = Bench(workers=2)

    async def slow():
        await asyncio.sleep(2)
        return OSError("x")

    bench.script["a"] = [slow, Result.backoff("r"), Result.requeue(after=1)]

    await run(bench, A, seconds=60)

    assert bench.value("controller_runtime_reconcile_time_seconds_count") == 4
    assert bench.value("controller_runtime_reconcile_time_seconds_sum") == pytest.approx(2)
    assert bench.value("controller_runtime_active_workers") == 0
    assert bench.value("controller_runtime_max_concurrent_reconciles") == 2


async def test_result_series_exist_before_the_first_reconcile():
    bench = Bench()

    for result in ("success", "error", "requeue", "requeue_after"):
        assert bench.value("controller_runtime_reconcile_total", result=result) == 0


async def test_each_attempt_has_its_own_id_and_log_context():
    bench = Bench()
    seen = []

    async def look():
        seen.append((current_reconcile_id(), structlog.contextvars.get_contextvars()))
        return OSError("x")

    bench.script["a"] = [look, look]
    async with bench.running(seconds=1):
        bench.queue.add(A, trigger=Trigger("added"))

    (first_id, first), (second_id, second) = seen
    assert first_id != second_id
    for text in (first_id, second_id):
        assert (str(UUID(text)), UUID(text).version, UUID(text).variant) == (text, 4, RFC_4122)
    assert first == {
        "controller": "w",
        "kind": "Widget",
        "namespace": "lab",
        "name": "a",
        "reconcile_id": first_id,
        "trigger": "added",
        "attempt": 1,
    }
    assert (second["attempt"], second["trigger"]) == (2, "retry")
    assert current_reconcile_id() == ""


async def test_a_key_added_while_it_is_reconciled_runs_once_more_and_never_twice_at_once():
    bench = Bench(workers=4)
    running: list[int] = []

    async def busy():
        running.append(len(running))
        assert bench.queue.statistics().processing == 1
        for _ in range(5):
            bench.queue.add(A)
            await asyncio.sleep(1)
        return Result.done()

    bench.script["a"] = [busy]

    await run(bench, A, seconds=60)

    assert bench.calls == [("a", 0.0), ("a", 5.0)]


async def test_the_time_limit_cancels_the_reconcile_and_is_counted():
    bench = Bench(timeout_seconds=10)
    cleaned_up = []

    async def stuck():
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(2)
            cleaned_up.append(asyncio.get_running_loop().time())

    bench.script["a"] = [stuck]

    await run(bench, A, seconds=60)

    assert cleaned_up == [12.0]
    assert bench.calls == [("a", 0.0), ("a", 12.005)]
    assert bench.value("controller_runtime_reconcile_timeouts_total") == 1
    assert bench.results() == {"success": 1, "error": 1}


async def test_a_stop_that_cancels_a_reconcile_is_not_counted_as_the_time_limit():
    bench = Bench(timeout_seconds=100)

    async def stuck():
        await asyncio.Event().wait()

    bench.script["a"] = [stuck]
    async with asyncio.TaskGroup() as group:
        task = group.create_task(bench.loop.run())
        bench.queue.add(A)
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.sleep(1)
        task.cancel()

    assert bench.value("controller_runtime_reconcile_timeouts_total") == 0


async def test_a_time_out_of_the_reconcilers_own_is_not_counted_as_the_time_limit():
    bench = Bench(timeout_seconds=10)
    bench.script["a"] = [TimeoutError("somebody else's")]

    await run(bench, A, seconds=60)

    assert bench.value("controller_runtime_reconcile_timeouts_total") == 0
    assert bench.results() == {"success": 1, "error": 1}


async def test_a_stop_awaits_running_reconciles_and_takes_no_new_key():
    bench = Bench()
    finished = []

    async def slow():
        await asyncio.sleep(20)
        finished.append(asyncio.get_running_loop().time())
        return Result.requeue(after=1)

    bench.script["a"] = [slow]

    await run(bench, A, B, seconds=1)

    assert finished == [20.0]
    assert [name for name, _ in bench.calls] == ["a"]


async def test_a_second_cancellation_cancels_running_reconciles():
    bench = Bench()
    cancelled = []

    async def stuck():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(asyncio.get_running_loop().time())
            raise

    bench.script["a"] = [stuck]
    async with asyncio.TaskGroup() as group:
        task = group.create_task(bench.loop.run())
        bench.queue.add(A)
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.sleep(30)
        task.cancel()

    assert cancelled == [31.0]
    assert bench.queue.statistics().processing == 0


async def test_the_gate_is_awaited_before_each_attempt_and_outside_of_its_time_limit():
    waited = []

    async def gate(key):
        await asyncio.sleep(5)
        waited.append(key.name)

    bench = Bench(timeout_seconds=1, before=gate)

    await run(bench, A, seconds=60)

    assert waited == ["a"]
    assert bench.results() == {"success": 1}
    assert bench.value("controller_runtime_reconcile_time_seconds_sum") == 0


async def test_longest_and_unfinished_work_are_told_while_it_runs():
    bench = Bench(workers=2)

    async def slow():
        await asyncio.sleep(100)
        return Result.done()

    bench.script = {"a": [slow], "b": [slow]}
    async with bench.running():
        bench.queue.add(A)
        await asyncio.sleep(10)
        bench.queue.add(B)
        await asyncio.sleep(5)

        longest = bench.value("workqueue_longest_running_processor_seconds", name="w")
        unfinished = bench.value("workqueue_unfinished_work_seconds", name="w")

    assert longest == pytest.approx(15)
    assert unfinished == pytest.approx(20)


async def test_a_gate_that_fails_is_an_error_like_the_reconcilers_own():
    failures = [OSError("no cache")]

    async def gate(key):
        if failures:
            raise failures.pop()

    bench = Bench(before=gate)

    await run(bench, A, seconds=1)

    assert bench.results() == {"success": 1, "error": 1}
