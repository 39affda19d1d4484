"""The shipped roles against what whole searches do: nothing is missing, and nothing is idle."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest
import pytest_asyncio

from dynamo_operator.api.labels import GROUP
from dynamo_operator.api.publisher_contract import publisher_role_rules
from dynamo_operator.api.v1alpha1 import DynamoPoolRelay
from dynamo_operator.api.v1beta2 import (
    DynamoGraphDeploymentCandidate,
    DynamoGraphDeploymentRequest,
    DynamoGraphDeploymentRun,
)
from dynamo_operator.apiserver.audit import AuditEntry
from dynamo_operator.cli.graph_crds import GRAPH_CRDS
from dynamo_operator.generate.layout import NAMESPACE
from dynamo_operator.local_cluster.cluster import LocalCluster
from dynamo_operator.runtime.builtin_kinds import (
    ClusterRole,
    ClusterRoleBinding,
    ConfigMap,
    CustomResourceDefinition,
    Deployment,
    Job,
    Lease,
    PodDisruptionBudget,
    Role,
    RoleBinding,
    Service,
    ServiceAccount,
)
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.client.errors import AlreadyExistsError, ForbiddenError
from dynamo_operator.runtime.models import KubeModel
from dynamo_operator.settings import LEASE_NAME, LeaderElectionSettings
from dynamo_operator.testing.polling import eventually
from informers.objects import ObjectKey
from reconcilers.pool_relay.graphs import ServedComponent, ServedGraph
from reconcilers.pool_relay.manifests import ROLE_RULES
from tests.dynamo_operator.generate.test_crds import RUN_SPEC
from tests.main_job import scripted_planner
from tests.main_job.processes import command_of
from tests.main_job.rights import (
    EVERYWHERE,
    Right,
    asked_by,
    granted_to,
    granting_rules,
    ungranted,
    unused,
)
from tests.main_job.stage import PATIENCE_SECONDS, Stage, completed_with, stage
from tests.main_job.webhooks import webhooks_called

pytestmark = [pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]

RELAY_SPEC = {"image": "registry.lab/relay:1.6.0", "clusterID": "dc-a"}
RBAC = "rbac.authorization.k8s.io"
Attempt = Callable[[Client, str], Awaitable[object]]


_TO_FALL_BACK = "where a server does not stream what is there, informers list before they watch"


@dataclass(frozen=True, slots=True)
class Need:
    """Why a right is granted that no request shows in use.

    Args:
        why: in words.
        attempt: what is refused without it, in a namespace.
        refusal: what the refusal says.
    """

    why: str
    attempt: Attempt
    refusal: str


async def grant_publisher(client: Client, namespace: str) -> object:
    """Make the publisher's Role."""
    rules = publisher_role_rules("llama-g1")
    return await client.create(Role.new("r", namespace=namespace, rules=rules), dry_run=True)


async def create_run(client: Client, namespace: str) -> object:
    """Make a Run that blocks the deletion of its Request."""
    owner = DynamoGraphDeploymentRequest.new("llama", namespace=namespace, spec=RUN_SPEC)
    run = DynamoGraphDeploymentRun.new("r", namespace=namespace, spec=RUN_SPEC)
    return await client.create(run, owner=_stored(owner), dry_run=True)


async def create_child(client: Client, namespace: str) -> object:
    """Make an object that blocks the deletion of its Run."""
    owner = DynamoGraphDeploymentRun.new("llama-g1", namespace=namespace, spec=RUN_SPEC)
    made = ConfigMap.new("c", namespace=namespace)
    return await client.create(made, owner=_stored(owner), dry_run=True)


async def grant_relay(client: Client, namespace: str) -> object:
    """Make the relays' Role."""
    role = Role.new("r", namespace=namespace, rules=list(ROLE_RULES))
    return await client.create(role, dry_run=True)


async def create_relay_child(client: Client, namespace: str) -> object:
    """Make an object that blocks the deletion of its relay."""
    owner = DynamoPoolRelay.new("llama", namespace=namespace, spec=RELAY_SPEC)
    made = ConfigMap.new("c", namespace=namespace)
    return await client.create(made, owner=_stored(owner), dry_run=True)


