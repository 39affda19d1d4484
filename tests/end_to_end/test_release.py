"""The product as it is deployed: images, chart, webhooks, metrics, a search, relays, the end."""

from __future__ import annotations

import re

import pytest

from dynamo_operator.api.labels import RUN_UID_LABEL
from dynamo_operator.api.v1alpha1 import DynamoPoolRelay
from dynamo_operator.api.v1beta2 import (
    DynamoGraphDeploymentCandidate,
    DynamoGraphDeploymentRequest,
    DynamoGraphDeploymentRun,
)
from dynamo_operator.cli.graph_crds import GRAPH_CRDS
from dynamo_operator.runtime.builtin_kinds import (
    ClusterRoleBinding,
    CustomResourceDefinition,
    Deployment,
    Pod,
    Service,
    ServiceAccount,
)
from dynamo_operator.runtime.client.errors import ApiError, InvalidError
from dynamo_operator.testing.polling import eventually
from informers.objects import ObjectKey
from tests.builders import MODEL
from tests.end_to_end.relays import create_graph, relay_states
from tests.end_to_end.releases import PLANNER_IMAGE, USERS, VALUES, run_in_pod
from tests.manifests.releases import inventory
from tests.manifests.rendering import CHART, NAMESPACE

MANAGER = ObjectKey(NAMESPACE, "dynamo-operator-manager")
REQUEST = ObjectKey(USERS, "llama")
SEARCH_SECONDS = 420
GPU = {"sku": "h200_sxm", "budget": 8}
SHORT = {
    "optimizer": {"algorithm": "random", "max_trials": 3, "parallelism": 1},
    "traffic": {"stop": {"requests": 200}},
    # AISimulate gives its processes 60 and 5 seconds, which a busy machine may not have.
    "execution": {
        "resources": {"initialization_timeout_seconds": 300, "shutdown_timeout_seconds": 120}
    },
}
SCRAPE = """
import ssl, sys, urllib.error, urllib.request
url, path = sys.argv[1], "/var/run/secrets/kubernetes.io/serviceaccount/token"
for headers in {}, {"Authorization": "Bearer " + open(path).read()}:
    try:
        request = urllib.request.Request(url, headers=headers)
        answer = urllib.request.urlopen(request, context=ssl._create_unverified_context())
        print(answer.status, answer.read().decode())
    except urllib.error.HTTPError as error:
        print(error.code)
"""

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


def is_rolled_out(replicas):
    def judge(deployment):
        status = deployment.status
        return (
            status.get("observedGeneration") == deployment.generation
            and status.get("updatedReplicas") == status.get("availableReplicas") == replicas
            and status.get("replicas") == replicas
        )

    return judge


async def rolled_out(client, replicas=1):
    return await eventually(
        lambda: client.get(Deployment, MANAGER), is_rolled_out(replicas), timeout=180
    )


def short_request(name="llama", **spec):
    spec = {
        "model": {"name": MODEL},
        "hardware": {"gpu": GPU},
        "aisimulate": {"inputOverrides": SHORT},
        **spec,
    }
    return DynamoGraphDeploymentRequest.new(name, namespace=USERS, spec=spec)


