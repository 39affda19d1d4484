"""A Run's status and its writers, and what the API server refuses."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from dynamo_operator.api.publisher_contract import (
    PUBLISHER_FIELD_MANAGER,
)
from dynamo_operator.api.v1beta2 import (
    DynamoGraphDeploymentRequest,
    DynamoGraphDeploymentRun,
)
from dynamo_operator.runtime.builtin_kinds import (
    ConfigMap,
    Job,
    Pod,
    ServiceAccount,
)
from dynamo_operator.testing.cluster import Cluster
from tests.builders import exited
from tests.reconcilers.conftest import Operator, with_garbage_collector
from tests.reconcilers.faults import Answering, Lagging, Passing, client_through, is_write, refusal
from tests.reconcilers.search import (
    NAMESPACE,
    REQUEST_KEY,
    accepted_with,
    change,
    collect,
    completed,
    completed_with,
    creations,
    end_job,
    event_about,
    events_about,
    finish_search,
    is_going,
    patch_status,
    plant_run,
    request_that,
    run_that,
    runs,
    set_containers,
    start_pod,
    start_search,
    submit,
    the_job,
    the_run,
)

pytestmark = pytest.mark.virtual_time

Run = DynamoGraphDeploymentRun


@pytest.mark.parametrize(
    ("resource", "code", "reason"),
    [
        ("configmaps", 422, "Invalid"),
        ("serviceaccounts", 422, "Invalid"),
        ("jobs", 422, "Invalid"),
        ("configmaps", 413, "RequestEntityTooLarge"),
        ("jobs", 400, "BadRequest"),
    ],
)
async def test_a_child_that_is_refused_for_good_ends_the_run_with_the_servers_text(
    cluster: Cluster, operator: Operator, resource: str, code: int, reason: str
):
    text = f"{resource} are denied by policy lab"

    def refuse(request: Any) -> Any:
        if request.method == "POST" and is_write(request, resource):
            return refusal(code, reason, text)
        return None

    client = client_through(cluster, lambda inner: Answering(inner, refuse))
    async with operator(client=client):
        await submit(cluster.client)
        run = await run_that(cluster, completed_with("InvalidInput"))
        await asyncio.sleep(600)

    condition = completed(run)
    assert condition is not None
    assert condition.message == text
    assert (await the_run(cluster.client)).resource_version == run.resource_version
    assert creations(cluster, "jobs") == 0


async def test_an_input_that_the_run_cannot_hold_ends_it(cluster: Cluster, operator: Operator):
    def refuse(request: Any) -> Any:
        if is_write(request, Run.resource_type.plural) and b"sha256" in (request.body or b""):
            return refusal(413, "RequestEntityTooLarge", "request is too large")
        return None

    client = client_through(cluster, lambda inner: Answering(inner, refuse))
    async with operator(client=client):
        await submit(cluster.client)
        run = await run_that(cluster, completed_with("InvalidInput"))

    condition = completed(run)
    assert condition is not None
    assert condition.message == "the Run cannot hold its input: request is too large"
    assert creations(cluster, "jobs") == 0


@pytest.mark.parametrize("resource", ["configmaps", "jobs"])
async def test_a_quota_is_told_and_tried_again_slowly(
    cluster: Cluster, operator: Operator, resource: str
):
    text = f"exceeded quota: lab, requested: count/{resource}=1, used: 3, limited: 3"
    tries: list[float] = []
    full = [True]

    def refuse(request: Any) -> Any:
        if full and request.method == "POST" and is_write(request, resource):
            tries.append(cluster.clock.monotonic())
            return refusal(403, "Forbidden", text)
        return None

    client = client_through(cluster, lambda inner: Answering(inner, refuse))
    async with operator(client=client):
        await submit(cluster.client)
        run = await run_that(cluster, lambda r: r.status.execution_message == text)
        event = await event_about(cluster, run, "ExecutionWaiting")
        await asyncio.sleep(300)
        assert 5 <= len(tries) <= 14
        assert completed_with("Pending", status="False")(await the_run(cluster.client))
        full.clear()
        await asyncio.sleep(30)
        await the_job(cluster)

    assert event.note == text


async def test_a_refused_repair_does_not_end_a_running_search(cluster: Cluster, operator: Operator):
    def refuse(request: Any) -> Any:
        if request.method == "PATCH" and is_write(request, "serviceaccounts"):
            return refusal(422, "Invalid", "frozen by policy lab")
        return None

    client = client_through(cluster, lambda inner: Answering(inner, refuse))
    async with operator(client=client):
        job, pod = await start_search(cluster)
        (account,) = await cluster.client.list(ServiceAccount, namespace=NAMESPACE)
        drift = {"automountServiceAccountToken": True}
        await cluster.client.patch(ServiceAccount, account.key, drift)
        await asyncio.sleep(60)
        assert completed_with("Running", status="False")(await the_run(cluster.client))
        await finish_search(cluster, job, pod)
        await run_that(cluster, completed_with("Succeeded"))


async def test_what_the_publisher_writes_survives_every_write_of_the_controller(
    cluster: Cluster, operator: Operator
):
    published = {
        "progress": {"round": 2, "evaluated": 30, "published": 1},
        "candidateRefs": [{"name": "a"}],
        "lastProgressTime": "2030-01-01T00:00:00Z",
        "message": "searching",
    }
    async with operator():
        await submit(cluster.client)
        job = await the_job(cluster)
        run = await run_that(cluster, lambda r: r.status.job_ref)
        publisher = cluster.client.with_field_manager(PUBLISHER_FIELD_MANAGER)
        await publisher.apply_status(run, published)
        pod = await start_pod(cluster.client, job)
        await run_that(cluster, completed_with("Running", status="False"))
        await finish_search(cluster, job, pod)
        run = await run_that(cluster, completed_with("Succeeded"))

    status = run.status.to_dict()
    assert {name: status[name] for name in published} == published
    await publisher.apply_status(run, {})
    status = (await the_run(cluster.client)).status.to_dict()
    assert not published.keys() & status.keys(), "the controller never took them over"
    assert status["phase"] == "Succeeded"


async def test_a_run_that_is_being_deleted_is_left_alone(cluster: Cluster, operator: Operator):
    run = await _held_run(cluster)
    await cluster.client.delete(Run, run.key)

    async with operator():
        await asyncio.sleep(600)

    assert creations(cluster, "jobs") == 0
    assert (await the_run(cluster.client)).status.to_dict() == {}


async def test_a_running_search_is_reflected_until_its_request_is_really_gone(
    cluster: Cluster, operator: Operator
):
    async with operator():
        await submit(cluster.client)
        hold = {"metadata": {"finalizers": ["lab.test/hold"]}}
        await cluster.client.patch(DynamoGraphDeploymentRequest, REQUEST_KEY, hold)
        job = await the_job(cluster)
        await run_that(cluster, lambda run: run.status.job_ref)
        await cluster.client.delete(DynamoGraphDeploymentRequest, REQUEST_KEY)
        await start_pod(cluster.client, job)
        await run_that(cluster, completed_with("Running", status="False"))


@with_garbage_collector
async def test_a_deleted_run_takes_its_execution_along(cluster: Cluster, operator: Operator):
    async with operator():
        job, pod = await start_search(cluster)
        run = await the_run(cluster.client)
        await cluster.client.delete(Run, run.key)
        await cluster.eventually(
            lambda: cluster.client.find(Job, job.key), lambda found: found is None
        )
        await cluster.eventually(
            lambda: cluster.client.find(Pod, pod.key), lambda found: found is None
        )
        await request_that(cluster, accepted_with("RunDeleted"))

    assert creations(cluster, "jobs") == 1


async def test_a_condition_that_nobody_can_have_meant_is_no_ending(
    cluster: Cluster, operator: Operator
):
    run = await plant_run(cluster.client)
    strange = {"type": "Completed", "status": "False", "reason": "Whatever", "message": ""}
    strange["lastTransitionTime"] = "2030-01-01T00:00:00Z"
    await patch_status(cluster.client, Run, run.key, {"conditions": [strange]})

    async with operator():
        await the_job(cluster)


@with_garbage_collector
async def test_no_job_is_made_for_a_request_that_is_being_deleted(
    cluster: Cluster, operator: Operator
):
    await _held_run(cluster)
    await cluster.client.delete(DynamoGraphDeploymentRequest, REQUEST_KEY, propagation="Foreground")

    async with operator():
        await asyncio.sleep(60)

    assert creations(cluster, "jobs") == 0


async def test_a_conflict_on_the_status_is_read_and_computed_anew(
    cluster: Cluster, operator: Operator
):
    refused: list[str] = []

    def refuse(request: Any) -> Any:
        if is_write(request, Run.resource_type.plural) and request.path.endswith("/status"):
            refused.append(request.path)
            return refusal(409, "Conflict", "modified") if len(refused) % 2 else None
        return None

    client = client_through(cluster, lambda inner: Answering(inner, refuse))
    async with operator(client=client):
        job, pod = await start_search(cluster)
        await finish_search(cluster, job, pod)
        await run_that(cluster, completed_with("Succeeded"))

    assert creations(cluster, "jobs") == 1
    assert creations(cluster, "configmaps") == 1


async def test_phases_only_move_on_and_completed_is_true_exactly_at_the_end(
    cluster: Cluster, operator: Operator
):
    transports: list[Passing] = []

    def keeping(inner: Any) -> Passing:
        transports.append(Passing(inner))
        return transports[0]

    async with operator(client=client_through(cluster, keeping)):
        job, pod = await start_search(cluster)
        await set_containers(cluster.client, pod, planner={"running": {}}, publisher=exited(1))
        await cluster.eventually(lambda: is_going(cluster.client, job))
        await collect(cluster.client, job, pod)
        await run_that(cluster, completed_with("PublisherFailed"))

    told = [
        (status["phase"], condition["status"], condition["reason"])
        for request in transports[0].sent
        if is_write(request, Run.resource_type.plural) and request.path.endswith("/status")
        for status in [json.loads(request.body or b"{}")["status"]]
        for condition in status["conditions"]
    ]
    assert list(dict.fromkeys(told)) == [
        ("Pending", "False", "Pending"),
        ("Running", "False", "Running"),
        ("Running", "False", "PublisherFailed"),
        ("Failed", "True", "PublisherFailed"),
    ]


async def test_what_a_person_would_ask_about_is_told_as_events(
    cluster: Cluster, operator: Operator
):
    async with operator():
        job, pod = await start_search(cluster)
        await finish_search(cluster, job, pod)
        run = await run_that(cluster, completed_with("Succeeded"))
        await event_about(cluster, run, "Succeeded")
        events = await events_about(cluster.client, run)

    assert [(event.type, event.reason, event.note) for event in events] == [
        ("Normal", "Running", f"the search runs in Job {job.key.name}"),
        ("Normal", "Succeeded", "the search is complete"),
    ]


async def test_a_job_that_has_only_decided_to_fail_still_runs(cluster: Cluster, operator: Operator):
    async with operator():
        job, pod = await start_search(cluster)
        target = {
            "type": "FailureTarget",
            "status": "True",
            "reason": "DeadlineExceeded",
            "message": "Job was active longer than specified deadline",
        }
        await patch_status(cluster.client, Job, job.key, {"conditions": [target]})
        await change(cluster.client, aisimulate={"inputOverrides": {"dgdr_run": {"name": "no"}}})
        await asyncio.sleep(30)
        assert completed_with("Running", status="False")(await the_run(cluster.client))

        await set_containers(cluster.client, pod, planner=exited(143), publisher=exited(0))
        await end_job(cluster.client, job, "Failed", "DeadlineExceeded")
        await run_that(cluster, completed_with("DeadlineExceeded"))


async def test_a_request_of_the_same_name_does_not_inherit_runs(
    cluster: Cluster, operator: Operator
):
    orphan = await plant_run(cluster.client)
    await cluster.client.delete(DynamoGraphDeploymentRequest, REQUEST_KEY)
    request = await submit(cluster.client)

    async with operator():
        await cluster.eventually(
            lambda: cluster.client.get(Run, orphan.key), completed_with("InvalidInput")
        )
        job = await the_job(cluster)

    own = next(run for run in await runs(cluster.client) if run.uid != orphan.uid)
    assert own.owner_references[0].uid == request.uid
    assert job.owner_references[0].uid == own.uid


async def test_a_request_that_the_cache_does_not_have_yet_is_asked_for_live(
    cluster: Cluster, operator: Operator
):
    transports: list[Lagging] = []

    def lagging(inner: Any) -> Lagging:
        transports.append(Lagging(inner, DynamoGraphDeploymentRequest.resource_type.plural))
        return transports[0]

    async with operator(client=client_through(cluster, lagging)):
        await plant_run(cluster.client)
        job = await the_job(cluster)
        transports[0].released.set()

    assert job.owner_references[0].uid == (await the_run(cluster.client)).uid


async def test_identity_and_execution_values_are_the_operators(
    cluster: Cluster, operator: Operator
):
    overrides = {"dgdr_run": {"snapshot_interval_seconds": 5}, "optimizer": {"seed": 7}}
    async with operator(dgdr_default_image="registry.lab/planner:1.2.3"):
        await submit(cluster.client, aisimulate={"inputOverrides": overrides})
        run = await run_that(cluster, lambda r: r.status.aisimulate)

    document = (run.status.aisimulate and run.status.aisimulate.input) or {}
    assert document["optimizer"]["seed"] == 7
    assert document["dgdr_run"] == {
        "name": f"r{run.uid.replace('-', '')[:6]}",
        "namespace": NAMESPACE,
        "snapshot_dir": "/var/run/aisimulate/snapshot",
        "runtime_image": "registry.lab/planner:1.2.3",
        "runtime_version_override": "1.2.3",
        "num_gpus_per_node": 8,
        "max_candidates": 5,
        "derive_runtime_images": True,
        "snapshot_interval_seconds": 5,
    }


async def test_a_sku_that_no_node_has_is_searched_on_the_topology_of_those_that_are_there(
    cluster: Cluster, operator: Operator
):
    async with operator():
        await submit(cluster.client, hardware={"gpu": {"sku": "gb200", "budget": 72}})
        run = await run_that(cluster, lambda r: r.status.aisimulate)

    document = (run.status.aisimulate and run.status.aisimulate.input) or {}
    assert document["engine"]["hardware"] == "gb200"
    assert document["optimization"]["constraints"]["max_candidate_gpus"] == 72
    assert document["dgdr_run"]["num_gpus_per_node"] == 8


async def test_a_run_that_waits_says_so_from_the_start(cluster: Cluster, operator: Operator):
    async with operator():
        await submit(cluster.client)
        run = await run_that(cluster, completed_with("Pending", status="False"))
        await request_that(cluster, accepted_with("RunCreated"))

    assert (run.status.phase, run.status.observed_generation) == ("Pending", 1)
    assert (await cluster.client.list(ConfigMap, namespace=NAMESPACE))[0].immutable


async def _held_run(cluster: Cluster) -> Run:
    """A Run that nobody has looked at yet, and that a finalizer keeps."""
    run = await plant_run(cluster.client)
    hold = {"metadata": {"finalizers": ["lab.test/hold"]}}
    return await cluster.client.patch(Run, run.key, hold)
