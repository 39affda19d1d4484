import asyncio
import contextlib
from types import SimpleNamespace
from typing import Any

import pytest
import structlog

from dynamo_operator.runtime.builtin_kinds import ConfigMap, Event
from dynamo_operator.runtime.client.errors import (
    AlreadyExistsError,
    InvalidError,
    NotFoundError,
    TooManyRequestsError,
    TransportError,
)
from dynamo_operator.runtime.event_recorder import EventRecorder, cut_note
from dynamo_operator.testing.virtual_time import VirtualClock

pytestmark = pytest.mark.virtual_time

OBJECT = ConfigMap.model_validate(
    {"metadata": {"name": "a", "namespace": "lab", "uid": "u1", "resourceVersion": "7"}}
)
TEXT = {"reason": "Created", "action": "Create", "note": "made it"}


class Writer:
    """Takes events; raises what `failures` says first."""

    def __init__(self):
        self.created = []
        self.patched = []
        self.failures: list[Exception] = []
        self.tries = 0

    async def create(self, obj: Event) -> Event:
        self.tries += 1
        if self.failures:
            raise self.failures.pop(0)
        self.created.append(obj.to_dict())
        return obj

    async def patch(self, kind, key, patch):
        self.tries += 1
        if self.failures:
            raise self.failures.pop(0)
        self.patched.append((key.name, patch["series"]["count"]))


@pytest.fixture
def bench():
    writer = Writer()
    dropped: list[str] = []
    recorder = EventRecorder(
        writer,
        clock=VirtualClock(),
        reporting_controller="lab.test/widgets",
        reporting_instance="widgets-0",
        dropped=dropped.append,
    )
    return SimpleNamespace(writer=writer, recorder=recorder, dropped=dropped)


@contextlib.asynccontextmanager
async def running(recorder):
    async with asyncio.TaskGroup() as group:
        task = group.create_task(recorder.run())
        yield
        await asyncio.sleep(0)
        task.cancel()


async def test_an_event_says_who_did_what_to_which_object(bench):
    async with running(bench.recorder):
        bench.recorder.record(OBJECT, type="Warning", related=OBJECT.to_dict(), **TEXT)

    (event,) = bench.writer.created
    name = event["metadata"].pop("name")
    assert name.startswith("a.")
    assert event == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "lab"},
        "eventTime": "2030-01-01T00:00:00.000000Z",
        "type": "Warning",
        "reason": "Created",
        "action": "Create",
        "note": "made it",
        "regarding": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "namespace": "lab",
            "name": "a",
            "uid": "u1",
        },
        "related": {"namespace": "lab", "name": "a", "uid": "u1"},
        "reportingController": "lab.test/widgets",
        "reportingInstance": "widgets-0",
    }


@pytest.mark.parametrize(
    "note",
    ["拉" * 500, "拉" * 499 + "\n" + "x" * 3, "x" * 1025, "é" * 512, "x" * 1024, ""],
    ids=["three-byte", "newline", "one-over", "exactly", "exactly-ascii", "empty"],
)
def test_a_note_is_cut_to_1024_bytes_on_a_character_boundary(note):
    cut = cut_note(note)

    encoded = cut.encode()
    assert len(encoded) <= 1024
    if len(note.encode()) <= 1024:
        assert cut == note
    else:
        assert cut.endswith("…")
        assert note.startswith(cut[:-1])
        assert len(encoded) > 1024 - 3


def test_a_note_that_is_no_unicode_does_not_raise():
    assert cut_note("broken \udc80") == "broken ?"


async def test_action_and_reporting_fields_are_filled_and_fit(bench):
    recorder = EventRecorder(
        bench.writer, clock=VirtualClock(), reporting_controller="w", reporting_instance="i" * 300
    )
    async with running(recorder):
        recorder.record({"metadata": {"name": "n" * 253}}, reason="R" * 200, action="")

    (event,) = bench.writer.created
    assert len(event["metadata"]["name"]) == 253
    assert event["metadata"]["namespace"] == "default"
    assert event["action"] == event["reason"] == "R" * 128
    assert event["reportingInstance"] == "i" * 128


async def test_repeats_become_a_series_on_the_first_event(bench):
    async with running(bench.recorder):
        for _ in range(5):
            bench.recorder.record(OBJECT, **TEXT)
            await asyncio.sleep(60)
        bench.recorder.record(OBJECT, **{**TEXT, "note": "another"})
        await asyncio.sleep(600)

    first, other = bench.writer.created
    name = first["metadata"]["name"]
    assert other["note"] == "another"
    assert bench.writer.patched == [(name, 2), (name, 5)]


async def test_a_repeat_after_the_end_of_a_series_is_a_new_event(bench):
    async with running(bench.recorder):
        bench.recorder.record(OBJECT, **TEXT)
        await asyncio.sleep(361)
        bench.recorder.record(OBJECT, **TEXT)
        await asyncio.sleep(1)

    names = {event["metadata"]["name"] for event in bench.writer.created}
    assert len(names) == 2
    assert bench.writer.patched == []


