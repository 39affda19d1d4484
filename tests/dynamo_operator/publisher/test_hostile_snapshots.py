"""Snapshots that no planner means to write: each ends the search with a reason, in one line."""

from __future__ import annotations

import random
import resource
from collections.abc import Iterator

import pytest

from dynamo_operator.aisimulate.snapshot import MAX_FILE_BYTES, parse_snapshot
from dynamo_operator.publisher.follow import Stop, follow
from tests.dynamo_operator.publisher.reports import snapshot
from tests.dynamo_operator.publisher.scripted import ScriptedSearch
from tests.dynamo_operator.publisher.test_follow import ScriptedPublisher

pytestmark = pytest.mark.virtual_time

COUNT = 100
MOST_GROWTH = 150e6
GOOD = snapshot("a", "b").decode()
LAUGHS = "".join(f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 9)}]\n" for n in range(1, 12))

FIELDS = {
    "schemaVersion": "1",
    "timestamp": '"2026-01-02T03:04:05Z"',
    "run": "{phase: Running, terminal: false}",
    "progress": "{round: 1, evaluated: 1}",
    "candidates": "[]",
}


def bad_snapshots(seed: int) -> Iterator[bytes]:
    draw = random.Random(seed)
    wrong = ('"x"', "-1", ".nan", ".inf", "[]", "{a: 1}", "[1, [2]]", "9" * 40, '"\\u2028"', "true")
    fixed = [
        b"",
        b"\x00" * 100,
        b"\xff\xfe" + GOOD.encode("utf-16-le"),
        GOOD.encode()[:-40] + b"\xc3\x28",
        b"{" * 100_000,
        b"[" * 100_000,
        b"- " * 50_000,
        b"a" * (MAX_FILE_BYTES + 1),
        f"x0: &x0 [1, 1]\n{LAUGHS}{GOOD}".encode(),
        b"&a [*a]\n",
        b"? {a: 1}\n: 2\n",
        GOOD.encode() + b"---\n" + GOOD.encode(),
        GOOD.encode() + b"run: {phase: Running, terminal: false}\n",
        GOOD.encode().replace(b"Running", b"!!python/object:os.system Running"),
        GOOD.replace("Running", "Running\u202e").encode(),
    ]
    yield from fixed
    fields = ("schemaVersion", "run", "progress", "candidates", "timestamp")
    for number in range(COUNT - len(fixed)):
        field = fields[number % len(fields)]
        value = draw.choice(wrong)
        if field == "candidates" and value == "[]":
            value = draw.choice(('[{id: ""}]', "[{id: a}, {id: a}]", "[[]]", "[null]"))
        written = {**FIELDS, field: value}
        yield "\n".join(f"{name}: {each}" for name, each in written.items()).encode()


async def test_each_is_a_violation_with_a_reason_in_one_line() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    bad = [*bad_snapshots(7)]
    wrong = []
    for number, data in enumerate(bad):
        trace: list[str] = []
        message = await follow(
            ScriptedSearch(trace, [(None, data)]),
            ScriptedPublisher(trace),
            poll_seconds=1,
            stop=Stop(),
            log=lambda _: None,
        )
        said = message.to_json()
        is_told = message.outcome.exit_code == 3 and message.message
        if not is_told or len(said.splitlines()) > 1 or len(said.encode()) > 4096:
            wrong.append(f"{number}: {data[:80]!r}: {said[:200]}")
        if any(step.startswith("publish") for step in trace):
            wrong.append(f"{number}: {data[:80]!r}: was published")
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024

    assert wrong == []
    assert len(bad) == COUNT
    assert grown < MOST_GROWTH


def test_what_they_are_made_of_is_a_snapshot() -> None:
    assert parse_snapshot("\n".join(f"{name}: {each}" for name, each in FIELDS.items()).encode())
    assert parse_snapshot(GOOD.encode())
