from __future__ import annotations

import hashlib
import itertools
import math
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from dynamo_operator.aisimulate.evaluated_points import point_of, public_parameters
from dynamo_operator.aisimulate.output_adapter import ADAPTER, DgdrRunAdapter, DgdrRunConfig
from dynamo_operator.aisimulate.search_report import CandidateRenderError
from dynamo_operator.aisimulate.snapshot import (
    SNAPSHOT_FILE,
    Outcome,
    Phase,
    Snapshot,
    parse_snapshot,
    read_snapshot,
)

CONFIG = {"name": "r1", "runtime_image": "r/vllm-runtime:1.6.0", "num_gpus_per_node": 8}
WORKLOAD = object()


def record(
    tp: int, score: float | None, *, gpus: int | None = 8, status: str = "feasible", **changes: Any
) -> SimpleNamespace:
    fields = {
        "status": SimpleNamespace(value=status),
        "config": {"backend": "vllm", "tp": tp, "unset": None},
        "used_gpus": gpus,
        "score": score,
        "metrics": {"mean_ttft_ms": 10.0 * tp, "wall_time_ms": 1.0},
        "objectives": None,
        "reason_category": None if status == "feasible" else "sla_constraint",
        "reason": None if status == "feasible" else f"ttft {tp} ms > 1 ms",
    }
    return SimpleNamespace(**{**fields, **changes})


def result_of(
    *selected: SimpleNamespace, evaluated: int = 9, pareto: tuple[str, ...] = ()
) -> SimpleNamespace:
    return SimpleNamespace(
        selected_candidates=list(selected),
        counts=SimpleNamespace(evaluated=evaluated),
        views=SimpleNamespace(pareto_front=list(pareto)),
    )


class ScriptedUpstream:
    """AISimulate's and Dynamo's part; `script` answers what is rendered."""

    def __init__(
        self,
        script: Callable[[SimpleNamespace], str] = lambda c: f"tp: {c.config['tp']}\n",
        *,
        announces_end: bool = True,
    ) -> None:
        self.script = script
        self.announces_end = announces_end
        self.has_finished = False
        self.rendered: list[str] = []

    def callbacks(self, **handlers: Callable[..., None]) -> tuple[Any, bool]:
        return SimpleNamespace(**handlers), self.announces_end

    def check(self, config: DgdrRunConfig) -> None:
        config.image_for("vllm")

    def render(self, candidate: Any, workload: Any, config: DgdrRunConfig, name: str) -> str:
        assert workload is WORKLOAD
        self.rendered.append(name)
        return self.script(candidate)

    def workload(self, result: Any) -> Any:
        return WORKLOAD

    def finished(self) -> bool:
        return self.has_finished


class Search:
    """A search that this adapter reports, in the calls that AISimulate makes."""

    def __init__(self, directory: Path, upstream: ScriptedUpstream | None = None, **config: Any):
        self.directory = directory
        self.upstream = upstream or ScriptedUpstream()
        self.config = {
            **CONFIG,
            "snapshot_dir": str(directory),
            "snapshot_interval_seconds": 0,
            **config,
        }
        moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
        self.adapter = DgdrRunAdapter(self.upstream, now=lambda: moment)
        self.callbacks = self.adapter.subscribe(
            self.config, context=SimpleNamespace(workload=WORKLOAD)
        )

    def write(self, *selected: SimpleNamespace, **options: Any) -> list[Any]:
        result = result_of(*selected, **options)
        return list(
            self.adapter.write(self.config, result=result, output_dir=self.directory.parent)
        )

    def snapshot(self) -> Snapshot:
        data = read_snapshot(self.directory)
        assert data is not None
        return parse_snapshot(data)

    def end(self) -> None:
        for search in self.adapter._searches.values():
            search.stop()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Search]]:
    searches: list[Search] = []

    def begin(*args: Any, **options: Any) -> Search:
        directory = tmp_path / f"search-{len(searches)}" / "snapshot"
        searches.append(Search(directory, *args, **options))
        return searches[-1]

    yield begin
    for search in searches:
        search.end()


Start = Callable[..., Search]


def tps(snapshot: Snapshot) -> list[Any]:
    return [candidate.parameters["tp"] for candidate in snapshot.candidates]


