"""What the real AISimulate finds, and what becomes of it: every object, every number."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dynamo_operator.aisimulate.document import dump_document, load_document
from dynamo_operator.api.conditions import find_condition
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentCandidate, DynamoGraphDeploymentRun
from dynamo_operator.images import sibling_image
from informers.objects import controller_ref
from tests.main_job.real_search import BUDGET, MODEL, RealSearch, Search

pytestmark = [pytest.mark.planner, pytest.mark.timeout(600)]

TIMES_THE_SIMULATOR = {"wall_time_ms", "processed_tokens_per_s", "processed_output_tokens_per_s"}
SHARED_BY_ADAPTERS = ("name", "namespace", "runtime_version_override", "num_gpus_per_node")


# --- the numbers ----------------------------------------------------------------------------------


def test_at_least_three_candidates_are_published_in_aisimulates_order(real_search: RealSearch):
    search = real_search.first
    scores = [metrics_of(candidate)["score"] for candidate in search.candidates]

    assert len(search.candidates) >= 3
    assert scores == [real["score"] for real in search.ranked[: len(scores)]]
    assert scores == sorted(scores, reverse=True)
    assert len(search.candidates) == min(5, len(search.ranked))


def test_every_number_is_aisimulates_own(real_search: RealSearch):
    for candidate, real in zip(
        real_search.first.candidates, real_search.first.ranked, strict=False
    ):
        measured = {k: v for k, v in real["metrics"].items() if k not in TIMES_THE_SIMULATOR}
        assert metrics_of(candidate) == {
            "score": real["score"],
            "usedGpus": real["used_gpus"],
            "performance": measured,
        }
        assert metrics_of(candidate)["score"] == measured["output_throughput_tok_s"]


def test_no_candidate_exceeds_the_budget(real_search: RealSearch):
    for candidate in real_search.first.candidates:
        used = metrics_of(candidate)["usedGpus"]
        assert 0 < used <= BUDGET
        assert gpus_of(candidate.spec) == used


def test_each_spec_is_what_dynamos_own_adapter_renders(real_search: RealSearch, tmp_path: Path):
    search = real_search.first
    theirs = dynamo_renders(search, real_search, tmp_path)

    for candidate, text in zip(search.candidates, theirs, strict=False):
        spec = dict(candidate.spec)
        spec.pop("parameters")
        assert spec == load_document(text)["spec"]


def test_the_same_seed_publishes_the_same_candidates(real_search: RealSearch):
    first, second = real_search.first, real_search.second

    assert second.run.uid != first.run.uid
    assert [id_of(candidate) for candidate in second.candidates] == [
        id_of(candidate) for candidate in first.candidates
    ]
    assert [candidate.spec for candidate in second.candidates] == [
        candidate.spec for candidate in first.candidates
    ]
    assert [metrics_of(candidate) for candidate in second.candidates] == [
        metrics_of(candidate) for candidate in first.candidates
    ]


# --- the objects ----------------------------------------------------------------------------------


def test_the_request_becomes_a_run_with_the_completed_spec(real_search: RealSearch):
    run, request = real_search.first.run, real_search.submitted

    assert run.spec.to_dict() == {
        **request.spec.to_dict(),
        "backends": ["vllm"],
        "workload": {
            "static": {"inputTokens": 1024, "outputTokens": 128, "load": {"concurrency": 10}}
        },
        "objective": {"mode": "optimize", "metric": "throughput"},
        "recommendation": {"maxCandidates": 5},
    }
    assert run.key.name == f"llama-g1-{request.uid.replace('-', '')[:6]}"
    assert run.labels["nvidia.com/dgdr-request-uid"] == request.uid
    assert run.labels["nvidia.com/dgdr-request-generation"] == "1"
    assert owner_uid(run) == request.uid


def test_the_request_is_never_written_beside_its_status(real_search: RealSearch):
    assert real_search.request.spec == real_search.submitted.spec
    assert real_search.request.generation == 1


def test_the_run_says_what_aisimulate_was_given(real_search: RealSearch):
    run, config_map = real_search.first.run, real_search.first.config_map
    document = input_of(run)

    assert config_map.data["input.yaml"] == dump_document(document)
    assert load_document(config_map.data["input.yaml"]) == document
    assert document["traffic"] == {
        "source": {"type": "synthetic", "input_tokens": 1024, "output_tokens": 128},
        "load": {"type": "concurrency", "concurrency": 10},
        "stop": {"requests": 1000},
    }
    assert document["engine"]["model"] == MODEL
    assert document["dgdr_run"]["name"] == f"r{run.uid.replace('-', '')[:6]}"
    assert config_map.immutable is True
    assert owner_uid(config_map) == run.uid
    assert run.status.execution_snapshot is not None
    assert run.status.execution_snapshot.uid == config_map.uid


def test_one_job_runs_the_two_containers(real_search: RealSearch):
    search = real_search.first
    planner, publisher = search.job.spec["template"]["spec"]["containers"]

    assert owner_uid(search.job) == search.run.uid
    assert search.run.status.job_ref is not None
    assert search.run.status.job_ref.uid == search.job.uid
    assert search.job.spec["backoffLimit"] == 0
    assert " ".join(planner["command"]) == (
        "aisimulate recommend --stack dynamo --config /etc/aisimulate/input.yaml "
        "--output dgdr_run --output-dir /var/run/aisimulate/output --overwrite"
    )
    assert publisher["command"][0] == "/dgdr-run-publisher"
    statuses = {each["name"]: each["state"] for each in search.pod.status["containerStatuses"]}
    assert {name: state["terminated"]["exitCode"] for name, state in statuses.items()} == {
        "planner": 0,
        "publisher": 0,
    }


def test_each_generation_has_one_run_and_one_job(real_search: RealSearch):
    created = real_search.created

    assert (created["dynamographdeploymentruns"], created["jobs"]) == (2, 2)
    assert created["configmaps"] == 2


def test_each_candidate_belongs_to_its_run(real_search: RealSearch):
    run = real_search.first.run

    for candidate in real_search.first.candidates:
        (reference,) = candidate.metadata.owner_references
        evaluated = find_condition(candidate.status.conditions, "Evaluated")
        assert candidate.labels["nvidia.com/dgdr-run-uid"] == run.uid
        assert candidate.key.name == f"{run.key.name}-{id_of(candidate)}"
        assert (reference.uid, reference.controller) == (run.uid, True)
        assert not reference.block_owner_deletion
        assert evaluated is not None
        assert (evaluated.status, evaluated.reason) == ("True", "Evaluated")
        assert candidate.spec["parameters"]["backend"] == "vllm"


def test_the_run_tells_how_it_went(real_search: RealSearch):
    run = real_search.first.run
    completed = find_condition(run.status.conditions, "Completed")

    assert run.status.phase == "Succeeded"
    assert completed is not None
    assert (completed.status, completed.reason) == ("True", "Succeeded")
    assert completed.observed_generation == run.generation
    assert moment(run.status.start_time) < moment(run.status.completion_time)
    assert run.status.progress is not None
    assert run.status.progress.published == len(real_search.first.candidates)
    assert run.status.progress.evaluated >= len(real_search.first.ranked)


def test_the_request_mirrors_its_run(real_search: RealSearch):
    request, run = real_search.request, real_search.first.run
    best = real_search.first.candidates[0]
    completed = find_condition(request.status.conditions, "Completed")
    accepted = find_condition(request.status.conditions, "Accepted")

    assert request.status.observed_generation == 1
    assert request.status.phase == "Succeeded"
    assert completed is not None
    assert (completed.status, completed.reason) == ("True", "Succeeded")
    assert accepted is not None
    assert (accepted.status, accepted.reason) == ("True", "RunCreated")
    assert request.status.active_run_ref is not None
    assert request.status.active_run_ref.name == run.key.name
    assert request.status.best is not None
    assert request.status.best.candidate == best.key.name
    assert request.status.best.score == metrics_of(best)["score"]


def dynamo_renders(search: Search, real_search: RealSearch, home: Path) -> list[str]:
    """The manifests of Dynamo's `dgd` adapter, given the same result and options."""
    section = input_of(search.run)["dgdr_run"]
    config = {name: section[name] for name in SHARED_BY_ADAPTERS if name in section}
    config["runtime_image"] = sibling_image(section["runtime_image"], "vllm")
    planner = real_search.planner
    program = Path(__file__).with_name("render_each.py")
    rendered = subprocess.run(
        [planner.python, program, search.recommendation, json.dumps(config)],
        env={"HOME": str(home), **planner.variables, **planner.offline_variables()},
        capture_output=True,
        text=True,
        check=True,
    )
    manifests: list[str] = json.loads(rendered.stdout.splitlines()[-1])
    return manifests


def gpus_of(spec: dict[str, Any]) -> int:
    """The GPUs that a deployment's components ask for."""
    total = 0
    for component in spec["components"]:
        for container in component["podTemplate"]["spec"]["containers"]:
            limits = container.get("resources", {}).get("limits", {})
            total += component["replicas"] * int(limits.get("nvidia.com/gpu", 0))
    return total


def id_of(candidate: DynamoGraphDeploymentCandidate) -> str:
    """The candidate's id."""
    return candidate.labels["nvidia.com/dgdr-candidate-id"]


def metrics_of(candidate: DynamoGraphDeploymentCandidate) -> dict[str, Any]:
    """What was measured of a candidate."""
    assert candidate.status.metrics is not None
    return candidate.status.metrics


def input_of(run: DynamoGraphDeploymentRun) -> dict[str, Any]:
    """The effective document."""
    assert run.status.aisimulate is not None
    assert run.status.aisimulate.input is not None
    return run.status.aisimulate.input


def owner_uid(obj: Any) -> str:
    """The UID of the controller owner."""
    reference = controller_ref(obj)
    assert reference is not None
    return reference.uid


def moment(text: str | None) -> datetime:
    """A time as the API writes it."""
    assert text is not None
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
