"""What budgets say of their Pods, on every control plane; Pods' statuses are the test's words."""

import json
from uuid import uuid4

import pytest
import pytest_asyncio

from dynamo_operator.runtime.builtin_kinds import Deployment, Namespace, Pod, PodDisruptionBudget
from dynamo_operator.runtime.client.http import HttpRequest
from informers.objects import ObjectKey
from tests.conformance.own_clusters import OWN_MODES, own_cluster
from tests.conformance.playing import transport_of
from tests.dynamo_operator.local_cluster.workloads import LABELS, Kubelet, deployment, status_of

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=OWN_MODES)
async def cluster(request):
    async with own_cluster(request.param, "deployments", "disruption_budgets") as cluster:
        yield cluster


@pytest_asyncio.fixture(loop_scope="module")
async def namespace(cluster):
    name = f"budgets-{uuid4().hex[:8]}"
    await cluster.client.create(Namespace.new(name))
    return name


async def budget(cluster, namespace, **spec):
    spec = {"selector": {"matchLabels": LABELS}, **spec}
    made = PodDisruptionBudget.new("b", namespace=namespace, spec=spec)
    return await cluster.client.create(made)


async def says(cluster, namespace, allowed, healthy, desired, expected):
    """Wait until the budget has these numbers; returns its condition."""
    names = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    found = await cluster.eventually(
        lambda: cluster.client.get(PodDisruptionBudget, ObjectKey(namespace, "b")),
        lambda b: (
            "observedGeneration" in b.status
            and [b.status.get(n) for n in names] == [allowed, healthy, desired, expected]
        ),
        timeout=20,
    )
    assert found.status["observedGeneration"] == found.metadata.generation
    (condition,) = found.status["conditions"]
    return condition["type"], condition["status"], condition["reason"]


SUFFICIENT = ("DisruptionAllowed", "True", "SufficientPods")
INSUFFICIENT = ("DisruptionAllowed", "False", "InsufficientPods")


@pytest.mark.parametrize(
    ("spec", "desired", "expected"),
    [
        ({"minAvailable": 2}, 2, 3),
        ({"maxUnavailable": 1}, 2, 3),
        ({"minAvailable": "50%"}, 2, 3),
        ({"maxUnavailable": "34%"}, 1, 3),
    ],
)
async def test_a_budget_counts_what_may_go(cluster, namespace, spec, desired, expected):
    kubelet = Kubelet(cluster, namespace)
    await cluster.client.create(deployment("web", namespace, replicas=3))
    await cluster.eventually(kubelet.pods, lambda pods: len(pods) == 3)
    await budget(cluster, namespace, **spec)
    assert await says(cluster, namespace, 0, 0, desired, expected) == INSUFFICIENT

    await kubelet.make_ready()

    assert await says(cluster, namespace, 3 - desired, 3, desired, expected) == SUFFICIENT


async def test_a_budget_follows_the_size_of_its_workload(cluster, namespace):
    kubelet = Kubelet(cluster, namespace)
    made = await cluster.client.create(deployment("web", namespace, replicas=1))
    await budget(cluster, namespace, maxUnavailable=1)
    await cluster.eventually(kubelet.make_ready, lambda count: count == 1)
    assert await says(cluster, namespace, 1, 1, 0, 1) == SUFFICIENT

    await cluster.client.patch(Deployment, made.key, {"spec": {"replicas": 4}})

    assert await says(cluster, namespace, 0, 1, 3, 4) == INSUFFICIENT


async def test_a_budget_without_pods_allows_nothing(cluster, namespace):
    await budget(cluster, namespace, minAvailable=0)

    assert await says(cluster, namespace, 0, 0, 0, 0) == INSUFFICIENT


async def test_evictions_stay_within_the_budget_however_fast_they_come(cluster, namespace):
    kubelet = Kubelet(cluster, namespace)
    await cluster.client.create(deployment("web", namespace, replicas=3))
    await budget(cluster, namespace, maxUnavailable=1)
    await cluster.eventually(kubelet.make_ready, lambda count: count == 3)
    assert await says(cluster, namespace, 1, 3, 2, 3) == SUFFICIENT
    first, second, _ = await kubelet.pods()
    await cluster.client.patch(Pod, first.key, {"metadata": {"finalizers": ["lab.test/hold"]}})

    assert (await evict(cluster, first))["code"] == 201
    refused = await evict(cluster, second)

    assert refused["code"] == 429
    assert refused["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    (cause,) = refused["details"]["causes"]
    assert cause["reason"] == "DisruptionBudget"
    target = status_of(await cluster.client.get(Pod, first.key), "DisruptionTarget")
    assert (target["reason"], target["message"]) == (
        "EvictionByEvictionAPI",
        "Eviction API: evicting",
    )
    assert await says(cluster, namespace, 0, 2, 2, 3) == INSUFFICIENT
    await cluster.client.patch(Pod, first.key, {"metadata": {"finalizers": None}})
    await cluster.eventually(kubelet.make_ready, lambda count: count == 3)
    assert await says(cluster, namespace, 1, 3, 2, 3) == SUFFICIENT
    assert (await evict(cluster, second))["code"] == 201


async def evict(cluster, pod):
    """Ask once, where the client would ask again for a while; returns the Status."""
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.key.name},
    }
    path = f"/api/v1/namespaces/{pod.key.namespace}/pods/{pod.key.name}/eviction"
    headers = {"Content-Type": "application/json"}
    request = HttpRequest("POST", path, (), headers, json.dumps(eviction).encode())
    answer = await transport_of(cluster.client).send(request, timeout_seconds=10.0)
    return json.loads(answer.body)
