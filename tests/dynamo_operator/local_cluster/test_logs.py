import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from dynamo_operator.local_cluster.logs import LogFile, LogQuery, read_entries, read_log

START = datetime(2030, 1, 1, tzinfo=UTC)


class SteppingClock:
    """Each look at the clock is a second later."""

    def __init__(self):
        self.seconds = 0

    def now(self):
        self.seconds += 1
        return START + timedelta(seconds=self.seconds - 1)

    def monotonic(self):
        return float(self.seconds)


async def read(path, live=None, **query):
    return b"".join([chunk async for chunk in read_log(path, LogQuery(**query), live)])


@pytest.fixture
def log(tmp_path):
    return LogFile(tmp_path / "0.log", SteppingClock())


async def test_lines_are_stored_with_time_stream_and_tag(log):
    log.write("stdout", b"one\ntw")
    log.write("stderr", b"bad\n")
    log.write("stdout", b"o\nrest")
    log.close()

    assert log.path.read_text().splitlines() == [
        "2030-01-01T00:00:00.000000000Z stdout F one",
        "2030-01-01T00:00:01.000000000Z stderr F bad",
        "2030-01-01T00:00:02.000000000Z stdout F two",
        "2030-01-01T00:00:03.000000000Z stdout F rest",
    ]


async def test_a_line_longer_than_an_entry_is_read_back_whole(log):
    text = b"x" * 40_000
    log.write("stdout", text + b"\nnext\n")
    log.close()

    assert [entry.text.endswith(b"\n") for entry in read_entries(log.path)] == [
        False,
        False,
        True,
        True,
    ]
    assert await read(log.path) == text + b"\nnext\n"
    assert await read(log.path, tail_lines=2) == text + b"\nnext\n"


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({}, b"a\nb\nc\n"),
        ({"tail_lines": 2}, b"b\nc\n"),
        ({"tail_lines": 0}, b""),
        ({"limit_bytes": 3}, b"a\nb"),
        ({"since": START + timedelta(seconds=1)}, b"b\nc\n"),
        (
            {"tail_lines": 1, "timestamps": True},
            b"2030-01-01T00:00:02.000000000Z c\n",
        ),
    ],
    ids=["all", "tail", "tail nothing", "bytes", "since", "timestamps"],
)
async def test_a_log_is_read_as_asked(log, query, text):
    log.write("stdout", b"a\nb\nc\n")
    log.close()

    assert await read(log.path, **query) == text


async def test_a_follower_gets_what_is_written_later_and_ends_with_the_container(log):
    log.write("stdout", b"early\n")
    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(read(log.path, log, follow=True))
        await asyncio.sleep(0)
        log.write("stdout", b"late\n")
        await asyncio.sleep(0)
        log.write("stdout", b"unfinished")
        log.close()

    assert following.result() == b"early\nlate\nunfinished\n"


async def test_a_full_log_is_rotated_and_a_follower_misses_nothing(tmp_path):
    log = LogFile(tmp_path / "0.log", SteppingClock(), max_bytes=200)
    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(read(log.path, log, follow=True))
        for number in range(20):
            log.write("stdout", f"line {number}\n".encode())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        log.close()

    assert following.result().split(b"\n")[:-1] == [b"line %d" % n for n in range(20)]
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 600


async def test_a_log_that_was_never_written_is_empty(tmp_path):
    assert await read(tmp_path / "0.log") == b""


async def test_the_tail_is_bounded_by_lines_and_bytes(log):
    log.write("stderr", b"".join(b"line %d\n" % n for n in range(10)))
    log.close()

    assert log.tail(lines=2, limit_bytes=100) == "line 8\nline 9\n"
    assert log.tail(lines=2, limit_bytes=5) == "ne 9\n"
