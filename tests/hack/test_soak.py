"""hack/soak: a few seeds of each part, and that what is broken is noticed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dynamo_operator.runtime.reconciler import Result
from hack.soaks import enumerations, seeds
from hack.soaks.bugs import find_bugs
from hack.soaks.cache_world import Climate, InvariantError, keep_caches
from hack.soaks.enumerations import Share
from tests.dynamo_operator.simulation.scenarios import RIGHT, WRONG
from tests.simulation.planted_bugs import PLANTED_BUGS, PlantedBug

ROOT = Path(__file__).parents[2]


SCENARIO = "search"


def soak(*words):
    return subprocess.run(
        [sys.executable, "hack/soak", *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def lives(monkeypatch):
    monkeypatch.setattr(seeds, "SCENARIOS", {"right": RIGHT, "wrong": WRONG})


def test_seeds_that_hold_are_counted(lives, capsys):
    assert seeds.soak(["right"], first=5, seeds=3, minutes=0, workers=1) == 0

    told = capsys.readouterr().out
    assert "right: seeds 5 to 7, " in told
    assert "right: 3 seeds held, " in told


def test_a_seed_that_breaks_something_is_made_small_and_told(lives, capsys):
    assert seeds.soak(["wrong"], first=0, seeds=40, minutes=0, workers=1) == 1

    told = capsys.readouterr().out
    assert "the first, made smaller:" in told
    assert "I3 at most one of configmaps each" in told
    assert "  1. " in told
    assert "  2. " not in told


@pytest.fixture
def enumerated(monkeypatch, capsys):
    def told(name, *shares, classes=("crash", "refusal")):
        monkeypatch.setattr(enumerations, "SCENARIOS", {"right": RIGHT, "wrong": WRONG})
        monkeypatch.setattr(enumerations, "primaries_of", lambda scenario: ())
        codes = {
            enumerations.enumerate_life(name, classes=classes, share=share, workers=1)
            for share in map(Share.parse, shares)
        }
        return codes, capsys.readouterr().out.splitlines()

    return told


def test_an_enumeration_counts_the_plans_of_each_class_and_is_the_same_again(enumerated):
    codes, told = enumerated("right", "1/8", "1/8", classes=("refusal", "crash"))

    assert codes == {0}
    first, again = (
        [re.sub(r" \d+ s,", "", line) for line in lines] for lines in (told[:3], told[3:])
    )
    assert first == again
    told_of = re.compile(r"right(.*): (\d+) of (\d+) plans run, \2 reached .*, 0 failed")
    counts = [found for line in first if (found := told_of.match(line))]
    crashes, refusals, both = ((found[1], int(found[2]), int(found[3])) for found in counts)
    assert crashes == (" crash", -(-crashes[2] // 8), crashes[2])
    assert refusals == (" refusal", -(-refusals[2] // 8), refusals[2])
    assert both == ("", crashes[1] + refusals[1], crashes[2] + refusals[2])


def test_what_fails_in_an_enumeration_is_told_with_its_plan(enumerated):
    codes, told = enumerated("wrong", "1/1", classes=("crash",))

    assert codes == {1}
    assert "I3 at most one of configmaps each" in told[2]
    assert '"do":"kill"' in told[3]


def test_all_shares_are_all_plans_once():
    plans = range(8)
    shares = [Share.parse(f"{number}/3").among(plans) for number in (1, 2, 3)]

    assert sorted(plan for share in shares for plan in share) == list(plans)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "1/2/3", "-1/3"])
def test_what_is_no_share_is_refused(text):
    with pytest.raises(ValueError, match=f"'{text}' is no share such as 2/5"):
        Share.parse(text)


@pytest.mark.simulation
def test_a_bug_is_looked_for_without_a_hint_and_one_that_is_missed_is_told(capsys):
    needs_a_fault = next(bug for bug in PLANTED_BUGS if "reconcile failed" in bug.name)
    needs_none = next(bug for bug in PLANTED_BUGS if "names are cut" in bug.name)
    planted = (needs_a_fault, needs_none)

    assert find_bugs(planted, workers=1, swarm_seconds=0.0, most_plans=200) == 0

    told = capsys.readouterr().out.splitlines()
    assert re.match(rf"{needs_a_fault.name}: found by .* after \d+ plans, 1 decisions, ", told[0])
    assert told[1].startswith(f"{needs_none.name}: found by no fault after 0 plans, ")
    assert told[2] == "2 of 2 planted bugs found"

    nothing = PlantedBug("nothing", "nobody", "relay", "", {})

    assert find_bugs((nothing,), workers=1, swarm_seconds=0.0, most_plans=5) == 1

    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("nothing: not found after 5 plans, 0 decisions, ")
    assert told[0].endswith(" s - nothing shows it")
    assert told[1] == "0 of 1 planted bugs found"


def test_the_script_compares_the_traces_of_two_processes():
    ran = soak("--traces", "4", "--scenario", SCENARIO, "--first", "1")

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "search: 4 of 4 seeds trace the same, 4 traces, " in ran.stdout
    assert "4 of 4 seeds trace the same in two processes, " in ran.stdout


def test_seeds_that_are_other_runs_elsewhere_are_told(monkeypatch, capsys):
    monkeypatch.setattr(seeds, "_hashes", lambda name, dealt: [["a"] * len(dealt), ["a", "b"]])

    assert seeds.compare_hashes(["right", "left"], first=3, seeds=4) == 1

    assert capsys.readouterr().out.endswith("FAILED: other runs elsewhere: seeds 5\n")


def test_an_unknown_scenario_is_told_with_those_that_there_are():
    ran = soak("1", "--scenario", "rescue")

    assert ran.returncode == 1
    assert ran.stderr.startswith("hack/soak: no scenario 'rescue'; there are search, ")


HURRIED = Climate(
    edit_seconds=4.0,
    cut_seconds=60.0,
    outage_every_seconds=700.0,
    outage_seconds=150.0,
    new_process_seconds=500.0,
    rest_seconds=900.0,
)


@pytest.mark.virtual_time
async def test_caches_are_what_the_server_has_whatever_happens():
    report = await keep_caches(1, hours=0.5, objects=60, climate=HURRIED)

    assert report.counts["rests"] == 2
    assert report.counts["edits"] > 200
    assert report.counts["outages"] >= 2
    assert report.counts["new processes"] >= 2
    assert report.counts["watches cut"] > 30


@pytest.mark.virtual_time
async def test_edits_that_nobody_answers_are_noticed_and_the_seed_told():
    class Idle:
        def __init__(self, reader, client):
            pass

        async def reconcile(self, key):
            return Result.done()

    with pytest.raises(InvariantError, match=r"seed 4: not settled after 600 s: .* unanswered"):
        await keep_caches(4, hours=0.1, objects=5, climate=HURRIED, reconciler=Idle)
