"""The operator with the shipped roles alone: they suffice, and nothing in them is idle."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from dynamo_operator.api.labels import GROUP
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRun
from dynamo_operator.apiserver.audit import AuditEntry
from dynamo_operator.app import permissions
from dynamo_operator.generate.layout import MANAGER, NAME
from dynamo_operator.generate.layout import NAMESPACE as OPERATOR_NAMESPACE
from dynamo_operator.generate.rbac import (
    gpu_discovery_role,
    manager_role,
    role_binding,
    role_rules,
    service_account,
)
from dynamo_operator.hardware.discovery import GPU_DISCOVERY_ROLE
from dynamo_operator.runtime.builtin_kinds import (
    ClusterRole,
    ClusterRoleBinding,
    Job,
    Namespace,
    Role,
    RoleBinding,
    Secret,
    ServiceAccount,
)
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.client.errors import ForbiddenError
from dynamo_operator.runtime.manager import MANAGER_PERMISSIONS
from dynamo_operator.runtime.permissions import Permission
from dynamo_operator.testing.cluster import Cluster
from reconcilers import request, run
from tests.builders import exited
from tests.reconcilers.conftest import Operator
from tests.reconcilers.search import (
    NAMESPACE,
    change,
    collect,
    completed_with,
    event_about,
    finish_search,
    is_going,
    patch_status,
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

USER = f"system:serviceaccount:{OPERATOR_NAMESPACE}:{NAME}"
Right = tuple[str, str, str]

_TO_GRANT = "a rule of the publisher's Role: only who has it may grant it"
_TO_BLOCK = "setting a controller reference that blocks the owner's deletion"
UNUSED: dict[Right, str] = {
    (GROUP, "dynamographdeploymentcandidates", "create"): _TO_GRANT,
    (GROUP, "dynamographdeploymentcandidates", "delete"): _TO_GRANT,
    (GROUP, "dynamographdeploymentcandidates/status", "update"): _TO_GRANT,
    ("", "pods", "get"): _TO_GRANT,
    (GROUP, "dynamographdeploymentrequests/finalizers", "update"): _TO_BLOCK,
    (GROUP, "dynamographdeploymentruns/finalizers", "update"): _TO_BLOCK,
}
"""What is granted and never asked for, and why."""


@pytest.fixture
async def operator_client(cluster: Cluster) -> Client:
    """A client that may do what the shipped roles grant, in a cluster that enforces them."""
    admin = cluster.client
    await admin.create(Namespace.new(OPERATOR_NAMESPACE))
    await admin.create(ServiceAccount.model_validate(service_account()))
    await admin.create(ClusterRole.model_validate(manager_role()))
    await admin.create(ClusterRole.model_validate(gpu_discovery_role()))
    for role in (MANAGER, GPU_DISCOVERY_ROLE):
        await admin.create(ClusterRoleBinding.model_validate(role_binding(role)))
    return cluster.client_of(USER)


async def test_searches_are_granted_what_whole_ones_use_and_nothing_else(
    cluster: Cluster, operator: Operator, operator_client: Client
):
    async with operator(client=operator_client, run_history_limit=1):
        await _succeed_with_open_hardware(cluster)
        await _supersede(cluster)
        await _lose_the_publisher(cluster)
        await cluster.eventually(lambda: runs(cluster.client), lambda found: len(found) == 2)

    assert [entry for entry in cluster.audit.entries if _is_refused(entry)] == []
    used = _used(cluster)
    assert used <= _rights(permissions()) | {("", "nodes", "list")}
    granted = _rights((*MANAGER_PERMISSIONS, *request.PERMISSIONS, *run.PERMISSIONS))
    # Where a server cannot stream a list, informers list before they watch.
    to_fall_back = {(group, resource, "list") for group, resource, verb in used if verb == "watch"}
    assert granted - used - to_fall_back == UNUSED.keys()


async def test_the_role_of_a_publisher_cannot_be_made_wider(
    cluster: Cluster, operator: Operator, operator_client: Client
):
    async with operator(client=operator_client):
        await start_search(cluster)
    (role,) = await cluster.client.list(Role, namespace=NAMESPACE)
    more = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
    wider = Role.new("wider", namespace=NAMESPACE, rules=[*role.rules, more])

    with pytest.raises(
        ForbiddenError, match="attempting to grant RBAC permissions not currently held"
    ):
        await operator_client.create(wider)


async def test_pull_secrets_are_read_by_name_and_only_with_a_right_of_their_own(
    cluster: Cluster, operator: Operator, operator_client: Client
):
    await cluster.client.create(Secret.new("registry", namespace=NAMESPACE))
    async with operator(client=operator_client, image_pull_secrets=("registry",)):
        await submit(cluster.client)
        await run_that(
            cluster,
            lambda run: 'secrets "registry" is forbidden' in (run.status.execution_message or ""),
        )
    wider = ClusterRole.model_validate(manager_role(image_pull_secrets=("registry",)))
    await cluster.client.apply(wider, force=True)

    async with operator(client=operator_client, image_pull_secrets=("registry",)):
        await the_job(cluster)

    secrets = {(e.verb, e.name) for e in cluster.audit.entries if e.resource == "secrets"}
    assert secrets - {("create", "registry")} == {("get", "registry")}
    (rule,) = [rule for rule in wider.rules if "secrets" in rule["resources"]]
    assert (rule["verbs"], rule["resourceNames"]) == (["get"], ["registry"])


async def test_pull_secrets_are_discovered_only_with_a_right_of_their_own(
    cluster: Cluster, operator: Operator, operator_client: Client
):
    async with operator(client=operator_client, discover_image_pull_secrets=True):
        await submit(cluster.client)
        await run_that(
            cluster,
            lambda run: (
                "image pull secrets cannot be discovered: secrets is forbidden"
                in (run.status.execution_message or "")
            ),
        )
    wider = ClusterRole.model_validate(manager_role())
    declared = permissions(discover_image_pull_secrets=True)
    wider = wider.model_copy(update={"rules": role_rules(declared)})
    await cluster.client.apply(wider, force=True)

    async with operator(client=operator_client, discover_image_pull_secrets=True):
        await the_job(cluster)

    secrets = {
        (e.verb, e.namespace, e.name) for e in cluster.audit.entries if e.resource == "secrets"
    }
    assert secrets == {("list", NAMESPACE, "")}


async def _succeed_with_open_hardware(cluster: Cluster) -> None:
    await submit(cluster.client, hardware=None)
    job = await the_job(cluster)
    pod = await start_pod(cluster.client, job)
    run = await the_run(cluster.client)
    await run_that(cluster, completed_with("Running", status="False"))
    for kind in (ServiceAccount, Role, RoleBinding):
        await _strip_and_see_mended(cluster, kind)
    missing = {"candidateRefs": [{"name": "not-there-yet"}]}
    await patch_status(cluster.client, DynamoGraphDeploymentRun, run.key, missing)
    await finish_search(cluster, job, pod)
    await event_about(cluster, run, "Succeeded")
    await request_that(cluster, completed_with("Succeeded"))


async def _supersede(cluster: Cluster) -> None:
    await change(cluster.client, rerun={"reason": "again"})
    job = await _newest_job(cluster, 2)
    for is_suspended in (True, False, True):  # the same event twice is a series
        await cluster.client.patch(Job, job.key, {"spec": {"suspend": is_suspended}})
        await asyncio.sleep(1)
    await change(cluster.client, rerun={"reason": "and again"})
    await cluster.eventually(lambda: is_going(cluster.client, job))
    await collect(cluster.client, job)


async def _lose_the_publisher(cluster: Cluster) -> None:
    job = await _newest_job(cluster, 3)
    pod = await start_pod(cluster.client, job)
    await set_containers(cluster.client, pod, planner={"running": {}}, publisher=exited(1))
    await cluster.eventually(lambda: is_going(cluster.client, job))
    await collect(cluster.client, job, pod)
    await request_that(cluster, completed_with("PublisherFailed"))
    await change(cluster.client, rerun={"reason": "the last"})
    await _newest_job(cluster, 4)


async def _newest_job(cluster: Cluster, generation: int) -> Job:
    """Wait for the Job of that generation's Run."""

    def has_it(jobs: list[Job]) -> bool:
        return any(f"-g{generation}-" in job.key.name for job in jobs)

    jobs = await cluster.eventually(
        lambda: cluster.client.list(Job, namespace=NAMESPACE), has_it, timeout=30
    )
    return next(job for job in jobs if f"-g{generation}-" in job.key.name)


async def _strip_and_see_mended(
    cluster: Cluster, kind: type[ServiceAccount | Role | RoleBinding]
) -> None:
    (child,) = await cluster.client.list(kind, namespace=NAMESPACE)
    await cluster.client.patch(kind, child.key, {"metadata": {"labels": None}})
    await cluster.eventually(
        lambda: cluster.client.get(kind, child.key), lambda found: bool(found.labels)
    )


def _rights(declared: Iterable[Permission]) -> set[Right]:
    return {
        (permission.group, resource, verb)
        for permission in declared
        for resource in permission.resources
        for verb in permission.verbs
    }


def _used(cluster: Cluster) -> set[Right]:
    return {
        (
            entry.group,
            f"{entry.resource}/{entry.subresource}" if entry.subresource else entry.resource,
            entry.verb,
        )
        for entry in cluster.audit.entries
        if entry.user.name == USER and entry.resource
    }


def _is_refused(entry: AuditEntry) -> bool:
    return entry.user.name == USER and entry.code == 403
