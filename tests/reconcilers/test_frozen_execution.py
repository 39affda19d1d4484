"""The frozen ConfigMap: recorded before anything else, read for ever after, never rebuilt."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRun
from dynamo_operator.runtime.builtin_kinds import ConfigMap, Job, Secret
from dynamo_operator.runtime.client.errors import InvalidError
from dynamo_operator.testing.cluster import Cluster
from informers.objects import ObjectKey
from reconcilers.run.execution import digest
from tests.reconcilers.conftest import OPERATOR_IMAGE, Operator
from tests.reconcilers.faults import Answering, client_through, is_write, refusal
from tests.reconcilers.search import (
    NAMESPACE,
    collect,
    completed,
    completed_with,
    creations,
    is_going,
    patch_status,
    plant_run,
    run_that,
    start_search,
    submit,
    the_job,
    the_run,
    writes,
)

pytestmark = pytest.mark.virtual_time

Run = DynamoGraphDeploymentRun
OTHER_IMAGE = "registry.lab/other-planner:1.2.3"


async def test_it_is_recorded_right_after_its_creation_and_before_anything_else(
    cluster: Cluster, operator: Operator
):
    async with operator():
        await submit(cluster.client)
        await the_job(cluster)

    made = [w for w in writes(cluster) if "requests" not in w and "events" not in w]
    after = [" ".join(w.split()[:2]) for w in made[made.index(_first(made, "configmaps")) :]]
    assert after[:6] == [
        "create configmaps",
        "patch dynamographdeploymentruns",
        "create serviceaccounts",
        "create roles",
        "create rolebindings",
        "create jobs",
    ]


async def test_it_cannot_be_changed(cluster: Cluster, operator: Operator):
    async with operator():
        await submit(cluster.client)
        await the_job(cluster)
        (config_map,) = await cluster.client.list(ConfigMap, namespace=NAMESPACE)

    with pytest.raises(InvalidError, match="immutable"):
        await cluster.client.patch(ConfigMap, config_map.key, {"data": {"input.yaml": "a: 1\n"}})


@pytest.mark.parametrize(
    "then",
    [
        pytest.param("gone", id="missing"),
        pytest.param("again", id="another-uid"),
        pytest.param("sha", id="another-hash"),
    ],
)
async def test_one_that_is_not_what_was_recorded_ends_the_run_and_is_not_rebuilt(
    cluster: Cluster, operator: Operator, then: str
):
    async with operator():
        job, pod = await start_search(cluster)
        (config_map,) = await cluster.client.list(ConfigMap, namespace=NAMESPACE)
        run = await the_run(cluster.client)
        if then == "sha":
            snapshot = {"executionSnapshot": {"sha256": "0" * 64}}
            await patch_status(cluster.client, Run, run.key, snapshot)
        else:
            await cluster.client.delete(ConfigMap, config_map.key)
        if then == "again":
            same = ConfigMap.new(
                config_map.key.name,
                namespace=NAMESPACE,
                labels=config_map.labels,
                data=config_map.data,
                immutable=True,
            )
            await cluster.client.create(same, owner=run)
        await cluster.eventually(lambda: is_going(cluster.client, job))
        assert completed_with("InvalidExecution", status="False")(await the_run(cluster.client))
        await collect(cluster.client, job, pod)
        run = await run_that(cluster, completed_with("InvalidExecution"))

    condition = completed(run)
    assert condition is not None
    assert f"ConfigMap {config_map.key}" in condition.message
    assert creations(cluster, "configmaps") == (2 if then == "again" else 1)
    assert creations(cluster, "jobs") == 1


@pytest.mark.parametrize(
    ("execution", "text"),
    [
        ('{"schemaVersion": 2}', "schemaVersion 2 is not 1"),
        ('{"schemaVersion": 1}', "cannot be read"),
        ("[]", "cannot be read"),
        ("{", "cannot be read"),
        (None, "has no key execution.json"),
    ],
    ids=["unknown-version", "incomplete", "list", "no-json", "no-key"],
)
async def test_one_that_this_operator_cannot_read_ends_the_run(
    cluster: Cluster, operator: Operator, execution: str | None, text: str
):
    run = await plant_run(cluster.client)
    data = {"input.yaml": "engine: {}\n"}
    if execution is not None:
        data["execution.json"] = execution
    config_map = await cluster.client.create(
        ConfigMap.new("frozen", namespace=NAMESPACE, data=data, immutable=True), owner=run
    )
    snapshot = {"name": "frozen", "uid": config_map.uid, "sha256": digest(data)}
    await patch_status(cluster.client, Run, run.key, {"executionSnapshot": snapshot})

    async with operator():
        run = await run_that(cluster, completed_with("InvalidExecution"))

    condition = completed(run)
    assert condition is not None
    assert text in condition.message
    assert creations(cluster, "jobs") == 0


async def test_other_settings_after_a_restart_do_not_change_a_frozen_run(
    cluster: Cluster, operator: Operator
):
    def refuse(request: Any) -> Any:
        if request.method == "POST" and is_write(request, "jobs"):
            return refusal(403, "Forbidden", "exceeded quota")
        return None

    client = client_through(cluster, lambda inner: Answering(inner, refuse))
    async with operator(client=client):
        await submit(cluster.client)
        frozen = await run_that(cluster, lambda r: r.status.execution_message == "exceeded quota")

    async with operator(
        dgdr_default_image=OTHER_IMAGE, run_deadline_seconds=60, fallback_gpus_per_node=2
    ):
        job = await the_job(cluster)
        run = await run_that(cluster, lambda r: r.status.job_ref)

    planner = job.spec["template"]["spec"]["containers"][0]
    assert planner["image"] != OTHER_IMAGE
    assert "activeDeadlineSeconds" not in job.spec
    assert run.status.execution_snapshot == frozen.status.execution_snapshot
    assert run.status.aisimulate == frozen.status.aisimulate


@pytest.mark.parametrize("is_changed", [False, True], ids=["same-settings", "other-settings"])
async def test_an_unrecorded_one_is_adopted_only_if_equal(
    cluster: Cluster, operator: Operator, is_changed: bool
):
    def refuse(request: Any) -> Any:
        if is_write(request, Run.resource_type.plural) and request.path.endswith("/status"):
            return refusal(500, "InternalError", "try again")
        return None

    client = client_through(cluster, lambda inner: Answering(inner, refuse))
    async with operator(client=client):
        await submit(cluster.client)
        await cluster.eventually(
            lambda: cluster.client.list(ConfigMap, namespace=NAMESPACE), timeout=10
        )
    (config_map,) = await cluster.client.list(ConfigMap, namespace=NAMESPACE)

    async with operator(**({"dgdr_default_image": OTHER_IMAGE} if is_changed else {})):
        if is_changed:
            await run_that(cluster, completed_with("OwnershipConflict"))
        else:
            await the_job(cluster)
        await asyncio.sleep(1)

    run = await the_run(cluster.client)
    snapshot = run.status.execution_snapshot
    assert (snapshot.uid if snapshot else None) == (None if is_changed else config_map.uid)
    assert creations(cluster, "configmaps") == 1
    assert len(await cluster.client.list(Job, namespace=NAMESPACE)) == (0 if is_changed else 1)


@pytest.mark.parametrize(
    "forged",
    [{"immutable": False}, {"binary_data": {"more": "AA=="}}],
    ids=["mutable", "binary-data"],
)
async def test_a_forged_one_with_the_right_data_is_not_adopted(
    cluster: Cluster, operator: Operator, forged: dict[str, Any]
):
    def refuse(request: Any) -> Any:
        if request.method == "POST" and is_write(request, "configmaps"):
            wanted.append(json.loads(request.body or b"{}"))
            asked.set()
            return refusal(500, "InternalError", "try again")
        return None

    wanted: list[dict[str, Any]] = []
    asked = asyncio.Event()
    run = await plant_run(cluster.client)
    async with operator(client=client_through(cluster, lambda inner: Answering(inner, refuse))):
        await asked.wait()
    planted = ConfigMap.model_validate({**wanted[0], **forged})
    planted.metadata.owner_references = []
    await cluster.client.create(planted, owner=run)

    async with operator():
        await run_that(cluster, completed_with("OwnershipConflict"))

    assert creations(cluster, "jobs") == 0


async def test_it_holds_what_the_settings_say_when_the_run_begins(
    cluster: Cluster, operator: Operator
):
    await cluster.client.create(Secret.new("registry", namespace=NAMESPACE))
    async with operator(
        dgdr_default_image="registry.lab/planner:0f1e2d3",
        runtime_image_source="registry.lab/dynamo-planner:1.4.0",
        image_pull_secrets=("registry",),
        planner={"node_selector": {"pool": "cpu"}, "cache_pvc": "models"},
        run_deadline_seconds=7200,
    ):
        await submit(cluster.client)
        await the_job(cluster)
    (config_map,) = await cluster.client.list(ConfigMap, namespace=NAMESPACE)

    execution = json.loads(config_map.data["execution.json"])
    settings = execution.pop("plannerSettings")
    assert (settings["nodeSelector"], settings["cachePvc"]) == ({"pool": "cpu"}, "models")
    assert settings["envFromSecret"] == "hf-token-secret"
    assert execution.pop("publisherSettings").keys() == {"resources"}
    assert execution == {
        "schemaVersion": 1,
        "planner": {"image": "registry.lab/planner:0f1e2d3", "pullPolicy": "IfNotPresent"},
        "publisher": {"image": OPERATOR_IMAGE, "pullPolicy": "IfNotPresent"},
        "runtimeImageSource": "registry.lab/dynamo-planner:1.4.0",
        "dynamoVersion": "1.4.0",
        "gpusPerNode": 8,
        "snapshotPath": "/var/run/aisimulate/snapshot",
        "imagePullSecrets": ["registry"],
        "podSecurity": {"runAsUser": 1000},
        "runDeadlineSeconds": 7200,
    }


async def test_pull_secrets_are_frozen_too(cluster: Cluster, operator: Operator):
    async with operator():
        await submit(cluster.client)
        await the_job(cluster)

    async with operator(image_pull_secrets=("not-there",)):
        await asyncio.sleep(60)

    run = await the_run(cluster.client)
    assert completed_with("Pending", status="False")(run)
    name = run.status.execution_snapshot.name if run.status.execution_snapshot else ""
    frozen = await cluster.client.get(ConfigMap, ObjectKey(NAMESPACE, name))
    assert '"imagePullSecrets": []' in frozen.data["execution.json"]


def _first(made: list[str], resource: str) -> str:
    return next(write for write in made if resource in write)