def test_the_first_snapshot_is_there_before_the_search(start: Start) -> None:
    snapshot = start().snapshot()

    assert (snapshot.run.phase, snapshot.run.terminal) == (Phase.RUNNING, False)
    assert snapshot.candidates == ()


ENDS = {
    "announced": Phase.RUNNING,  # the result is written next
    "announced and written": Phase.SUCCEEDED,
    "written by a process that announces nothing": Phase.SUCCEEDED,
    "failed": Phase.FAILED,
}


@pytest.mark.parametrize("end", ENDS)
def test_a_search_is_the_same_file_in_any_order_of_arrival(start: Start, end: str) -> None:
    best = [record(3, 7.0), record(2, 5.0, gpus=4)]
    records = [record(1, 5.0), *best, record(4, math.nan)]
    files = set()

    for order in itertools.permutations(records):
        search = start(ScriptedUpstream(announces_end="nothing" not in end), max_candidates=2)
        for number, evaluated in enumerate(order):
            search.callbacks.on_candidate(evaluated)
            search.callbacks.on_round(number, order[: number + 1])
        if end.startswith("announced"):
            search.callbacks.on_complete()
        if end == "failed":
            search.callbacks.on_failure(ValueError("out of luck"))
        if "written" in end:
            search.write(*best, evaluated=4)
        search.end()
        files.add((search.directory / SNAPSHOT_FILE).read_bytes())

    (file,) = files
    snapshot = parse_snapshot(file)
    assert tps(snapshot) == [3, 2]
    assert snapshot.progress.evaluated == 4
    assert snapshot.run.phase is ENDS[end]


def test_the_best_are_kept_by_score_then_gpus_then_parameters(start: Start) -> None:
    search = start(max_candidates=3)

    for evaluated in (record(1, 5.0), record(9, 5.0), record(2, 5.0, gpus=4), record(3, -1.0)):
        search.callbacks.on_candidate(evaluated)
    search.callbacks.on_complete()

    snapshot = search.snapshot()
    assert tps(snapshot) == [2, 1, 9]
    assert snapshot.progress.evaluated == 4


def test_points_without_a_finite_score_are_never_published(start: Start) -> None:
    search = start()
    scores = [math.nan, -math.inf, 3.5, math.inf, None, 2.0]

    for tp, score in enumerate(scores):
        search.callbacks.on_candidate(record(tp, score))
    search.callbacks.on_complete()
    live = [candidate.metrics["score"] for candidate in search.snapshot().candidates]
    search.write(*(record(tp, score) for tp, score in enumerate(scores)))
    final = [candidate.metrics["score"] for candidate in search.snapshot().candidates]

    assert live == [3.5, 2.0]
    assert final == [3.5, 2.0]


def test_a_search_of_only_such_points_has_no_feasible_candidate(start: Start) -> None:
    search = start()

    search.callbacks.on_candidate(record(1, math.nan))
    search.callbacks.on_complete()

    run = search.snapshot().run
    assert (run.phase, run.reason) == (Phase.FAILED, "NoFeasibleCandidate")
    assert run.message is not None
    assert run.message.endswith("1 feasible (such as: its score is not a finite number)")


def test_why_there_is_no_feasible_candidate_is_said(start: Start) -> None:
    search = start()

    for tp in (3, 2):
        search.callbacks.on_candidate(record(tp, None, gpus=None, status="infeasible"))
    search.callbacks.on_candidate(record(1, None, status="unsupported", reason_category="backend"))
    search.callbacks.on_complete()

    snapshot = search.snapshot()
    assert snapshot.progress.evaluated == 2  # an unsupported point never ran
    assert snapshot.run.reason == "NoFeasibleCandidate"
    assert snapshot.run.message == (
        "no feasible candidate among 2 evaluated points: "
        "2 sla_constraint (such as: ttft 2 ms > 1 ms), 1 backend (such as: ttft 1 ms > 1 ms)"
    )


def test_the_process_end_reports_a_search_whose_end_nothing_announced(start: Start) -> None:
    upstream = ScriptedUpstream(announces_end=False)
    search = start(upstream)
    search.callbacks.on_candidate(record(3, None, gpus=None, status="infeasible"))
    (live,) = search.adapter._searches.values()
    upstream.has_finished = True

    search.adapter._exit(live)

    assert search.snapshot().run.reason == "NoFeasibleCandidate"


