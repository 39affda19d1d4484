"""The operator with the rights that the shipped manifests give it, and no others."""

import pytest
import pytest_asyncio

from dynamo_operator.api.conditions import find_condition
from dynamo_operator.api.v1beta2 import (
    DynamoGraphDeploymentCandidate,
    DynamoGraphDeploymentRequest,
    DynamoGraphDeploymentRun,
)
from dynamo_operator.app import build_manager
from dynamo_operator.cli.local import grant_operator
from dynamo_operator.publisher.apply import Publication
from dynamo_operator.runtime.builtin_kinds import (
    Job,
    Namespace,
    Node,
    Pod,
    Role,
    RoleBinding,
    ServiceAccount,
)
from dynamo_operator.runtime.client.errors import ForbiddenError
from dynamo_operator.settings import OperatorSettings
from informers.objects import ObjectKey, controller_ref
from tests.builders import MODEL
from tests.dynamo_operator.publisher.reports import report

pytestmark = pytest.mark.asyncio(loop_scope="session")

GPU_NODE = Node.new(
    "gpu-1",
    labels={
        "nvidia.com/gpu.product": "NVIDIA-H200",
        "nvidia.com/gpu.count": "8",
        "nvidia.com/gpu.memory": "143771",
    },
)
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
OPERATOR_USER = "system:serviceaccount:dynamo-operator-system:dynamo-operator"
SERVICE_ACCOUNTS = ("system:serviceaccounts", "system:serviceaccounts:dynamo-operator-system")
PATIENCE_SECONDS = 30.0


@pytest_asyncio.fixture(loop_scope="session")
async def operator_client(cluster):
    await cluster.client.apply(GPU_NODE, force=True)
    assert await grant_operator(cluster.client) == OPERATOR_USER
    client = cluster.client_of(OPERATOR_USER, SERVICE_ACCOUNTS)
    return client.with_field_manager("dynamo-operator")


def denied(cluster, user):
    """What the user was refused; nothing is known of a cluster that was there before."""
    if not cluster.has_own_server:
        return []
    return [
        f"{entry.verb} {entry.resource}/{entry.subresource} {entry.name}"
        for entry in cluster.audit.entries
        if entry.user.name == user and entry.code == 403
    ]


async def test_a_request_becomes_a_pod_in_a_restricted_namespace(
    cluster, namespace, operator_client
):
    await cluster.client.patch(
        Namespace, ObjectKey("", namespace), {"metadata": {"labels": RESTRICTED}}
    )
    settings = OperatorSettings(operator_image="registry.lab/dynamo-operator:0.1.0")
    manager = build_manager(operator_client, settings)
    async with manager.running():
        request = await cluster.client.create(
            DynamoGraphDeploymentRequest.new(
                "llama", namespace=namespace, spec={"model": {"name": MODEL}}
            )
        )
        (pod,) = await cluster.eventually(
            lambda: cluster.client.list(Pod, namespace=namespace), timeout=PATIENCE_SECONDS
        )
        request = await cluster.eventually(
            lambda: cluster.client.get(DynamoGraphDeploymentRequest, request.key),
            lambda found: found.status.active_run_ref and found.status.phase,
        )

    (run,) = await cluster.client.list(DynamoGraphDeploymentRun, namespace=namespace)
    (job,) = await cluster.client.list(Job, namespace=namespace)
    assert owner_uid(pod) == job.uid
    assert owner_uid(job) == run.uid
    assert owner_uid(run) == request.uid
    accepted = find_condition(request.status.conditions, "Accepted")
    assert accepted is not None
    assert (accepted.status, accepted.reason) == ("True", "RunCreated")
    for kind in (ServiceAccount, Role, RoleBinding):
        found = await cluster.client.list(kind, namespace=namespace)
        assert [owner_uid(obj) for obj in found].count(run.uid) == 1, kind
    assert denied(cluster, OPERATOR_USER) == []


def owner_uid(obj):
    owner = controller_ref(obj)
    return owner.uid if owner else ""


async def test_the_operator_grants_no_more_than_it_may_itself(cluster, namespace, operator_client):
    role = Role.new(
        "wide",
        namespace=namespace,
        rules=[{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}],
    )

    with pytest.raises(
        ForbiddenError, match="attempting to grant RBAC permissions not currently held"
    ):
        await operator_client.create(role)


async def test_the_publisher_publishes_with_what_its_role_grants(
    cluster, namespace, operator_client
):
    settings = OperatorSettings(operator_image="registry.lab/dynamo-operator:0.1.0")
    async with build_manager(operator_client, settings).running():
        await cluster.client.create(
            DynamoGraphDeploymentRequest.new(
                "llama", namespace=namespace, spec={"model": {"name": MODEL}}
            )
        )
        (pod,) = await cluster.eventually(
            lambda: cluster.client.list(Pod, namespace=namespace), timeout=PATIENCE_SECONDS
        )
    (run,) = await cluster.client.list(DynamoGraphDeploymentRun, namespace=namespace)
    account = f"system:serviceaccount:{namespace}:{pod.spec['serviceAccountName']}"
    client = cluster.client_of(account).with_field_manager("dgdr-run-publisher")
    publication = Publication(client, run.key, run.uid, cluster.clock)

    await publication.publish(report("a", "b"))
    await publication.publish(report("b", "c", evaluated=2))

    candidates = await cluster.client.list(DynamoGraphDeploymentCandidate, namespace=namespace)
    run = await cluster.client.get(DynamoGraphDeploymentRun, run.key)
    assert [ref.name for ref in run.status.candidate_refs] == [
        f"{run.key.name}-b",
        f"{run.key.name}-c",
    ]
    assert {owner_uid(candidate) for candidate in candidates} == {run.uid}
    assert len(candidates) == 2
    assert run.status.phase is not None, "the operator's part of the status stays"
    assert denied(cluster, account) == []


async def test_deleting_a_request_takes_everything_with_it(cluster, namespace, operator_client):
    settings = OperatorSettings(operator_image="registry.lab/dynamo-operator:0.1.0")
    async with build_manager(operator_client, settings).running():
        request = await cluster.client.create(
            DynamoGraphDeploymentRequest.new(
                "llama", namespace=namespace, spec={"model": {"name": MODEL}}
            )
        )
        await cluster.eventually(
            lambda: cluster.client.list(Pod, namespace=namespace), timeout=PATIENCE_SECONDS
        )
        await cluster.client.delete(
            DynamoGraphDeploymentRequest, request.key, propagation="Foreground"
        )
        for kind in (DynamoGraphDeploymentRequest, DynamoGraphDeploymentRun, Job, Pod):
            await cluster.eventually(
                lambda kind=kind: cluster.client.list(kind, namespace=namespace),
                lambda found: not found,
                timeout=PATIENCE_SECONDS,
            )