async def test_the_operator_runs_as_built_with_the_charts_identity(release, client):
    await rolled_out(client)
    (pod,) = await client.list(Pod, namespace=NAMESPACE)

    (status,) = pod.status["containerStatuses"]
    assert pod.spec["serviceAccountName"] == "dynamo-operator"
    assert pod.spec["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True
    assert (status["ready"], status["restartCount"]) == (True, 0)


async def test_webhooks_complete_and_refuse_requests_through_their_service(release, client):
    await rolled_out(client)
    completed = await eventually_created(client, short_request(), dry_run=True)

    assert completed.spec.model_dump(by_alias=True)["backends"] == ["vllm"]
    await refuses_a_wrong_request(client)


async def test_metrics_are_for_those_whom_the_cluster_allows_them(release, client):
    await rolled_out(client)
    for name in ("scraper", "stranger"):
        await client.create(ServiceAccount.new(name, namespace=USERS))
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole"}
    role["name"] = "dynamo-operator-metrics-reader"
    subject = {"kind": "ServiceAccount", "name": "scraper", "namespace": USERS}
    binding = ClusterRoleBinding.new("scraper", role_ref=role, subjects=[subject])
    await client.create(binding)
    service = await client.get(Service, ObjectKey(NAMESPACE, "dynamo-operator-metrics"))
    url = f"https://{service.spec['clusterIP']}:{service.spec['ports'][0]['port']}/metrics"
    allowed = await run_in_pod(client, "scraper", SCRAPE, url, service_account="scraper")
    refused = await run_in_pod(client, "stranger", SCRAPE, url, service_account="stranger")
    await client.delete(ClusterRoleBinding, binding.key)

    assert allowed.startswith("401\n200 ")
    assert 'controller_runtime_reconcile_total{controller="' in allowed
    assert refused.split() == ["401", "403"]


async def test_a_search_ends_in_candidates(release, client):
    await rolled_out(client)
    await eventually_created(client, short_request())
    request = await eventually(
        lambda: client.get(DynamoGraphDeploymentRequest, REQUEST),
        lambda found: found.status.phase in ("Succeeded", "Failed"),
        timeout=SEARCH_SECONDS,
    )
    (run,) = await client.list(DynamoGraphDeploymentRun, namespace=USERS)
    request = await eventually(
        lambda: client.get(DynamoGraphDeploymentRequest, REQUEST),
        lambda found: found.status.best is not None,
    )
    candidates = await client.list(DynamoGraphDeploymentCandidate, namespace=USERS)
    (pod,) = await client.list(Pod, namespace=USERS, labels={RUN_UID_LABEL: run.uid})

    assert run.status.phase == "Succeeded", run.status.execution_message
    assert candidates
    assert {each.name for each in run.status.candidate_refs} == {
        each.key.name for each in candidates
    }
    assert request.status.best.candidate == run.status.candidate_refs[0].name
    assert pod.spec["serviceAccountName"] == f"dgdr-publisher-{run.uid}"
    assert {each["image"] for each in pod.spec["containers"]} >= {PLANNER_IMAGE}


async def test_two_relays_serve_beside_a_graph(release, client):
    await rolled_out(client)
    for crd in GRAPH_CRDS:
        await client.create(CustomResourceDefinition.model_validate(crd))
    spec = {
        "image": PLANNER_IMAGE,
        "clusterID": "a",
        "env": [{"name": "DYN_EVENT_PLANE", "value": "zmq"}],
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}},
    }
    key = ObjectKey(USERS, "graph")
    await client.create(DynamoPoolRelay.new(key.name, namespace=USERS, spec=spec))
    await create_graph(client, key)
    relay = await eventually(
        lambda: client.get(DynamoPoolRelay, key),
        lambda found: found.status.ready_replicas == 2,
        timeout=180,
    )
    states = await relay_states(client, key)

    assert relay.status.sources == 1
    assert len({state["podUID"] for state in states}) == 2
    assert [state["sources"]["count"] for state in states] == [1, 1]
    assert {state["connectionRevision"] for state in states} == {relay.status.connection_revision}


async def test_an_upgrade_and_a_rollback_keep_what_users_made(release, client):
    before = await client.get(DynamoGraphDeploymentRequest, REQUEST)
    changed = VALUES | {"controllerManager": {"replicas": 2}}
    changed["config"] = VALUES["config"] | {"runHistoryLimit": 3}
    await release.helm.done("upgrade", str(CHART), values=changed)
    upgraded = await rolled_out(client, replicas=2)
    await refuses_a_wrong_request(client)
    await release.helm.done("rollback", "1")
    rolled_back = await rolled_out(client, replicas=1)
    await eventually_created(client, short_request("after"), dry_run=True)
    after = await client.get(DynamoGraphDeploymentRequest, REQUEST)
    relay = await client.get(DynamoPoolRelay, ObjectKey(USERS, "graph"))

    checksum = "checksum/config"
    annotations = [
        each.spec["template"]["metadata"]["annotations"][checksum]
        for each in (upgraded, rolled_back)
    ]
    assert annotations[0] != annotations[1]
    assert (after.uid, after.generation, after.status.active_run_ref) == (
        before.uid,
        before.generation,
        before.status.active_run_ref,
    )
    assert relay.status.ready_replicas == 2


async def test_uninstalling_leaves_crds_and_what_users_made(release, client):
    await release.helm.done("uninstall", "--wait")

    async def left():
        after = await inventory(client)
        services = await client.list(Service, namespace=USERS)
        after -= {f"IPAddress /{each.spec['clusterIP']}" for each in services}
        return {
            each
            for each in after - release.before
            if not re.match(rf"\w+ {USERS}/|(CustomResourceDefinition|APIService) /", each)
        }

    assert await eventually(left, lambda found: not found, timeout=60) == set()
    assert await client.get(DynamoGraphDeploymentRequest, REQUEST)
    assert await client.list(DynamoGraphDeploymentCandidate, namespace=USERS)


async def refuses_a_wrong_request(client):
    wrong = short_request("wrong", objective={"mode": "optimize", "metric": "goodput"})
    with pytest.raises(InvalidError, match=r"denied the request: spec\.objective\.sla"):
        await eventually_created(client, wrong, dry_run=True)


async def eventually_created(client, obj, **options):
    """Create an object as soon as the API server reaches the webhooks."""

    async def create():
        try:
            return await client.create(obj, **options)
        except ApiError as error:
            if "failed calling webhook" not in str(error):
                raise
            return str(error)

    return await eventually(create, lambda found: not isinstance(found, str), timeout=60)
