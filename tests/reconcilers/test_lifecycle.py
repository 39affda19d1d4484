"""The whole life of a search, both controllers together, with the test in the cluster's place."""

from __future__ import annotations

import asyncio
import json

import pytest
from ruamel.yaml import YAML

from dynamo_operator.aisimulate.document import dump_document
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRun
from dynamo_operator.runtime.builtin_kinds import ConfigMap, Job
from dynamo_operator.testing.cluster import Cluster
from informers.objects import ObjectKey, controller_ref
from tests.builders import exited
from tests.reconcilers.conftest import OPERATOR_IMAGE, Operator
from tests.reconcilers.search import (
    NAMESPACE,
    accepted_with,
    change,
    collect,
    completed_with,
    end_job,
    request_that,
    runs,
    set_containers,
    start_pod,
    submit,
    the_job,
    the_run,
    writes,
)

pytestmark = pytest.mark.virtual_time


async def test_a_model_only_request_becomes_one_completed_run(cluster: Cluster, operator: Operator):
    async with operator():
        request = await submit(cluster.client)
        job = await the_job(cluster)
        request = await request_that(cluster, accepted_with("RunCreated"))

    run = await the_run(cluster.client)
    assert run.key.name == f"llama-g1-{request.uid.replace('-', '')[:6]}"
    assert request.status.active_run_ref is not None
    assert request.status.active_run_ref.name == run.key.name
    assert run.spec.to_dict() == {
        "model": {"name": "meta-llama/Meta-Llama-3.1-8B"},
        "backends": ["vllm"],
        "hardware": {"gpu": {"sku": "h200_sxm", "budget": 8}},
        "workload": {
            "static": {"inputTokens": 1024, "outputTokens": 128, "load": {"concurrency": 10}}
        },
        "objective": {"mode": "optimize", "metric": "throughput"},
        "recommendation": {"maxCandidates": 5},
    }
    owner = controller_ref(run)
    assert owner is not None
    assert owner.uid == request.uid
    owner = controller_ref(job)
    assert owner is not None
    assert owner.uid == run.uid


async def test_the_job_runs_exactly_what_status_says(cluster: Cluster, operator: Operator):
    async with operator():
        await submit(cluster.client)
        job = await the_job(cluster)
        run = await cluster.eventually(
            lambda: the_run(cluster.client), lambda found: found.status.job_ref
        )

    recorded = run.status.execution_snapshot
    assert recorded is not None
    frozen = await cluster.client.get(ConfigMap, ObjectKey(NAMESPACE, recorded.name))
    assert run.status.aisimulate is not None
    document = run.status.aisimulate.input
    assert document is not None
    assert frozen.immutable
    assert frozen.uid == recorded.uid
    assert YAML(typ="safe", pure=True).load(frozen.data["input.yaml"]) == document
    assert dump_document(document) == frozen.data["input.yaml"]
    assert document["traffic"] == {
        "source": {"type": "synthetic", "input_tokens": 1024, "output_tokens": 128},
        "load": {"type": "concurrency", "concurrency": 10},
        "stop": {"requests": 1000},
    }
    execution = json.loads(frozen.data["execution.json"])
    assert execution["schemaVersion"] == 1
    assert execution["gpusPerNode"] == 8
    assert document["dgdr_run"]["num_gpus_per_node"] == 8

    pod_spec = job.spec["template"]["spec"]
    planner, publisher = pod_spec["containers"]
    assert (planner["name"], publisher["name"]) == ("planner", "publisher")
    assert planner["command"] == [
        "aisimulate",
        "recommend",
        "--stack",
        "dynamo",
        "--config",
        "/etc/aisimulate/input.yaml",
        "--output",
        "dgdr_run",
        "--output-dir",
        "/var/run/aisimulate/output",
        "--overwrite",
    ]
    assert publisher["image"] == OPERATOR_IMAGE
    assert publisher["command"][0] == "/dgdr-run-publisher"
    assert job.spec["backoffLimit"] == 0
    assert pod_spec["automountServiceAccountToken"] is False
    credentials = {
        container["name"]: [m["name"] for m in container["volumeMounts"]]
        for container in pod_spec["containers"]
    }
    assert "credentials" in credentials["publisher"]
    assert "credentials" not in credentials["planner"]


async def test_a_search_that_ends_well_is_told_on_run_and_request(
    cluster: Cluster, operator: Operator
):
    async with operator():
        await submit(cluster.client)
        job = await the_job(cluster)
        pod = await start_pod(cluster.client, job)
        await cluster.eventually(
            lambda: the_run(cluster.client), completed_with("Running", status="False")
        )
        await set_containers(cluster.client, pod, planner=exited(0), publisher=exited(0))
        await end_job(cluster.client, job, "Complete")
        run = await cluster.eventually(lambda: the_run(cluster.client), completed_with("Succeeded"))
        await request_that(cluster, completed_with("Succeeded"))

    assert run.status.phase == "Succeeded"
    assert run.status.start_time == "2026-11-30T12:00:00Z"
    assert run.status.completion_time == "2026-11-30T12:00:30Z"


async def test_a_finished_search_costs_no_write(cluster: Cluster, operator: Operator):
    async with operator():
        await submit(cluster.client)
        job = await the_job(cluster)
        pod = await start_pod(cluster.client, job)
        await set_containers(cluster.client, pod, planner=exited(0), publisher=exited(0))
        await end_job(cluster.client, job, "Complete")
        await request_that(cluster, completed_with("Succeeded"))
    before = len(writes(cluster))
    for _ in range(3):  # a restarted operator looks at everything anew
        async with operator():
            await asyncio.sleep(900)

    assert writes(cluster)[before:] == []


async def test_a_new_generation_supersedes_the_running_one(cluster: Cluster, operator: Operator):
    async with operator():
        await submit(cluster.client)
        first_job = await the_job(cluster)
        pod = await start_pod(cluster.client, first_job)
        await cluster.eventually(
            lambda: the_run(cluster.client), completed_with("Running", status="False")
        )
        await change(cluster.client, rerun={"reason": "again"})
        await cluster.eventually(
            lambda: cluster.client.find(Job, first_job.key),
            lambda job: job is None or job.is_deleting,
        )
        assert len(await runs(cluster.client)) == 1
        await collect(cluster.client, first_job, pod)
        first, second = await cluster.eventually(
            lambda: runs(cluster.client), lambda found: len(found) == 2
        )
        await cluster.eventually(
            lambda: cluster.client.list(Job, namespace=NAMESPACE),
            lambda jobs: jobs and jobs[0].uid != first_job.uid,
        )

    assert completed_with("Superseded")(first)
    assert first.status.phase == "Failed"
    assert second.labels["nvidia.com/dgdr-request-generation"] == "2"


async def test_a_deleted_run_is_a_cancelled_search(cluster: Cluster, operator: Operator):
    async with operator():
        await submit(cluster.client)
        await the_job(cluster)
        run = await the_run(cluster.client)
        await request_that(cluster, accepted_with("RunCreated"))
        await cluster.client.delete(DynamoGraphDeploymentRun, run.key, uid=run.uid)
        await request_that(cluster, accepted_with("RunDeleted"))
        assert await runs(cluster.client) == []
        await change(cluster.client, rerun={"reason": "search again"})
        await cluster.eventually(lambda: runs(cluster.client))
