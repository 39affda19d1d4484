"""What a Run does not take for its own, cannot be executed with, and waits for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dynamo_operator.admission.defaulting import complete
from dynamo_operator.api.v1beta2 import (
    DynamoGraphDeploymentCandidate,
    DynamoGraphDeploymentRequest,
    DynamoGraphDeploymentRun,
)
from dynamo_operator.cli.crds import apply_crds
from dynamo_operator.cli.local import GPU_LABELS, operated
from dynamo_operator.runtime.builtin_kinds import (
    ConfigMap,
    CustomResourceDefinition,
    Job,
    Node,
    RoleBinding,
    ServiceAccount,
)
from dynamo_operator.runtime.models import KubeModel
from dynamo_operator.testing.polling import eventually
from informers.objects import ObjectKey
from reconcilers.request.plan import render_run
from tests.builders import COMPLETED_SPEC
from tests.main_job.stage import PATIENCE_SECONDS, Stage, completed_with, message_of
from tests.reconcilers import foreign

pytestmark = [pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]

Run = DynamoGraphDeploymentRun
Make = Callable[[Run], KubeModel]
MAKERS: tuple[Make, ...] = (
    foreign.config_map,
    foreign.service_account,
    foreign.role,
    foreign.role_binding,
    foreign.job,
)
HOLD = "lab.test/hold"
TOO_LITTLE = {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}


async def plant_run(stage: Stage, name: str) -> Run:
    """Make a Request and its Run as an operator leaves them that died right after."""
    spec = {**COMPLETED_SPEC, "model": {"name": "scripted/goes-on"}}
    request = await stage.client.create(
        DynamoGraphDeploymentRequest.new(name, namespace=stage.namespace, spec=spec)
    )
    return await stage.client.create(render_run(request, complete(request.spec)), owner=request)


async def plant_child(stage: Stage, make: Make, run: Run, owner: KubeModel | None) -> KubeModel:
    """Make an object in the place of a child; nothing that has no owner is collected."""
    child = make(run)
    child.metadata.finalizers = [HOLD]
    if isinstance(child, Job):
        child.spec["suspend"] = True  # the cluster runs no Pod for it
    return await stage.client.create(child, owner=owner)


async def ended(stage: Stage, run: Run, reason: str) -> str:
    """Wait for a Run's end for that reason; return what it says of it."""
    found = await eventually(
        lambda: stage.client.get(Run, run.key), completed_with(reason), timeout=PATIENCE_SECONDS
    )
    return message_of(found)


async def release(stage: Stage, child: KubeModel) -> None:
    await stage.client.patch(type(child), child.key, {"metadata": {"finalizers": None}})
    if await stage.client.find(type(child), child.key) is not None:
        await stage.client.delete(type(child), child.key)


@pytest.mark.parametrize("owner", ["nobody", "somebody else", "an earlier run"])
async def test_a_child_that_is_not_the_runs_is_named_and_left_alone(
    unoperated: Stage, owner: str
) -> None:
    other = await unoperated.client.create(ConfigMap.new("other", namespace=unoperated.namespace))
    planted: list[tuple[Run, KubeModel]] = []
    for number, make in enumerate(MAKERS):
        run = await plant_run(unoperated, f"r{number}")
        owners = {"nobody": None, "somebody else": other, "an earlier run": foreign.earlier(run)}
        planted.append((run, await plant_child(unoperated, make, run, owners[owner])))

    async with operated(unoperated.cluster):
        for run, child in planted:
            message = await ended(unoperated, run, "OwnershipConflict")
            assert f"{type(child).__name__} {child.key}" in message
    for _, child in planted:
        found = await unoperated.client.get(type(child), child.key)
        assert (found.uid, found.labels) == (child.uid, child.labels)
        assert found.owner_references == child.owner_references
        await release(unoperated, child)
    await unoperated.client.delete(ConfigMap, other.key)


async def test_what_copied_the_runs_ownership_is_compared_or_written_anew(
    unoperated: Stage,
) -> None:
    forged = await plant_run(unoperated, "forged")
    frozen = await plant_child(unoperated, foreign.config_map, forged, forged)
    bound = await plant_run(unoperated, "bound")
    binding = foreign.role_binding(bound)
    binding.role_ref["name"] = "admin"
    await unoperated.client.create(binding, owner=bound)
    mended = await plant_run(unoperated, "mended")
    for make in (foreign.service_account, foreign.role, foreign.role_binding):
        await unoperated.client.create(make(mended), owner=mended)

    async with operated(unoperated.cluster):
        assert str(frozen.key) in await ended(unoperated, forged, "OwnershipConflict")
        assert "binds Role admin" in await ended(unoperated, bound, "OwnershipConflict")
        await eventually(
            lambda: unoperated.client.get(Run, mended.key),
            lambda run: run.status.phase == "Running",
            timeout=PATIENCE_SECONDS,
        )
    key = ObjectKey(unoperated.namespace, f"dgdr-publisher-{mended.uid}")
    subjects = (await unoperated.client.get(RoleBinding, key)).subjects
    account = await unoperated.client.get(ServiceAccount, key)
    assert [subject["name"] for subject in subjects] == [key.name]
    assert account.automount_service_account_token is False
    await release(unoperated, frozen)


