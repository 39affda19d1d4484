"""The output adapter inside the real `aisimulate recommend`, compared with its own results."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from dynamo_operator.aisimulate.evaluated_points import public_parameters
from dynamo_operator.aisimulate.snapshot import (
    Outcome,
    Phase,
    Snapshot,
    SnapshotCandidate,
    load_documents,
    parse_snapshot,
    read_snapshot,
)
from dynamo_operator.images import BACKEND_REPOSITORIES
from dynamo_operator.planner.environment import PlannerEnvironment
from dynamo_operator.planner.install import install
from dynamo_operator.publisher.observe import report_of

pytestmark = [pytest.mark.planner, pytest.mark.timeout(600)]

BUDGET = 8
MAX_CANDIDATES = 4
INPUT: dict[str, Any] = {
    "traffic": {
        "source": {"type": "synthetic", "input_tokens": 1024, "output_tokens": 128},
        "load": {"type": "concurrency", "concurrency": 10},
        "stop": {"requests": 100},
    },
    "engine": {
        "mode": {"choices": ["aggregated", "disaggregated"]},
        "model": "meta-llama/Meta-Llama-3.1-8B",
        "hardware": "h200_sxm",
        "backend": "vllm",
        "workers": {
            role: {"kv_cache": {"block_size": 64}} for role in ("aggregated", "prefill", "decode")
        },
    },
    "optimization": {
        "target": "throughput",
        "constraints": {"max_candidate_gpus": BUDGET},
    },
    "optimizer": {"max_trials": 6, "parallelism": 2, "algorithm": "random"},
    "dgdr_run": {
        "name": "r5ad3b1",
        "runtime_image": "registry.test/dynamo-planner:1.6.0",
        "derive_runtime_images": True,
        "num_gpus_per_node": 8,
        "max_candidates": MAX_CANDIDATES,
    },
}
TIMES_THE_SIMULATOR = {"wall_time_ms", "processed_tokens_per_s", "processed_output_tokens_per_s"}

# Lets Dynamo's own `dgd` adapter write the manifest of each candidate, as if it were the best.
RENDER_EACH = """
import json, pathlib, sys
from aisimulate.sweeper.result import SweepResult
from dynamo.aisimulate.output.dgd import create_adapter
root = pathlib.Path(sys.argv[1])
result = SweepResult.from_json((root / "recommendation.json").read_text())
config = {"name": "any", "output_file": "dgd.yaml", "num_gpus_per_node": 8,
          "runtime_image": "registry.test/vllm-runtime:1.6.0"}
manifests = []
for id in result.views.top_n:
    only = result.model_copy(update={"views": result.views.model_copy(update={"top_n": [id]})})
    target = root / "dgd" / id
    target.mkdir(parents=True)
    create_adapter().write(config, result=only, output_dir=target)
    manifests.append((target / "dgd.yaml").read_text())
print(json.dumps(manifests))
"""


@dataclass(frozen=True)
class Run:
    """A finished `aisimulate recommend`."""

    exit_code: int
    errors: str
    output: Path
    snapshot: Snapshot

    @property
    def recommendation(self) -> dict[str, Any]:
        """AISimulate's own account."""
        text = (self.output / "recommendation.json").read_text()
        return dict(json.loads(text))

    @property
    def ranked(self) -> list[dict[str, Any]]:
        """AISimulate's candidates in its final order."""
        account = self.recommendation
        by_id = {candidate["candidate_id"]: candidate for candidate in account["candidates"]}
        return [by_id[id_] for id_ in account["views"]["top_n"]]


def environment(planner: PlannerEnvironment, home: Path) -> dict[str, str]:
    return {
        "PATH": f"{planner.executables}:{os.environ['PATH']}",
        "HOME": str(home),
        **planner.variables,
        **planner.offline_variables(),
    }


def recommend(planner: PlannerEnvironment, home: Path, document: Mapping[str, Any]) -> Run:
    snapshot_dir = home / "snapshot"
    section = {**document["dgdr_run"], "snapshot_dir": str(snapshot_dir)}
    config = home / "input.yaml"
    config.write_text(json.dumps({**document, "dgdr_run": section}))
    output = home / "output"
    command = f"recommend --stack dynamo --config {config} --output dgdr_run --output-dir {output}"
    done = subprocess.run(
        [str(planner.executables / "aisimulate"), *command.split(), "--overwrite"],
        env=environment(planner, home),
        capture_output=True,
        text=True,
        check=False,
    )
    data = read_snapshot(snapshot_dir)
    assert data is not None, done.stderr
    return Run(done.returncode, done.stderr, output, parse_snapshot(data))


@pytest.fixture(scope="module")
def planner() -> PlannerEnvironment:
    return install(os.environ)