def test_a_process_that_ends_without_a_result_claims_nothing(start: Start) -> None:
    search = start(ScriptedUpstream(announces_end=False))
    search.callbacks.on_candidate(record(3, None, gpus=None, status="infeasible"))
    (live,) = search.adapter._searches.values()

    search.adapter._exit(live)

    snapshot = search.snapshot()
    assert (snapshot.run.phase, snapshot.progress.evaluated) == (Phase.RUNNING, 1)


def test_the_final_order_is_aisimulates_own(start: Start) -> None:
    search = start(max_candidates=2)
    search.callbacks.on_candidate(record(1, 1.0))
    search.callbacks.on_round(4, [record(1, 1.0)])

    artifacts = search.write(record(1, 1.0), record(2, 2.0), record(3, 3.0), evaluated=320)

    snapshot = search.snapshot()
    assert (snapshot.run.phase, snapshot.run.terminal) == (Phase.SUCCEEDED, True)
    assert (snapshot.progress.round, snapshot.progress.evaluated) == (4, 320)
    assert tps(snapshot) == [1, 2]
    assert artifacts == []  # the directory is not the command's output directory


def test_each_manifest_is_rendered_once_under_a_name_of_its_own(start: Start) -> None:
    search = start()
    for number in range(3):
        search.callbacks.on_candidate(record(1, 1.0))
        search.callbacks.on_round(number, [record(1, 1.0)])
    search.callbacks.on_complete()

    search.write(record(1, 1.0))

    (candidate,) = search.snapshot().candidates
    assert search.upstream.rendered == [f"r1-{candidate.id.removeprefix('evaluated-point-')}"]
    assert candidate.manifest == "tp: 1\n"


def test_a_manifest_is_tried_three_times(start: Start) -> None:
    def fail(candidate: SimpleNamespace) -> str:
        if candidate.config["tp"] == 1:
            raise CandidateRenderError("no such strategy: " + "x" * 600)
        return "fine: true\n"

    search = start(ScriptedUpstream(fail))

    search.write(record(1, 2.0), record(2, 1.0))

    bad, good = search.snapshot().candidates
    assert len(search.upstream.rendered) == 4
    assert (bad.outcome, good.outcome) == (Outcome.MATERIALIZATION_FAILED, Outcome.MATERIALIZED)
    assert bad.error is not None
    assert bad.error.startswith("no such strategy: x")
    assert len(bad.error) == 500


def test_a_try_may_succeed_after_a_failure(start: Start) -> None:
    answers = iter([CandidateRenderError("hub answered 503"), None])

    def fail_once(candidate: SimpleNamespace) -> str:
        if (error := next(answers)) is not None:
            raise error
        return "fine: true\n"

    search = start(ScriptedUpstream(fail_once))
    search.callbacks.on_candidate(record(1, 2.0))
    search.callbacks.on_complete()

    assert [candidate.outcome for candidate in search.snapshot().candidates] == ["materialized"]


def test_a_search_without_any_manifest_has_failed(start: Start) -> None:
    def fail(candidate: SimpleNamespace) -> str:
        raise CandidateRenderError("config.json of model m cannot be read")

    search = start(ScriptedUpstream(fail))

    with pytest.raises(RuntimeError, match=r"config\.json of model m cannot be read"):
        search.write(record(1, 2.0))

    run = search.snapshot().run
    assert (run.phase, run.reason) == (Phase.FAILED, "Failed")
    assert run.message == "config.json of model m cannot be read"