def list_definition(kind: type[KubeModel]) -> Need:
    """The need of a list of one definition."""
    resource = kind.resource_type
    fields = {"metadata.name": f"{resource.plural}.{resource.group}"}
    return Need(
        _TO_FALL_BACK,
        lambda client, _: client.list(CustomResourceDefinition, fields=fields),
        "cannot list resource",
    )


def listing(kind: type[KubeModel]) -> Need:
    """The need of a list of everything."""
    return Need(_TO_FALL_BACK, lambda client, _: client.list(kind), "cannot list resource")


async def list_lease(client: Client, namespace: str) -> object:
    """List the Lease of the election."""
    return await client.list(Lease, namespace=NAMESPACE, fields={"metadata.name": LEASE_NAME})


_TO_GRANT = Need(
    "a rule of the publisher's Role, which only who has it may grant",
    grant_publisher,
    "attempting to grant RBAC permissions not currently held",
)
_TO_GRANT_RELAYS = replace(
    _TO_GRANT,
    why="a rule of the relays' Role, which only who has it may grant",
    attempt=grant_relay,
)
_REQUEST_BLOCKED, _RUN_BLOCKED, _RELAY_BLOCKED = (
    Need(
        "the controller reference of an owned object blocks its owner's deletion",
        attempt,
        "cannot set blockOwnerDeletion",
    )
    for attempt in (create_run, create_child, create_relay_child)
)
_DEFINITIONS = "apiextensions.k8s.io", "customresourcedefinitions"
UNUSED: Mapping[Right, Need] = {
    Right(GROUP, "dynamographdeploymentcandidates", "create"): _TO_GRANT,
    Right(GROUP, "dynamographdeploymentcandidates", "delete"): _TO_GRANT,
    Right(GROUP, "dynamographdeploymentcandidates", "list"): _TO_GRANT,
    Right(GROUP, "dynamographdeploymentcandidates/status", "update"): _TO_GRANT,
    Right("", "pods", "get"): _TO_GRANT,
    Right(GROUP, "dynamographdeploymentrequests/finalizers", "update"): _REQUEST_BLOCKED,
    Right(GROUP, "dynamographdeploymentruns/finalizers", "update"): _RUN_BLOCKED,
    Right(GROUP, "dynamographdeploymentrequests", "list"): listing(DynamoGraphDeploymentRequest),
    Right(GROUP, "dynamographdeploymentruns", "list"): listing(DynamoGraphDeploymentRun),
    Right(GROUP, "dynamopoolrelays/finalizers", "update"): _RELAY_BLOCKED,
    **{
        Right(GROUP, "dynamoworkermetadatas", verb): _TO_GRANT_RELAYS
        for verb in ("get", "list", "watch", "create", "patch", "delete")
    },
    **{
        Right("discovery.k8s.io", "endpointslices", verb): _TO_GRANT_RELAYS
        for verb in ("get", "list", "watch")
    },
    **{
        Right(*_DEFINITIONS, "list", EVERYWHERE, f"{plural}.{GROUP}"): list_definition(kind)
        for kind in (ServedGraph, ServedComponent)
        for plural in (kind.resource_type.plural,)
    },
    Right(GROUP, "dynamopoolrelays", "list"): listing(DynamoPoolRelay),
    Right(GROUP, "dynamographdeployments", "list"): listing(ServedGraph),
    Right("apps", "deployments", "list"): listing(Deployment),
    Right("", "services", "list"): listing(Service),
    Right("policy", "poddisruptionbudgets", "list"): listing(PodDisruptionBudget),
    Right("", "configmaps", "list"): listing(ConfigMap),
    Right("", "serviceaccounts", "list"): listing(ServiceAccount),
    Right(RBAC, "roles", "list"): listing(Role),
    Right(RBAC, "rolebindings", "list"): listing(RoleBinding),
    Right("coordination.k8s.io", "leases", "list", NAMESPACE, LEASE_NAME): Need(
        _TO_FALL_BACK, list_lease, "cannot list resource"
    ),
}
"""What the operator is granted and a whole play does not show in use."""

