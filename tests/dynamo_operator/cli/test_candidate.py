"""`candidate list, show, diff`: in process, on an embedded cluster over HTTPS."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
from ruamel.yaml import YAML

from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentCandidate
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.testing.cluster import Cluster
from tests.dynamo_operator.cli.calls import call_to
from tests.dynamo_operator.cli.planted import plant_candidates, plant_search

CANDIDATE = "dynamographdeploymentcandidate.nvidia.com"


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster.start(mode="http", crds=custom_resource_definitions()) as started:
        yield started


async def planted(cluster: Cluster) -> list[DynamoGraphDeploymentCandidate]:
    run = await plant_search(cluster.client)
    # Names do not say the rank: only the Run's status does.
    made = await plant_candidates(cluster.client, run, (100.0, 2, 90.0), (3497.8, 8, 43.7))
    await cluster.client.patch(
        type(run),
        run.key,
        {"status": {"candidateRefs": [{"name": each.key.name} for each in reversed(made)]}},
        subresource="status",
    )
    return [*reversed(made)]


async def test_the_candidates_of_a_search_are_listed_best_first(cluster: Cluster):
    best, second = await planted(cluster)

    table = await call_to(cluster, "candidate", "list", "llama")
    wide = await call_to(cluster, "candidate", "list", "llama", "-o", "wide")
    names = await call_to(cluster, "candidate", "list", "llama", "-o", "name")

    rows = [line.split() for line in table.output.splitlines()]
    assert [row[0] for row in rows] == ["RANK", "1", "2"]
    assert "3498" in rows[1]
    assert best.key.name in wide.output
    assert names.output == f"{CANDIDATE}/{best.key.name}\n{CANDIDATE}/{second.key.name}\n"


async def test_all_candidates_are_listed_as_the_server_shows_them(cluster: Cluster):
    await planted(cluster)

    answer = await call_to(cluster, "candidate", "list", "-A", "-o", "wide")

    assert answer.output.split()[:2] == ["NAMESPACE", "NAME"]
    assert len(answer.output.splitlines()) == 3


async def test_a_candidate_is_shown_by_its_rank(cluster: Cluster):
    best, _ = await planted(cluster)

    by_rank = await call_to(cluster, "candidate", "show", "llama/1")
    by_name = await call_to(cluster, "candidate", "show", best.key.name)
    whole = await call_to(cluster, "candidate", "show", "llama/1", "-o", "yaml")

    assert by_rank == by_name
    facts = dict(line.split(None, 1) for line in by_rank.output.splitlines())
    assert facts["metrics.score"] == "3497.8"
    assert facts["parameters.tp"] == "2"
    assert facts["spec.components[Worker].replicas"] == "2"
    assert YAML(typ="safe", pure=True).load(whole.output)["metadata"]["name"] == best.key.name


async def test_two_candidates_are_compared_in_what_differs_only(cluster: Cluster):
    await planted(cluster)

    table = await call_to(cluster, "candidate", "diff", "llama/2", "llama/1")
    same = await call_to(cluster, "candidate", "diff", "llama/1", "llama/1")
    document = await call_to(cluster, "candidate", "diff", "llama/2", "llama/1", "-o", "json")

    header, *rows = (line.split() for line in table.output.splitlines())
    differences = {row[0]: row[1:] for row in rows}
    assert header == ["OF", "llama/2", "llama/1"]
    assert differences["metrics.usedGpus"] == ["2", "8", "+300.0%"]
    assert differences["metrics.performance.mean_ttft_ms"] == ["90", "43.7", "-51.4%"]
    assert "parameters.backend" not in differences
    assert same.output == "llama/1 and llama/1 are the same\n"
    assert {"path": ["metrics", "usedGpus"], "one": 2, "other": 8} in json.loads(document.output)


async def test_a_candidate_is_deployed_by_its_rank(cluster: Cluster):
    best, _ = await planted(cluster)

    answer = await call_to(cluster, "candidate", "deploy", "llama/1", "--dry-run")

    manifest = json.loads(answer.output)
    assert manifest["metadata"]["annotations"] == {
        "nvidia.com/dgdr-candidate": f"default/{best.key.name}"
    }


@pytest.mark.parametrize(
    ("name", "code", "told"),
    [
        ("llama/3", 1, "llama/3: llama-g1-"),
        ("llama/0", 2, "llama/0: must be NAME/RANK, the best has rank 1"),
        ("llama/best", 2, "llama/best: must be NAME/RANK"),
        ("nobody/1", 1, "nobody: no DynamoGraphDeploymentRun and no DynamoGraphDeploymentRequest"),
        ("nobody", 1, "DynamoGraphDeploymentCandidate nobody: is not there"),
    ],
)
async def test_what_is_not_there_is_told(cluster: Cluster, name: str, code: int, told: str):
    await planted(cluster)

    answer = await call_to(cluster, "candidate", "show", name)

    assert answer.code == code
    assert told in answer.errors
    assert len(answer.errors.splitlines()) == 1
