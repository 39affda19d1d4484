from __future__ import annotations

from io import StringIO

import pytest

from dynamo_operator.cli.diagnosis.findings import Finding, Severity
from dynamo_operator.cli.rendering.diagnosis import finding_lines, summary
from dynamo_operator.cli.rendering.terminal import Terminal

FINDING = Finding(
    "gpus", Severity.PROBLEM, f"no node with GPUs\n was found{' at all' * 12}", "name them"
)


def test_elsewhere_than_on_a_terminal_a_finding_is_one_line():
    assert finding_lines(FINDING, Terminal(StringIO())) == [
        f"problem  gpus: no node with GPUs was found{' at all' * 12}; mend: name them"
    ]


def test_on_a_terminal_it_fits_and_how_to_mend_it_stands_apart(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "60")

    lines = finding_lines(FINDING, Terminal(StringIO(), True))

    assert max(map(len, lines)) <= 60
    assert lines[0].startswith("problem  gpus: no node with GPUs was found")
    assert lines[-1] == "         mend: name them"


def test_severities_have_colours_and_always_their_word():
    painted = finding_lines(FINDING, Terminal(StringIO(), True, True))[0]

    assert painted.startswith("\x1b[31mproblem  \x1b[0mgpus: ")


def test_what_a_cluster_says_cannot_steer_the_terminal():
    hostile = Finding("kinds", Severity.OK, "\x1b[2Jgone\x07")

    assert "\x1b" not in finding_lines(hostile, Terminal(StringIO(), True))[0]


def test_the_last_line_counts_what_was_found():
    found = [FINDING, FINDING, Finding("kinds", Severity.OK, "")]

    assert summary(found) == "ok: 1, problem: 2"