UNUSED_BY_PUBLISHER: Mapping[Right, str] = {
    Right(GROUP, "dynamographdeploymentcandidates", "get"): (
        "a Candidate whose creation was taken but not answered is read, to see that it is ours"
    ),
}


@dataclass(frozen=True, slots=True)
class Account:
    """What a ServiceAccount was granted, and what it asked for."""

    granted: frozenset[Right]
    asked: tuple[AuditEntry, ...]

    @classmethod
    async def of(cls, cluster: LocalCluster, user: str) -> Account:
        """As it is now."""
        granted = await granted_to(cluster.client, user)
        return cls(frozenset(granted), tuple(asked_by(cluster.audit.entries, user)))


@dataclass(frozen=True, slots=True)
class Play:
    """The accounts of a play that is over, and where it was played."""

    namespace: str
    operator: Account
    publisher: Account


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def play(scripted_cluster: LocalCluster) -> AsyncIterator[Play]:
    """Searches that end in every way, and an operator that is stopped and started between."""
    async with stage(scripted_cluster, is_operated=False) as made, graphs_served(made):
        async with operator(made):
            publisher = await succeed_with_open_hardware(made)
            await search(made, "goes-on")
            await run_of(made, 2, has_published)
        async with operator(made, "another.host"):
            await suspend_twice(made)
            await search(made, "crashes")
            await run_of(made, 3, completed_with("Failed"))
            await search(made, "goes-on")
            await run_of(made, 4, has_published)
            await eventually(made.runs, lambda runs: len(runs) == 2, timeout=PATIENCE_SECONDS)
            await cancel(made)
            await relay_beside_a_graph(made)
        account = await Account.of(scripted_cluster, made.operator_user)
        yield Play(made.namespace, account, publisher)


async def test_the_operator_has_every_right_that_it_asks_for(play: Play):
    assert play.operator.asked
    assert ungranted(play.operator.granted, play.operator.asked) == []


async def test_the_operator_uses_every_right_but_those_with_another_reason(play: Play):
    idle = unused(play.operator.granted, play.operator.asked)

    assert idle == UNUSED.keys()


async def test_the_operator_names_no_namespace_but_the_requests_and_its_own(play: Play):
    named: dict[str, set[str]] = {}
    for entry in play.operator.asked:
        named.setdefault(entry.namespace, set()).add(entry.resource)

    assert named.keys() == {EVERYWHERE, play.namespace, NAMESPACE}
    assert named[NAMESPACE] <= {"leases", "events", "secrets"}
    assert "secrets" not in named[EVERYWHERE] | named[play.namespace]
    named_everywhere = {
        (entry.resource, entry.name)
        for entry in play.operator.asked
        if not entry.namespace and entry.verb not in ("list", "watch")
    }
    assert named_everywhere == {
        ("mutatingwebhookconfigurations", "dynamo-operator"),
        ("validatingwebhookconfigurations", "dynamo-operator"),
    }


async def test_nothing_of_what_seems_idle_can_be_left_out(
    play: Play, scripted_cluster: LocalCluster
):
    async with stage(scripted_cluster, is_operated=False) as made:
        await grant(made, "all", play.operator.granted)
        for number, (right, need) in enumerate(UNUSED.items()):
            await grant(made, f"without-{number}", play.operator.granted - {right})
            await is_told(made, "all", need, "")
            await is_told(made, f"without-{number}", need, need.refusal)
        for role in (ClusterRoleBinding, ClusterRole):
            for user in ("all", *(f"without-{number}" for number in range(len(UNUSED)))):
                await made.client.delete(role, ObjectKey("", f"{made.namespace}-{user}"))


async def test_the_publisher_has_every_right_that_it_asks_for_in_its_own_namespace(play: Play):
    assert play.publisher.asked
    assert ungranted(play.publisher.granted, play.publisher.asked) == []
    assert {right.namespace for right in play.publisher.granted} == {play.namespace}
    named = {right.resource for right in play.publisher.granted if right.name}
    assert named == {"dynamographdeploymentruns", "dynamographdeploymentruns/status"}


async def test_the_publisher_uses_every_right_but_those_with_another_reason(play: Play):
    idle = unused(play.publisher.granted, play.publisher.asked)

    assert {replace(right, namespace=EVERYWHERE) for right in idle} == UNUSED_BY_PUBLISHER.keys()


