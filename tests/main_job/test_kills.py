"""kill -9 of the operator at every moment that matters, and its return: once is enough."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio

from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRun
from dynamo_operator.cli.local import grant_operator
from dynamo_operator.local_cluster.cluster import LocalCluster
from dynamo_operator.runtime.builtin_kinds import ConfigMap, Job, Pod
from dynamo_operator.testing.fault_proxy import FaultProxy
from dynamo_operator.testing.faults import Cut, Injection, Point
from dynamo_operator.testing.polling import eventually
from informers.objects import ObjectKey
from tests.main_job import scripted_planner
from tests.main_job.operator_process import OperatorProcess
from tests.main_job.processes import command_of
from tests.main_job.stage import (
    PATIENCE_SECONDS,
    Stage,
    completed_with,
    container_processes,
    message_of,
)

pytestmark = [pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]

DYNAMO = "/apis/nvidia.com/v1beta2/namespaces/[^/]+"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/[^/]+"
CREATE_RUN = ("POST", f"{DYNAMO}/dynamographdeploymentruns")
CREATE_CONFIG_MAP = ("POST", "/api/v1/namespaces/[^/]+/configmaps")
CREATE_SERVICE_ACCOUNT = ("POST", "/api/v1/namespaces/[^/]+/serviceaccounts")
CREATE_ROLE = ("POST", f"{RBAC}/roles")
CREATE_ROLE_BINDING = ("POST", f"{RBAC}/rolebindings")
CREATE_JOB = ("POST", "/apis/batch/v1/namespaces/[^/]+/jobs")
RUN_STATUS = ("PATCH", f"{DYNAMO}/dynamographdeploymentruns/[^/]+/status")
REQUEST_STATUS = ("PATCH", f"{DYNAMO}/dynamographdeploymentrequests/[^/]+/status")

FROZEN = '"executionSnapshot":'
JOB_RECORDED = '"jobRef":'
RUNNING = '"phase":"Running"'
BEST = '"best":'
OVER = '"type":"Completed","status":"True"'

MOMENTS = {
    "before the Run is created": Point(*CREATE_RUN),
    "after the Run was created": Point(*CREATE_RUN, when="after"),
    "after the Request named its Run": Point(*REQUEST_STATUS, when="after"),
    "before the ConfigMap is created": Point(*CREATE_CONFIG_MAP),
    "after the ConfigMap was created": Point(*CREATE_CONFIG_MAP, when="after"),
    "after the ConfigMap was recorded": Point(*RUN_STATUS, body=FROZEN, when="after"),
    "after the ServiceAccount was created": Point(*CREATE_SERVICE_ACCOUNT, when="after"),
    "after the Role was created": Point(*CREATE_ROLE, when="after"),
    "after the RoleBinding was created": Point(*CREATE_ROLE_BINDING, when="after"),
    "before the Job is created": Point(*CREATE_JOB),
    "after the Job was created": Point(*CREATE_JOB, when="after"),
    "after the Job was recorded": Point(*RUN_STATUS, body=JOB_RECORDED, when="after"),
    "before the Run is Running": Point(*RUN_STATUS, body=RUNNING),
    "when the first Candidate is published": Point(*REQUEST_STATUS, body=BEST),
    "before the Run is over": Point(*RUN_STATUS, body=OVER),
    "after the Run was over": Point(*RUN_STATUS, body=OVER, when="after"),
    "before the Request is over": Point(*REQUEST_STATUS, body=OVER),
    "after the Request was over": Point(*REQUEST_STATUS, body=OVER, when="after"),
}
ENDING = '"reason":"PublisherFailed"'
DELETE_JOB = ("DELETE", f"{CREATE_JOB[1]}/[^/]+")
MOMENTS_OF_A_BAD_END = {
    "before the reason is recorded": Point(*RUN_STATUS, body=ENDING),
    "after the reason was recorded": Point(*RUN_STATUS, body=ENDING, when="after"),
    "before the Job is deleted": Point(*DELETE_JOB),
    "after the Job was deleted": Point(*DELETE_JOB, when="after"),
    "before the Run is over": Point(*RUN_STATUS, body=OVER),
}
MADE_ONCE = (
    "dynamographdeploymentruns",
    "configmaps",
    "serviceaccounts",
    "roles",
    "rolebindings",
    "jobs",
)


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator as a process with its own rights, and the proxy that it speaks through."""

    process: OperatorProcess
    proxy: FaultProxy

    def kill_at(self, point: Point) -> Injection:
        """Have the operator killed at a point."""
        return self.proxy.inject(point, Cut(self.process.kill))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def operator_process(
    scripted_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Operation]:
    """An operator that has not started yet."""
    directory = tmp_path_factory.mktemp("operator")
    user = await grant_operator(scripted_cluster.client)
    kubeconfig = directory / "operator.kubeconfig"
    scripted_cluster.kubeconfig(user, groups=(), path=kubeconfig)
    async with FaultProxy(kubeconfig, directory=directory) as proxy:
        # Alone, and not to wait for the lease of the one that was killed.
        flags = ["--leader-election.enabled=false"]
        operator = OperatorProcess(proxy.kubeconfig, log_directory=directory, flags=flags)
        try:
            yield Operation(operator, proxy)
        finally:
            await operator.kill()


@pytest.fixture
def stage(unoperated: Stage, operation: Operation) -> Stage:
    """A stage in which that operator acts."""
    return unoperated