def test_an_unavailable_renderer_ends_the_search_and_keeps_what_is_rendered(start: Start) -> None:
    def break_down(candidate: SimpleNamespace) -> str:
        if candidate.config["tp"] == 2:
            raise RuntimeError("DGD renderer 'aic' is unavailable")
        return "fine: true\n"

    search = start(ScriptedUpstream(break_down))
    search.callbacks.on_candidate(record(1, 1.0))
    search.callbacks.on_candidate(record(2, 2.0))

    with pytest.raises(RuntimeError, match="unavailable"):
        search.callbacks.on_complete()
    with pytest.raises(RuntimeError, match="unavailable"):
        search.callbacks.on_candidate(record(3, 3.0))
    search.callbacks.on_failure(ValueError("callback failed"))
    with pytest.raises(RuntimeError, match="unavailable"):
        search.write(record(1, 1.0))

    snapshot = search.snapshot()
    assert snapshot.run.message == "RuntimeError: DGD renderer 'aic' is unavailable"
    assert (snapshot.run.phase, snapshot.run.reason) == (Phase.FAILED, "Failed")
    assert set(tps(snapshot)) <= {1}


def test_a_failed_search_says_how_it_failed(start: Start) -> None:
    search = start()
    search.callbacks.on_candidate(record(1, 1.0))

    search.callbacks.on_failure(ValueError("perf data\n missing " + "x" * 600))

    run = search.snapshot().run
    assert (run.phase, run.reason) == (Phase.FAILED, "Failed")
    assert run.error is not None
    assert run.error.startswith("ValueError: perf data missing x")
    assert len(run.error) == 500
    assert tps(search.snapshot()) == [1]


def test_several_objectives_are_refused(start: Start) -> None:
    search = start()

    with pytest.raises(NotImplementedError, match="must be a single objective"):
        search.write(record(1, 1.0), pareto=("candidate-000001",))

    assert search.snapshot().run.phase is Phase.FAILED


def test_callbacks_do_not_wait_for_a_manifest(start: Start) -> None:
    rendering, may_go_on = threading.Event(), threading.Event()

    def wait(candidate: SimpleNamespace) -> str:
        rendering.set()
        assert may_go_on.wait(30)
        return "fine: true\n"

    search = start(ScriptedUpstream(wait))
    search.callbacks.on_candidate(record(1, 1.0))
    assert rendering.wait(30)

    for tp in range(2, 50):
        search.callbacks.on_candidate(record(tp, float(tp)))
    may_go_on.set()
    search.callbacks.on_complete()

    assert tps(search.snapshot()) == [49, 48, 47, 46, 45]
    assert len(search.upstream.rendered) < 48  # states that were overtaken are not rendered


def test_between_two_snapshots_an_interval_passes(start: Start) -> None:
    search = start(snapshot_interval_seconds=3600)

    search.callbacks.on_candidate(record(1, 1.0))

    assert search.snapshot().progress.evaluated == 0
    search.callbacks.on_complete()
    assert search.snapshot().progress.evaluated == 1


def test_a_snapshot_that_cannot_be_written_is_not_the_end_of_the_search(start: Start) -> None:
    search = start()
    file = search.directory / SNAPSHOT_FILE
    file.unlink()
    file.mkdir()

    search.callbacks.on_candidate(record(1, 1.0))
    search.callbacks.on_complete()
    with pytest.raises(OSError, match="directory"):
        search.write(record(1, 1.0))
    file.rmdir()
    search.write(record(1, 1.0))

    assert tps(search.snapshot()) == [1]


def test_without_a_directory_only_the_result_is_written(tmp_path: Path) -> None:
    adapter = DgdrRunAdapter(ScriptedUpstream())

    assert adapter.subscribe(CONFIG, context=SimpleNamespace(workload=WORKLOAD)) is None
    artifacts = adapter.write(CONFIG, result=result_of(record(1, 1.0)), output_dir=tmp_path)

    assert artifacts == [SNAPSHOT_FILE]
    assert (tmp_path / SNAPSHOT_FILE).is_file()


def test_another_process_carries_the_round_over(start: Start) -> None:
    search = start()
    search.callbacks.on_round(7, [])
    search.callbacks.on_candidate(record(1, 1.0))
    search.end()

    writer = DgdrRunAdapter(ScriptedUpstream())
    result = result_of(record(1, 1.0))
    writer.write(search.config, result=result, output_dir=search.directory)

    assert search.snapshot().progress.round == 7


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"name": "Upper"}, "name"),
        ({"name": None}, "name"),
        ({"extra": 1}, "extra"),
        ({"num_gpus_per_node": 0}, "num_gpus_per_node"),
        ({"max_candidates": 0}, "max_candidates"),
        ({"snapshot_interval_seconds": -1}, "snapshot_interval_seconds"),
        ({"generator": "helm"}, "generator"),
        ({"runtime_image": ""}, "runtime_image"),
    ],
)
def test_a_wrong_configuration_is_refused_before_the_search(
    change: dict[str, Any], problem: str
) -> None:
    adapter = DgdrRunAdapter(ScriptedUpstream())

    with pytest.raises(ValidationError, match=problem):
        adapter.subscribe({**CONFIG, **change})


