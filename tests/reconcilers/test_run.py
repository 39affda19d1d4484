"""What the Run controller does, on an embedded API server in virtual time."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from dynamo_operator.api.publisher_contract import (
    PUBLISHER_FIELD_MANAGER,
    PublisherOutcome,
    TerminationMessage,
)
from dynamo_operator.api.v1beta2 import (
    DynamoGraphDeploymentCandidate,
    DynamoGraphDeploymentRequest,
    DynamoGraphDeploymentRun,
)
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.runtime.builtin_kinds import (
    ConfigMap,
    CustomResourceDefinition,
    Job,
    Node,
    Pod,
    Secret,
    ServiceAccount,
)
from dynamo_operator.testing.cluster import Cluster
from informers.objects import ObjectKey, ResourceType
from tests.builders import COMPLETED_SPEC, exited
from tests.reconcilers.conftest import GPU_NODE, Operator, with_garbage_collector
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
CORE_EVENT = ResourceType("", "v1", "Event", "events")
VIOLATION = TerminationMessage(
    PublisherOutcome.PROTOCOL_VIOLATION, "ProtocolViolation", "round went back"
).to_json()
FAILED = ("Failed", "BackoffLimitExceeded")


async def test_superseding_deletes_only_the_job_foreground_and_by_uid(
    cluster: Cluster, operator: Operator
):
    transports: list[Passing] = []

    def keeping(inner: Any) -> Passing:
        transports.append(Passing(inner))
        return transports[0]

    async with operator(client=client_through(cluster, keeping)):
        job, pod = await start_search(cluster)
        run = await the_run(cluster.client)
        candidate = await cluster.client.create(
            DynamoGraphDeploymentCandidate.new("a", namespace=NAMESPACE, spec={"components": []}),
            owner=run,
        )
        await change(cluster.client, rerun={"reason": "again"})
        recorded = await run_that(cluster, completed_with("Superseded", status="False"))
        assert recorded.status.phase == "Running"
        await cluster.eventually(lambda: is_going(cluster.client, job))
        await collect(cluster.client, job, pod)
        first = (await cluster.eventually(lambda: runs(cluster.client), lambda r: len(r) == 2))[0]

    (delete,) = [request for request in transports[0].sent if request.method == "DELETE"]
    assert delete.path.endswith(f"/jobs/{job.key.name}")
    assert b'"propagationPolicy":"Foreground"' in (delete.body or b"")
    assert job.uid.encode() in (delete.body or b"")
    assert completed_with("Superseded")(first)
    assert (first.uid, first.status.phase) == (run.uid, "Failed")
    assert first.status.completion_time is not None
    assert await cluster.client.find(type(candidate), candidate.key) is not None


async def test_a_run_is_superseded_only_when_job_and_pods_are_gone(
    cluster: Cluster, operator: Operator
):
    async with operator():
        job, pod = await start_search(cluster)
        await change(cluster.client, rerun={"reason": "again"})
        await cluster.eventually(lambda: is_going(cluster.client, job))
        await collect(cluster.client, job)
        await asyncio.sleep(60)
        assert completed_with("Superseded", status="False")(await the_run(cluster.client))

        await cluster.client.delete(Pod, pod.key, grace_period_seconds=0)
        await cluster.eventually(lambda: runs(cluster.client), lambda found: len(found) == 2)


async def test_a_run_whose_job_has_finished_stays_as_it_finished(
    cluster: Cluster, operator: Operator
):
    async with operator():
        job, pod = await start_search(cluster)
    await finish_search(cluster, job, pod)
    await change(cluster.client, rerun={"reason": "again"})

    async with operator():
        first, second = await cluster.eventually(
            lambda: runs(cluster.client), lambda found: len(found) == 2
        )

    assert completed_with("Succeeded")(first)
    assert second.request_generation == 2
    assert await cluster.client.find(Job, job.key) is not None


async def test_a_run_without_request_fails_after_its_job_is_gone(
    cluster: Cluster, operator: Operator
):
    async with operator():
        job, pod = await start_search(cluster)
        run = await the_run(cluster.client)
        await cluster.client.patch(Run, run.key, {"metadata": {"ownerReferences": None}})
        await run_that(cluster, completed_with("InvalidInput", status="False"))
        await cluster.eventually(lambda: is_going(cluster.client, job))
        await collect(cluster.client, job, pod)
        run = await run_that(cluster, completed_with("InvalidInput"))

    assert run.status.phase == "Failed"
    condition = completed(run)
    assert condition is not None
    assert "no DynamoGraphDeploymentRequest controls this Run" in condition.message


@pytest.mark.parametrize(
    "overrides",
    [{"dgdr_run": {"name": "mine"}}, {"dgdr_run": {"snapshot_dir": None}}, {"dgdr_run": []}],
    ids=["value", "null", "no-object"],
)
async def test_a_run_made_by_hand_cannot_be_executed_with_what_the_operator_owns(
    cluster: Cluster, operator: Operator, overrides: dict[str, Any]
):
    request = await submit(cluster.client)
    spec = {**COMPLETED_SPEC, "aisimulate": {"inputOverrides": overrides}}
    run = await cluster.client.create(
        Run.new(
            "by-hand",
            namespace=NAMESPACE,
            labels={"nvidia.com/dgdr-request-generation": "1"},
            spec=spec,
        ),
        owner=request,
    )

    async with operator():
        run = await cluster.eventually(
            lambda: cluster.client.get(Run, run.key), completed_with("InvalidInput")
        )
        await asyncio.sleep(60)

    condition = completed(run)
    assert condition is not None
    assert "dgdr_run" in condition.message
    after = await cluster.client.get(Run, run.key)
    assert after.resource_version == run.resource_version, "a deterministic failure is final"


@pytest.mark.parametrize(
    ("publisher", "reason"),
    [
        pytest.param(exited(3, VIOLATION), "ProtocolViolation", id="violation"),
        pytest.param(exited(1, "no answer"), "PublisherFailed", id="failed"),
        pytest.param(exited(137, reason="OOMKilled"), "PublisherFailed", id="killed"),
    ],
)
async def test_a_lost_publisher_ends_the_run_also_over_a_restart(
    cluster: Cluster, operator: Operator, publisher: dict[str, Any], reason: str
):
    async with operator():
        job, pod = await start_search(cluster)
        await set_containers(cluster.client, pod, planner={"running": {}}, publisher=publisher)
        run = await run_that(cluster, completed_with(reason, status="False"))
        assert run.status.phase == "Running"
        await cluster.eventually(lambda: is_going(cluster.client, job))
    recorded = completed(run)
    assert recorded is not None
    await collect(cluster.client, job, pod)

    async with operator():
        run = await run_that(cluster, completed_with(reason))

    condition = completed(run)
    assert condition is not None
    assert (run.status.phase, condition.message) == ("Failed", recorded.message)
    assert creations(cluster, "jobs") == 1


async def test_a_recorded_end_is_carried_out_by_the_next_operator(
    cluster: Cluster, operator: Operator
):
    def refuse(request: Any) -> Any:
        if request.method == "DELETE":
            return refusal(500, "InternalError", "try again")
        return None

    client = client_through(cluster, lambda inner: Answering(inner, refuse))
    async with operator(client=client):
        job, pod = await start_search(cluster)
        await set_containers(cluster.client, pod, planner={"running": {}}, publisher=exited(1))
        await run_that(cluster, completed_with("PublisherFailed", status="False"))
    await finish_search(cluster, job, pod)

    async with operator():
        await cluster.eventually(lambda: is_going(cluster.client, job))
        await collect(cluster.client, job, pod)
        await run_that(cluster, completed_with("PublisherFailed"))


@pytest.mark.parametrize("code", [0, 4])
async def test_a_publisher_that_is_done_lets_the_planner_finish(
    cluster: Cluster, operator: Operator, code: int
):
    async with operator():
        job, pod = await start_search(cluster)
        await set_containers(cluster.client, pod, planner={"running": {}}, publisher=exited(code))
        await asyncio.sleep(60)
        assert completed_with("Running", status="False")(await the_run(cluster.client))
        assert not await is_going(cluster.client, job)


@pytest.mark.parametrize(
    ("end", "planner", "publisher", "reason", "text"),
    [
        (("Failed", "DeadlineExceeded"), exited(143), exited(0), "DeadlineExceeded", "ended"),
        (FAILED, exited(1), exited(3, VIOLATION), "ProtocolViolation", "round went back"),
        (FAILED, exited(2, "a\nbad mode"), exited(0), "InvalidInput", "bad mode"),
        (FAILED, exited(137, reason="OOMKilled"), exited(0), "Failed", "OOMKilled"),
        (FAILED, exited(0), exited(1), "PublisherFailed", "exit code 1"),
        (("Complete", ""), exited(0), exited(0), "Succeeded", ""),
    ],
    ids=["deadline", "violation", "bad-input", "oom", "publisher", "success"],
)
async def test_an_ended_job_says_how_its_run_ended(
    cluster: Cluster,
    operator: Operator,
    end: tuple[str, str],
    planner: dict[str, Any],
    publisher: dict[str, Any],
    reason: str,
    text: str,
):
    async with operator():
        job, pod = await start_search(cluster)
        await set_containers(cluster.client, pod, planner=planner, publisher=publisher)
        await end_job(cluster.client, job, *end)
        run = await run_that(cluster, completed_with(reason))
        event = await event_about(cluster, run, reason)

    condition = completed(run)
    assert condition is not None
    assert text in condition.message
    assert run.status.execution_message == condition.message
    assert run.status.phase == ("Succeeded" if reason == "Succeeded" else "Failed")
    assert run.status.start_time == "2026-11-30T12:00:00Z"
    assert run.status.completion_time == "2026-11-30T12:00:30Z"
    assert event.type == ("Normal" if reason == "Succeeded" else "Warning")


async def test_a_job_deleted_by_hand_is_not_run_again(cluster: Cluster, operator: Operator):
    async with operator():
        job, pod = await start_search(cluster)
        await cluster.client.delete(Job, job.key, propagation="Background")
        await cluster.client.delete(Pod, pod.key, grace_period_seconds=0)
        run = await run_that(cluster, completed_with("InvalidExecution"))
        await asyncio.sleep(600)

    condition = completed(run)
    assert condition is not None
    assert job.key.name in condition.message
    assert "rerun" in condition.message
    assert creations(cluster, "jobs") == 1


async def test_a_job_that_vanished_after_it_finished_leaves_the_run_as_it_is(
    cluster: Cluster, operator: Operator
):
    async with operator():
        job, pod = await start_search(cluster)
        await finish_search(cluster, job, pod)
        await run_that(cluster, completed_with("Succeeded"))
        await cluster.client.delete(Job, job.key, propagation="Background")
        await asyncio.sleep(600)

    assert completed_with("Succeeded")(await the_run(cluster.client))
    assert creations(cluster, "jobs") == 1


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
