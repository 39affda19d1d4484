"""What Runs wait for, and how they say so."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dynamo_operator.api.v1beta2 import (
    DynamoGraphDeploymentCandidate,
)
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.runtime.builtin_kinds import (
    CustomResourceDefinition,
    Job,
    Node,
    Pod,
    Secret,
)
from dynamo_operator.testing.cluster import Cluster
from informers.objects import ObjectKey, ResourceType
from tests.reconcilers.conftest import GPU_NODE, Operator
from tests.reconcilers.run.test_pull_secrets import pull_secret
from tests.reconcilers.search import (
    NAMESPACE,
    completed_with,
    creations,
    event_about,
    events_about,
    finish_search,
    is_going,
    patch_status,
    run_that,
    start_pod,
    start_search,
    submit,
    the_job,
    the_run,
)

pytestmark = pytest.mark.virtual_time

CORE_EVENT = ResourceType("", "v1", "Event", "events")


async def test_a_suspended_job_waits(cluster: Cluster, operator: Operator):
    async with operator():
        await submit(cluster.client)
        job = await the_job(cluster)
        await cluster.client.patch(Job, job.key, {"spec": {"suspend": True}})
        run = await run_that(cluster, lambda r: "suspended" in (r.status.execution_message or ""))
        assert completed_with("Pending", status="False")(run)
        await asyncio.sleep(600)
        assert not await is_going(cluster.client, job)

        await cluster.client.patch(Job, job.key, {"spec": {"suspend": False}})
        await start_pod(cluster.client, job)
        await run_that(cluster, completed_with("Running", status="False"))


async def test_a_phase_never_goes_back_when_a_running_job_is_suspended(
    cluster: Cluster, operator: Operator
):
    async with operator():
        job, pod = await start_search(cluster)
        await cluster.client.delete(Pod, pod.key, grace_period_seconds=0)
        await cluster.client.patch(Job, job.key, {"spec": {"suspend": True}})
        run = await run_that(cluster, lambda r: "suspended" in (r.status.execution_message or ""))

    assert run.status.phase == "Running"
    assert completed_with("Running", status="False")(run)
    assert run.status.start_time == "2026-11-30T12:00:00Z"


async def test_what_a_queue_changes_of_the_job_stays_as_it_is(cluster: Cluster, operator: Operator):
    scheduling = {
        "nodeSelector": {"pool": "a"},
        "tolerations": [{"key": "lab", "operator": "Exists"}],
    }
    async with operator():
        await submit(cluster.client)
        job = await the_job(cluster)
        await run_that(cluster, lambda run: run.status.job_ref)
        queued = {"metadata": {"labels": {"queue": "lab"}}, "spec": {"suspend": True}}
        await cluster.client.patch(Job, job.key, queued)
        await run_that(cluster, lambda r: "suspended" in (r.status.execution_message or ""))
        admitted = {"suspend": False, "template": {"spec": scheduling}}
        await cluster.client.patch(Job, job.key, {"spec": admitted})
        changed = await the_job(cluster)
        pod = await start_pod(cluster.client, job)
        await asyncio.sleep(600)
        left = await the_job(cluster)
        await finish_search(cluster, job, pod)
        await run_that(cluster, completed_with("Succeeded"))

    assert changed.spec["template"]["spec"].items() >= scheduling.items()
    assert (left.spec, left.labels) == (changed.spec, changed.labels)
    assert creations(cluster, "jobs") == 1


async def test_a_job_that_begins_again_does_not_change_when_its_run_began(
    cluster: Cluster, operator: Operator
):
    later = {"startTime": "2026-11-30T13:00:00Z", "active": 1}
    async with operator():
        job, pod = await start_search(cluster)
        await cluster.client.delete(Pod, pod.key, grace_period_seconds=0)
        await cluster.client.patch(Job, job.key, {"spec": {"suspend": True}})
        await patch_status(cluster.client, Job, job.key, {"startTime": None, "active": None})
        await run_that(cluster, lambda r: "suspended" in (r.status.execution_message or ""))
        await patch_status(cluster.client, Job, job.key, later)
        await cluster.client.patch(Job, job.key, {"spec": {"suspend": False}})
        pod = await cluster.client.create(
            Pod.new(
                "again", namespace=NAMESPACE, labels=pod.labels, spec={**pod.spec, "nodeName": None}
            ),
            owner=job,
        )
        await finish_search(cluster, job, pod)
        run = await run_that(cluster, completed_with("Succeeded"))

    assert run.status.start_time == "2026-11-30T12:00:00Z"
    assert run.status.completion_time == "2026-11-30T12:00:30Z"


async def test_a_job_whose_parallelism_somebody_set_to_0_is_told(
    cluster: Cluster, operator: Operator
):
    async with operator():
        job, pod = await start_search(cluster)
        await cluster.client.delete(Pod, pod.key, grace_period_seconds=0)
        await cluster.client.patch(Job, job.key, {"spec": {"parallelism": 0}})
        run = await run_that(
            cluster, lambda r: "parallelism is 0" in (r.status.execution_message or "")
        )
        assert run.status.phase == "Running"

        await cluster.client.patch(Job, job.key, {"spec": {"parallelism": 1}})
        await start_pod(cluster.client, job)
        await run_that(cluster, lambda r: not r.status.execution_message)


@pytest.mark.parametrize(
    ("pod_status", "text"),
    [
        pytest.param(
            {
                "containerStatuses": [
                    {
                        "name": "planner",
                        "image": "i",
                        "imageID": "",
                        "ready": False,
                        "restartCount": 0,
                        "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no image"}},
                    }
                ]
            },
            "ImagePullBackOff: no image",
            id="image",
        ),
        pytest.param(
            {
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "0/1 nodes",
                    }
                ]
            },
            "Unschedulable: 0/1 nodes",
            id="unschedulable",
        ),
    ],
)
async def test_what_keeps_the_pod_waiting_is_told_within_seconds(
    cluster: Cluster, operator: Operator, pod_status: dict[str, Any], text: str
):
    async with operator():
        await submit(cluster.client)
        job = await the_job(cluster)
        pod = await start_pod(cluster.client, job)
        await patch_status(cluster.client, Pod, pod.key, {"phase": "Pending", **pod_status})
        run = await run_that(
            cluster, lambda r: text in (r.status.execution_message or ""), timeout=3
        )
        event = await event_about(cluster, run, "ExecutionWaiting")

    assert text in event.note
    assert event.type == "Warning"


@pytest.mark.parametrize(
    ("about", "reason", "message"),
    [
        pytest.param(
            Job,
            "FailedCreate",
            'Error creating: pods "r-1-" is forbidden: runAsUser: Invalid value: 1000: must be in '
            "the ranges: [1000750000, 1000759999]",
            id="no-pod",
        ),
        pytest.param(Pod, "FailedMount", 'persistentvolumeclaim "traces" not found', id="mount"),
    ],
)
async def test_warnings_about_job_and_pod_are_told_once_within_seconds(
    cluster: Cluster, operator: Operator, about: type[Job | Pod], reason: str, message: str
):
    async with operator():
        await submit(cluster.client)
        job = await the_job(cluster)
        regarding: Job | Pod = job
        if about is Pod:
            regarding = await start_pod(cluster.client, job)
            await patch_status(
                cluster.client, Pod, regarding.key, {"phase": "Pending", "containerStatuses": None}
            )
        await cluster.client.create(_warning(regarding, reason, message), kind=CORE_EVENT)
        run = await run_that(
            cluster, lambda r: message in (r.status.execution_message or ""), timeout=8
        )
        await asyncio.sleep(60)
        told = [
            e for e in await events_about(cluster.client, run) if e.reason == "ExecutionWaiting"
        ]

    assert run.status.execution_message == f"{reason}: {message}"
    assert [event.note for event in told] == [f"{reason}: {message}"]


async def test_a_missing_pull_secret_is_waited_for(cluster: Cluster, operator: Operator):
    async with operator(image_pull_secrets=("registry", "mirror")):
        await submit(cluster.client)
        run = await run_that(cluster, completed_with("WaitingForImagePullSecrets", status="False"))
        assert "registry, mirror" in (run.status.execution_message or "")
        assert creations(cluster, "configmaps") == 0
        for name in ("registry", "mirror"):
            await cluster.client.create(Secret.new(name, namespace=NAMESPACE))
        await asyncio.sleep(30)
        job = await the_job(cluster)

    pod_spec = job.spec["template"]["spec"]
    assert pod_spec["imagePullSecrets"] == [{"name": "registry"}, {"name": "mirror"}]


async def test_pull_secrets_are_discovered_by_registry(cluster: Cluster, operator: Operator):
    for name, host in (("ours", "registry.lab"), ("others", "quay.io")):
        await cluster.client.create(pull_secret(host, name=name, namespace=NAMESPACE))
    await cluster.client.create(
        pull_secret("registry.lab", name="elsewhere", namespace="kube-system")
    )
    async with operator(discover_image_pull_secrets=True):
        await submit(cluster.client)
        job = await the_job(cluster)

    assert job.spec["template"]["spec"]["imagePullSecrets"] == [{"name": "ours"}]


async def test_an_unknown_topology_is_waited_for(cluster: Cluster, operator: Operator):
    await cluster.client.delete(Node, GPU_NODE.key)
    async with operator():
        await submit(cluster.client)
        run = await run_that(cluster, completed_with("WaitingForHardware", status="False"))
        assert run.status.phase == "Pending"
        assert creations(cluster, "jobs") == 0
        await cluster.client.create(GPU_NODE)
        await asyncio.sleep(30)
        await the_job(cluster)


async def test_a_fallback_stands_in_for_an_unknown_topology(cluster: Cluster, operator: Operator):
    await cluster.client.delete(Node, GPU_NODE.key)
    async with operator(fallback_gpus_per_node=4):
        await submit(cluster.client)
        await the_job(cluster)

    run = await the_run(cluster.client)
    assert run.status.aisimulate is not None
    assert (run.status.aisimulate.input or {})["dgdr_run"]["num_gpus_per_node"] == 4


async def test_nothing_runs_while_candidates_could_not_be_written(
    cluster: Cluster, operator: Operator
):
    name = DynamoGraphDeploymentCandidate.resource_type.plural
    (crd,) = [c for c in custom_resource_definitions() if c["spec"]["names"]["plural"] == name]
    async with operator():
        key = ObjectKey("", crd["metadata"]["name"])
        await cluster.client.delete(CustomResourceDefinition, key)
        await submit(cluster.client)
        await run_that(cluster, completed_with("CandidateAPIUnavailable", status="False"))
        assert creations(cluster, "jobs") == 0

        await cluster.install(crd)
        await asyncio.sleep(30)
        await the_job(cluster)


def _warning(about: Job | Pod, reason: str, message: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{about.key.name}.1", "namespace": about.key.namespace},
        "involvedObject": {
            "kind": about.kind,
            "namespace": about.key.namespace,
            "name": about.key.name,
            "uid": about.uid,
        },
        "reason": reason,
        "message": message,
        "type": "Warning",
        "lastTimestamp": "2030-01-01T00:00:00Z",
    }
