"""What the Request controller does, on an embedded API server in virtual time."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from dynamo_operator.api.names import run_name
from dynamo_operator.api.v1beta2 import (
    DynamoGraphDeploymentCandidate,
    DynamoGraphDeploymentRequest,
    DynamoGraphDeploymentRun,
)
from dynamo_operator.runtime.builtin_kinds import (
    ConfigMap,
    Job,
    Node,
    Role,
    RoleBinding,
    ServiceAccount,
)
from dynamo_operator.runtime.models import KubeModel
from dynamo_operator.testing.cluster import Cluster
from tests.builders import COMPLETED_SPEC, exited
from tests.reconcilers.conftest import GPU_NODE, Operator, with_garbage_collector
from tests.reconcilers.faults import Answering, Passing, client_through, is_write, refusal
from tests.reconcilers.search import (
    NAMESPACE,
    REQUEST_KEY,
    accepted,
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
    the_request,
    the_run,
    writes,
)

pytestmark = pytest.mark.virtual_time

Run = DynamoGraphDeploymentRun
INVALID: dict[str, Any] = {"aisimulate": {"inputOverrides": {"dgdr_run": {"name": "mine"}}}}
"""What a schema cannot refuse: a value that the operator owns."""


async def test_the_request_is_never_written_but_for_its_status(
    cluster: Cluster, operator: Operator
):
    async with operator():
        before = await submit(cluster.client)
        request = await request_that(cluster, accepted_with("RunCreated"))

    assert request.spec == before.spec
    assert request.generation == 1
    assert request.status.observed_generation == 1
    touched = {w for w in writes(cluster) if "requests llama" in w and not w.startswith("create")}
    assert touched == {"patch dynamographdeploymentrequests llama"}
    assert {
        entry.subresource
        for entry in cluster.audit.writes()
        if entry.resource == "dynamographdeploymentrequests" and entry.verb == "patch"
    } == {"status"}


async def test_a_run_says_whose_it_is(cluster: Cluster, operator: Operator):
    async with operator():
        request = await submit(cluster.client)
        run = await cluster.eventually(lambda: runs(cluster.client))

    assert run[0].labels["nvidia.com/dgdr-request-uid"] == request.uid
    assert run[0].labels["nvidia.com/dgdr-request-generation"] == "1"
    assert run[0].annotations["nvidia.com/dgdr-request-name"] == "llama"
    (owner,) = run[0].owner_references
    assert (owner.kind, owner.uid) == ("DynamoGraphDeploymentRequest", request.uid)
    assert owner.controller
    assert run[0].spec.to_dict() == COMPLETED_SPEC


async def test_a_newer_generation_waits_for_the_active_run(cluster: Cluster, operator: Operator):
    async with operator():
        job, pod = await start_search(cluster)
        await change(cluster.client, rerun={"reason": "again"})
        request = await request_that(cluster, accepted_with("WaitingForActiveRun"))
        waiting = accepted(request)
        assert waiting is not None
        assert (waiting.status, waiting.observed_generation) == ("True", 2)
        (first,) = await runs(cluster.client)
        assert request.status.active_run_ref is not None
        assert request.status.active_run_ref.name == first.key.name
        assert completed_with("Pending", status="False")(request)

        await cluster.eventually(lambda: cluster.client.get(Job, job.key), lambda j: j.is_deleting)
        await collect(cluster.client, job, pod)
        request = await request_that(cluster, accepted_with("RunCreated"))

    assert request.status.active_run_ref is not None
    assert request.status.active_run_ref.name == run_name("llama", request.uid, 2)
    assert [(ref.generation, ref.phase) for ref in request.status.recent_run_refs] == [
        (2, "Pending"),
        (1, "Failed"),
    ]


async def test_a_generation_that_admission_would_refuse_makes_no_run(
    cluster: Cluster, operator: Operator
):
    async with operator():
        await submit(cluster.client, **INVALID)
        request = await request_that(cluster, accepted_with("InvalidInput"))
        event = await event_about(cluster, request, "InvalidInput")

    refused = accepted(request)
    assert refused is not None
    assert refused.status == "False"
    assert "spec.aisimulate.inputOverrides.dgdr_run.name" in refused.message
    assert event.note == refused.message
    assert event.type == "Warning"
    assert await runs(cluster.client) == []
    assert completed_with("Pending", status="False")(request)


async def test_an_invalid_generation_supersedes_nothing_and_is_followed_by_a_valid_one(
    cluster: Cluster, operator: Operator
):
    async with operator():
        job, pod = await start_search(cluster)
        await change(cluster.client, **INVALID)
        request = await request_that(cluster, accepted_with("InvalidInput"))
        await asyncio.sleep(60)
        running = await the_run(cluster.client)
        assert completed_with("Running", status="False")(running)
        assert not (await cluster.client.get(Job, job.key)).is_deleting
        assert request.status.phase == "Running"

        await change(cluster.client, aisimulate=None)
        await cluster.eventually(lambda: cluster.client.get(Job, job.key), lambda j: j.is_deleting)
        await collect(cluster.client, job, pod)
        request = await request_that(cluster, accepted_with("RunCreated"))

    assert request.status.active_run_ref is not None
    assert request.status.active_run_ref.name.startswith("llama-g3-")


async def test_a_request_waits_for_hardware_until_a_gpu_node_appears(
    cluster: Cluster, operator: Operator
):
    await cluster.client.delete(Node, GPU_NODE.key)
    async with operator():
        await submit(cluster.client, hardware=None)
        request = await request_that(cluster, accepted_with("WaitingForHardware"))
        waiting = accepted(request)
        assert waiting is not None
        assert waiting.status == "False"
        assert "spec.hardware.gpu.sku" in waiting.message
        assert "spec.hardware.gpu.budget" in waiting.message
        assert await runs(cluster.client) == []

        await cluster.client.create(GPU_NODE)
        await asyncio.sleep(30)
        await request_that(cluster, accepted_with("RunCreated"))

    run = await the_run(cluster.client)
    assert run.spec.to_dict()["hardware"] == {"gpu": {"sku": "h200_sxm", "budget": 8}}


async def test_a_run_that_a_crash_left_unrecorded_is_adopted(cluster: Cluster, operator: Operator):
    planted = await plant_run(cluster.client)

    async with operator():
        request = await request_that(cluster, accepted_with("RunCreated"))

    assert (await the_run(cluster.client)).uid == planted.uid
    assert request.status.active_run_ref is not None
    assert request.status.active_run_ref.name == planted.key.name
    assert creations(cluster, "dynamographdeploymentruns") == 1


async def test_a_run_is_adopted_although_hardware_would_be_discovered_otherwise_now(
    cluster: Cluster, operator: Operator
):
    async with operator():
        await submit(cluster.client, hardware=None)
        await request_that(cluster, accepted_with("RunCreated"))
        run = await the_run(cluster.client)
    await cluster.client.delete(Node, GPU_NODE.key)
    await patch_status(
        cluster.client, DynamoGraphDeploymentRequest, REQUEST_KEY, {"conditions": None}
    )

    async with operator():
        await request_that(cluster, accepted_with("RunCreated"))

    assert (await the_run(cluster.client)).uid == run.uid


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"labels": {}, "owned": False}, id="ownerless"),
        pytest.param({"owned": False}, id="copied-labels"),
        pytest.param({"spec": {"backends": ["sglang"]}}, id="forged-owner-other-spec"),
        pytest.param({"labels": {"nvidia.com/dgdr-request-generation": "7"}}, id="generation"),
    ],
)
async def test_a_foreign_run_of_the_name_is_left_alone_until_it_is_gone(
    cluster: Cluster, operator: Operator, other: dict[str, Any]
):
    request = await submit(cluster.client)
    labels = {
        "nvidia.com/dgdr-request-uid": request.uid,
        "nvidia.com/dgdr-request-generation": "1",
    }
    foreign = await cluster.client.create(
        Run.new(
            run_name("llama", request.uid, 1),
            namespace=NAMESPACE,
            labels=other.get("labels", labels),
            spec={**COMPLETED_SPEC, **other.get("spec", {})},
        ),
        owner=request if other.get("owned", True) else None,
    )

    async with operator():
        request = await request_that(cluster, accepted_with("NameConflict"))
        conflict = accepted(request)
        assert conflict is not None
        assert conflict.status == "False"
        assert foreign.key.name in conflict.message
        await event_about(cluster, request, "NameConflict")
        found = await cluster.client.get(Run, foreign.key)
        assert (found.uid, found.spec, found.labels) == (foreign.uid, foreign.spec, foreign.labels)

        await cluster.client.delete(Run, foreign.key)
        await asyncio.sleep(60)
        await request_that(cluster, accepted_with("RunCreated"))


async def test_a_run_of_the_name_that_is_being_deleted_is_waited_for(
    cluster: Cluster, operator: Operator
):
    old = await plant_run(cluster.client)
    await cluster.client.patch(Run, old.key, {"metadata": {"finalizers": ["lab.test/hold"]}})
    await cluster.client.delete(Run, old.key)

    async with operator():
        await request_that(cluster, accepted_with("WaitingForOldRun"))
        await cluster.client.patch(Run, old.key, {"metadata": {"finalizers": None}})
        await request_that(cluster, accepted_with("RunCreated"))

    assert (await the_run(cluster.client)).uid != old.uid


async def test_a_deleted_run_stays_deleted_over_a_restart(cluster: Cluster, operator: Operator):
    async with operator():
        await submit(cluster.client)
        await request_that(cluster, accepted_with("RunCreated"))
        run = await the_run(cluster.client)
        await cluster.client.delete(Run, run.key)
        request = await request_that(cluster, accepted_with("RunDeleted"))
        deleted = accepted(request)
        assert deleted is not None
        assert deleted.status == "True"
        assert "rerun" in deleted.message
        assert request.status.active_run_ref is None

    async with operator():
        await asyncio.sleep(600)

    assert await runs(cluster.client) == []
    assert creations(cluster, "dynamographdeploymentruns") == 1


async def test_another_reason_to_rerun_makes_another_run_of_the_same_input(
    cluster: Cluster, operator: Operator
):
    async with operator():
        job, pod = await start_search(cluster)
        await finish_search(cluster, job, pod)
        await request_that(cluster, completed_with("Succeeded"))
        await change(cluster.client, rerun={"reason": "new perf data"})
        second = await _run_of(cluster, 2)
        await cluster.eventually(
            lambda: cluster.client.get(Run, second.key), lambda run: run.status.aisimulate
        )
        first, second = await _run_of(cluster, 1), await _run_of(cluster, 2)

    specs = [run.spec.to_dict() for run in (first, second)]
    assert specs[1] == {**specs[0], "rerun": {"reason": "new perf data"}}
    inputs = [
        {**document, "dgdr_run": {**document["dgdr_run"], "name": ""}}
        for run in (first, second)
        if run.status.aisimulate is not None
        for document in [run.status.aisimulate.input or {}]
    ]
    assert inputs[0] == inputs[1]


async def test_a_run_that_ended_is_mirrored_whatever_its_outcome(
    cluster: Cluster, operator: Operator
):
    async with operator():
        job, pod = await start_search(cluster)
        await set_containers(cluster.client, pod, planner=exited(1), publisher=exited(0))
        await end_job(cluster.client, job, "Failed", "BackoffLimitExceeded")
        request = await request_that(cluster, completed_with("Failed"))
        event = await event_about(cluster, request, "Failed")

    mirrored, own = completed(request), completed(await the_run(cluster.client))
    assert mirrored is not None
    assert own is not None
    assert (mirrored.message, mirrored.observed_generation) == (own.message, 1)
    assert request.status.phase == "Failed"
    assert event.type == "Warning"


async def test_the_best_candidate_follows_the_runs_first_reference(
    cluster: Cluster, operator: Operator
):
    async with operator():
        await start_search(cluster)
        run = await the_run(cluster.client)
        for name, score in (("a", 1.5), ("b", 2.5)):
            candidate = await cluster.client.create(_candidate(name), owner=run)
            await patch_status(
                cluster.client,
                DynamoGraphDeploymentCandidate,
                candidate.key,
                {"metrics": {"score": score}},
            )
        await patch_status(cluster.client, Run, run.key, {"candidateRefs": [{"name": "a"}]})
        await request_that(cluster, lambda r: r.status.best and r.status.best.candidate == "a")
        refs = [{"name": "b"}, {"name": "a"}]
        await patch_status(cluster.client, Run, run.key, {"candidateRefs": refs})
        request = await request_that(
            cluster, lambda r: r.status.best and r.status.best.candidate == "b"
        )

    assert request.status.best is not None
    assert request.status.best.score == 2.5


async def test_a_score_that_comes_after_its_candidate_is_seen(cluster: Cluster, operator: Operator):
    async with operator():
        await start_search(cluster)
        run = await the_run(cluster.client)
        candidate = await cluster.client.create(_candidate("a"), owner=run)
        await patch_status(cluster.client, Run, run.key, {"candidateRefs": [{"name": "a"}]})
        await request_that(cluster, lambda r: r.status.best and r.status.best.score is None)
        await patch_status(
            cluster.client, type(candidate), candidate.key, {"metrics": {"score": 3}}
        )
        await request_that(cluster, lambda r: r.status.best and r.status.best.score == 3)


async def test_history_keeps_the_newest_terminal_runs(cluster: Cluster, operator: Operator):
    sent: list[Passing] = []

    def keeping(inner: Any) -> Passing:
        sent.append(Passing(inner))
        return sent[0]

    async with operator(client=client_through(cluster, keeping), run_history_limit=2):
        await submit(cluster.client)
        uids = {}
        for generation in range(1, 5):
            run = await _run_of(cluster, generation)
            uids[run.key.name] = run.uid
            await end_job(cluster.client, await _job_of(cluster, run), "Complete")
            await request_that(cluster, completed_with("Succeeded"))
            await change(cluster.client, rerun={"reason": f"after {generation}"})
        await _run_of(cluster, 5)
        kept = await cluster.eventually(lambda: runs(cluster.client), lambda r: len(r) == 3)

    assert sorted(run.request_generation for run in kept) == [3, 4, 5]
    deletes = [
        r for r in sent[0].sent if r.method == "DELETE" and is_write(r, Run.resource_type.plural)
    ]
    assert len(deletes) == 2
    for request in deletes:
        options = json.loads(request.body or b"{}")
        assert options["preconditions"]["uid"] == uids[request.path.rpartition("/")[2]]


@with_garbage_collector
async def test_a_deleted_request_takes_along_everything_that_it_caused(
    cluster: Cluster, operator: Operator
):
    async with operator():
        _, pod = await start_search(cluster)
        run = await the_run(cluster.client)
        await cluster.client.create(_candidate("a"), owner=run)
        await cluster.client.delete(DynamoGraphDeploymentRequest, REQUEST_KEY)
        await cluster.eventually(
            lambda: cluster.client.find(type(pod), pod.key), lambda p: p is None or p.is_deleting
        )
        left = await cluster.eventually(lambda: _caused(cluster), lambda found: not found)

    assert left == []
    assert creations(cluster, "jobs") == 1


async def test_conditions_of_other_writers_are_left_alone(cluster: Cluster, operator: Operator):
    async with operator():
        await submit(cluster.client)
        await request_that(cluster, accepted_with("RunCreated"))
        request = await the_request(cluster.client)
        other = {"type": "Reviewed", "status": "True", "reason": "ByAPerson", "message": ""}
        await cluster.client.with_field_manager("person").apply_status(
            request, {"conditions": [{**other, "lastTransitionTime": "2030-01-01T00:00:00Z"}]}
        )
        job = await the_job(cluster)
        await finish_search(cluster, job, await start_pod(cluster.client, job))
        request = await request_that(cluster, completed_with("Succeeded"))
        before = len(writes(cluster))
        await asyncio.sleep(600)

    assert {c.type for c in request.status.conditions} == {"Accepted", "Completed", "Reviewed"}
    assert writes(cluster)[before:] == []
    await cluster.client.with_field_manager("person").apply_status(request, {})
    request = await the_request(cluster.client)
    assert {c.type for c in request.status.conditions} == {"Accepted", "Completed"}


@pytest.mark.parametrize(
    ("code", "reason"), [(422, "Invalid"), (413, "RequestEntityTooLarge")], ids=["422", "413"]
)
async def test_a_run_that_the_server_refuses_for_good_is_invalid_input(
    cluster: Cluster, operator: Operator, code: int, reason: str
):
    def refuse(request: Any) -> Any:
        if request.method == "POST" and is_write(request, Run.resource_type.plural):
            return refusal(code, reason, "policy lab forbids it")
        return None

    client = client_through(cluster, lambda inner: Answering(inner, refuse))
    async with operator(client=client):
        await submit(cluster.client)
        request = await request_that(cluster, accepted_with("InvalidInput"))

    condition = accepted(request)
    assert condition is not None
    assert condition.message == "policy lab forbids it"


async def test_a_quota_on_runs_is_told_and_tried_again(cluster: Cluster, operator: Operator):
    full = [True]

    def refuse(request: Any) -> Any:
        if full and request.method == "POST" and is_write(request, Run.resource_type.plural):
            return refusal(403, "Forbidden", "exceeded quota: runs")
        return None

    client = client_through(cluster, lambda inner: Answering(inner, refuse))
    async with operator(client=client):
        request = await submit(cluster.client)
        event = await event_about(cluster, request, "RunForbidden")
        assert event.note == "exceeded quota: runs"
        full.clear()
        await request_that(cluster, accepted_with("RunCreated"), timeout=120)


async def test_a_conflict_on_the_status_is_read_and_computed_anew(
    cluster: Cluster, operator: Operator
):
    refused: list[str] = []

    def refuse(request: Any) -> Any:
        if is_write(request, DynamoGraphDeploymentRequest.resource_type.plural) and not refused:
            refused.append(request.path)
            return refusal(409, "Conflict", "the object has been modified")
        return None

    client = client_through(cluster, lambda inner: Answering(inner, refuse))
    async with operator(client=client):
        await submit(cluster.client)
        await request_that(cluster, accepted_with("RunCreated"))

    assert refused
    assert creations(cluster, "dynamographdeploymentruns") == 1


async def test_a_status_is_written_for_the_very_version_that_was_read(
    cluster: Cluster, operator: Operator
):
    transports: list[Passing] = []

    def keeping(inner: Any) -> Passing:
        transports.append(Passing(inner))
        return transports[0]

    async with operator(client=client_through(cluster, keeping)):
        await start_search(cluster)

    patches = [r for r in transports[0].sent if r.path.endswith("/status")]
    assert patches
    for patch in patches:
        assert json.loads(patch.body or b"{}")["metadata"]["resourceVersion"]
        assert dict(patch.query)["fieldManager"] in (
            "dynamo-operator-request",
            "dynamo-operator-run",
        )


async def test_a_created_run_is_told_once(cluster: Cluster, operator: Operator):
    async with operator():
        request = await submit(cluster.client)
        await event_about(cluster, request, "RunCreated")
        await asyncio.sleep(60)
        events = await events_about(cluster.client, request)

    assert [event.reason for event in events] == ["RunCreated"]
    assert (await run_that(cluster, bool)).key.name in events[0].note


async def _caused(cluster: Cluster) -> list[str]:
    kinds: tuple[type[KubeModel], ...] = (
        Run,
        DynamoGraphDeploymentCandidate,
        Job,
        ConfigMap,
        ServiceAccount,
        Role,
        RoleBinding,
    )
    return [
        f"{kind.__name__} {found.key}"
        for kind in kinds
        for found in await cluster.client.list(kind, namespace=NAMESPACE)
    ]


async def _run_of(cluster: Cluster, generation: int) -> Run:
    def has_it(found: list[Run]) -> bool:
        return any(run.request_generation == generation for run in found)

    found = await cluster.eventually(lambda: runs(cluster.client), has_it)
    return next(run for run in found if run.request_generation == generation)


async def _job_of(cluster: Cluster, run: Run) -> Job:
    def is_its(job: Job) -> bool:
        return job.owner_references[0].uid == run.uid

    found = await cluster.eventually(
        lambda: cluster.client.list(Job, namespace=NAMESPACE), lambda jobs: any(map(is_its, jobs))
    )
    return next(job for job in found if is_its(job))


def _candidate(name: str) -> DynamoGraphDeploymentCandidate:
    return DynamoGraphDeploymentCandidate.new(
        name, namespace=NAMESPACE, spec={"components": [], "parameters": {}}
    )
