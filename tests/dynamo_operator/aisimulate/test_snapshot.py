from __future__ import annotations

import os
import stat
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynamo_operator.aisimulate import snapshot as snapshots
from dynamo_operator.aisimulate.snapshot import (
    SNAPSHOT_FILE,
    Outcome,
    Phase,
    Snapshot,
    SnapshotError,
    dump_snapshot,
    load_documents,
    parse_snapshot,
    read_snapshot,
    timestamp,
    to_json,
    write_snapshot,
)

RUNNING = """\
schemaVersion: 1
timestamp: "2026-01-02T03:04:05Z"
run: {phase: Running, terminal: false}
progress: {round: 1, evaluated: 3}
candidates:
- id: evaluated-point-0123456789ab
  outcome: materialized
  parameters: {tp: 4, version: "0.24.0"}
  metrics: {score: 3.5, usedGpus: 8, power: null}
  manifest: |
    kind: DynamoGraphDeployment
- id: evaluated-point-ba9876543210
  outcome: materialization_failed
  parameters: {}
  metrics: {}
  error: no such strategy
"""


def snapshot_of(**changes: Any) -> Snapshot:
    fields: dict[str, Any] = {
        "schemaVersion": 1,
        "timestamp": "2026-01-02T03:04:05Z",
        "run": {"phase": "Running", "terminal": False},
    }
    return Snapshot.model_validate({**fields, **changes})


def candidate_of(**changes: Any) -> dict[str, Any]:
    return {"id": "a", "outcome": "materialized", "manifest": "kind: X\n", **changes}


def test_a_snapshot_is_read_as_it_is_documented() -> None:
    snapshot = parse_snapshot(RUNNING.encode())

    first, second = snapshot.candidates
    assert snapshot.run.phase is Phase.RUNNING
    assert (snapshot.progress.round, snapshot.progress.evaluated) == (1, 3)
    assert first.parameters == {"tp": 4, "version": "0.24.0"}
    assert first.metrics == {"score": 3.5, "usedGpus": 8, "power": None}
    assert first.manifest == "kind: DynamoGraphDeployment\n"
    assert (second.outcome, second.error) == (Outcome.MATERIALIZATION_FAILED, "no such strategy")


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("schemaVersion: 1", "schemaVersion: 2", "schemaVersion: 2 is not known; must be 1"),
        ("schemaVersion: 1", "schemaVersion: '1'", "schemaVersion: Input should be a valid int"),
        ("schemaVersion: 1", "schemaVersion: true", "schemaVersion: Input should be a valid int"),
        ("schemaVersion: 1\n", "", "schemaVersion is missing"),
        ("terminal: false", "terminal: true", "run: terminal must not be True in phase Running"),
        ("phase: Running", "phase: Failed", "run: terminal must not be False in phase Failed"),
        ("phase: Running", "phase: Paused", "run.phase"),
        ("terminal: false", "terminal: 0", "run.terminal"),
        ("evaluated: 3", "evaluated: -1", "progress.evaluated"),
        ("evaluated: 3", "evaluated: 3.0", "progress.evaluated"),
        ("id: evaluated-point-ba9876543210", "id: evaluated-point-0123456789ab", "occurs twice"),
        ("id: evaluated-point-ba9876543210", "id: ''", "candidates[1].id"),
        ("id: evaluated-point-ba9876543210", "id: ../../etc", "candidates[1].id"),
        ("  manifest: |\n    kind: DynamoGraphDeployment\n", "", "materialized needs manifest"),
        ("  error: no such strategy\n", "", "materialization_failed needs error"),
        ("outcome: materialized\n", "outcome: fine\n", "candidates[0].outcome"),
        ("2026-01-02T03:04:05Z", "yesterday", "timestamp"),
        ("progress:", "extra: 1\nprogress:", "extra"),
        ("score: 3.5", "score: .nan", ".nan is not a finite number"),
        ("score: 3.5", "score: -.inf", "-.inf is not a finite number"),
        ("score: 3.5", "score: 1.0e+999", "is not a finite number"),
        ("tp: 4", "tp: 99999999999999999999", "does not fit 64 bits"),
        ("tp: 4", f"tp: {'9' * 5000}", "does not fit 64 bits"),
        ("tp: 4", r'tp: "\ud800"', "half a surrogate pair"),
        ("tp: 4", r'"\ud800": 4', "half a surrogate pair"),
        ("tp: 4", f"tp: !{'!' * 5000} x", "is not allowed"),
        ("tp: 4", "tp: 4, tp: 5", "key 'tp' occurs twice"),
        ("tp: 4", "4: 4", "key 4 must be text"),
        ("tp: 4", "tp: !!python/name:os.system x", "tag"),
        ("tp: 4", "tp: *unknown", "unknown"),
        ("progress:", "---\nprogress:", "2 documents; must be one"),
        ("progress: {", "progress: {{", "line 4, column"),
    ],
)
def test_what_is_not_a_snapshot_is_refused_in_one_line(old: str, new: str, problem: str) -> None:
    assert old in RUNNING

    with pytest.raises(SnapshotError) as refusal:
        parse_snapshot(RUNNING.replace(old, new, 1).encode())

    assert problem in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 200


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\xff\xfe", "not UTF-8"),
        (b"", "0 documents"),
        (b"- 1", "must be an object"),
        (b"a: " + b"[" * 100 + b"]" * 100, "nested deeper than 64"),
        (b"a: 'open", "line 1"),
        (b"a: \x07", "not YAML"),
    ],
)
def test_hostile_text_is_refused(data: bytes, problem: str) -> None:
    with pytest.raises(SnapshotError, match=problem):
        parse_snapshot(data)


