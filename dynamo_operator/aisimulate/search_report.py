"""Reports a search under way to the snapshot file, without holding it up.

The search's own thread takes note and wakes the one writer thread, which renders manifests and
writes at most one snapshot per interval, always the newest state. Whatever ends the search ends the
writer thread first and writes the terminal snapshot itself: whoever sees that one sees the last.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from dynamo_operator.aisimulate.evaluated_points import Point, Retention, point_of
from dynamo_operator.aisimulate.snapshot import (
    Outcome,
    Phase,
    Progress,
    RunState,
    Snapshot,
    SnapshotCandidate,
    timestamp,
    write_snapshot,
)

MAX_RENDER_TRIES = 3
MAX_TEXT = 500
NO_FEASIBLE_CANDIDATE = "NoFeasibleCandidate"
FAILED = "Failed"

# What AISimulate counts as evaluated; unsupported and resource-limited points never ran.
_EVALUATED = frozenset({"feasible", "infeasible", "timed_out", "failed"})


class CandidateRenderError(Exception):
    """This candidate cannot be rendered; others may be."""


Render = Callable[[Point], str]
"""Returns a point's manifest, or raises CandidateRenderError; anything else: nothing can be."""


class Manifests:
    """Renders each point once, and gives up on one after a few tries."""

    def __init__(self, render: Render) -> None:
        self._render = render
        self._settled: dict[str, tuple[Outcome, str]] = {}
        self._tries: Counter[str] = Counter()

    def settle(self, points: Iterable[Point], *, tries: int) -> list[SnapshotCandidate]:
        """Try the unsettled points at most `tries` times each; return the settled ones in order.

        Raises:
            Exception: the renderer is unavailable.
        """
        candidates = []
        for point in points:
            for _ in range(tries):
                if point.id not in self._settled:
                    self._try(point)
            if point.id in self._settled:
                candidates.append(self._candidate(point))
        return candidates

    def settled(self, points: Iterable[Point]) -> list[SnapshotCandidate]:
        """Return the points that need no rendering any more, in order."""
        return [self._candidate(point) for point in points if point.id in self._settled]

    def _candidate(self, point: Point) -> SnapshotCandidate:
        outcome, text = self._settled[point.id]
        return SnapshotCandidate(
            id=point.id,
            outcome=outcome,
            parameters=point.parameters,
            metrics=point.metrics,
            manifest=text if outcome is Outcome.MATERIALIZED else None,
            error=text if outcome is Outcome.MATERIALIZATION_FAILED else None,
        )

    def _try(self, point: Point) -> None:
        try:
            manifest = self._render(point)
        except CandidateRenderError as error:
            self._tries[point.id] += 1
            if self._tries[point.id] >= MAX_RENDER_TRIES:
                self._settled[point.id] = (Outcome.MATERIALIZATION_FAILED, short(error))
        else:
            self._settled[point.id] = (Outcome.MATERIALIZED, manifest)


