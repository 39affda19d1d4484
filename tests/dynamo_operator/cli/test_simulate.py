"""`dynamo-operator simulate`: one command runs, finds, tells and replays."""

import json

import pytest

from dynamo_operator.cli.commands import run

RIGHT = "tests.dynamo_operator.simulation.scenarios:RIGHT"
WRONG = "tests.dynamo_operator.simulation.scenarios:WRONG"


def test_a_scenario_runs_without_faults(capsys):
    assert run(["simulate", RIGHT]) == 0

    assert "echo: everything held in 9" in capsys.readouterr().out


def test_seeds_find_a_bug_and_its_recording_plays_again(capsys, tmp_path):
    record = tmp_path / "found.json"

    assert run(["simulate", WRONG, "--seeds", "60", "--record", str(record)]) == 1
    told = capsys.readouterr().out
    assert "of 60 broke I3 at most one of configmaps each" in told
    assert f"dynamo-operator simulate {WRONG} --plan '" in told

    assert run(["simulate", WRONG, "--plan", str(record), "--as-is"]) == 1
    assert "I3 at most one" in capsys.readouterr().out
    assert run(["simulate", RIGHT, "--plan", str(record)]) == 1
    assert "echo: not the recorded run: step " in capsys.readouterr().out


def test_a_plan_may_be_given_as_it_is_told(capsys):
    plan = {"faults": [{"at": {"verb": "apply"}, "do": {"do": "kill"}}]}

    assert run(["simulate", RIGHT, "--plan", json.dumps(plan), "--story"]) == 0

    told = capsys.readouterr().out
    assert "1. kill before operator*: apply * * #1" in told
    assert "* operator/1 killed" in told
    assert "1 faults" in told


def test_seeds_that_hold_are_counted_with_their_faults(capsys):
    assert run(["simulate", RIGHT, "--seeds", "3"]) == 0

    assert "echo: 3 seeds, everything held (" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing"], "'nothing' is not MODULE:SCENARIO"),
        (["no.such:THING"], "no.such:THING: no module named 'no'"),
        ([RIGHT.replace("RIGHT", "LEFT")], "has no 'LEFT'"),
        ([RIGHT.replace("RIGHT", "NAMESPACE")], "is a str, not a Scenario"),
        ([RIGHT, "--plan", '{"faults": 1}'], "--plan: is no plan: faults"),
        ([RIGHT, "--plan", "{nonsense"], "--plan: is no plan: Expecting property name"),
    ],
)
def test_what_is_wrong_with_a_call_is_said_in_a_line(words, said, capsys):
    assert run(["simulate", *words]) == 2

    assert said in capsys.readouterr().err