def test_expanding_anchors_counts_against_the_limit() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]

    with pytest.raises(SnapshotError, match="more than 100000 values"):
        load_documents("\n".join(lines).encode())


def test_anchors_of_a_document_are_expanded() -> None:
    documents = load_documents(b"a: &x {b: [1]}\nc: *x\n---\nd: 1")

    assert documents == [{"a": {"b": [1]}, "c": {"b": [1]}}, {"d": 1}]


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    with (tmp_path / SNAPSHOT_FILE).open("wb") as file:
        file.truncate(snapshots.MAX_FILE_BYTES + 1)

    with pytest.raises(SnapshotError, match="larger than 4194304 bytes"):
        read_snapshot(tmp_path)


@pytest.mark.parametrize("text", ["1e3", "0o14", "0x1F", "yes", "on", "2026-01-01", "1_000", "010"])
def test_text_that_only_some_readers_take_for_another_type_stays_text(text: str) -> None:
    assert load_documents(f"a: {text}".encode()) == [{"a": text}]


def test_numbers_and_constants_are_read_as_such() -> None:
    document = b"[0, -5, +3, 1.5, -.5, 2., 1.0e-05, 1.0E+16, true, False, ~, null, '', '1', \"2\"]"

    assert load_documents(document) == [
        [0, -5, 3, 1.5, -0.5, 2.0, 1e-05, 1e16, True, False, None, None, "", "1", "2"]
    ]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=20,
)


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(st.text(), JSON, max_size=5), st.text(min_size=1))
def test_what_is_written_is_read_back_the_same(parameters: dict[str, Any], manifest: str) -> None:
    encodable = to_json(parameters)
    manifest = manifest.encode("utf-8", "replace").decode()
    candidate = candidate_of(parameters=encodable, manifest=manifest)
    snapshot = snapshot_of(candidates=[candidate])

    assert parse_snapshot(dump_snapshot(snapshot)) == snapshot
    assert dump_snapshot(snapshot) == dump_snapshot(snapshot)


def test_a_manifest_is_readable_in_the_file() -> None:
    text = dump_snapshot(snapshot_of(candidates=[candidate_of(manifest="a:\n- b\n")])).decode()

    assert text.startswith('schemaVersion: 1\ntimestamp: "2026-01-02T03:04:05Z"\nrun:\n  phase: ')
    assert "    manifest: |\n      a:\n      - b\n" in text


def test_a_snapshot_is_written_whole_and_readable_by_everyone(tmp_path: Path) -> None:
    directory = tmp_path / "deep" / "snapshot"
    old_umask = os.umask(0o077)
    try:
        path = write_snapshot(directory, snapshot_of())
    finally:
        os.umask(old_umask)

    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert stat.S_IMODE(directory.stat().st_mode) == 0o755
    assert [file.name for file in directory.iterdir()] == [SNAPSHOT_FILE]
    data = read_snapshot(directory)
    assert data is not None
    assert parse_snapshot(data) == snapshot_of()


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    write_snapshot(tmp_path, snapshot_of())
    before = read_snapshot(tmp_path)
    target = tmp_path / SNAPSHOT_FILE
    target.unlink()
    target.mkdir()  # os.replace cannot replace a directory by a file

    with pytest.raises(OSError, match="directory"):
        write_snapshot(tmp_path, snapshot_of())

    assert before is not None
    assert [file.name for file in tmp_path.iterdir()] == [SNAPSHOT_FILE]


def test_a_snapshot_that_no_reader_takes_is_not_written(tmp_path: Path) -> None:
    large = "x" * snapshots.MAX_FILE_BYTES

    with pytest.raises(SnapshotError, match="at most 4194304"):
        write_snapshot(tmp_path, snapshot_of(candidates=[candidate_of(manifest=large)]))

    assert list(tmp_path.iterdir()) == []


def test_no_file_is_not_an_error(tmp_path: Path) -> None:
    assert read_snapshot(tmp_path) is None


@pytest.mark.parametrize("kind", ["link", "pipe", "directory"])
def test_only_a_regular_file_is_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / SNAPSHOT_FILE
    secret = tmp_path / "token"
    secret.write_text("secret")
    if kind == "link":
        path.symlink_to(secret)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()

    with pytest.raises(SnapshotError, match="must be a regular file"):
        read_snapshot(tmp_path)


def test_times_are_written_in_utc() -> None:
    local = datetime(2026, 1, 2, 5, 4, 5, 999, tzinfo=timezone(timedelta(hours=2)))

    assert timestamp(local) == "2026-01-02T03:04:05Z"
    assert timestamp(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)) == "2026-01-02T03:04:05Z"


def test_values_become_json_without_non_finite_numbers() -> None:
    class Color(Enum):
        RED = "red"

    value = {
        "b": (1, float("nan")),
        "a": float("inf"),
        "c": Color.RED,
        3: Path("/x"),
        "d": "\ud800",
    }

    assert to_json(value) == {"3": "/x", "a": None, "b": [1, None], "c": "red", "d": "?"}
    assert list(to_json(value)) == ["3", "a", "b", "c", "d"]  # type: ignore[arg-type] # an object
