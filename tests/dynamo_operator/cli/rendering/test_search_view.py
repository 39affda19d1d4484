from __future__ import annotations

from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest

from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentCandidate
from dynamo_operator.cli.following import SearchState
from dynamo_operator.cli.rendering.search_view import ScoreHistory, view_line, view_lines
from dynamo_operator.cli.rendering.terminal import Terminal
from tests import builders

NOW = datetime(2026, 11, 30, 12, 2, 31, tzinfo=UTC)
WIDE_MESSAGE = f"Back-off pulling image {'registry.lab/' * 9}planner:1: not found"


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def candidate(score: float, seconds: int) -> DynamoGraphDeploymentCandidate:
    made = NOW - timedelta(seconds=seconds)
    candidate = DynamoGraphDeploymentCandidate.new(
        f"c-{score}",
        spec={"parameters": {"deployment_mode": "agg", "backend": "vllm", "replicas": 2, "tp": 4}},
        status={"metrics": {"score": score, "usedGpus": 8}},
    )
    metadata = candidate.metadata.model_copy(update={"creation_timestamp": made.isoformat()})
    return candidate.model_copy(update={"metadata": metadata})


def search(*candidates: DynamoGraphDeploymentCandidate, **run: Any) -> SearchState:
    status = {
        "phase": "Running",
        "startTime": "2026-11-30T12:00:00Z",
        "progress": {"round": 4, "evaluated": 24, "published": len(candidates)},
        "aisimulate": {"input": {"optimizer": {"max_trials": 96}}},
        **run,
    }
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": WIDE_MESSAGE}}
    return SearchState(None, builders.run(**status), candidates, (builders.pod(planner=waiting),))


def lines(state: SearchState, *, has_colour: bool = False) -> list[str]:
    history = ScoreHistory()
    history.observe(state, NOW)
    return view_lines(state, history, NOW, Terminal(StringIO(), True, has_colour))


def test_the_view_tells_phase_progress_best_score_over_time_and_what_is_wrong():
    view = lines(search(candidate(300.0, 10), candidate(200.0, 60), candidate(100.0, 100)))

    assert view[:6] == [
        "Run         llama-g1-4f1c2a",
        "Search      meta-llama/Meta-Llama-3.1-8B on up to 8 x h200_sxm",
        "Phase       Running for 2m31s",
        "Evaluated   [########----------------------] 24 of at most 96, round 4",
        "Best        score 300 on 8 GPUs: vllm 2 x tp4",
        "Score       ▁▁▁▁▁▁▁▁▁▁▁▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅████  100 to 300 in 100s",
    ]
    assert view[6].startswith("Pod         planner waiting, publisher running  ")
    assert view[7].startswith("Problem     container planner: ImagePullBackOff: Back-off")
    assert [line.split()[0] for line in view[-4:]] == ["RANK", "1", "2", "3"]


def test_no_line_is_wider_than_the_terminal_and_no_problem_is_cut_off():
    view = lines(search(candidate(300.0, 10)))

    assert max(map(len, view)) <= 80
    told = "".join(line[12:] for line in view if line[:12].strip() in ("Problem", ""))
    assert WIDE_MESSAGE.replace(" ", "") in told.replace(" ", "")


def test_without_colours_the_view_says_the_same():
    state = search(candidate(300.0, 10))
    coloured = lines(state, has_colour=True)

    plain = lines(state)

    assert any("\x1b[" in line for line in coloured)
    assert not any("\x1b" in line for line in plain)
    assert len(plain) == len(coloured)


def test_a_run_that_was_looked_at_late_still_has_its_history():
    history = ScoreHistory()

    history.observe(search(candidate(300.0, 10), candidate(100.0, 90)), NOW)

    assert [score for _, score in history.points] == [100.0, 300.0]


def test_another_run_begins_a_history_of_its_own():
    history = ScoreHistory()
    history.observe(search(candidate(300.0, 10)), NOW)
    other = SearchState(None, builders.run(uid="another"), (candidate(5.0, 1),))

    history.observe(other, NOW)

    assert [score for _, score in history.points] == [5.0]


def test_a_message_cannot_steer_the_terminal():
    state = search(executionMessage="\x1b[2J\x1b]0;owned\x07 line\nbreak")

    assert not any("\x1b[2J" in line or "\x07" in line for line in lines(state))
    assert "\x1b" not in view_line(state)
    assert "\n" not in view_line(state)


def test_a_clock_that_is_behind_shows_no_negative_time():
    assert "Phase       Running for 0s" in lines(search(startTime="2026-11-30T12:05:00Z"))
