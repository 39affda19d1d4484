"""One Run for a generation and one Job for a Run, counted over the whole history."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Literal, TypeVar, get_args

import pytest

from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest, DynamoGraphDeploymentRun
from dynamo_operator.app import build_manager
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.runtime import Manager
from dynamo_operator.runtime.builtin_kinds import Job
from dynamo_operator.runtime.client import Client, TransportError
from dynamo_operator.runtime.client.http import HttpRequest, HttpResponse, Transport
from dynamo_operator.settings import OperatorSettings
from dynamo_operator.testing.cluster import Cluster
from tests.reconcilers.conftest import GPU_NODE, OPERATOR_IMAGE, Operator
from tests.reconcilers.faults import (
    Answering,
    Death,
    Dying,
    Lagging,
    client_through,
    is_write,
    refusal,
)
from tests.reconcilers.search import (
    NAMESPACE,
    REQUEST_KEY,
    completed_with,
    creations,
    finish_search,
    is_gone,
    patch_status,
    request_that,
    run_that,
    start_pod,
    start_search,
    submit,
    the_job,
    the_request,
    the_run,
)

pytestmark = pytest.mark.virtual_time

RUNS = "dynamographdeploymentruns"
ONCE = (RUNS, "configmaps", "serviceaccounts", "jobs")
PATIENCE_SECONDS = 600.0

T = TypeVar("T")


@pytest.mark.parametrize("death", get_args(Death))
async def test_a_search_survives_the_operators_death_at_every_write(death: Death):
    writes, survived = 0, False
    while not survived:
        writes += 1
        async with Cluster.start(crds=custom_resource_definitions()) as cluster:
            await cluster.client.create(GPU_NODE)
            async with asyncio.TaskGroup() as group:
                group.create_task(_play(cluster))
                await submit(cluster.client)
                survived = not await _live_and_die(cluster, writes, death)
                async with _operator(cluster, cluster.client):
                    await _until(lambda: the_request(cluster.client), completed_with("Succeeded"))
            made = {resource: creations(cluster, resource) for resource in ONCE}
            assert made == dict.fromkeys(ONCE, 1), f"died {death}, number {writes}"

    assert writes > 8, "a search has that many writes at least"


async def test_an_operator_that_dies_after_each_write_makes_progress(cluster: Cluster):
    lives = 0
    async with asyncio.TaskGroup() as group:
        group.create_task(_play(cluster))
        await submit(cluster.client)
        while await _live_and_die(cluster, 1, "before its answer"):
            lives += 1
            assert lives < 50
    run = await the_run(cluster.client)

    assert completed_with("Succeeded")(run)
    assert {resource: creations(cluster, resource) for resource in ONCE} == dict.fromkeys(ONCE, 1)


async def test_two_operators_at_once_still_make_one_of_each(cluster: Cluster, operator: Operator):
    async with operator(), operator():
        job, pod = await start_search(cluster)
        await finish_search(cluster, job, pod)
        await request_that(cluster, completed_with("Succeeded"))

    assert {resource: creations(cluster, resource) for resource in ONCE} == dict.fromkeys(ONCE, 1)


@pytest.mark.parametrize(
    "resource", ["dynamographdeploymentrequests", "dynamographdeploymentruns", "configmaps", "jobs"]
)
async def test_a_cache_that_lags_behind_makes_nothing_twice(
    cluster: Cluster, operator: Operator, resource: str
):
    transports: list[Lagging] = []

    def lagging(inner: Transport) -> Lagging:
        transports.append(Lagging(inner, resource))
        return transports[0]

    request = await submit(cluster.client)
    async with operator(client=client_through(cluster, lagging)):
        for number in range(4):
            await _touch(cluster.client, request, number)
            await asyncio.sleep(30)
            for run in await cluster.client.list(DynamoGraphDeploymentRun):
                await _touch(cluster.client, run, number)
            await asyncio.sleep(30)
        transports[0].released.set()
        await start_pod(cluster.client, await the_job(cluster))
        await run_that(cluster, completed_with("Running", status="False"))

    assert {resource: creations(cluster, resource) for resource in ONCE} == dict.fromkeys(ONCE, 1)


async def test_no_job_is_made_for_a_run_that_another_operator_has_ended(
    cluster: Cluster, operator: Operator
):
    transports: list[Lagging] = []
    is_full = [True]

    def lagging(inner: Transport) -> Lagging:
        transports.append(Lagging(Answering(inner, lambda r: _quota(r, is_full)), RUNS))
        return transports[0]

    async with operator(client=client_through(cluster, lagging)):
        transports[0].released.set()
        await submit(cluster.client)
        run = await run_that(cluster, lambda r: r.status.execution_message == "exceeded quota")
        await asyncio.sleep(1)
        transports[0].released.clear()
        await patch_status(cluster.client, type(run), run.key, {"phase": "Failed"})
        is_full.clear()
        await asyncio.sleep(120)

    assert creations(cluster, "jobs") == 0


async def test_a_job_that_another_operator_made_is_not_missed(cluster: Cluster, operator: Operator):
    def lagging(inner: Transport) -> Lagging:
        return Lagging(Answering(inner, lambda r: _quota(r, [True])), "jobs")

    async with operator(client=client_through(cluster, lagging)), operator():
        await submit(cluster.client)
        await the_job(cluster)
        run = await run_that(cluster, lambda r: r.status.job_ref)
        await _touch(cluster.client, run, 1)
        await asyncio.sleep(60)

    assert completed_with("Pending", status="False")(await the_run(cluster.client))


async def test_a_job_that_was_deleted_before_it_was_recorded_is_not_made_again(
    cluster: Cluster, operator: Operator
):
    job = await _unrecorded_job(cluster, operator)
    await cluster.client.delete(Job, job.key, propagation="Background")
    assert (await cluster.client.get(Job, job.key)).is_deleting

    async with operator():
        run = await run_that(cluster, completed_with("InvalidExecution"))
        await cluster.eventually(lambda: is_gone(cluster.client, job))

    assert run.status.job_ref is not None
    assert run.status.job_ref.uid == job.uid
    assert creations(cluster, "jobs") == 1


async def test_a_recorded_job_is_held_by_nobody(cluster: Cluster, operator: Operator):
    await _unrecorded_job(cluster, operator)

    async with operator():
        await run_that(cluster, lambda run: run.status.job_ref)
        await cluster.eventually(
            lambda: the_job(cluster), lambda job: job.metadata.finalizers == []
        )


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_an_unrecorded_job_goes_with_its_run(
    cluster: Cluster, operator: Operator, propagation: Literal["Background", "Foreground"]
):
    job = await _unrecorded_job(cluster, operator)
    run = await the_run(cluster.client)
    await cluster.client.delete(DynamoGraphDeploymentRun, run.key, propagation=propagation)
    # As the garbage collector does it.
    await cluster.client.delete(Job, job.key, propagation="Background")

    async with operator():
        await cluster.eventually(lambda: is_gone(cluster.client, job))


async def test_an_unrecorded_job_of_a_superseded_run_goes(cluster: Cluster, operator: Operator):
    job = await _unrecorded_job(cluster, operator)
    change = {"spec": {"rerun": {"reason": "once more"}}}
    await cluster.client.patch(DynamoGraphDeploymentRequest, REQUEST_KEY, change)

    async with operator():
        await cluster.eventually(
            lambda: cluster.client.get(Job, job.key),
            lambda job: job.metadata.finalizers == ["foregroundDeletion"],
        )


async def _unrecorded_job(cluster: Cluster, operator: Operator) -> Job:
    """Have an operator make a Job and write nothing more."""

    def dies_with_the_job(request: HttpRequest) -> None:
        if is_write(request) and creations(cluster, "jobs"):
            raise TransportError("the operator is dead", sent=False)

    client = client_through(cluster, lambda inner: Answering(inner, dies_with_the_job))
    async with operator(client=client):
        await submit(cluster.client)
        job = await the_job(cluster)
    assert (await the_run(cluster.client)).status.job_ref is None
    return job


def _quota(request: HttpRequest, is_full: list[bool]) -> HttpResponse | None:
    if is_full and request.method == "POST" and is_write(request, "jobs"):
        return refusal(403, "Forbidden", "exceeded quota")
    return None


async def _live_and_die(cluster: Cluster, writes: int, death: Death) -> bool:
    """Run an operator until it dies at that write; False when it lived to see the end."""
    transports: list[Dying] = []

    def dying(inner: Transport) -> Dying:
        transports.append(Dying(inner, writes, death))
        return transports[0]

    async with _operator(cluster, client_through(cluster, dying)):
        while not transports[0].died.is_set():
            request = await cluster.client.get(DynamoGraphDeploymentRequest, REQUEST_KEY)
            if completed_with("Succeeded")(request):
                return False
            await asyncio.sleep(0.1)
    return True


def _operator(cluster: Cluster, client: Client) -> AbstractAsyncContextManager[Manager]:
    settings = OperatorSettings(operator_image=OPERATOR_IMAGE)
    return build_manager(client, settings, clock=cluster.clock, random=cluster.random).running()


async def _play(cluster: Cluster) -> None:
    """Do the cluster's part: run the Job's Pod, and let it end well."""
    client = cluster.client
    (job,) = await _until(lambda: client.list(Job, namespace=NAMESPACE), bool)
    pod = await start_pod(client, job)
    await _until(lambda: the_run(client), completed_with("Running", status="False"))
    await finish_search(cluster, job, pod)


async def _until(fetch: Callable[[], Awaitable[T]], predicate: Callable[[T], object]) -> T:
    """Look now and then: restarts take their time."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = await fetch()
            if predicate(found):
                return found
            await asyncio.sleep(0.5)


async def _touch(
    client: Client, obj: DynamoGraphDeploymentRequest | DynamoGraphDeploymentRun, number: int
) -> None:
    await client.patch(
        type(obj), obj.key, {"metadata": {"annotations": {"lab.test/touched": str(number)}}}
    )