@pytest.fixture(scope="module")
def run(planner: PlannerEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return recommend(planner, tmp_path_factory.mktemp("search"), INPUT)


def test_the_search_succeeds(run: Run) -> None:
    assert run.exit_code == 0, run.errors
    assert (run.snapshot.run.phase, run.snapshot.run.terminal) == (Phase.SUCCEEDED, True)
    assert run.snapshot.progress.evaluated == run.recommendation["counts"]["evaluated"]
    assert len(run.snapshot.candidates) == MAX_CANDIDATES
    assert {c.outcome for c in run.snapshot.candidates} == {Outcome.MATERIALIZED}


def test_the_order_is_aisimulates_final_order(run: Run) -> None:
    published = [candidate.parameters for candidate in run.snapshot.candidates]

    assert published == [public_parameters(c["config"]) for c in run.ranked[:MAX_CANDIDATES]]


def test_the_numbers_are_aisimulates(run: Run) -> None:
    for published, real in zip(run.snapshot.candidates, run.ranked, strict=False):
        metrics = {k: v for k, v in real["metrics"].items() if k not in TIMES_THE_SIMULATOR}
        assert published.metrics == {
            "score": real["score"],
            "usedGpus": real["used_gpus"],
            "performance": metrics,
        }
        assert published.metrics["score"] == metrics["output_throughput_tok_s"]
        assert 0 < real["used_gpus"] <= BUDGET


def test_nothing_of_the_machine_is_published(run: Run, planner: PlannerEnvironment) -> None:
    text = json.dumps([c.model_dump(mode="json") for c in run.snapshot.candidates])

    assert str(planner.path.parent) not in text
    assert "site-packages" not in text


def test_each_manifest_is_what_dynamos_own_adapter_renders(
    run: Run, planner: PlannerEnvironment, tmp_path: Path
) -> None:
    rendered = subprocess.run(
        [str(planner.python), "-c", RENDER_EACH, str(run.output)],
        env=environment(planner, tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )

    manifests = json.loads(rendered.stdout.splitlines()[-1])
    for published, theirs in zip(run.snapshot.candidates, manifests, strict=False):
        ours = manifest_of(published)
        name = ours["metadata"].pop("name")
        (expected,) = load_documents(theirs.encode())
        assert isinstance(expected, dict)
        expected["metadata"] = {}
        assert name == f"r5ad3b1-{published.id.removeprefix('evaluated-point-')}"
        assert ours == expected


def test_the_publisher_takes_the_snapshot(run: Run) -> None:
    report = report_of(run.snapshot)

    assert [result.id for result in report.results] == [c.id for c in run.snapshot.candidates]


def test_the_same_seed_gives_the_same_candidates(
    run: Run, planner: PlannerEnvironment, tmp_path: Path
) -> None:
    section = {**INPUT["dgdr_run"], "snapshot_interval_seconds": 0}

    again = recommend(planner, tmp_path, {**INPUT, "dgdr_run": section})

    assert again.snapshot.candidates == run.snapshot.candidates


def test_each_backend_and_mode_is_published_with_its_own_image(
    planner: PlannerEnvironment, tmp_path: Path
) -> None:
    """Another target, and points enough for each pair of a backend and a mode to be among them."""
    document = {
        **INPUT,
        "engine": {**INPUT["engine"], "backend": {"choices": [*BACKEND_REPOSITORIES]}},
        "traffic": {**INPUT["traffic"], "stop": {"requests": 20}},
        "evaluation": {"sla": {"ttft_ms": 100_000}},
        "optimization": {**INPUT["optimization"], "target": "goodput_per_gpu"},
        "optimizer": {**INPUT["optimizer"], "max_trials": 12, "seed": 7},
        "dgdr_run": {**INPUT["dgdr_run"], "max_candidates": 12},
    }

    search = recommend(planner, tmp_path, document)

    assert search.exit_code == 0, search.errors
    assert [each.parameters for each in search.snapshot.candidates] == [
        public_parameters(candidate["config"]) for candidate in search.ranked
    ]
    assert len(report_of(search.snapshot).results) == 12
    found = set()
    for candidate in search.snapshot.candidates:
        components = manifest_of(candidate)["spec"]["components"]
        types = {component["type"] for component in components}
        (image,) = {
            container["image"]
            for component in components
            for container in component["podTemplate"]["spec"]["containers"]
        }
        found.add((image, "disaggregated" if {"prefill", "decode"} <= types else "aggregated"))
    images = [f"registry.test/{name}:1.6.0" for name in BACKEND_REPOSITORIES.values()]
    assert found == {*product(images, ("aggregated", "disaggregated"))}


def test_a_search_that_finds_nothing_says_why(planner: PlannerEnvironment, tmp_path: Path) -> None:
    document = {
        **INPUT,
        "evaluation": {"sla": {"ttft_ms": 0.001}},
        "optimization": {**INPUT["optimization"], "strict_sla": True},
        "optimizer": {**INPUT["optimizer"], "max_trials": 2},
    }

    none = recommend(planner, tmp_path, document)

    state = none.snapshot.run
    assert none.exit_code == 1
    assert (state.phase, state.reason) == (Phase.FAILED, "NoFeasibleCandidate")
    assert state.message is not None
    assert "2 sla_constraint (such as: strict aggregate SLA violation" in state.message
    assert none.snapshot.candidates == ()


def manifest_of(candidate: SnapshotCandidate) -> dict[str, Any]:
    (document,) = load_documents((candidate.manifest or "").encode())
    assert isinstance(document, dict)
    return document
