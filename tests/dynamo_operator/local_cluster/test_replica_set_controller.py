import asyncio
from contextlib import asynccontextmanager

import pytest

from dynamo_operator.local_cluster.deployment_controller import DeploymentController
from dynamo_operator.runtime.builtin_kinds import Namespace, Pod, ReplicaSet
from dynamo_operator.testing.cluster import Cluster
from informers.objects import ObjectKey
from tests.dynamo_operator.local_cluster.workloads import LABELS, Kubelet, status_of

pytestmark = pytest.mark.virtual_time

LATE_SECONDS = 20.0  # longer than own writes are waited for


@pytest.fixture
async def cluster():
    async with Cluster.start(controllers=["gc", "deployments"]) as cluster:
        yield cluster


def pod_template(labels=LABELS):
    containers = [{"name": "main", "image": "lab:1"}]
    return {"metadata": {"labels": labels}, "spec": {"containers": containers}}


async def start(cluster, name="r", **spec):
    spec = {"replicas": 2, "selector": {"matchLabels": LABELS}, "template": pod_template(), **spec}
    return await cluster.client.create(ReplicaSet.new(name, namespace="default", spec=spec))


async def pods_of(cluster, count):
    return await cluster.eventually(Kubelet(cluster).pods, lambda pods: len(pods) == count)


async def test_a_replica_set_has_as_many_pods_as_it_asks_for(cluster):
    made = await start(cluster)

    first = await pods_of(cluster, 2)
    await cluster.client.patch(ReplicaSet, made.key, {"spec": {"replicas": 3}})
    more = await pods_of(cluster, 3)
    await cluster.client.delete(Pod, more[0].key)
    again = await cluster.eventually(
        Kubelet(cluster).pods, lambda pods: len(pods) == 3 and more[0].uid not in uids(pods)
    )

    assert all(pod.key.name.startswith("r-") for pod in again)
    assert uids(first) <= uids(more)
    assert all(pod.owner_references[0].uid == made.uid for pod in again)


async def test_the_pods_missed_least_go(cluster):
    made = await start(cluster, replicas=3)
    pods, kubelet = await pods_of(cluster, 3), Kubelet(cluster)
    for pod in pods:
        await kubelet.set_ready(pod, ready=pod is not pods[1])

    await cluster.client.patch(ReplicaSet, made.key, {"spec": {"replicas": 2}})
    left = await pods_of(cluster, 2)

    assert uids(left) == {pods[0].uid, pods[2].uid}


async def test_an_orphan_that_is_selected_is_adopted_and_one_too_many_goes(cluster):
    orphan = Pod.new("orphan", namespace="default", labels=LABELS, spec=pod_template()["spec"])
    orphan = await cluster.client.create(orphan)
    made = await start(cluster, replicas=1)

    await asyncio.sleep(30)

    (adopted,) = await pods_of(cluster, 1)
    assert adopted.uid == orphan.uid
    assert adopted.owner_references[0].uid == made.uid
    late = Pod.new("late", namespace="default", labels=LABELS, spec=pod_template()["spec"])
    await cluster.client.create(late)
    await asyncio.sleep(30)
    assert len(await Kubelet(cluster).pods()) == 1


async def test_a_pod_whose_labels_match_no_more_is_let_go_and_replaced(cluster):
    made = await start(cluster, replicas=1)
    (pod,) = await pods_of(cluster, 1)

    await cluster.client.patch(Pod, pod.key, {"metadata": {"labels": {"app": "taken-out"}}})
    pods = await pods_of(cluster, 2)

    (free,) = [p for p in pods if p.uid == pod.uid]
    assert free.owner_references == ()
    await cluster.client.delete(ReplicaSet, made.key, propagation="Foreground")
    (left,) = await pods_of(cluster, 1)
    assert left.uid == pod.uid


async def test_pods_of_another_controller_are_left_alone(cluster):
    await start(cluster, "mine", replicas=1)
    (mine,) = await pods_of(cluster, 1)

    await start(cluster, "other", replicas=1)
    pods = await pods_of(cluster, 2)

    assert mine.owner_references[0].name == "mine"
    assert {p.owner_references[0].name for p in pods} == {"mine", "other"}


async def test_selectors_may_have_expressions(cluster):
    expressions = [
        {"key": "app", "operator": "In", "values": ["web", "api"]},
        {"key": "old", "operator": "DoesNotExist"},
    ]
    await start(cluster, replicas=1, selector={"matchExpressions": expressions})
    (pod,) = await pods_of(cluster, 1)

    await cluster.client.patch(Pod, pod.key, {"metadata": {"labels": {"old": "1"}}})

    await pods_of(cluster, 2)


async def test_a_refused_pod_is_a_failure_that_says_why(cluster):
    namespace = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    key = ObjectKey("", "default")
    await cluster.client.patch(Namespace, key, namespace)
    made = await start(cluster)

    failed = await cluster.eventually(
        lambda: cluster.client.get(ReplicaSet, made.key), lambda r: status_of(r, "ReplicaFailure")
    )

    condition = status_of(failed, "ReplicaFailure")
    assert condition["reason"] == "FailedCreate"
    assert "restricted" in condition["message"]


async def test_a_late_cache_makes_no_pod_too_many():
    async with Cluster.start() as cluster:
        client = cluster.client.with_transport(LateWatches)
        controller = DeploymentController(client, clock=cluster.clock, random=cluster.random)
        most = 0
        async with cluster.manager(controller):
            made = await start(cluster, replicas=4)
            for replicas in (4, 2, 5, 3):
                await cluster.client.patch(ReplicaSet, made.key, {"spec": {"replicas": replicas}})
                for _ in range(120):
                    await asyncio.sleep(1)
                    most = max(most, len(await Kubelet(cluster).pods()))
                assert len(await Kubelet(cluster).pods()) == replicas
        created = cluster.audit.created("pods")
        assert most == 5
        assert len(created) == 4 + 3


class LateWatches:
    """A transport whose watches tell everything late."""

    def __init__(self, transport):
        self._transport = transport

    async def send(self, request, *, timeout_seconds):
        return await self._transport.send(request, timeout_seconds=timeout_seconds)

    @asynccontextmanager
    async def stream(self, request):
        async with self._transport.stream(request) as stream:
            yield _LateStream(stream)

    async def close(self):
        await self._transport.close()


class _LateStream:
    def __init__(self, stream):
        self._stream = stream
        self.status, self.headers = stream.status, stream.headers

    async def chunks(self):
        async for chunk in self._stream.chunks():
            await asyncio.sleep(LATE_SECONDS)
            yield chunk

    async def read(self):
        return await self._stream.read()


def uids(pods):
    return {pod.uid for pod in pods}
