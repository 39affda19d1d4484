"""How Runs end: superseded, cancelled, broken, or as their Job ended."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dynamo_operator.api.publisher_contract import (
    PublisherOutcome,
    TerminationMessage,
)
from dynamo_operator.api.v1beta2 import (
    DynamoGraphDeploymentCandidate,
    DynamoGraphDeploymentRun,
)
from dynamo_operator.runtime.builtin_kinds import (
    Job,
    Pod,
)
from dynamo_operator.testing.cluster import Cluster
from tests.builders import COMPLETED_SPEC, exited
from tests.reconcilers.conftest import Operator
from tests.reconcilers.faults import Answering, Lagging, Passing, client_through, refusal
from tests.reconcilers.search import (
    NAMESPACE,
    change,
    collect,
    completed,
    completed_with,
    creations,
    end_job,
    event_about,
    finish_search,
    is_going,
    run_that,
    runs,
    set_containers,
    start_search,
    submit,
    the_run,
)

pytestmark = pytest.mark.virtual_time

Run = DynamoGraphDeploymentRun
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


async def test_exit_codes_that_the_cache_does_not_have_yet_are_asked_for_live(
    cluster: Cluster, operator: Operator
):
    transports: list[Lagging] = []

    def lagging(inner: Any) -> Lagging:
        transports.append(Lagging(inner, "pods"))
        return transports[0]

    async with operator(client=client_through(cluster, lagging)):
        transports[0].released.set()
        job, pod = await start_search(cluster)
        transports[0].released.clear()
        await set_containers(
            cluster.client, pod, planner=exited(2, "bad mode"), publisher=exited(0)
        )
        await end_job(cluster.client, job, *FAILED)
        run = await run_that(cluster, completed_with("InvalidInput"))

    condition = completed(run)
    assert condition is not None
    assert "bad mode" in condition.message


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
