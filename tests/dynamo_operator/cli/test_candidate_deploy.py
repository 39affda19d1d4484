"""`candidate deploy`: a deployment whose Pods can be named, or nothing is made."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dynamo_operator.api.v1beta1 import DynamoGraphDeployment
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentCandidate as Candidate
from dynamo_operator.cli.errors import CliError
from dynamo_operator.cli.graph_crds import GRAPH_CRDS
from dynamo_operator.cli.graph_manifest import check_graph, default_name, graph_manifest
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.testing.cluster import Cluster
from tests.dynamo_operator.cli.test_commands import command

NAME = "model-3.5-235b-disaggregated-g12-evaluated-point-8f2a0ab8"
FRONTEND = {"name": "Frontend", "type": "frontend"}


def component(name: str, *, nodes: int = 1) -> dict[str, Any]:
    return {
        "name": name,
        "type": "worker",
        "multinode": {"nodeCount": nodes} if nodes > 1 else None,
    }


def candidate(*components: dict[str, Any], **spec: Any) -> Candidate:
    made = Candidate.new(
        NAME,
        spec={
            "components": [
                {name: value for name, value in each.items() if value is not None}
                for each in (FRONTEND, *components)
            ],
            "providerOverride": {"kept": None},
            "parameters": {"tp": 4},
            **spec,
        },
    )
    made.metadata.uid = "4f1c2a00-0000-4000-8000-000000000001"
    return made


def pod_names_fit(manifest: dict[str, Any]) -> bool:
    """Whether graph, scaling group and clique have at most 45 characters together."""
    parts = [
        [each["name"]] + ([f"{each['name']}-wkr"] if "multinode" in each else [])
        for each in manifest["spec"]["components"]
    ]
    name = manifest["metadata"]["name"]
    return all(len(name) + sum(map(len, part)) <= 45 for part in parts)


def test_a_candidate_becomes_a_deployment_without_its_parameters():
    made = candidate(component("worker"))

    manifest = graph_manifest(made, name="mine")

    assert manifest["metadata"]["name"] == "mine"
    assert set(manifest["spec"]) == {"components", "providerOverride"}
    assert manifest["spec"] == {k: v for k, v in made.spec.items() if k != "parameters"}


@pytest.mark.parametrize(
    "components",
    [
        [component("worker")],
        [component("TensorDecodeWorker"), component("TensorPrefillWorker")],
        [component("prefill", nodes=2), component("decode", nodes=4)],
        [component("a" * 38)],
        [component("a" * 17, nodes=2)],
    ],
    ids=["short", "long", "several nodes", "one long", "longest over several nodes"],
)
def test_the_name_is_as_short_as_the_components_need_and_always_the_same(components):
    made = candidate(*components)

    manifest = graph_manifest(made, name=default_name(made))

    check_graph(manifest)
    assert pod_names_fit(manifest)
    assert default_name(made) == manifest["metadata"]["name"]
    assert len(manifest["metadata"]["name"]) >= 6


def test_what_can_never_be_named_is_refused_with_sum_and_limit():
    made = candidate(
        component("TensorDecodeWorker", nodes=2), component("TensorPrefillWorker", nodes=2)
    )

    with pytest.raises(CliError) as refused:
        check_graph(graph_manifest(made, name=default_name(made)))

    assert "component TensorPrefillWorker: 6 + 42 = 48 characters" in str(refused.value)
    assert "at most 45, so --name may have 3" in str(refused.value)
    check_graph(graph_manifest(made, name="abc"))


@pytest.mark.parametrize("name", ["", "-a", "a-", "A", "a.b", "ä", "a\nb", "1a", "../x"])
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(CliError, match="must be letters a to z"):
        check_graph(graph_manifest(candidate(component("worker")), name=name))


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        ({"components": []}, "spec.components"),
        ({"components": [{"name": "a b"}]}, "spec.components.0.name"),
        ({"components": [{"name": "a"}, {"name": "A"}]}, "occurs twice"),
        ({"backendFramework": "onnx"}, "spec.backendFramework"),
    ],
)
def test_what_is_no_deployment_is_refused_with_its_place(spec, where):
    with pytest.raises(CliError) as refused:
        check_graph(graph_manifest(candidate(**spec), name="mine"))

    assert where in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    crds = [*custom_resource_definitions(), *GRAPH_CRDS]
    async with Cluster.start(mode="http", crds=crds) as cluster:
        yield cluster


async def test_the_command_creates_once_and_writes_nothing_otherwise(cluster: Cluster):
    made = candidate(component("worker"))
    await cluster.client.create(Candidate.new(NAME, spec=made.spec))
    await cluster.client.create(
        Candidate.new("long", spec=candidate(component("a" * 40, nodes=2)).spec)
    )
    flags = ("--kubeconfig", str(cluster.kubeconfig()))

    async def deploy(*words: str) -> tuple[int, str, str]:
        return await command("candidate", "deploy", *words, *flags)

    shown = await deploy(NAME, "--dry-run")
    refused = await deploy("long")
    missing = await deploy("nobody")
    before = await cluster.client.list(DynamoGraphDeployment)
    first = await deploy(NAME)
    again = await deploy(NAME)
    (graph,) = await cluster.client.list(DynamoGraphDeployment)

    assert before == []
    assert (refused[0], "no name is short enough" in refused[2]) == (2, True)
    assert (missing[0], "nobody: is not there" in missing[2]) == (1, True)
    assert (first[0], first[1]) == (
        0,
        f"dynamographdeployments.nvidia.com/{graph.key.name} created\n",
    )
    assert (again[0], "exists already" in again[2]) == (1, True)
    assert json.loads(shown[1])["metadata"]["name"] == graph.key.name
    stored = graph.to_dict()
    assert stored["spec"]["components"] == made.spec["components"]
    assert "parameters" not in stored["spec"]
    assert stored["metadata"]["annotations"] == {"nvidia.com/dgdr-candidate": f"default/{NAME}"}