@pytest.mark.timeout(10)
async def test_the_wait_for_the_end_of_a_series_ends_whatever_times_round_to(bench):
    async with running(bench.recorder):
        await asyncio.sleep(152.3)  # 360 s later, the difference of the times is less than 360
        bench.recorder.record(OBJECT, **TEXT)
        await asyncio.sleep(361)
        bench.recorder.record(OBJECT, **TEXT)
        await asyncio.sleep(1)

    assert len(bench.writer.created) == 2


async def test_a_long_series_is_refreshed_every_half_hour(bench):
    async with running(bench.recorder):
        for _ in range(65):
            bench.recorder.record(OBJECT, **TEXT)
            await asyncio.sleep(60)

    assert [count for _, count in bench.writer.patched] == [2, 32, 62]


async def test_a_series_whose_event_expired_begins_anew(bench):
    async with running(bench.recorder):
        bench.recorder.record(OBJECT, **TEXT)
        await asyncio.sleep(1)
        bench.writer.failures = [NotFoundError(404)]
        for _ in range(2):
            bench.recorder.record(OBJECT, **TEXT)
            await asyncio.sleep(1)

    assert len(bench.writer.created) == 2
    assert bench.dropped == []


async def test_a_refused_event_is_logged_once_and_never_retried(bench):
    refused = InvalidError(422, "Invalid", "note: too long")
    bench.writer.failures = [refused, refused, refused]
    with structlog.testing.capture_logs() as logs:
        async with running(bench.recorder):
            for number in range(3):
                bench.recorder.record(OBJECT, **{**TEXT, "note": str(number)})
            await asyncio.sleep(3600)

    assert bench.writer.tries == 3
    assert bench.writer.created == []
    assert bench.dropped == ["refused"] * 3
    complaints = [line["event"] for line in logs if line["log_level"] != "info"]
    assert complaints == ["event not recorded"]


async def test_an_event_waits_for_as_long_as_a_server_asks(bench):
    bench.writer.failures = [TooManyRequestsError(429, retry_after_seconds=25)]
    async with running(bench.recorder):
        bench.recorder.record(OBJECT, **TEXT)
        await asyncio.sleep(24.9)
        assert bench.writer.tries == 1
        await asyncio.sleep(0.2)

    assert len(bench.writer.created) == 1


async def test_an_event_waits_for_a_server_that_is_away(bench):
    bench.writer.failures = [TransportError("refused")] * 3
    async with running(bench.recorder):
        bench.recorder.record(OBJECT, **TEXT)
        await asyncio.sleep(60)

    assert len(bench.writer.created) == 1
    assert bench.writer.tries == 4


async def test_an_event_whose_answer_was_lost_is_not_written_twice(bench):
    bench.writer.failures = [TransportError("reset"), AlreadyExistsError(409)]
    async with running(bench.recorder):
        bench.recorder.record(OBJECT, **TEXT)
        await asyncio.sleep(60)
        bench.recorder.record(OBJECT, **TEXT)

    assert bench.writer.created == []
    assert [count for _, count in bench.writer.patched] == [2]


async def test_a_full_queue_drops_without_waiting(bench):
    for number in range(1005):
        bench.recorder.record(OBJECT, **{**TEXT, "note": str(number)})

    assert bench.dropped == ["queue_full"] * 5


async def test_what_is_queued_at_the_stop_is_still_sent(bench):
    async with asyncio.TaskGroup() as group:
        task = group.create_task(bench.recorder.run())
        await asyncio.sleep(0)
        bench.recorder.record(OBJECT, **TEXT)
        bench.recorder.record(OBJECT, **{**TEXT, "note": "last"})
        task.cancel()

    assert [event["note"] for event in bench.writer.created] == ["made it", "last"]


async def test_what_is_on_its_way_at_the_stop_is_sent_again_before_what_is_queued(bench):
    names = []
    send = bench.writer.create

    async def create(obj):
        names.append(obj.key.name)
        if len(names) == 1:
            await asyncio.sleep(3600)  # cut off by the stop
        return await send(obj)

    bench.writer.create = create
    async with running(bench.recorder):
        bench.recorder.record(OBJECT, **TEXT)
        await asyncio.sleep(1)
        bench.recorder.record(OBJECT, **{**TEXT, "note": "last"})

    assert [event["note"] for event in bench.writer.created] == ["made it", "last"]
    assert names[0] == names[1]  # so that the server tells if it took the first


async def test_nothing_that_is_reported_fails_the_reporter_or_the_other_events(bench):
    nonsense: Any = object()
    bench.writer.failures = [ValueError("cannot be written as JSON")]
    with structlog.testing.capture_logs() as logs:
        async with running(bench.recorder):
            bench.recorder.record(nonsense, **TEXT)
            bench.recorder.record(OBJECT, **TEXT)
            await asyncio.sleep(1)
            bench.recorder.record({"metadata": {}}, **TEXT)

    assert bench.dropped == ["refused", "refused"]
    assert len([line for line in logs if line["log_level"] != "info"]) == 2
    (event,) = bench.writer.created
    assert event["metadata"]["name"].startswith("unnamed.")


async def test_what_is_recorded_is_in_the_log_too(bench):
    with structlog.testing.capture_logs() as logs:
        bench.recorder.record(OBJECT, **TEXT)

    (line,) = logs
    assert (line["event"], line["reason"], line["note"]) == (
        "event recorded",
        TEXT["reason"],
        "made it",
    )
