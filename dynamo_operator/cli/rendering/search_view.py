"""A search while it goes on: a block of lines for a terminal, a line for anything else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from textwrap import wrap
from typing import Any, Final

from dynamo_operator.aisimulate.violations import at
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRun, RunPhase
from dynamo_operator.apiserver.tables import human_duration
from dynamo_operator.cli.following import SearchState
from dynamo_operator.cli.rendering.candidates import CandidateSummary, shown, summarize
from dynamo_operator.cli.rendering.progress import describe
from dynamo_operator.cli.rendering.table import format_table
from dynamo_operator.cli.rendering.terminal import Style, Terminal, clipped, printable
from dynamo_operator.runtime.builtin_kinds import Pod

_LABEL_WIDTH: Final = 12
_BAR_WIDTH: Final = 30
_CURVE_WIDTH: Final = 30
_LEVELS: Final = "▁▂▃▄▅▆▇█"
_MOST_CANDIDATES: Final = 5
_MOST_PROBLEMS: Final = 3
_MOST_LINES: Final = 4
"""Of one problem."""
_PHASES: Final = {
    RunPhase.SUCCEEDED: Style.GOOD,
    RunPhase.FAILED: Style.BAD,
    RunPhase.PENDING: Style.WARNING,
}


@dataclass(slots=True)
class ScoreHistory:
    """The best score over time: what Candidates tell of the past, and what was seen since."""

    points: list[tuple[datetime, float]] = field(default_factory=list)
    _run: str = ""

    def observe(self, state: SearchState, now: datetime) -> None:
        """Note the best score; of another Run than before, everything begins anew."""
        uid = state.run.uid if state.run else ""
        if uid != self._run:
            self._run, self.points = uid, []
            made = sorted(
                (datetime.fromisoformat(each.metadata.creation_timestamp), score)
                for each in state.candidates
                if (score := summarize(each).score) is not None and each.metadata.creation_timestamp
            )
            for time, score in made:
                self._note(time, score)
        if state.candidates and (best := summarize(state.candidates[0]).score) is not None:
            self._note(now, best)

    def curve(self, now: datetime, width: int = _CURVE_WIDTH) -> str:
        """Return the curve from the first score until now; "" where nothing changed yet."""
        if len(self.points) < 2:
            return ""
        first, low, high = self.points[0][0], self.points[0][1], self.points[-1][1]
        levels = []
        for index in range(1, width + 1):
            until = first + (now - first) * index / width
            score = max((score for time, score in self.points if time <= until), default=low)
            levels.append(round((score - low) / (high - low) * (len(_LEVELS) - 1)))
        return "".join(_LEVELS[level] for level in levels)

    def _note(self, time: datetime, score: float) -> None:
        if not self.points or score > self.points[-1][1]:
            self.points.append((time, score))


def view_lines(
    state: SearchState, history: ScoreHistory, now: datetime, terminal: Terminal
) -> list[str]:
    """Return the block of lines that shows a search, none wider than the terminal."""
    width = terminal.width
    lines = []
    for fact in _facts(state, history, now):
        room = width - (_LABEL_WIDTH if fact.label else 0)
        label = fact.label.ljust(_LABEL_WIDTH) if fact.label else ""
        text = printable(fact.text)
        parts = wrap(text, room, max_lines=_MOST_LINES, placeholder="…") if fact.wraps else []
        for part in parts or [clipped(text, room)]:
            styled = terminal.painted(part, fact.style) if fact.style else part
            lines.append(f"{terminal.painted(label, Style.FAINT)}{styled}".rstrip())
            label = " " * len(label)
    return lines


def view_line(state: SearchState) -> str:
    """Return the search in one line, without anything that changes all the time."""
    if state.request is None and state.run is None:
        return "waiting for the operator"
    best = next(iter(state.candidates), None)
    told = describe(state.request, state.run, best_score=summarize(best).score if best else None)
    known = state.run.status.execution_message if state.run else None
    return printable("; ".join([told, *(each for each in state.problems if each != known)]))


def state_document(state: SearchState) -> dict[str, Any]:
    """Return the state as plain values."""
    run = state.run
    progress = run.status.progress if run else None
    best = state.candidates[0] if state.candidates else None
    return {
        "run": run.key.name if run else None,
        "phase": (run.status.phase or str(RunPhase.PENDING)) if run else None,
        "round": progress.round if progress else 0,
        "evaluated": progress.evaluated if progress else 0,
        "published": progress.published if progress else 0,
        "best": best and {"candidate": best.key.name, "score": summarize(best).score},
        "problems": state.problems,
        "failure": state.failure,
    }


@dataclass(frozen=True, slots=True)
class _Fact:
    label: str
    text: str
    style: Style | None = None
    wraps: bool = False


def _facts(state: SearchState, history: ScoreHistory, now: datetime) -> Iterator[_Fact]:
    run = state.run
    if run is None:
        name = state.request.key.name if state.request else ""
        yield _Fact("Request", name, Style.STRONG)
        yield _Fact("", view_line(state), wraps=True)
        return
    yield _Fact("Run", run.key.name, Style.STRONG)
    yield _Fact("Search", _searched(run))
    phase = run.status.phase or RunPhase.PENDING
    since = f"{phase} {_duration(run, now)}".rstrip()
    style = _PHASES.get(RunPhase(phase)) if phase in set(RunPhase) else None
    yield _Fact("Phase", since, style)
    yield _Fact("Evaluated", _evaluated(run))
    best = summarize(state.candidates[0]) if state.candidates else None
    yield _Fact("Best", _best(best))
    ended = run.status.completion_time
    until = min(now, datetime.fromisoformat(ended)) if ended else now
    if curve := history.curve(until):
        (began, low), (_, high) = history.points[0], history.points[-1]
        age = human_duration(max((until - began).total_seconds(), 0.0))
        yield _Fact("Score", f"{curve}  {shown(low)} to {shown(high)} in {age}")
    for pod in state.pods:
        yield _Fact("Pod", f"{_pod_states(pod)}  {pod.key.name}")
    for problem in state.problems[:_MOST_PROBLEMS]:
        yield _Fact("Problem", problem, Style.WARNING, wraps=True)
    if failure := state.failure:
        yield _Fact("Failed", failure, Style.BAD, wraps=True)
    if state.candidates:
        yield _Fact("", "")
        header, *rows = _candidates(state).splitlines()
        yield _Fact("", header, Style.FAINT)
        yield from (_Fact("", row) for row in rows)


def _searched(run: DynamoGraphDeploymentRun) -> str:
    gpu = run.spec.hardware.gpu if run.spec.hardware else None
    where = f" on up to {gpu.budget} x {gpu.sku}" if gpu else ""
    return f"{run.spec.model.name}{where}"


def _duration(run: DynamoGraphDeploymentRun, now: datetime) -> str:
    started = run.status.start_time
    if not started:
        return ""
    end = run.status.completion_time
    ended = datetime.fromisoformat(end) if end else now
    seconds = (ended - datetime.fromisoformat(started)).total_seconds()
    return f"{'after' if end else 'for'} {human_duration(max(seconds, 0.0))}"


def _evaluated(run: DynamoGraphDeploymentRun) -> str:
    progress = run.status.progress
    count, rounds = (progress.evaluated, progress.round) if progress else (0, 0)
    document = run.status.aisimulate.input if run.status.aisimulate else None
    most = at(document, "optimizer", "max_trials")
    told = f"{count}"
    if isinstance(most, int) and most > 0:
        done = min(count / most, 1.0)
        filled = round(done * _BAR_WIDTH)
        told = f"[{'#' * filled}{'-' * (_BAR_WIDTH - filled)}] {count} of at most {most}"
    return f"{told}, round {rounds}"


def _best(best: CandidateSummary | None) -> str:
    if best is None:
        return "-"
    return f"score {shown(best.score)} on {best.gpus} GPUs: {best.backend} {best.parallelism}"


def _pod_states(pod: Pod) -> str:
    statuses = pod.status.get("containerStatuses") or []
    told = [f"{each.get('name')} {_container_state(each)}" for each in statuses]
    return ", ".join(told) or str(pod.status.get("phase") or "Pending").lower()


def _container_state(status: dict[str, Any]) -> str:
    state = status.get("state") or {}
    if "terminated" in state:
        return f"exited {state['terminated'].get('exitCode', 0)}"
    return "running" if "running" in state else "waiting"


def _candidates(state: SearchState) -> str:
    listed: Sequence[CandidateSummary] = [summarize(each) for each in state.candidates]
    rows = [
        (
            *(str(rank), shown(each.score), str(each.gpus), shown(each.ttft), shown(each.itl)),
            *(each.backend, each.parallelism),
        )
        for rank, each in enumerate(listed[:_MOST_CANDIDATES], start=1)
    ]
    header = ("RANK", "SCORE", "GPUS", "TTFT MS", "ITL MS", "BACKEND", "PARALLELISM")
    return format_table(header, rows)