@asynccontextmanager
async def operator(made: Stage, *hosts: str) -> AsyncGenerator[None]:
    """Run the operator, by election and with webhooks, with one terminal Run kept of each Request.

    Args:
        made: where.
        hosts: what the webhooks' certificate is for beside this one; another one makes it anew.
    """
    election = LeaderElectionSettings().election(namespace=NAMESPACE)
    async with (
        made.cluster.connect(made.operator_user, field_manager="dynamo-operator") as client,
        webhooks_called(
            made.cluster, client, hosts=hosts, leader_election=election, run_history_limit=1
        ),
    ):
        yield


async def search(made: Stage, script: str) -> None:
    """Edit the Request for another search."""
    change = {"spec": {"model": {"name": f"scripted/{script}"}}}
    await made.client.patch(DynamoGraphDeploymentRequest, made.key, change)


async def run_of(
    made: Stage, generation: int, holds: Callable[[DynamoGraphDeploymentRun], object]
) -> DynamoGraphDeploymentRun:
    """Wait until the Run of that generation is like that."""
    label = {"nvidia.com/dgdr-request-generation": str(generation)}

    async def found() -> list[DynamoGraphDeploymentRun]:
        runs = await made.client.list(
            DynamoGraphDeploymentRun, namespace=made.namespace, labels=label
        )
        return [run for run in runs if holds(run)]

    (run,) = await eventually(found, timeout=PATIENCE_SECONDS)
    return run


def has_published(run: DynamoGraphDeploymentRun) -> bool:
    """Whether there are two Candidates."""
    return len(run.status.candidate_refs) == 2


async def succeed_with_open_hardware(made: Stage) -> Account:
    """Find the GPUs, mend what is changed by hand, drop Candidates, and lose the best one."""
    await made.submit("waits-halfway", hardware=None, recommendation={"maxCandidates": 2})
    run, pod = await made.searching()
    for kind in (ServiceAccount, Role, RoleBinding):
        await strip_and_see_mended(made, kind, f"dgdr-publisher-{run.uid}")
    os.kill(command_of(pod, "planner").pid, scripted_planner.GO_SIGNAL)
    run = await made.run_that(completed_with("Succeeded"))
    publisher = f"system:serviceaccount:{made.namespace}:dgdr-publisher-{run.uid}"
    account = await Account.of(made.cluster, publisher)
    best = ObjectKey(made.namespace, run.status.candidate_refs[0].name)
    await eventually(made.request, lambda request: request.status.best is not None)
    await made.client.delete(DynamoGraphDeploymentCandidate, best)
    await eventually(made.request, lambda request: request.status.best is None)
    return account


async def strip_and_see_mended(made: Stage, kind: type[KubeModel], name: str) -> None:
    """Take the labels away from an object of the Run, by which it is known."""
    key = ObjectKey(made.namespace, name)
    await made.client.patch(kind, key, {"metadata": {"labels": None}})
    await eventually(lambda: made.client.get(kind, key), lambda found: found.labels)


async def suspend_twice(made: Stage) -> None:
    """Hold the Job as a queue would, until the operator tells of it again."""
    (job,) = [
        job
        for job in await made.client.list(Job, namespace=made.namespace)
        if "-g2-" in job.key.name
    ]

    async def suspend(is_suspended: bool) -> None:
        await made.client.patch(Job, job.key, {"spec": {"suspend": is_suspended}})
        await run_of(
            made,
            2,
            lambda run: ("suspended" in (run.status.execution_message or "")) is is_suspended,
        )

    for is_suspended in (True, False, True):
        await suspend(is_suspended)
    entries = made.cluster.audit
    await eventually(
        lambda: asked_by(entries.entries, made.operator_user),
        lambda asked: any((e.resource, e.verb) == ("events", "patch") for e in asked),
        timeout=PATIENCE_SECONDS,
    )


async def cancel(made: Stage) -> None:
    """Delete the Run, then the Request."""
    run = await run_of(made, 4, has_published)
    await made.client.delete(DynamoGraphDeploymentRun, run.key)
    await eventually(
        made.request, lambda request: request.status.conditions[0].reason == "RunDeleted"
    )
    await made.client.delete(DynamoGraphDeploymentRequest, made.key)
    await eventually(made.caused, lambda left: not left, timeout=PATIENCE_SECONDS)


