"""`request init, validate, explain, submit, get`: in process, on an embedded cluster over HTTPS."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from dynamo_operator.api.v1beta2 import (
    DynamoGraphDeploymentRequest,
    DynamoGraphDeploymentRun,
    SearchSpec,
)
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.testing.cluster import Cluster
from informers.objects import ObjectKey
from tests.dynamo_operator.cli.calls import call, call_to
from tests.reconcilers.search import SPEC, plant_run

SAMPLES = Path(__file__).parents[3] / "manifests" / "samples"
REQUEST = "dynamographdeploymentrequest.nvidia.com"


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster.start(mode="http", crds=custom_resource_definitions()) as started:
        yield started


def manifest(name: str = "llama", **spec: Any) -> str:
    return json.dumps(
        {
            "apiVersion": "nvidia.com/v1beta2",
            "kind": "DynamoGraphDeploymentRequest",
            "metadata": {"name": name},
            "spec": {**SPEC, **spec},
        }
    )


def uncommented(sample: str) -> str:
    """The sample with everything in it that does not exclude something else."""
    lines = [
        line.replace("# ", "", 1) if line.startswith("  # ") and ": " in f"{line} " else line
        for line in sample.splitlines()
        if not line.rstrip().endswith(".")
    ]
    return "\n".join(lines)


def schema_paths(schema: dict[str, Any], prefix: str = "") -> set[str]:
    """The last names of all fields of a schema."""
    names: set[str] = set()
    for name, each in schema.get("properties", {}).items():
        names |= {name, *schema_paths(each)}
    return names


async def test_a_sample_is_valid_as_it_is_printed():
    code, sample, _ = await call("request", "init", "meta-llama/Meta-Llama-3.1-8B")

    answer = await call("request", "validate", "-f", "-", typed=sample)

    assert code == 0
    assert answer.code == 0
    assert answer.output == f"{REQUEST}/meta-llama-3-1-8b is valid\n"


async def test_a_sample_is_valid_with_its_comments_taken_away():
    _, sample, _ = await call("request", "init", "Org/M-8B", "--sku=h200_sxm", "--budget=8")
    text = uncommented(sample)
    spec = YAML(typ="safe", pure=True).load(text)["spec"]

    answer = await call("request", "validate", "-f", "-", typed=text)

    assert {*spec} == {*SearchSpec.model_fields}
    assert answer == (0, f"{REQUEST}/m-8b is valid\n", "")


async def test_a_sample_tells_every_field_that_a_request_has():
    _, sample, _ = await call("request", "init", "Org/M-8B")
    (crd,) = [
        each
        for each in custom_resource_definitions()
        if each["spec"]["names"]["kind"] == "DynamoGraphDeploymentRequest"
    ]
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]

    assert [name for name in sorted(schema_paths(schema)) if f"{name}:" not in sample] == []


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("meta-llama/Meta-Llama-3.1-8B", "meta-llama-3-1-8b"),
        ("Org/" + "Long" * 40, ("long" * 40)[:63]),
        ("Org/-", "search"),
        ("Org/\x1b[31m: #'\"x", "31m-x"),
    ],
    ids=["usual", "long", "no letter", "hostile"],
)
async def test_a_sample_has_a_name_and_a_model_that_can_be_read_back(model: str, name: str):
    _, sample, _ = await call("request", "init", model)
    read = YAML(typ="safe", pure=True).load(sample)

    assert read["metadata"]["name"] == name
    assert read["spec"] == {"model": {"name": model}}


@pytest.mark.parametrize("sample", sorted(path.name for path in SAMPLES.glob("*.yaml")))
async def test_our_samples_of_requests_are_valid(sample: str):
    if sample == "pool_relay.yaml":
        answer = await call("request", "validate", "-f", str(SAMPLES / sample))
        assert answer.code == 2
        assert "only nvidia.com/v1beta2 DynamoGraphDeploymentRequest" in answer.errors
        return
    answer = await call("request", "validate", "-f", str(SAMPLES / sample))

    assert answer.code == 0, answer


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"hardware": {"gpu": {"budget": 0}}}, "spec.hardware.gpu.budget"),
        ({"backends": ["vlm"]}, 'supported values: "vllm"'),
        ({"modle": {}}, 'unknown field "spec.modle"'),
        ({"objective": {"metric": "goodput"}}, "a goodput metric needs objective.sla"),
        (
            {"aisimulate": {"inputOverrides": {"dgdr_run": {"name": "x"}}}},
            "spec.aisimulate.inputOverrides.dgdr_run.name: is set by the operator",
        ),
        (
            {"aisimulate": {"inputOverrides": {"engine": {"hardwear": "x"}}}},
            "effective input engine.hardwear (override, spec.aisimulate.inputOverrides",
        ),
    ],
    ids=["schema", "enum", "unknown", "rule", "protected", "effective input"],
)
async def test_what_a_cluster_would_refuse_is_refused_without_one(spec: dict[str, Any], told: str):
    answer = await call("request", "validate", "-f", "-", typed=manifest(**spec))

    assert answer.code == 2
    assert answer.output.startswith(f"{REQUEST}/llama is refused: ")
    assert told in answer.output
    assert len(answer.output.splitlines()) == 1


async def test_every_request_of_a_file_is_judged():
    both = f"{manifest('bad', backends=[])}\n---\n{manifest('good')}"

    answer = await call("request", "validate", "-f", "-", typed=both)

    first, second = answer.output.splitlines()
    assert answer.code == 2
    assert first.startswith(f"{REQUEST}/bad is refused")
    assert second == f"{REQUEST}/good is valid"


async def test_hardware_that_is_left_to_discovery_is_said_to_be_assumed():
    typed = manifest(hardware={"gpu": {"budget": 4}})

    answer = await call("request", "validate", "-f", "-", "--sku=l40s", typed=typed)

    assert answer.code == 0
    assert answer.errors == (
        "note: llama: spec.hardware.gpu.sku: discovered in a cluster; here taken to be --sku l40s\n"
    )


async def test_each_value_of_the_effective_input_is_told_with_its_origin():
    overrides = {"optimizer": {"max_trials": 6}, "engine": {"context_length": 4096}}
    typed = manifest(
        hardware={"gpu": {"budget": 4}},
        objective={"sla": {"ttftMs": 300}},
        aisimulate={"inputOverrides": overrides},
    )

    answer = await call("request", "explain", "-f", "-", "-o", "json", typed=typed)
    told = {".".join(each.pop("path")): each for each in json.loads(answer.output)["values"]}

    assert told["engine.workers.prefill.kv_cache.block_size"]["origin"] == "static underlay"
    assert told["engine.model"] == {
        "value": SPEC["model"]["name"],
        "origin": "typed",
        "field": "spec.model.name",
    }
    assert told["engine.backend"]["filled"] == "default"
    assert told["engine.hardware"]["filled"] == "discovered"
    assert told["optimization.strict_sla"] == {"value": True, "origin": "derived"}
    assert told["optimizer.max_trials"] == {
        "value": 6,
        "origin": "override",
        "field": "spec.aisimulate.inputOverrides.optimizer.max_trials",
    }
    assert told["dgdr_run.runtime_image"] == {"origin": "operator"}


async def test_the_explained_yaml_is_the_effective_input_itself():
    odd = {"x: y": {"k" * 200: {"deep": [1, {"a": "#"}]}, "line\nbreak": "# no comment"}}
    typed = manifest(aisimulate={"inputOverrides": {"router": odd}})

    text = (await call("request", "explain", "-f", "-", "-o", "yaml", typed=typed)).output
    as_json = (await call("request", "explain", "-f", "-", "-o", "json", typed=typed)).output

    assert YAML(typ="safe", pure=True).load(text) == json.loads(as_json)["effectiveInput"]
    assert "# dgdr_run.name: operator, for each Run" in text


async def test_the_table_of_values_cannot_steer_a_terminal():
    odd = {"\x1b[2J": "\x1b]0;x\x07"}
    typed = manifest(aisimulate={"inputOverrides": {"router": odd}})

    answer = await call("request", "explain", "-f", "-", typed=typed)

    assert answer.code == 0
    assert "\x1b" not in answer.output


async def test_a_run_of_the_cluster_is_explained_by_what_its_job_reads(cluster: Cluster):
    run = await plant_run(cluster.client)
    document = {
        "engine": {"model": "Org/M"},
        "dgdr_run": {"name": "r123456", "max_candidates": 5},
    }
    run = run.model_copy(deep=True)
    await cluster.client.patch(
        DynamoGraphDeploymentRun,
        run.key,
        {"status": {"aisimulate": {"input": document}}},
        subresource="status",
    )
    await cluster.client.patch(
        DynamoGraphDeploymentRequest,
        ObjectKey("default", "llama"),
        {"status": {"activeRunRef": {"name": run.key.name}}},
        subresource="status",
    )

    by_request = await call_to(cluster, "request", "explain", "llama", "-o", "json")
    by_run = await call_to(cluster, "request", "explain", run.key.name, "-o", "json")

    assert by_request == by_run
    told = {".".join(each.pop("path")): each for each in json.loads(by_run.output)["values"]}
    assert told["dgdr_run.name"] == {"value": "r123456", "origin": "operator"}
    assert told["dgdr_run.max_candidates"]["origin"] == "typed"
    assert told["engine.model"]["field"] == "spec.model.name"


async def test_a_request_that_waits_for_its_hardware_is_not_explained(cluster: Cluster):
    await call_to(
        cluster, "request", "submit", "-f", "-", typed=manifest(hardware={"gpu": {"budget": 4}})
    )

    answer = await call_to(cluster, "request", "explain", "llama")

    assert answer.code == 1
    assert "spec.hardware.gpu.sku: not known before there is a Run" in answer.errors


@pytest.mark.parametrize("words", [[], ["llama", "-f", "-"]], ids=["nothing", "both"])
async def test_either_a_name_or_a_file_is_explained(words: list[str]):
    answer = await call("request", "explain", *words)

    assert answer.code == 2
    assert answer.errors == "dynamo-operator: explain: name a Request or Run, or a file with -f\n"


async def test_a_dry_run_of_submit_stores_nothing(cluster: Cluster):
    answer = await call_to(cluster, "request", "submit", "-f", "-", "--dry-run", typed=manifest())
    refused = await call_to(
        cluster, "request", "submit", "-f", "-", "--dry-run", typed=manifest(backends=[])
    )

    assert answer == (0, f"{REQUEST}/llama created (dry run)\n", "")
    assert refused.code == 1
    assert await cluster.client.list(DynamoGraphDeploymentRequest) == []


async def test_requests_are_listed_as_the_server_shows_them(cluster: Cluster):
    await call_to(cluster, "request", "submit", "-f", "-", typed=manifest())

    table = await call_to(cluster, "request", "get")
    wide = await call_to(cluster, "request", "get", "-A", "-o", "wide")
    name = await call_to(cluster, "request", "get", "-o", "name")
    whole = await call_to(cluster, "request", "get", "llama", "-o", "yaml")
    listed = await call_to(cluster, "request", "get", "-o", "json")

    assert table.output.split()[:4] == ["NAME", "MODEL", "PHASE", "ACTIVE"]
    assert wide.output.split()[0] == "NAMESPACE"
    assert "BEST CANDIDATE" in wide.output
    assert name.output == f"{REQUEST}/llama\n"
    assert YAML(typ="safe", pure=True).load(whole.output)["spec"] == SPEC
    assert [each["metadata"]["name"] for each in json.loads(listed.output)["items"]] == ["llama"]


async def test_a_name_that_is_not_there_is_told(cluster: Cluster):
    for words in (["request", "get", "nobody"], ["request", "get", "nobody", "-o", "name"]):
        answer = await call_to(cluster, *words)

        assert answer.code == 1
        assert answer.errors == (
            "dynamo-operator: DynamoGraphDeploymentRequest nobody: is not there;"
            " `kubectl get dynamographdeploymentrequests` lists those that are\n"
        )

    explained = await call_to(cluster, "request", "explain", "nobody")

    assert "no DynamoGraphDeploymentRun and no DynamoGraphDeploymentRequest" in explained.errors


async def test_an_empty_list_says_so(cluster: Cluster):
    assert (await call_to(cluster, "request", "get")).output == "none found\n"