class LiveSearch:
    """A search under way: what is known of it, and the thread that reports it.

    The search's thread adds under the lock; the writer thread alone renders and writes, until it
    has ended.
    """

    def __init__(
        self,
        directory: Path,
        manifests: Manifests,
        *,
        limit: int,
        interval_seconds: float,
        now: Callable[[], datetime],
    ) -> None:
        self.directory = directory
        self.manifests = manifests
        self.round = 0
        self.evaluated = 0
        self.terminal = False
        self._interval_seconds = interval_seconds
        self._now = now
        self._retention = Retention(limit)
        self._rejections: Counter[str] = Counter()
        self._examples: dict[str, str] = {}
        self.failure: Exception | None = None
        self._lock = threading.Condition()
        self._is_changed = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._report, name="dgdr-run-snapshot", daemon=True)

    def start(self) -> None:
        """Write the first snapshot, then report changes from the writer thread."""
        self._write(RunState(phase=Phase.RUNNING, terminal=False), ())
        self._thread.start()

    def on_candidate(self, record: Any) -> None:
        """Take note of an evaluated point."""
        self._raise_failure()
        status = _text(record.status)
        point = point_of(record) if status == "feasible" else None
        with self._lock:
            self.evaluated += status in _EVALUATED
            if point is not None:
                self._retention.add(point)
            else:
                self._reject(_text(record.reason_category or record.status), record.reason)
            self._wake()

    def on_round(self, number: int, candidates: Sequence[Any]) -> None:
        """Take note of a finished round and the feasible points so far."""
        self._raise_failure()
        points = [point for candidate in candidates if (point := point_of(candidate)) is not None]
        with self._lock:
            self.round = max(self.round, number)
            for point in points:
                self._retention.add(point)
            self._wake()

    def on_complete(self) -> None:
        """Report the last state; a search that found nothing ends here."""
        self.stop()
        self._raise_failure()
        if not self.terminal and not self._retention.best():
            self.fail(self.nothing_found(), reason=NO_FEASIBLE_CANDIDATE)

    def on_failure(self, error: BaseException) -> None:
        """Report the error that ended the search."""
        self.stop()
        if not self.terminal:
            self.fail(f"{type(error).__name__}: {error}")

    def stop(self) -> None:
        """Let the writer thread report the last state, and end it."""
        with self._lock:
            self._stopping.set()
            self._lock.notify()
        if self._thread.is_alive():
            self._thread.join()

    def fail(self, error: str, *, reason: str = FAILED) -> None:
        """Write the terminal snapshot of a failed search, with what is rendered already."""
        text = short(error)
        run = RunState(phase=Phase.FAILED, terminal=True, reason=reason, message=text, error=text)
        self._write(run, self.manifests.settle(self._retention.best(), tries=0))

    def succeed(self, candidates: Sequence[SnapshotCandidate], evaluated: int) -> None:
        """Write the terminal snapshot of a search with a result."""
        self.evaluated = evaluated
        message = f"{len(candidates)} best of {evaluated} evaluated points"
        self._write(RunState(phase=Phase.SUCCEEDED, terminal=True, message=message), candidates)

    def nothing_found(self) -> str:
        """Say why there is no candidate."""
        kinds = ", ".join(
            f"{count} {kind} (such as: {self._examples[kind]})"
            for kind, count in sorted(
                self._rejections.items(), key=lambda item: (-item[1], item[0])
            )
        )
        text = f"no feasible candidate among {self.evaluated} evaluated points"
        return f"{text}: {kinds}" if kinds else text

    def _reject(self, category: str, reason: str | None) -> None:
        reason = reason or "its score is not a finite number"
        self._rejections[category] += 1
        self._examples[category] = min(reason, self._examples.get(category, reason))

    def _wake(self) -> None:
        self._is_changed = True
        self._lock.notify()

    def _raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure

    def _report(self) -> None:
        pause_seconds = self._interval_seconds
        while True:
            self._stopping.wait(pause_seconds)
            with self._lock:
                self._lock.wait_for(lambda: self._is_changed or self._stopping.is_set())
                if not self._is_changed:
                    return
                self._is_changed = False
                points = self._retention.best()
            try:
                self._report_once(points)
            except OSError:
                # The next state is written instead; the terminal snapshot must be, or it raises.
                pause_seconds = max(self._interval_seconds, 1.0)
                self._is_changed = not self._stopping.is_set()
            except Exception as error:  # noqa: BLE001 # raised in the search's own thread
                self._give_up(error)
                return

    def _report_once(self, points: Sequence[Point]) -> None:
        candidates = self.manifests.settle(points, tries=1)
        if len(candidates) < len(points):
            self._is_changed = True  # tried again
        self._write(RunState(phase=Phase.RUNNING, terminal=False), candidates)

    def _give_up(self, error: Exception) -> None:
        try:
            self.fail(f"{type(error).__name__}: {error}")
        except OSError as write_error:
            error.add_note(f"nor could the terminal snapshot be written: {write_error}")
        self.failure = error

    def _write(self, run: RunState, candidates: Sequence[SnapshotCandidate]) -> None:
        snapshot = Snapshot(
            schemaVersion=1,
            timestamp=timestamp(self._now()),
            run=run,
            progress=Progress(round=self.round, evaluated=self.evaluated),
            candidates=tuple(candidates),
        )
        write_snapshot(self.directory, snapshot)
        self.terminal = run.terminal


def short(error: object) -> str:
    """Return a text in one line of at most 500 characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 3]}..."


def _text(value: Any) -> str:
    return str(getattr(value, "value", value))