@asynccontextmanager
async def graphs_served(made: Stage) -> AsyncGenerator[None]:
    """Define the upstream kinds for the length of the block."""
    definitions = [CustomResourceDefinition.model_validate(crd) for crd in GRAPH_CRDS]
    for definition in definitions:
        await made.client.create(definition)
    try:
        yield
    finally:
        for definition in definitions:
            await made.client.delete(CustomResourceDefinition, definition.key)


async def relay_beside_a_graph(made: Stage) -> None:
    """Run relays, mend what is changed by hand, and withdraw them with their graph."""
    key = ObjectKey(made.namespace, "aurora")
    child = ObjectKey(made.namespace, "aurora-pool-relay")
    relay = await made.client.create(
        DynamoPoolRelay.new(key.name, namespace=key.namespace, spec=RELAY_SPEC)
    )
    graph = {"components": [{"name": "Decode", "type": "decode"}]}
    await made.client.create(ServedGraph.new(key.name, namespace=key.namespace, spec=graph))
    await eventually(lambda: made.client.find(Service, child), timeout=PATIENCE_SECONDS)
    for kind in (ServiceAccount, Role, RoleBinding, Deployment, Service, PodDisruptionBudget):
        await strip_and_see_mended(made, kind, child.name)
    await strip_and_see_mended(made, ConfigMap, f"{child.name}-sources")
    await bind_another_role(made, relay, child)
    await made.client.patch(DynamoPoolRelay, key, {"spec": {"replicas": 1}})
    await eventually(
        lambda: made.client.find(PodDisruptionBudget, child),
        lambda budget: budget is None,
        timeout=PATIENCE_SECONDS,
    )
    await made.client.delete(ServedGraph, key)
    await eventually(
        lambda: made.client.find(Service, child),
        lambda service: service is None,
        timeout=PATIENCE_SECONDS,
    )
    await made.client.delete(DynamoPoolRelay, key)


async def bind_another_role(made: Stage, relay: DynamoPoolRelay, key: ObjectKey) -> None:
    """Replace the relay's binding by one of another Role, until it is mended."""
    found = await made.client.get(RoleBinding, key)
    await made.client.delete(RoleBinding, key)
    forged = RoleBinding.new(
        key.name,
        namespace=key.namespace,
        labels=found.labels,
        roleRef={**found.role_ref, "name": "another"},
        subjects=found.subjects,
    )
    with suppress(AlreadyExistsError):  # the operator may be faster
        await made.client.create(forged, owner=relay)
    await eventually(
        lambda: made.client.find(RoleBinding, key),
        lambda binding: binding is not None and binding.role_ref == found.role_ref,
        timeout=PATIENCE_SECONDS,
    )


async def grant(made: Stage, user: str, rights: frozenset[Right]) -> None:
    """Give a user rights everywhere."""
    name = f"{made.namespace}-{user}"
    await made.client.create(ClusterRole.new(name, rules=granting_rules(rights)))
    await made.client.create(
        ClusterRoleBinding.new(
            name,
            roleRef={"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
            subjects=[{"apiGroup": RBAC, "kind": "User", "name": name}],
        )
    )


async def is_told(made: Stage, user: str, need: Need, words: str) -> None:
    """Wait until the user is refused with these words, or with none is not refused."""
    await eventually(
        lambda: refusal(made, user, need),
        lambda text: words in text if words else not text,
        timeout=PATIENCE_SECONDS,
    )


async def refusal(made: Stage, user: str, need: Need) -> str:
    """What the user is told when it tries; "" when it may."""
    name = f"{made.namespace}-{user}"
    async with made.cluster.connect(name, field_manager="test") as client:
        try:
            await need.attempt(client, made.namespace)
        except ForbiddenError as error:
            return error.message
    return ""


def _stored(owner: Any) -> Any:
    return owner.model_copy(
        update={"metadata": owner.metadata.model_copy(update={"uid": "4f1c2a00-0000-4000"})}
    )
