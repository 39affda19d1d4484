"""What the CRDs alone refuse, on the embedded API server without any webhook."""

import copy
import json
from collections.abc import Mapping
from typing import Any

import pytest

from dynamo_operator.api.v1beta2 import (
    DynamoGraphDeploymentCandidate,
    DynamoGraphDeploymentRequest,
    DynamoGraphDeploymentRun,
)
from dynamo_operator.generate.crds import (
    CLIENT_SIDE_APPLY_LIMIT,
    custom_resource_definition,
    custom_resource_definitions,
)
from dynamo_operator.runtime.client import BadRequestError, InvalidError
from dynamo_operator.testing import Cluster
from tests.builders import COMPLETED_SPEC, MODEL

REQUESTS = DynamoGraphDeploymentRequest.resource_type
RUNS = DynamoGraphDeploymentRun.resource_type
CANDIDATES = DynamoGraphDeploymentCandidate.resource_type

CANDIDATE_SPEC = {
    "backendFramework": "vllm",
    "components": [{"name": "Frontend", "podTemplate": {"spec": {"a": {"b": 1}}}}],
    "parameters": {"tensor": 4, "nested": {"deep": {"x": 1}}, "unset": None},
}


def plain(resource_type, spec, name="a"):
    return {
        "apiVersion": resource_type.api_version,
        "kind": resource_type.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


async def create(cluster, resource_type, spec, name="a"):
    """POST plain JSON: the models would refuse some of it themselves."""
    path = f"/apis/{resource_type.api_version}/namespaces/default/{resource_type.plural}"
    body = json.dumps(plain(resource_type, spec, name)).encode()
    query = [("fieldValidation", "Strict")]
    response = await cluster.client.request("POST", path, body=body, query=query)
    return json.loads(response.body)


def cluster():
    crds: list[Mapping[str, Any]] = [*custom_resource_definitions()]
    return Cluster.start(crds=crds)


def spec_with(**sections):
    return {"model": {"name": MODEL}, **sections}


def load(**kinds):
    return spec_with(workload={"static": {"load": kinds}})


def sla(**bounds):
    return spec_with(objective={"sla": bounds})


def trace(path="a/b.jsonl", **more):
    return spec_with(
        workload={"trace": {"source": {"pvc": {"claimName": "c", "path": path}}, **more}}
    )


GOOD = {
    "a model alone": spec_with(),
    "everything that admission fills in": COMPLETED_SPEC,
    "the opt-out": spec_with(workload={"static": {}}),
    "an empty workload": spec_with(workload={}),
    "several backends": spec_with(backends=["trtllm", "vllm", "sglang"]),
    "a request rate": load(requestsPerSecond=20.5),
    "a KV fraction": load(kvCapacityFraction={"value": 1.5}),
    "a KV range": load(kvCapacityFraction={"range": {"min": 0.1, "max": 1.0}}),
    "a KV range of one point": load(kvCapacityFraction={"range": {"min": 0.5, "max": 0.5}}),
    "an integral float": load(requestsPerSecond=10.0),
    "a trace": trace(),
    "a trace whose name has dots": trace(path="..a/b..c/d"),
    "a trace at double speed": trace(replay={"arrivalSpeedupRatio": 2}),
    "a trace of fixed concurrency": trace(format="dynamo", replay={"concurrency": 3}),
    "token bounds": sla(ttftMs=200, itlMs=20.5),
    "an end-to-end bound": sla(e2eMs=2000),
    "goodput with a bound": spec_with(objective={"metric": "goodput", "sla": {"ttftMs": 1}}),
    "goodput with the bound among the overrides": spec_with(
        objective={"metric": "goodput"},
        aisimulate={"inputOverrides": {"evaluation": {"sla": {"ttft_ms": 1}}}},
    ),
    "a budget": spec_with(
        search={
            "budget": {
                "maxEvaluations": 1,
                "parallelEvaluations": 2,
                "maxEvaluationDuration": "1h30m",
            }
        }
    ),
    "overrides of any content": spec_with(
        aisimulate={"inputOverrides": {"a": None, "b": {"c": None, "d": [1, {"e": None}]}}}
    ),
    "a rerun": spec_with(rerun={"reason": "again"}),
    "the longest texts and the largest numbers": {
        "model": {"name": "m" * 512},
        "recommendation": {"maxCandidates": 100},
        "rerun": {"reason": "r" * 256},
    },
}

BAD = {
    "no model": ({}, "spec.model"),
    "an empty model name": ({"model": {"name": ""}}, "spec.model.name"),
    "a model name of 513": ({"model": {"name": "m" * 513}}, "spec.model.name"),
    "a model as text": ({"model": "Org/M-8B"}, "spec.model"),
    "no backend": (spec_with(backends=[]), "spec.backends"),
    "an unknown backend": (
        spec_with(backends=["vllm", "VLLM", "tensorrt-llm"]),
        "spec.backends[1]",
    ),
    "a backend twice": (spec_with(backends=["vllm", "vllm"]), "spec.backends[1]"),
    "an unknown sku": (spec_with(hardware={"gpu": {"sku": "h200"}}), "spec.hardware.gpu.sku"),
    "no budget at all": (spec_with(hardware={"gpu": {"budget": 0}}), "spec.hardware.gpu.budget"),
    "half a GPU": (spec_with(hardware={"gpu": {"budget": 1.5}}), "spec.hardware.gpu.budget"),
    "negative tokens": (
        spec_with(workload={"static": {"inputTokens": -1}}),
        "spec.workload.static.inputTokens",
    ),
    "no output": (
        spec_with(workload={"static": {"outputTokens": 0}}),
        "spec.workload.static.outputTokens",
    ),
    "two workloads": (
        spec_with(workload={"static": {}, **trace()["workload"]}),
        "at most one of static and trace may be set",
    ),
    "no load in load": (load(), "exactly one of requestsPerSecond, concurrency"),
    "two loads": (load(concurrency=1, requestsPerSecond=2), "exactly one of requestsPerSecond"),
    "three loads": (
        load(concurrency=1, requestsPerSecond=2, kvCapacityFraction={"value": 1}),
        "exactly one of requestsPerSecond",
    ),
    "a rate of nothing": (load(requestsPerSecond=0), "spec.workload.static.load.requestsPerSecond"),
    "a negative concurrency": (load(concurrency=-3), "spec.workload.static.load.concurrency"),
    "two fractions": (
        load(kvCapacityFraction={"value": 1, "range": {"min": 1, "max": 2}}),
        "exactly one of value and range",
    ),
    "no fraction": (load(kvCapacityFraction={}), "exactly one of value and range"),
    "a range from zero": (
        load(kvCapacityFraction={"range": {"min": 0, "max": 2}}),
        "spec.workload.static.load.kvCapacityFraction.range.min",
    ),
    "a range upside down": (
        load(kvCapacityFraction={"range": {"min": 2, "max": 1}}),
        "max must be at least min",
    ),
    "half a range": (
        load(kvCapacityFraction={"range": {"min": 2}}),
        "spec.workload.static.load.kvCapacityFraction.range.max",
    ),
    "an absolute trace path": (trace(path="/etc/passwd"), "path must be relative"),
    "a trace path that climbs": (trace(path="a/../../b"), "path must be relative"),
    "a trace path that is a climb": (trace(path=".."), "path must be relative"),
    "an unknown trace format": (trace(format="csv"), "spec.workload.trace.format"),
    "a replay of two kinds": (
        trace(replay={"concurrency": 1, "arrivalSpeedupRatio": 1}),
        "at most one of arrivalSpeedupRatio and concurrency",
    ),
    "a standstill": (
        trace(replay={"arrivalSpeedupRatio": 0}),
        "spec.workload.trace.replay.arrivalSpeedupRatio",
    ),
    "a mode that does not exist": (spec_with(objective={"mode": "pareto"}), "spec.objective.mode"),
    "a metric that does not exist": (
        spec_with(objective={"metric": "speed"}),
        "spec.objective.metric",
    ),
    "an sla of nothing": (sla(), "at least one of ttftMs, itlMs and e2eMs"),
    "e2e beside ttft": (sla(e2eMs=1, ttftMs=1), "e2eMs excludes ttftMs and itlMs"),
    "a bound with its unit": (sla(ttftMs="800ms"), "spec.objective.sla.ttftMs"),
    "a bound as text": (sla(itlMs="40"), "spec.objective.sla.itlMs"),
    "a bound of zero": (sla(ttftMs=0), "spec.objective.sla.ttftMs"),
    "goodput without a bound": (
        spec_with(objective={"metric": "goodput"}),
        "a goodput metric needs objective.sla",
    ),
    "goodput per GPU without a bound": (
        spec_with(objective={"metric": "goodputPerGpu"}, rerun={"reason": "x"}),
        "a goodput metric needs objective.sla",
    ),
    "no evaluation": (
        spec_with(search={"budget": {"maxEvaluations": 0}}),
        "spec.search.budget.maxEvaluations",
    ),
    "a duration without a unit": (
        spec_with(search={"budget": {"maxEvaluationDuration": "90"}}),
        "spec.search.budget.maxEvaluationDuration",
    ),
    "a duration of nothing": (
        spec_with(search={"budget": {"maxEvaluationDuration": "0s"}}),
        "must be longer than zero",
    ),
    "too many candidates": (
        spec_with(recommendation={"maxCandidates": 101}),
        "spec.recommendation.maxCandidates",
    ),
    "overrides that are no object": (
        spec_with(aisimulate={"inputOverrides": [1]}),
        "spec.aisimulate.inputOverrides",
    ),
    "no candidate": (
        spec_with(recommendation={"maxCandidates": 0}),
        "spec.recommendation.maxCandidates",
    ),
    "no evaluation at a time": (
        spec_with(search={"budget": {"parallelEvaluations": 0}}),
        "spec.search.budget.parallelEvaluations",
    ),
    "a fraction of nothing": (
        load(kvCapacityFraction={"value": 0}),
        "spec.workload.static.load.kvCapacityFraction.value",
    ),
    "a replay of nothing": (
        trace(replay={"concurrency": 0}),
        "spec.workload.trace.replay.concurrency",
    ),
    "a trace from no claim": (
        spec_with(workload={"trace": {"source": {"pvc": {"path": "p"}}}}),
        "spec.workload.trace.source.pvc.claimName",
    ),
    "a rerun without a reason": (spec_with(rerun={"reason": ""}), "spec.rerun.reason"),
    "a reason of 257": (spec_with(rerun={"reason": "r" * 257}), "spec.rerun.reason"),
}


@pytest.mark.parametrize("spec", GOOD.values(), ids=GOOD.keys())
@pytest.mark.virtual_time
async def test_the_schema_takes_a_request(spec):
    async with cluster() as it:
        made = await create(it, REQUESTS, spec)

        assert DynamoGraphDeploymentRequest.model_validate(made).to_dict()["spec"] == made["spec"]
        assert made["spec"] == spec


@pytest.mark.parametrize("resource_type", [REQUESTS, RUNS], ids=lambda it: it.kind)
@pytest.mark.parametrize(("spec", "told"), BAD.values(), ids=BAD.keys())
@pytest.mark.virtual_time
async def test_the_schema_alone_refuses(spec, told, resource_type):
    async with cluster() as it:
        with pytest.raises(InvalidError) as error:
            await create(it, resource_type, spec)

        assert told in str(error.value)


@pytest.mark.virtual_time
async def test_strict_validation_lists_every_field_of_older_versions():
    spec = {"model": {"name": "m"}, "backend": "vllm", "autoApply": True, "sla": {"ttft": 200}}
    async with cluster() as it:
        with pytest.raises(BadRequestError) as error:
            await create(it, REQUESTS, spec)

        for name in ("backend", "autoApply", "sla"):
            assert f'unknown field "spec.{name}"' in str(error.value)


@pytest.mark.parametrize("resource_type", [REQUESTS, RUNS], ids=lambda it: it.kind)
@pytest.mark.virtual_time
async def test_no_field_names_an_image_or_a_version(resource_type):
    chosen = {"image": "mine:1", "versionOverride": "9.9.9", "parameters": {"a": 1}}
    async with cluster() as it:
        with pytest.raises(BadRequestError) as error:
            await create(it, resource_type, spec_with(image="mine:1", aisimulate=chosen))

        for name in ("image", *(f"aisimulate.{field}" for field in chosen)):
            assert f'unknown field "spec.{name}"' in str(error.value)


@pytest.mark.virtual_time
async def test_no_default_comes_from_the_schema():
    async with cluster() as it:
        made = await create(it, REQUESTS, spec_with(workload={"static": {}}, hardware={}))

        assert made["spec"] == spec_with(workload={"static": {}}, hardware={})


def _without(spec, *path):
    changed = copy.deepcopy(spec)
    node = changed
    for key in path[:-1]:
        node = node[key]
    del node[path[-1]]
    return changed


def _with(spec, value, *path):
    changed = copy.deepcopy(spec)
    node = changed
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    return changed


RUN_SPEC = {**COMPLETED_SPEC, "aisimulate": {"inputOverrides": {"a": {"b": {"c": 1}}, "n": None}}}
OVERRIDES = ("aisimulate", "inputOverrides")
RUN_CHANGES = {
    "an optional field appears": _with(RUN_SPEC, {"reason": "x"}, "rerun"),
    "an optional field goes": _without(RUN_SPEC, "objective"),
    "a value changes": _with(RUN_SPEC, 9, "hardware", "gpu", "budget"),
    "an override is renamed": _with(_without(RUN_SPEC, *OVERRIDES, "a"), 1, *OVERRIDES, "z"),
    "an override is renamed at depth": _with(
        _without(RUN_SPEC, *OVERRIDES, "a", "b"), {"c": 1}, *OVERRIDES, "a", "z"
    ),
    "a null goes": _without(RUN_SPEC, *OVERRIDES, "n"),
    "a null becomes a value": _with(RUN_SPEC, 1, *OVERRIDES, "n"),
    "a value becomes null": _with(RUN_SPEC, None, *OVERRIDES, "a"),
    "the overrides go": _without(RUN_SPEC, "aisimulate"),
    "a union member is swapped": _with(
        RUN_SPEC, {"requestsPerSecond": 10}, "workload", "static", "load"
    ),
}
CANDIDATE_CHANGES = {
    "a key appears": _with(CANDIDATE_SPEC, 1, "new"),
    "a key goes": _without(CANDIDATE_SPEC, "backendFramework"),
    "a key is renamed": _with(
        _without(CANDIDATE_SPEC, "backendFramework"), "vllm", "backendframework"
    ),
    "a parameter is renamed": _with(
        _without(CANDIDATE_SPEC, "parameters", "tensor"), 4, "parameters", "pipeline"
    ),
    "a parameter is renamed at depth": _with(
        _without(CANDIDATE_SPEC, "parameters", "nested", "deep"),
        {"x": 1},
        "parameters",
        "nested",
        "y",
    ),
    "values are swapped": _with(
        _with(CANDIDATE_SPEC, {"deep": {"x": 1}}, "parameters", "tensor"), 4, "parameters", "nested"
    ),
    "a null goes": _without(CANDIDATE_SPEC, "parameters", "unset"),
    "a list is longer": _with(CANDIDATE_SPEC, [{"name": "a"}, {"name": "b"}], "components"),
}


@pytest.mark.parametrize(
    ("resource_type", "before", "after"),
    [
        *((RUNS, RUN_SPEC, after) for after in RUN_CHANGES.values()),
        *((CANDIDATES, CANDIDATE_SPEC, after) for after in CANDIDATE_CHANGES.values()),
    ],
    ids=[
        *(f"Run: {name}" for name in RUN_CHANGES),
        *(f"Candidate: {n}" for n in CANDIDATE_CHANGES),
    ],
)
@pytest.mark.virtual_time
async def test_a_spec_cannot_change(resource_type, before, after):
    async with cluster() as it:
        made = await create(it, resource_type, before)
        path = f"/apis/{resource_type.api_version}/namespaces/default/{resource_type.plural}/a"
        with pytest.raises(InvalidError, match="spec is immutable"):
            await it.client.request("PUT", path, body=json.dumps({**made, "spec": after}).encode())

        unchanged = {**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}}
        await it.client.request("PUT", path, body=json.dumps(unchanged).encode())


