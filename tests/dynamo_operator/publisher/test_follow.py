from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from dynamo_operator.publisher.apply import RunGoneError
from dynamo_operator.publisher.follow import Stop, follow
from dynamo_operator.publisher.observe import Report
from dynamo_operator.runtime.client import (
    BadRequestError,
    ForbiddenError,
    RequestTooLargeError,
    ServerError,
    TransportError,
    UnknownOutcomeError,
)
from tests.dynamo_operator.publisher.reports import snapshot
from tests.dynamo_operator.publisher.scripted import ScriptedSearch, Step

pytestmark = pytest.mark.virtual_time

RUNNING = snapshot("a")
DONE = snapshot("a", "b", phase="Succeeded", message="2 best of 9")
NO_CANDIDATE = snapshot(phase="Failed", reason="NoFeasibleCandidate", message="none of 9")


class ScriptedPublisher:
    """Answers each publish with the next of `errors`, then with success."""

    def __init__(self, trace: list[str], *errors: Exception | None, seconds: float = 0) -> None:
        self.trace = trace
        self._errors = list(errors)
        self._seconds = seconds

    async def publish(self, report: Report, *, live: bool = False) -> None:
        ids = ",".join(result.id for result in report.results)
        self.trace.append(f"publish {ids}{' live' if live else ''}")
        await asyncio.sleep(self._seconds)
        if self._errors and (error := self._errors.pop(0)) is not None:
            raise error
        self.trace.append("published")


async def run(
    *steps: Step,
    errors: Sequence[Exception | None] = (),
    stop_at: float | None = None,
    seconds: float = 0,
) -> tuple[list[str], str, str, str]:
    """Follow the scripted search; return the trace and the last words."""
    trace: list[str] = []
    stop = Stop()
    if stop_at is not None:
        asyncio.get_running_loop().call_later(stop_at, stop.set)
    message = await follow(
        ScriptedSearch(trace, steps),
        ScriptedPublisher(trace, *errors, seconds=seconds),
        poll_seconds=1,
        stop=stop,
        log=lambda _: None,
    )
    return trace, message.outcome, message.reason, message.message


async def test_a_search_is_published_until_its_end() -> None:
    trace, *words = await run((None, None), (None, RUNNING), (None, RUNNING), (None, DONE))

    assert trace == [
        *("planner", "file"),
        *("file", "publish a", "published"),
        "file",
        *("planner", "file", "publish a,b live", "published"),
    ]
    assert words == ["Acknowledged", "Succeeded", "2 best of 9"]


async def test_the_planners_state_is_read_before_the_file() -> None:
    """A planner that exits between the two reads has written its last file before the second."""
    trace, *words = await run((None, RUNNING), (None, RUNNING), (None, RUNNING), (0, DONE))

    assert trace.index("planner") < trace.index("file")
    assert words[0] == "Acknowledged"


@pytest.mark.parametrize(
    ("data", "reason", "message"),
    [
        (NO_CANDIDATE, "NoFeasibleCandidate", "none of 9"),
        (snapshot(phase="Failed", error="perf data missing"), "Failed", "perf data missing"),
        (snapshot(phase="Failed", reason="Odd", message="m"), "Failed", "m"),
    ],
)
async def test_a_failed_search_ends_with_its_reason(data: bytes, reason: str, message: str) -> None:
    trace, *words = await run((None, data))

    assert trace[-2:] == ["publish  live", "published"]
    assert words == ["RunFailed", reason, message]


async def test_a_planner_that_fails_leaves_what_it_found() -> None:
    trace, *words = await run((None, RUNNING), (None, RUNNING), (None, RUNNING), (137, RUNNING))

    assert trace[-2:] == ["publish a live", "published"]
    assert words == [
        "Acknowledged",
        "Failed",
        "the planner exited with 137 before the search ended",
    ]


async def test_a_planner_that_fails_before_its_first_snapshot_is_acknowledged() -> None:
    trace, *words = await run((1, None))

    assert trace == ["planner", "file"]
    assert words[0] == "Acknowledged"


@pytest.mark.parametrize("steps", [[(0, RUNNING)], [(0, None)], [(None, b"a: [")]])
async def test_a_contradiction_is_a_protocol_violation(steps: list[Step]) -> None:
    trace, *words = await run(*steps)

    assert trace == ["planner", "file"]
    assert words[:2] == ["ProtocolViolation", "ProtocolViolation"]