async def test_an_execution_without_its_frozen_input_is_over_and_not_made_up(
    scripted: Stage,
) -> None:
    await scripted.submit("goes-on")
    run, _ = await scripted.searching()
    assert run.status.execution_snapshot is not None
    frozen = ObjectKey(scripted.namespace, run.status.execution_snapshot.name)

    await scripted.client.delete(ConfigMap, frozen)

    assert f"ConfigMap {frozen}" in await ended(scripted, run, "InvalidExecution")
    assert await scripted.client.find(ConfigMap, frozen) is None
    assert await scripted.client.list(Job, namespace=scripted.namespace) == []
    assert len(await scripted.candidates()) == 2


async def test_a_job_that_is_deleted_by_hand_is_not_run_again(scripted: Stage) -> None:
    await scripted.submit("goes-on")
    run, _ = await scripted.searching()
    assert run.status.job_ref is not None
    job = ObjectKey(scripted.namespace, run.status.job_ref.name)

    await scripted.client.delete(Job, job, propagation="Background")

    message = await ended(scripted, run, "InvalidExecution")
    assert job.name in message
    assert "spec.rerun.reason" in message
    assert await scripted.client.list(Job, namespace=scripted.namespace) == []


async def test_a_second_job_of_a_run_ends_it(scripted: Stage) -> None:
    await scripted.submit("goes-on")
    run, _ = await scripted.searching()
    second = Job.new(
        "second", namespace=scripted.namespace, spec={**foreign.JOB_SPEC, "suspend": True}
    )

    await scripted.client.create(second, owner=run)

    assert "second" in await ended(scripted, run, "InvalidExecution")
    assert await scripted.client.list(Job, namespace=scripted.namespace) == []


async def test_a_job_that_the_api_server_finds_invalid_ends_its_run_with_the_servers_text(
    unoperated: Stage,
) -> None:
    run = await plant_run(unoperated, "invalid")

    async with operated(unoperated.cluster, planner={"resources": TOO_LITTLE}):
        message = await ended(unoperated, run, "InvalidInput")

    assert "spec.template.spec.containers[0].resources.requests" in message
    assert "must be less than or equal to cpu limit of 1" in message
    assert await unoperated.client.list(Job, namespace=unoperated.namespace) == []


async def waits(stage: Stage, run: Run, reason: str, text: str) -> None:
    """See that a Run waits for that reason and nothing was made for it."""

    def holds(found: Run) -> bool:
        (condition,) = found.status.conditions or (None,)
        return condition is not None and condition.reason == reason

    found = await eventually(
        lambda: stage.client.get(Run, run.key), holds, timeout=PATIENCE_SECONDS
    )
    assert (found.status.phase, found.status.conditions[0].status) == ("Pending", "False")
    assert text in (found.status.execution_message or "")
    assert await stage.client.list(Job, namespace=stage.namespace) == []


async def test_a_run_waits_for_pull_secrets(unoperated: Stage) -> None:
    run = await plant_run(unoperated, "waits")

    async with operated(unoperated.cluster, image_pull_secrets=["registry"]):
        await waits(unoperated, run, "WaitingForImagePullSecrets", "image pull secret registry")


async def test_a_run_waits_for_gpus(unoperated: Stage) -> None:
    run = await plant_run(unoperated, "waits")
    (node,) = await unoperated.client.list(Node)
    await unoperated.client.patch(
        Node, node.key, {"metadata": {"labels": dict.fromkeys(GPU_LABELS)}}
    )
    try:
        async with operated(unoperated.cluster):
            await waits(unoperated, run, "WaitingForHardware", "no node with GPUs was found")
    finally:
        await unoperated.client.patch(Node, node.key, {"metadata": {"labels": GPU_LABELS}})


async def test_a_run_waits_until_candidates_can_be_written(unoperated: Stage) -> None:
    kind = DynamoGraphDeploymentCandidate.resource_type
    definition = ObjectKey("", f"{kind.plural}.{kind.group}")
    async with operated(unoperated.cluster):
        await unoperated.client.delete(CustomResourceDefinition, definition)
        try:
            await eventually(
                lambda: unoperated.client.find(CustomResourceDefinition, definition),
                lambda found: found is None,
            )
            run = await plant_run(unoperated, "waits")
            await waits(unoperated, run, "CandidateAPIUnavailable", "apply its CRD")
        finally:
            await apply_crds(unoperated.client)