@pytest.mark.parametrize("crd", custom_resource_definitions(), ids=lambda c: c["metadata"]["name"])
def test_a_crd_fits_plain_kubectl_apply(crd):
    assert len(json.dumps(crd)) < CLIENT_SIDE_APPLY_LIMIT


@pytest.mark.parametrize("crd", custom_resource_definitions(), ids=lambda c: c["metadata"]["name"])
def test_a_crd_holds_no_default(crd):
    def keys(node):
        if isinstance(node, dict):
            for key, value in node.items():
                yield key
                yield from keys(value)
        elif isinstance(node, list):
            for item in node:
                yield from keys(item)

    assert "default" not in set(keys(crd))


@pytest.mark.parametrize(
    ("kind", "short", "columns", "wide"),
    [
        (
            DynamoGraphDeploymentRequest,
            "dgdr",
            ["Model", "Phase", "Active Run", "Best", "Accepted", "Age"],
            ["Reason", "Best Candidate"],
        ),
        (
            DynamoGraphDeploymentRun,
            "dgdrrun",
            ["Phase", "Completed", "Candidates", "Evaluated", "Age"],
            ["Reason", "Message"],
        ),
        (
            DynamoGraphDeploymentCandidate,
            "dgdc",
            ["Score", "GPUs", "Backend", "Evaluated", "Age"],
            ["Mode", "Tokens/s", "TTFT ms", "Run"],
        ),
    ],
)
def test_kubectl_shows_the_kind(kind, short, columns, wide):
    spec = custom_resource_definition(kind)["spec"]
    version = spec["versions"][0]

    assert spec["names"]["shortNames"] == [short]
    assert spec["names"]["categories"] == ["dynamo"]
    shown = version["additionalPrinterColumns"]
    assert [column["name"] for column in shown if "priority" not in column] == columns
    assert [column["name"] for column in shown if column.get("priority") == 1] == wide
    assert version["subresources"] == {"status": {}}


def test_a_free_form_object_does_not_hide_renamed_keys_and_keeps_nulls():
    schema = custom_resource_definition(DynamoGraphDeploymentCandidate)["spec"]["versions"][0]
    spec = schema["schema"]["openAPIV3Schema"]["properties"]["spec"]

    assert spec["additionalProperties"] == {
        "nullable": True,
        "x-kubernetes-preserve-unknown-fields": True,
    }
    assert "x-kubernetes-preserve-unknown-fields" not in spec
