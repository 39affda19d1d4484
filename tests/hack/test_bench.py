"""hack/bench: bars, the table, and every benchmark once at a small size."""

import asyncio
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from hack.benchmarks import caches, controllers, peer_report, peers, searches
from hack.benchmarks.catalogue import BENCHMARKS
from hack.benchmarks.measurement import Bar, Measurement, Verdict, number, table
from hack.benchmarks.peer_processes import Converge, Framework, Round
from hack.benchmarks.plots import Bars, plot

ROOT = Path(__file__).parents[2]


def bench(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "hack/bench", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
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


def test_searches_at_once_all_finish_with_a_job_each():
    results = {each.name: each for each in searches.searches(0.02)}

    assert results["searches finished"].verdict() is Verdict.OK
    assert results["Jobs of a search, at most"].verdict() is Verdict.OK
    assert results["operator memory"].verdict() is Verdict.OK


def test_without_go_there_are_no_peers_and_one_line_says_so(tmp_path):
    # What was built before would do without Go: there is none of it in another cache.
    ran = bench("peers", PATH=str(tmp_path), XDG_CACHE_HOME=str(tmp_path))

    assert ran.returncode == 0
    assert ran.stderr.splitlines()[1:] == ["peers: skipped: there is no Go on PATH (go.dev/dl)"]


def framework(name: str, factor: float) -> Framework:
    """Return one whose numbers are all as many times those of another."""
    made = Framework(name, [], bytes_per_object={"ConfigMap": 2e3 * factor, "Pod": 5e3 * factor})
    for number_ in range(3):
        seconds = (1 + number_) * factor
        made.rounds.append(
            Round(
                first_watch_seconds=0.3 * factor,
                converge_seconds=10 * seconds,
                converge_cpu_seconds=5 * seconds,
                writes=10_000,
                failed_writes=0,
                idle_requests=None if number_ else 0,
                idle_cpu_seconds=None if number_ else 0.01,
                resident_bytes=100 * 2**20 * factor,
                latency_p50_seconds=0.01 * factor,
                latency_p99_seconds=0.05 * factor,
                restart_seconds=seconds,
                restart_cpu_seconds=seconds,
            )
        )
        made.few.append(Converge(2 * seconds, seconds))
    return made


@pytest.fixture
def page(tmp_path, monkeypatch):
    """The page as it is, but a copy."""
    copied = tmp_path / "performance.md"
    copied.write_text(peer_report.PAGE.read_text())
    monkeypatch.setattr(peer_report, "PAGE", copied)
    monkeypatch.setattr(peer_report, "PLOTS", tmp_path / "performance")
    return copied


def test_a_run_beside_peers_writes_its_table_and_plots_into_the_page(page):
    three = [framework("ours", 1), framework("controller-runtime", 2), framework("kopf", 4)]
    made = peer_report.compare(*three, widgets=5_000)
    alone = [Measurement("watch events", 50_000, "1/s", Bar(25_000, at_least=True))]
    run = peer_report.Run(rounds=3, widgets=5_000, cached=20_000)

    for _ in range(2):  # the second run replaces what the first one wrote
        peer_report.write_page(three, made, alone, run)

    lines = page.read_text().splitlines()
    wall = [line for line in lines if line.startswith("| converge, wall")]
    cells = "| 20.00 s | 40.00 s | 80.00 s | 0.50 (met: <= 0.833) | 0.25 (met: <= 0.333) |"
    assert wall == [f"| converge, wall {cells}"]
    assert "| converge, CPU an object | 2 ms | 4 ms | 8 ms |" in page.read_text()
    assert "(missed: <= 0.2)" in page.read_text()  # a fourth of kopf's is not a fifth
    assert "| writes an object | 2 | 2 | 2 |  |  |" in lines
    assert "| watch events | 50,000 1/s | >= 25,000 |" in lines
    for name in ("converge", "cpu", "latency", "memory", "micro"):
        assert f"](performance/{name}.svg)" in page.read_text()
        ElementTree.parse(page.parent / f"performance/{name}.svg")


def test_a_whole_run_ends_with_ours_alone_in_loops_of_their_own(page, monkeypatch):
    """Each micro-benchmark makes its own event loop, which no running one may surround."""
    three = [framework("ours", 1), framework("controller-runtime", 2), framework("kopf", 4)]

    async def measured(*_):
        return peer_report.Run(rounds=3, widgets=5_000, cached=20_000)

    def alone(_):
        return [Measurement("watch events", asyncio.run(asyncio.sleep(0, 50_000)), "1/s")]

    monkeypatch.setattr(peers, "_frameworks", lambda: three)
    monkeypatch.setattr(peers, "_peers", measured)
    monkeypatch.setattr(caches, "events", alone)
    monkeypatch.setattr(controllers, "queue", lambda _: [])
    monkeypatch.setattr(controllers, "reconcile", lambda _: [])

    made = peers.peers(1.0)

    assert [each.name for each in made] == [
        each.name for each in peer_report.compare(*three, widgets=5_000)
    ]
    assert "| watch events | 50,000 1/s |" in page.read_text()


def test_a_plot_draws_values_to_scale_and_says_them():
    drawn = ElementTree.fromstring(plot(Bars("a < b", "ms", ["x", "y"], {"one": [10.0, 5.0]})))

    space = "{http://www.w3.org/2000/svg}"
    *_, first, second = drawn.findall(f"{space}rect")
    texts = [text.text for text in drawn.findall(f"{space}text")]
    assert float(first.attrib["width"]) == pytest.approx(2 * float(second.attrib["width"]))
    assert texts == ["a < b (ms)", "x", "y", "one", "10", "5"]
