from __future__ import annotations

import io
from typing import Any

import pytest

from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest, DynamoGraphDeploymentRun
from dynamo_operator.cli.rendering.progress import ProgressLine, describe

SPEC = {"model": {"name": "Org/M-8B"}}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def request(**status: Any) -> DynamoGraphDeploymentRequest:
    return DynamoGraphDeploymentRequest.new("a", namespace="lab", spec=SPEC, status=status)


def run(**status: Any) -> DynamoGraphDeploymentRun:
    return DynamoGraphDeploymentRun.new("a-g1", namespace="lab", spec=SPEC, status=status)


def accepted(reason: str, message: str = "") -> dict[str, Any]:
    condition = {"type": "Accepted", "status": "True", "reason": reason, "message": message}
    return {"conditions": [{**condition, "lastTransitionTime": "2026-11-30T12:00:00Z"}]}


@pytest.mark.parametrize(
    ("of", "by", "line"),
    [
        (request(), None, "waiting for the operator"),
        (request(**accepted("RunCreated")), None, "RunCreated"),
        (
            request(**accepted("WaitingForActiveRun", "Run a-g1 is ending")),
            None,
            "WaitingForActiveRun: Run a-g1 is ending",
        ),
        (request(), run(), "Pending"),
        (
            request(best={"candidate": "a-g1-x", "score": 3497.84}),
            run(phase="Running", progress={"round": 2, "evaluated": 5, "published": 4}),
            "Running, round 2, 5 evaluated, 4 published, best score 3497.8",
        ),
        (
            request(best={"candidate": "a-g1-x"}),
            run(phase="Pending", executionMessage="Unschedulable: no node fits"),
            "Pending, Unschedulable: no node fits",
        ),
    ],
    ids=["new", "accepted", "accepted with a message", "pending", "running", "no score"],
)
def test_a_search_is_told_in_a_line(of: Any, by: Any, line: str):
    assert describe(of, by) == line


def test_a_terminal_shows_one_line_that_changes():
    terminal = Terminal()
    line = ProgressLine(terminal)

    line.show("one")
    line.show("two")
    line.end()

    assert terminal.getvalue() == "\r\x1b[2Kone\r\x1b[2Ktwo\n"


def test_a_line_never_wraps(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "10")
    terminal = Terminal()

    ProgressLine(terminal).show("Pending, Unschedulable")

    assert terminal.getvalue() == "\r\x1b[2KPending, "


def test_elsewhere_each_state_is_told_once():
    stream = io.StringIO()
    line = ProgressLine(stream)

    for text in ("one", "one", "two"):
        line.show(text)
    line.end()

    assert stream.getvalue() == "one\ntwo\n"


def test_a_line_that_showed_nothing_ends_without_a_trace():
    terminal = Terminal()

    ProgressLine(terminal).end()

    assert terminal.getvalue() == ""
