"""The output adapter on slow or full disks, for AISimulates that announce an end or do not."""

from __future__ import annotations

import errno
import itertools
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from dynamo_operator.aisimulate.search_report import CandidateRenderError
from dynamo_operator.aisimulate.snapshot import SNAPSHOT_FILE, Outcome, Phase
from tests.dynamo_operator.aisimulate.test_output_adapter import ScriptedUpstream, Search, record

PATIENCE = 30.0
RECORDS = [record(1, 5.0), record(2, 7.0), record(3, float("nan")), record(4, None)]

announces_end = pytest.mark.parametrize("announces_end", [True, False], ids=["announced", "not"])


class Disk:
    """The disk of every snapshot: `before` is called where the system would flush a file to it."""

    def __init__(self) -> None:
        self.before: Callable[[], None] = lambda: None
        self._fsync = os.fsync

    def fsync(self, descriptor: int) -> None:
        self.before()
        self._fsync(descriptor)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    made = Disk()
    monkeypatch.setattr(os, "fsync", made.fsync)
    return made


def full() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def begin(directory: Path, *, announces: bool = True, **upstream: Callable[..., str]) -> Search:
    script = upstream.get("script", lambda candidate: f"tp: {candidate.config['tp']}\n")
    return Search(directory, ScriptedUpstream(script, announces_end=announces))


@announces_end
def test_callbacks_do_not_wait_for_a_slow_disk(
    tmp_path: Path, disk: Disk, announces_end: bool
) -> None:
    search = begin(tmp_path / "snapshot", announces=announces_end)
    writing, may_go_on = threading.Event(), threading.Event()

    def slow() -> None:
        writing.set()
        assert may_go_on.wait(PATIENCE)

    disk.before = slow
    search.callbacks.on_candidate(record(1, 1.0))
    assert writing.wait(PATIENCE)

    for tp in range(2, 50):  # would never return, if one of them waited for the disk
        search.callbacks.on_candidate(record(tp, float(tp)))
        search.callbacks.on_round(tp, [])
    disk.before = lambda: None
    may_go_on.set()
    search.write(record(49, 49.0))

    snapshot = search.snapshot()
    assert (snapshot.run.phase, snapshot.progress.round) == (Phase.SUCCEEDED, 49)


@announces_end
def test_the_end_of_a_search_waits_for_a_slow_disk(
    tmp_path: Path, disk: Disk, announces_end: bool
) -> None:
    search = begin(tmp_path / "snapshot", announces=announces_end)
    search.callbacks.on_candidate(record(1, 1.0))
    search.callbacks.on_complete()
    writing, may_go_on, over = threading.Event(), threading.Event(), threading.Event()

    def slow() -> None:
        writing.set()
        assert may_go_on.wait(PATIENCE)

    def end() -> None:
        search.write(record(1, 1.0))
        over.set()

    disk.before = slow
    thread = threading.Thread(target=end)
    thread.start()
    assert writing.wait(PATIENCE)
    assert not over.is_set()
    may_go_on.set()
    thread.join(PATIENCE)

    assert over.is_set()
    assert search.snapshot().run.terminal


@announces_end
def test_a_full_disk_keeps_the_last_snapshot_and_ends_no_search(
    tmp_path: Path, disk: Disk, announces_end: bool
) -> None:
    search = begin(tmp_path / "snapshot", announces=announces_end)
    failed = threading.Event()

    def fill() -> None:
        failed.set()
        full()

    before = (search.directory / SNAPSHOT_FILE).read_bytes()
    disk.before = fill
    search.callbacks.on_candidate(record(1, 1.0))
    assert failed.wait(PATIENCE)

    assert (search.directory / SNAPSHOT_FILE).read_bytes() == before
    search.callbacks.on_candidate(record(2, 2.0))
    disk.before = lambda: None
    search.write(record(2, 2.0), record(1, 1.0))

    assert [c.parameters["tp"] for c in search.snapshot().candidates] == [2, 1]
    assert [path.name for path in search.directory.iterdir()] == [SNAPSHOT_FILE]


@announces_end
def test_a_terminal_snapshot_that_cannot_be_written_is_raised(
    tmp_path: Path, disk: Disk, announces_end: bool
) -> None:
    search = begin(tmp_path / "snapshot", announces=announces_end)
    search.callbacks.on_candidate(record(1, 1.0))
    search.callbacks.on_complete()
    disk.before = full

    with pytest.raises(OSError, match="No space left on device"):
        search.write(record(1, 1.0))

    assert search.snapshot().run.phase is Phase.RUNNING
    assert [path.name for path in search.directory.iterdir()] == [SNAPSHOT_FILE]


@announces_end
@pytest.mark.parametrize("flaky", [0, 2], ids=["renders", "renders at the third try"])
def test_every_order_of_arrival_on_a_flaky_disk_gives_the_same_file(
    tmp_path: Path, disk: Disk, announces_end: bool, flaky: int
) -> None:
    files = set()
    for number, order in enumerate(itertools.permutations(RECORDS)):
        tries: dict[int, int] = {}

        def render(candidate: object, tries: dict[int, int] = tries) -> str:
            tp = candidate.config["tp"]  # type: ignore[attr-defined] # AISimulate's record
            tries[tp] = tries.get(tp, 0) + 1
            if tries[tp] <= flaky:
                raise CandidateRenderError("not now")
            return f"tp: {tp}\n"

        search = begin(tmp_path / f"search-{number}", announces=announces_end, script=render)
        disk.before = full if number % 2 else lambda: None
        for evaluated in order:
            search.callbacks.on_candidate(evaluated)
        disk.before = lambda: None
        if announces_end:
            search.callbacks.on_complete()
        search.write(record(2, 7.0), record(1, 5.0))
        files.add((search.directory / SNAPSHOT_FILE).read_bytes())

        shown = [(c.parameters["tp"], c.outcome) for c in search.snapshot().candidates]
        assert shown == [(2, Outcome.MATERIALIZED), (1, Outcome.MATERIALIZED)]
    assert len(files) == 1
