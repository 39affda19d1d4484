"""How a search ends: well, edited, deleted, refused, killed, out of protocol, without a result."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest, DynamoGraphDeploymentRun
from dynamo_operator.runtime.builtin_kinds import Job
from dynamo_operator.testing.polling import eventually
from tests.main_job import scripted_planner
from tests.main_job.processes import command_of
from tests.main_job.stage import (
    PATIENCE_SECONDS,
    Stage,
    completed_with,
    container_processes,
    message_of,
)

pytestmark = [pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]


async def test_editing_the_request_supersedes_the_search(scripted: Stage):
    await scripted.submit("goes-on")
    run, pod = await scripted.searching()
    processes = container_processes(pod)
    (job,) = await scripted.client.list(Job, namespace=scripted.namespace)

    await scripted.client.patch(
        DynamoGraphDeploymentRequest,
        scripted.key,
        {"spec": {"model": {"name": "scripted/succeeds"}}},
    )

    old = await scripted.run_that(completed_with("Superseded"))
    assert len(processes.processes) > 4  # both commands, their first processes, and the helper
    assert processes.alive() == []
    assert await scripted.client.find(Job, job.key) is None
    assert old.uid == run.uid
    assert old.status.phase == "Failed"
    kept = {reference.name for reference in old.status.candidate_refs}
    assert len(kept) == 2
    new = await scripted.run_that(completed_with("Succeeded"), index=1)
    assert new.spec.model.name == "scripted/succeeds"
    assert new.labels["nvidia.com/dgdr-request-generation"] == "2"
    names = {candidate.key.name for candidate in await scripted.candidates()}
    assert kept < names
    assert names - kept == {reference.name for reference in new.status.candidate_refs}
    request = await eventually(scripted.request, completed_with("Succeeded"))
    assert request.status.active_run_ref is not None
    assert request.status.active_run_ref.name == new.key.name
    assert request.status.best is not None
    assert request.status.best.score == 3100.0


async def test_deleting_the_request_removes_everything_it_caused(scripted: Stage):
    await scripted.submit("goes-on")
    _, pod = await scripted.searching()
    processes = container_processes(pod)
    kinds = {line.partition(" ")[0] for line in await scripted.caused()}

    await scripted.client.delete(DynamoGraphDeploymentRequest, scripted.key)

    await eventually(scripted.caused, lambda left: not left, timeout=PATIENCE_SECONDS)
    assert {"Job", "Pod", "ConfigMap", "ServiceAccount", "Role", "RoleBinding"} < kinds
    assert len(processes.processes) > 4
    assert processes.alive() == []


async def test_deleting_the_run_cancels_the_search(scripted: Stage):
    await scripted.submit("goes-on")
    run, pod = await scripted.searching()
    processes = container_processes(pod)

    await scripted.client.delete(DynamoGraphDeploymentRun, run.key)

    await eventually(scripted.caused, lambda left: not left, timeout=PATIENCE_SECONDS)
    request = await eventually(
        scripted.request, lambda r: r.status.conditions[0].reason == "RunDeleted"
    )
    assert processes.alive() == []
    assert request.status.conditions[0].message == (
        f"Run {run.key.name} was deleted; change spec.rerun.reason for a new one"
    )
    assert await scripted.runs() == []


async def test_a_killed_planner_fails_the_run_with_its_signal(scripted: Stage):
    await scripted.submit("goes-on")
    _, pod = await scripted.searching()
    processes = container_processes(pod)

    os.kill(command_of(pod, "planner").pid, signal.SIGKILL)

    async with asyncio.timeout(10):
        run = await scripted.run_that(completed_with("Failed"))
    assert message_of(run) == "the planner ended with exit code 137, signal 9"
    assert len(run.status.candidate_refs) == 2
    assert len(await scripted.candidates()) == 2
    assert processes.alive() == []


async def test_a_killed_publisher_ends_the_search(scripted: Stage):
    await scripted.submit("goes-on")
    _, pod = await scripted.searching()
    processes = container_processes(pod)

    os.kill(command_of(pod, "publisher").pid, signal.SIGKILL)

    run = await scripted.run_that(completed_with("PublisherFailed"))
    assert "exit code 137, signal 9" in message_of(run)
    assert await scripted.client.list(Job, namespace=scripted.namespace) == []
    assert len(await scripted.candidates()) == 2
    assert processes.alive() == []


async def test_an_input_that_aisimulate_refuses_is_invalid_input(scripted: Stage):
    await scripted.submit("refuses")

    run = await scripted.run_that(completed_with("InvalidInput"))

    assert message_of(run) == (
        f"AISimulate refused the input, exit code 2: {scripted_planner.REFUSAL}"
    )
    assert run.status.phase == "Failed"


async def test_a_planner_that_crashes_fails_the_run_with_its_last_line(scripted: Stage):
    await scripted.submit("crashes")

    run = await scripted.run_that(completed_with("Failed"))

    assert message_of(run) == "the planner ended with exit code 1: RuntimeError: out of luck"


async def test_a_snapshot_out_of_protocol_ends_the_search(scripted: Stage):
    await scripted.submit("breaks-protocol")
    _, pod = await scripted.searching()
    processes = container_processes(pod)

    os.kill(command_of(pod, "planner").pid, scripted_planner.BREAK_SIGNAL)
    run = await scripted.run_that(completed_with("ProtocolViolation"))

    assert "schemaVersion" in message_of(run)
    assert await scripted.client.list(Job, namespace=scripted.namespace) == []
    assert len(await scripted.candidates()) == 2
    assert processes.alive() == []


async def test_a_search_without_a_result_says_what_was_wrong_with_the_points(scripted: Stage):
    await scripted.submit("finds-nothing")

    run = await scripted.run_that(completed_with("NoFeasibleCandidate"))
    request = await eventually(scripted.request, completed_with("NoFeasibleCandidate"))

    assert message_of(run) == (
        "no feasible candidate among 2 evaluated points:"
        f" 2 sla_constraint (such as: {scripted_planner.INFEASIBLE})"
    )
    assert request.status.best is None
    assert await scripted.candidates() == []