async def test_a_snapshot_that_could_not_be_published_is_tried_again() -> None:
    trace, *_ = await run(
        (None, RUNNING), (None, RUNNING), (None, RUNNING), (None, RUNNING), (None, DONE),
        errors=[TransportError("refused"), ServerError(500)],
    )  # fmt: skip

    assert [step for step in trace if step.startswith("publish")] == [
        *("publish a", "publish a", "publish a", "published"),
        *("publish a,b live", "published"),
    ]


async def test_the_last_snapshot_is_tried_three_times_more() -> None:
    start = asyncio.get_running_loop().time()

    trace, *words = await run((None, DONE), errors=[ServerError(500, "Broken", "no quorum")] * 9)

    assert trace.count("publish a,b live") == 4
    assert asyncio.get_running_loop().time() - start == pytest.approx(7)
    assert words == ["ReconcileFailed", "PublisherFailed", "500 Broken: no quorum"]


async def test_the_last_snapshot_may_succeed_at_the_last_try() -> None:
    _, *words = await run((None, DONE), errors=[ServerError(500)] * 3)

    assert words[0] == "Acknowledged"


async def test_an_outage_at_the_end_of_a_search_is_waited_out() -> None:
    start = asyncio.get_running_loop().time()
    outage = [TransportError("refused")] * 20 + [UnknownOutcomeError("lost")] * 20

    _, *words = await run((None, DONE), errors=[*outage, ServerError(500)])

    assert words[0] == "Acknowledged"
    assert asyncio.get_running_loop().time() - start > 120


async def test_an_outage_at_the_end_of_a_search_is_not_waited_out_for_ever() -> None:
    start = asyncio.get_running_loop().time()

    _, *words = await run((None, DONE), errors=[TransportError("refused")] * 1000)

    assert words == ["ReconcileFailed", "PublisherFailed", "refused"]
    assert 300 <= asyncio.get_running_loop().time() - start < 320


@pytest.mark.parametrize(
    "error",
    [
        RunGoneError("run default/r is gone"),
        BadRequestError(400, "BadRequest", "no such field"),
        RequestTooLargeError(413, "RequestEntityTooLarge", "limit is 3145728"),
    ],
)
async def test_what_cannot_get_better_is_not_tried_again(error: Exception) -> None:
    trace, *words = await run((None, RUNNING), errors=[error])

    assert trace == ["planner", "file", "publish a"]
    assert words == ["ReconcileFailed", "PublisherFailed", str(error)]


async def test_a_right_that_comes_late_or_was_away_does_not_end_the_search() -> None:
    forbidden = ForbiddenError(403, "Forbidden", "cannot create candidates")

    trace, *words = await run(*[(None, RUNNING)] * 8, (None, DONE), errors=[forbidden] * 2)

    assert trace.count("publish a") == 3
    assert words == ["Acknowledged", "Succeeded", "2 best of 9"]


async def test_failing_publications_are_tried_less_and_less_often() -> None:
    errors = [TransportError("refused")] * 1000

    trace, *_ = await run((None, RUNNING), stop_at=1000, errors=errors)

    assert 1000 / 17 < trace.count("publish a") < 80


async def test_an_unknown_planner_state_is_not_an_exit() -> None:
    steps: list[Step] = [(TransportError("refused"), RUNNING)] * 4

    _, *words = await run(*steps, (None, DONE))

    assert words[0] == "Acknowledged"


async def test_told_to_stop_it_stops_between_two_looks() -> None:
    loop = asyncio.get_running_loop()
    start = loop.time()

    trace, *words = await run((None, RUNNING), stop_at=5.5)

    assert loop.time() - start == pytest.approx(5.5)
    assert trace.count("published") == 1
    assert words[:2] == ["ReconcileFailed", "PublisherFailed"]


async def test_told_to_stop_it_finishes_the_pass_under_way() -> None:
    trace, *_ = await run((None, RUNNING), stop_at=1, seconds=9)

    assert trace[-1] == "published"


async def test_a_pass_outlives_the_request_to_stop_by_ten_seconds_at_most() -> None:
    loop = asyncio.get_running_loop()
    start = loop.time()

    trace, *_ = await run((None, RUNNING), stop_at=1, seconds=60)

    assert loop.time() - start == pytest.approx(11)
    assert "published" not in trace
