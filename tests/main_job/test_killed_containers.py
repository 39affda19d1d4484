"""kill -9 of the planner and of the publisher: the Run fails soon, and says why."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentCandidate
from dynamo_operator.runtime.builtin_kinds import Pod
from dynamo_operator.testing.polling import eventually
from tests.main_job.processes import ContainerProcesses, command_of, processes_of
from tests.main_job.scripted_planner import GO_SIGNAL
from tests.main_job.stage import (
    PATIENCE_SECONDS,
    Stage,
    completed_with,
    container_processes,
    message_of,
)

pytestmark = [pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]

LIMIT_SECONDS = 10.0
KILLED = "exit code 137, signal 9"
MOMENTS = {
    "before the first snapshot": ("waits-at-first", 0),
    "halfway": ("waits-halfway", 2),
    "before the last snapshot": ("waits-at-last", 4),
}


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_killed_planner_fails_the_run(scripted: Stage, moment: str):
    script, published = MOMENTS[moment]
    pod = await searching(scripted, script, published)

    async with everything_ends(scripted, pod, "Failed"):
        os.kill(command_of(pod, "planner").pid, signal.SIGKILL)

    (run,) = await scripted.runs()
    assert message_of(run) == f"the planner ended with {KILLED}"
    assert len(run.status.candidate_refs) == published


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_killed_publisher_fails_the_run(scripted: Stage, moment: str):
    script, published = MOMENTS[moment]
    pod = await searching(scripted, script, published)

    async with everything_ends(scripted, pod, "PublisherFailed"):
        os.kill(command_of(pod, "publisher").pid, signal.SIGKILL)

    (run,) = await scripted.runs()
    assert KILLED in message_of(run)
    assert len(run.status.candidate_refs) == published


async def test_a_publisher_killed_as_it_publishes_fails_the_run(scripted: Stage):
    await scripted.submit("waits-at-last")
    pod = await scripted.the_pod()
    publisher = await commanded(pod, "publisher")

    async with everything_ends(scripted, pod, "PublisherFailed"):
        await first_candidate(scripted)
        os.kill(publisher, signal.SIGKILL)

    (run,) = await scripted.runs()
    assert KILLED in message_of(run)
    assert await scripted.candidates() != []


async def test_a_publisher_killed_before_it_told_the_end_fails_the_run(scripted: Stage):
    pod = await searching(scripted, "waits-at-last", 4)
    publisher = command_of(pod, "publisher").pid
    planner = ContainerProcesses(processes_of(pod, "planner"))
    os.kill(publisher, signal.SIGSTOP)
    os.kill(command_of(pod, "planner").pid, GO_SIGNAL)
    await eventually(planner.alive, lambda alive: not alive, timeout=PATIENCE_SECONDS)

    async with everything_ends(scripted, pod, "PublisherFailed"):
        os.kill(publisher, signal.SIGKILL)

    (run,) = await scripted.runs()
    assert message_of(run) == f"the publisher ended with {KILLED}"
    assert len(run.status.candidate_refs) == 4


async def searching(stage: Stage, script: str, published: int) -> Pod:
    """Start a search, and wait until both containers work and that many are published."""
    await stage.submit(script)
    pod = await stage.the_pod()
    for container in ("planner", "publisher"):
        await commanded(pod, container)
    await stage.run_that(lambda run: len(run.status.candidate_refs) == published)
    return pod


async def commanded(pod: Pod, container: str) -> int:
    """Wait until a container's command runs, and return its process id."""
    await eventually(lambda: processes_of(pod, container), lambda found: len(found) > 1)
    return command_of(pod, container).pid


async def first_candidate(stage: Stage) -> None:
    """Wait until there is a Candidate, and not much longer."""
    listing = stage.client.list_watch(DynamoGraphDeploymentCandidate, namespace=stage.namespace)
    page = await listing.list()
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        listing.watch(resource_version=page.resource_version, timeout_seconds=60) as batches,
    ):
        while not page.items and not any(event.object for event in await anext(batches)):
            pass


@asynccontextmanager
async def everything_ends(stage: Stage, pod: Pod, reason: str) -> AsyncIterator[None]:
    """What is done in the block ends Run, Request and every process, in time."""
    processes = container_processes(pod)
    assert processes.processes != []
    yield
    async with asyncio.timeout(LIMIT_SECONDS):
        await stage.run_that(completed_with(reason))
        await eventually(stage.request, completed_with(reason))
    await eventually(processes.alive, lambda alive: not alive)
