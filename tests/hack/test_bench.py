"""hack/bench: bars, the table, and every benchmark once at a small size."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hack.benchmarks import caches, controllers
from hack.benchmarks.catalogue import BENCHMARKS
from hack.benchmarks.measurement import Bar, Measurement, Verdict, number, table

ROOT = Path(__file__).parents[2]


def bench(*arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "hack/bench", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PATH": path or os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("bar", "value", "verdict"),
    [
        (Bar(2.0), 2.0, Verdict.OK),
        (Bar(2.0), 2.1, Verdict.MISSED),
        (Bar(2.0, at_least=True), 2.0, Verdict.OK),
        (Bar(2.0, at_least=True), 1.9, Verdict.MISSED),
        (None, 1.0, Verdict.NO_BAR),
    ],
)
def test_a_value_is_held_against_its_bar(bar, value, verdict):
    assert Measurement("a", value, "s", bar).verdict() is verdict


def test_a_quick_run_judges_only_what_was_measured_side_by_side():
    absolute = Measurement("a", 3.0, "s", Bar(2.0))
    ratio = Measurement("b", 3.0, "ratio", Bar(2.0, side_by_side=True))

    assert absolute.verdict(side_by_side_only=True) is Verdict.NOT_JUDGED
    assert ratio.verdict(side_by_side_only=True) is Verdict.MISSED


def test_the_table_aligns_numbers_to_the_right():
    rows = [("name", "value"), ("a", number(123456.7)), ("longer", number(0.01234))]

    assert table(rows).splitlines() == ["name      value", "a       123,457", "longer   0.0123"]


def test_every_benchmark_is_listed_with_what_it_measures():
    listed = bench("--list")

    assert listed.returncode == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()] == [b.name for b in BENCHMARKS]
    assert all(benchmark.about.endswith(".") for benchmark in BENCHMARKS)


def test_a_quick_run_prints_a_table_and_writes_its_numbers(tmp_path):
    ran = bench("--quick", "list", "queue", "--json", str(tmp_path / "numbers.json"))

    assert ran.returncode == 0, ran.stderr
    header, *rows = ran.stdout.splitlines()
    assert header.split() == ["name", "value", "unit", "bar", "verdict"]
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    assert [n["name"] for n in numbers] == [
        "list of 500 Pods, CPU",
        "listed Pod, each",
        "queue add, get and done",
    ]
    assert len(rows) == len(numbers)
    assert all(n["value"] > 0 for n in numbers)


def test_a_name_that_is_no_benchmark_is_refused():
    ran = bench("speed")

    assert ran.returncode == 2
    assert "no benchmark speed; see --list" in ran.stderr


def test_events_cost_a_fraction_of_the_generated_clients():
    results = {each.name: each for each in caches.events(0.04)}

    assert results["watch event to kubernetes_asyncio's decoding"].verdict() is Verdict.OK


def test_a_cached_pod_takes_a_fraction_of_its_dict():
    results = {each.name: each for each in caches.residence(0.25)}

    assert results["cached Pod to dict"].verdict() is Verdict.OK
    assert results["cached Pod to V1Pod"].verdict() is Verdict.OK


def test_nothing_is_kept_of_keys_that_are_gone():
    results = {each.name: each.value for each in caches.growth(0.0)}

    assert results["keys left after deletion"] == 0


def test_whole_controllers_are_measured():
    (overhead,) = controllers.reconcile(0.02)
    rate, each = controllers.end_to_end(0.04)

    assert overhead.value > 0
    assert rate.value == pytest.approx(1000 / each.value)


def test_without_go_there_are_no_peers_and_one_line_says_so(tmp_path):
    ran = bench("peers", path=str(tmp_path))

    assert ran.returncode == 0
    assert ran.stderr.splitlines()[1:] == ["peers: skipped: there is no Go on PATH (go.dev/dl)"]