@pytest_asyncio.fixture(loop_scope="module")
async def operation(operator_process: Operation) -> Operation:
    """The operator at work, nothing bad in its way."""
    await operator_process.proxy.heal()
    if not operator_process.process.is_running:
        await operator_process.process.start()
    return operator_process


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_search_survives_the_death_of_the_operator(
    operation: Operation, stage: Stage, moment: str
):
    killed = operation.kill_at(MOMENTS[moment])
    await stage.submit("succeeds")
    await killed.reached()

    await operation.process.start()

    await eventually(stage.request, completed_with("Succeeded"), timeout=PATIENCE_SECONDS)
    await assert_everything_was_made_once(stage)
    assert killed.happened == 1


async def test_a_search_that_ends_while_no_operator_runs_succeeds_when_one_returns(
    operation: Operation, stage: Stage
):
    await stage.submit("waits-halfway")
    _, pod = await stage.searching()
    await operation.process.kill()

    os.kill(command_of(pod, "planner").pid, scripted_planner.GO_SIGNAL)
    await eventually(lambda: the_job(stage), is_complete, timeout=PATIENCE_SECONDS)
    (before,) = await stage.runs()
    await operation.process.start()

    await eventually(stage.request, completed_with("Succeeded"), timeout=PATIENCE_SECONDS)
    await assert_everything_was_made_once(stage)
    assert before.status.phase == "Running"


async def test_a_planner_that_dies_while_no_operator_runs_is_found_dead(
    operation: Operation, stage: Stage
):
    await stage.submit("goes-on")
    _, pod = await stage.searching()
    processes = container_processes(pod)
    await operation.process.kill()

    os.kill(command_of(pod, "planner").pid, signal.SIGKILL)
    await operation.process.start()

    run = await stage.run_that(completed_with("Failed"))
    assert message_of(run) == "the planner ended with exit code 137, signal 9"
    assert made_by_the_operator(stage) == dict.fromkeys(MADE_ONCE, 1)
    await eventually(processes.alive, lambda alive: not alive)


@pytest.mark.parametrize("moment", MOMENTS_OF_A_BAD_END)
async def test_a_bad_end_survives_the_death_of_the_operator(
    operation: Operation, stage: Stage, moment: str
):
    killed = operation.kill_at(MOMENTS_OF_A_BAD_END[moment])
    await stage.submit("goes-on")
    _, pod = await stage.searching()
    processes = container_processes(pod)
    os.kill(command_of(pod, "publisher").pid, signal.SIGKILL)
    await killed.reached()

    await operation.process.start()

    run = await stage.run_that(completed_with("PublisherFailed"))
    assert "exit code 137, signal 9" in message_of(run)
    assert await stage.client.list(Job, namespace=stage.namespace) == []
    assert made_by_the_operator(stage) == dict.fromkeys(MADE_ONCE, 1)
    assert processes.alive() == []


async def test_a_job_that_was_deleted_before_it_was_recorded_is_not_made_again(
    operation: Operation, stage: Stage
):
    killed = operation.kill_at(MOMENTS["after the Job was created"])
    await stage.submit("goes-on")
    await killed.reached()
    job = await the_job(stage)
    await stage.client.delete(Job, job.key, propagation="Background")

    await operation.process.start()

    await stage.run_that(completed_with("InvalidExecution"))
    assert made_by_the_operator(stage) == dict.fromkeys(MADE_ONCE, 1)
    await eventually(
        lambda: stage.client.list(Pod, namespace=stage.namespace),
        lambda pods: pods == [],
        timeout=PATIENCE_SECONDS,
    )
    assert await stage.client.find(Job, job.key) is None


async def the_job(stage: Stage) -> Job:
    """The one Job there is."""
    (job,) = await stage.client.list(Job, namespace=stage.namespace)
    return job


def is_complete(job: Job) -> bool:
    """Whether a Job has succeeded."""
    return any(c["type"] == "Complete" for c in job.status.get("conditions", ()))


async def assert_everything_was_made_once(stage: Stage) -> None:
    """What one finished search makes is there, and nothing else ever was."""
    (run,) = await stage.runs()
    assert completed_with("Succeeded")(run)
    assert made_by_the_operator(stage) == dict.fromkeys(MADE_ONCE, 1)
    frozen = run.status.execution_snapshot
    assert frozen is not None
    config_map = await stage.client.get(ConfigMap, ObjectKey(stage.namespace, frozen.name))
    assert config_map.uid == frozen.uid
    await assert_all_candidates_are_there(stage, run)


def made_by_the_operator(stage: Stage) -> dict[str, int]:
    """How many of each the operator created in the whole history, by the audit log."""
    resources = (*MADE_ONCE, "pods", "dynamographdeploymentcandidates")
    made = {
        resource: len(
            stage.cluster.audit.created(
                resource, user=stage.operator_user, namespace=stage.namespace
            )
        )
        for resource in resources
    }
    return {resource: count for resource, count in made.items() if count}


async def assert_all_candidates_are_there(stage: Stage, run: DynamoGraphDeploymentRun) -> None:
    """Every point of the script is published, best first, each made once and complete."""
    candidates = {each.key.name: each for each in await stage.candidates()}
    made = stage.cluster.audit.created("dynamographdeploymentcandidates", namespace=stage.namespace)
    assert Counter(entry.name for entry in made) == Counter(candidates.keys())
    ranked = [candidates.pop(ref.name) for ref in run.status.candidate_refs]
    assert candidates == {}
    assert [each.spec["parameters"]["tp"] for each in ranked] == scripted_planner.ORDER
    for each in ranked:
        assert each.status.metrics is not None
        assert each.status.conditions[0].type == "Evaluated"