def test_an_image_that_has_no_siblings_is_refused_before_the_search(tmp_path: Path) -> None:
    adapter = DgdrRunAdapter(ScriptedUpstream())
    config = {
        **CONFIG,
        "runtime_image": "r/dynamo-planner@sha256:" + "0" * 64,
        "derive_runtime_images": True,
        "snapshot_dir": str(tmp_path / "s"),
    }

    with pytest.raises(ValueError, match="dynamo-planner"):
        adapter.subscribe(config, context=SimpleNamespace(workload=WORKLOAD))

    assert not (tmp_path / "s").exists()


def test_sibling_images_are_derived_only_when_asked() -> None:
    planner = {**CONFIG, "runtime_image": "r/dynamo-planner:1.6.0"}

    asked = DgdrRunConfig.model_validate({**planner, "derive_runtime_images": True})
    fixed = DgdrRunConfig.model_validate(planner)

    assert asked.image_for("trtllm") == "r/tensorrtllm-runtime:1.6.0"
    assert fixed.image_for("trtllm") == "r/dynamo-planner:1.6.0"


def test_the_id_is_that_of_the_public_parameters_alone() -> None:
    diagnostics = {"agg": {"systems_paths": ["/here"], "diagnostics": {"warnings": 1}}}
    config = {"tp": 4, "nested": {"a": [1, {"systems_paths": "/x", "b": 2}]}, "none": None}
    here = point_of(record(1, 1.0, config={**config, "forward_pass_estimators": diagnostics}))
    there = point_of(record(1, 2.0, config={**config, "systems_paths": ["/there"]}))

    assert here is not None
    assert there is not None
    canonical = b'{"nested":{"a":[1,{"b":2}]},"tp":4}'
    assert here.id == "evaluated-point-" + hashlib.sha256(canonical).hexdigest()[:12]
    assert there.id == here.id
    assert here.parameters == {"nested": {"a": [1, {"b": 2}]}, "tp": 4}


def test_parameters_do_not_depend_on_the_order_of_keys() -> None:
    assert list(public_parameters({"b": {"d": 1, "c": 2}, "a": 1.5})) == ["a", "b"]


def test_metrics_are_complete_but_for_those_that_time_the_simulator() -> None:
    measured = {
        "mean_ttft_ms": 43.7,
        "power_w": None,
        "odd": math.inf,
        "wall_time_ms": 1.0,
        "processed_tokens_per_s": 1.0,
        "processed_output_tokens_per_s": 1.0,
    }
    point = point_of(record(1, 3, metrics=measured, objectives={"throughput": 3.0}))

    assert point is not None
    assert point.metrics == {
        "score": 3.0,
        "usedGpus": 8,
        "objectives": {"throughput": 3.0},
        "performance": {"mean_ttft_ms": 43.7, "odd": None, "power_w": None},
    }


def test_the_adapter_is_what_aisimulate_asks_for() -> None:
    assert (ADAPTER.name, ADAPTER.api_version) == ("dgdr_run", 1)


def test_the_adapter_loads_little_of_ours_and_nothing_of_upstream() -> None:
    code = (
        "import sys, dynamo_operator.aisimulate.output_adapter\n"
        "print(*sorted(m for m in sys.modules if m.partition('.')[0] in "
        "{'dynamo_operator', 'informers', 'dynamo', 'aisimulate', 'yaml', 'aiohttp', 'msgspec'}))"
    )

    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert loaded.stdout.split() == [
        "dynamo_operator",
        "dynamo_operator.aisimulate",
        "dynamo_operator.aisimulate.evaluated_points",
        "dynamo_operator.aisimulate.output_adapter",
        "dynamo_operator.aisimulate.search_report",
        "dynamo_operator.aisimulate.snapshot",
        "dynamo_operator.images",
    ]
