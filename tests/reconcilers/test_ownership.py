"""What the Run controller takes for a Run's own, mends, or leaves alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from dynamo_operator.api.names import publisher_name
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRun
from dynamo_operator.runtime import is_controlled_by, owner_reference
from dynamo_operator.runtime.builtin_kinds import ConfigMap, Job, Role, RoleBinding, ServiceAccount
from dynamo_operator.runtime.models import KubeModel
from dynamo_operator.testing.cluster import Cluster
from informers.objects import ObjectKey
from tests.reconcilers.conftest import Operator
from tests.reconcilers.foreign import (
    CHILDREN,
    JOB_SPEC,
    config_map,
    earlier,
    mallory,
    role,
    role_binding,
    service_account,
)
from tests.reconcilers.search import (
    NAMESPACE,
    collect,
    completed,
    completed_with,
    creations,
    event_about,
    finish_search,
    plant_run,
    run_that,
    start_search,
    the_job,
    the_run,
)

pytestmark = pytest.mark.virtual_time

Run = DynamoGraphDeploymentRun


@pytest.mark.parametrize("owner", ["nobody", "somebody else"])
@pytest.mark.parametrize("make", CHILDREN)
async def test_an_object_that_is_not_the_runs_is_named_and_left_alone(
    cluster: Cluster, operator: Operator, make: Callable[[Run], KubeModel], owner: str
):
    run = await plant_run(cluster.client)
    other = None
    if owner == "somebody else":
        other = await cluster.client.create(ConfigMap.new("other", namespace=NAMESPACE))
    foreign = await cluster.client.create(make(run), owner=other)

    async with operator():
        run = await run_that(cluster, completed_with("OwnershipConflict"))
        event = await event_about(cluster, run, "OwnershipConflict")

    condition = completed(run)
    assert condition is not None
    assert f"{type(foreign).__name__} {foreign.key}" in condition.message
    assert run.status.phase == "Failed"
    assert event.note == condition.message
    found = await cluster.client.get(type(foreign), foreign.key)
    assert found.resource_version == foreign.resource_version
    assert creations(cluster, "jobs") == (1 if isinstance(foreign, Job) else 0)


@pytest.mark.parametrize("make", CHILDREN)
async def test_a_stale_object_of_an_earlier_run_of_the_name_is_left_alone(
    cluster: Cluster, operator: Operator, make: Callable[[Run], KubeModel]
):
    old = await plant_run(cluster.client)
    stale = await cluster.client.create(make(old), owner=earlier(old))

    async with operator():
        await run_that(cluster, completed_with("OwnershipConflict"))

    found = await cluster.client.get(type(stale), stale.key)
    assert found.resource_version == stale.resource_version


async def test_a_config_map_with_a_forged_owner_is_left_alone(cluster: Cluster, operator: Operator):
    run = await plant_run(cluster.client)
    forged = await cluster.client.create(config_map(run), owner=run)

    async with operator():
        run = await run_that(cluster, completed_with("OwnershipConflict"))

    assert run.status.execution_snapshot is None
    assert run.status.aisimulate is None
    found = await cluster.client.get(ConfigMap, forged.key)
    assert found.resource_version == forged.resource_version
    assert creations(cluster, "jobs") == 0


@pytest.mark.parametrize(
    "make",
    [pytest.param(m, id=m.__name__) for m in (service_account, role, role_binding)],
)
async def test_forged_access_is_rewritten_whole(
    cluster: Cluster, operator: Operator, make: Callable[[Run], KubeModel]
):
    run = await plant_run(cluster.client)
    forged = await cluster.client.create(make(run), owner=run)

    async with operator():
        await the_job(cluster)

    found = await cluster.client.get(type(forged), forged.key)
    assert found.uid == forged.uid
    if isinstance(found, ServiceAccount):
        assert found.automount_service_account_token is False
    if isinstance(found, Role):
        assert not [r for rule in found.rules for r in rule["resources"] if r == "secrets"]
    if isinstance(found, RoleBinding):
        assert [subject["name"] for subject in found.subjects] == [publisher_name(run.uid)]


async def test_a_role_binding_of_another_role_is_a_conflict(cluster: Cluster, operator: Operator):
    run = await plant_run(cluster.client)
    binding = role_binding(run)
    binding.role_ref["name"] = "admin"
    forged = await cluster.client.create(binding, owner=run)

    async with operator():
        run = await run_that(cluster, completed_with("OwnershipConflict"))

    condition = completed(run)
    assert condition is not None
    assert "binds Role admin" in condition.message
    found = await cluster.client.get(RoleBinding, forged.key)
    assert found.resource_version == forged.resource_version


DRIFTS: list[Any] = [
    pytest.param(ServiceAccount, {"automountServiceAccountToken": True}, id="account-mounts"),
    pytest.param(
        Role,
        {"rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]},
        id="rules",
    ),
    pytest.param(Role, {"rules": None}, id="no-rules"),
    pytest.param(Role, {"metadata": {"labels": None}}, id="labels"),
    pytest.param(RoleBinding, {"subjects": [mallory(NAMESPACE)]}, id="subject"),
]


@pytest.mark.parametrize(("kind", "patch"), DRIFTS)
async def test_drift_of_the_publishers_access_is_mended(
    cluster: Cluster, operator: Operator, kind: type[KubeModel], patch: dict[str, Any]
):
    async with operator():
        await start_search(cluster)
        key = ObjectKey(NAMESPACE, publisher_name((await the_run(cluster.client)).uid))
        wanted = _content(await cluster.client.get(kind, key))
        await cluster.client.patch(kind, key, patch)
        assert _content(await cluster.client.get(kind, key)) != wanted

        await cluster.eventually(
            lambda: cluster.client.get(kind, key), lambda found: _content(found) == wanted
        )


async def test_an_extra_rule_and_an_extra_subject_are_taken_away(
    cluster: Cluster, operator: Operator
):
    async with operator():
        await start_search(cluster)
        key = ObjectKey(NAMESPACE, publisher_name((await the_run(cluster.client)).uid))
        wanted = (await cluster.client.get(Role, key)).rules
        rule = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
        await cluster.client.patch(Role, key, {"rules": [*wanted, rule]})
        subjects = (await cluster.client.get(RoleBinding, key)).subjects
        await cluster.client.patch(RoleBinding, key, {"subjects": [*subjects, mallory(NAMESPACE)]})

        await cluster.eventually(
            lambda: cluster.client.get(Role, key), lambda found: found.rules == wanted
        )
        await cluster.eventually(
            lambda: cluster.client.get(RoleBinding, key), lambda found: found.subjects == subjects
        )


@pytest.mark.parametrize("kind", [ServiceAccount, Role, RoleBinding])
async def test_access_that_was_deleted_comes_back(
    cluster: Cluster, operator: Operator, kind: type[KubeModel]
):
    async with operator():
        await start_search(cluster)
        key = ObjectKey(NAMESPACE, publisher_name((await the_run(cluster.client)).uid))
        before = await cluster.client.get(kind, key)
        await cluster.client.delete(kind, key)

        await cluster.eventually(
            lambda: cluster.client.find(kind, key), lambda o: o is not None and o.uid != before.uid
        )


async def test_two_jobs_of_one_run_end_it(cluster: Cluster, operator: Operator):
    async with operator():
        own, pod = await start_search(cluster)
        run = await the_run(cluster.client)
        second = Job.new("second", namespace=NAMESPACE, spec=JOB_SPEC)
        await cluster.client.create(second, owner=run)
        await run_that(cluster, completed_with("InvalidExecution", status="False"))
        for each in (own, second):
            await cluster.client.patch(Job, each.key, {"metadata": {"finalizers": None}})
        await cluster.client.delete(type(pod), pod.key, grace_period_seconds=0)
        run = await run_that(cluster, completed_with("InvalidExecution"))

    condition = completed(run)
    assert condition is not None
    assert own.key.name in condition.message
    assert "second" in condition.message


async def test_an_uninvited_job_is_not_taken_for_the_runs(cluster: Cluster, operator: Operator):
    run = await plant_run(cluster.client)
    uninvited = Job.new("uninvited", namespace=NAMESPACE, spec=JOB_SPEC)
    await cluster.client.create(uninvited, owner=run)

    async with operator():
        run = await run_that(cluster, completed_with("InvalidExecution", status="False"))

    assert run.status.job_ref is None
    assert creations(cluster, "jobs") == 1


async def test_a_job_that_lost_its_owner_gets_it_back_and_is_heard_of(
    cluster: Cluster, operator: Operator
):
    async with operator():
        own, pod = await start_search(cluster)
        await cluster.client.patch(Job, own.key, {"metadata": {"ownerReferences": None}})
        await asyncio.sleep(10)
        mended = await the_job(cluster)
        await finish_search(cluster, mended, pod)
        run = await run_that(cluster, completed_with("Succeeded"))

    assert is_controlled_by(mended, run)
    assert mended.uid == own.uid
    assert creations(cluster, "jobs") == 1


async def test_a_job_that_was_given_to_another_ends_with_its_run(
    cluster: Cluster, operator: Operator
):
    async with operator():
        own, pod = await start_search(cluster)
        other = await cluster.client.create(ConfigMap.new("other", namespace=NAMESPACE))
        given = {**owner_reference(other), "controller": True}
        await cluster.client.patch(Job, own.key, {"metadata": {"ownerReferences": [given]}})
        run = await run_that(cluster, completed_with("OwnershipConflict", status="False"))
        deleted = await cluster.client.get(Job, own.key)
        await collect(cluster.client, own, pod)
        await run_that(cluster, completed_with("OwnershipConflict"))

    condition = completed(run)
    assert condition is not None
    assert condition.message == f"Job {own.key.name} of this Run was given to another controller"
    assert deleted.is_deleting
    assert creations(cluster, "jobs") == 1


async def test_an_access_that_is_as_it_should_be_is_not_written(
    cluster: Cluster, operator: Operator
):
    async with operator():
        await start_search(cluster)
        await asyncio.sleep(600)

    kinds = ("serviceaccounts", "roles", "rolebindings", "configmaps")
    made = [entry.verb for entry in cluster.audit.writes() if entry.resource in kinds]
    assert made == ["create"] * 4


def _content(obj: KubeModel) -> dict[str, Any]:
    wire = obj.to_dict()
    return {
        "labels": wire["metadata"].get("labels"),
        **{
            name: wire[name]
            for name in ("rules", "subjects", "roleRef", "automountServiceAccountToken")
            if name in wire
        },
    }
