"""Deployments, ReplicaSets and their Pods, on every control plane.

Nothing runs the Pods: what a kubelet would write of them is written by the test.
"""

from datetime import timedelta
from uuid import uuid4

import pytest
import pytest_asyncio

from dynamo_operator.runtime.builtin_kinds import Deployment, Namespace, Pod, ReplicaSet
from tests.conformance.own_clusters import OWN_MODES, own_cluster
from tests.dynamo_operator.local_cluster.workloads import (
    Kubelet,
    deployment,
    is_complete,
    rolling,
    status_of,
    with_image,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

REVISION = "deployment.kubernetes.io/revision"


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=OWN_MODES)
async def cluster(request):
    async with own_cluster(request.param, "deployments", "gc") as cluster:
        yield cluster


@pytest_asyncio.fixture(loop_scope="module")
async def namespace(cluster):
    name = f"deployments-{uuid4().hex[:8]}"
    await cluster.client.create(Namespace.new(name))
    return name


@pytest.fixture
def kubelet(cluster, namespace):
    return Kubelet(cluster, namespace)


async def roll(cluster, kubelet, key, until=is_complete):
    async def step():
        await kubelet.make_ready()
        return await cluster.client.get(Deployment, key)

    return await cluster.eventually(step, until, timeout=30)


async def sizes(kubelet, owner):
    return [r.spec["replicas"] for r in await kubelet.replica_sets(owner)]


def without_times(conditions):
    names = ("type", "status", "reason", "message")
    return sorted(tuple(condition.get(name) for name in names) for condition in conditions)


async def test_a_rollout_from_its_first_pod_to_a_second_template(cluster, namespace, kubelet):
    strategy = rolling(1, 0)
    made = await cluster.client.create(deployment("web", namespace, replicas=2, strategy=strategy))
    first = await roll(cluster, kubelet, made.key)
    (old,) = await kubelet.replica_sets(made)
    annotated = {"metadata": {"annotations": {"lab.test/note": "second"}}}
    await cluster.client.patch(Deployment, made.key, {**annotated, **with_image("lab:2")})
    second = await roll(cluster, kubelet, made.key)
    old, new = await kubelet.replica_sets(made)

    digest = new.labels["pod-template-hash"]
    assert new.key.name == f"web-{digest}"
    assert new.labels == {"app": "web", "pod-template-hash": digest}
    assert new.spec["selector"] == {"matchLabels": new.labels}
    assert new.metadata.annotations == {
        REVISION: "2",
        "deployment.kubernetes.io/desired-replicas": "2",
        "deployment.kubernetes.io/max-replicas": "3",
        "lab.test/note": "second",
    }
    owner = new.owner_references[0]
    assert (owner.kind, owner.uid, owner.controller, owner.block_owner_deletion) == (
        "Deployment",
        made.uid,
        True,
        True,
    )
    assert old.status == {
        "replicas": 0,
        "observedGeneration": old.metadata.generation,
        "terminatingReplicas": 0,
    }
    for pod in await kubelet.pods():
        assert pod.labels == new.labels
        assert pod.owner_references[0].uid == new.uid
        assert pod.key.name.startswith(f"{new.key.name}-")
    assert first.metadata.annotations[REVISION] == "1"
    assert second.metadata.annotations[REVISION] == "2"
    assert second.metadata.generation == 2
    status = {name: value for name, value in second.status.items() if name != "conditions"}
    assert status == {
        "observedGeneration": 2,
        "replicas": 2,
        "updatedReplicas": 2,
        "readyReplicas": 2,
        "availableReplicas": 2,
        "terminatingReplicas": 0,
    }
    done = await cluster.eventually(
        lambda: cluster.client.get(Deployment, made.key),
        lambda d: status_of(d, "Progressing")["reason"] == "NewReplicaSetAvailable",
    )
    assert without_times(done.status["conditions"]) == [
        (
            "Available",
            "True",
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
        ),
        (
            "Progressing",
            "True",
            "NewReplicaSetAvailable",
            f'ReplicaSet "{new.key.name}" has successfully progressed.',
        ),
    ]


async def test_a_rollout_stops_at_its_limits_while_no_new_pod_is_ready(cluster, namespace, kubelet):
    strategy = rolling("30%", "20%")
    made = deployment("web", namespace, replicas=10, strategy=strategy)
    made = await cluster.client.create(made)
    await roll(cluster, kubelet, made.key)

    await cluster.client.patch(Deployment, made.key, with_image("lab:2"))
    stuck = await cluster.eventually(
        lambda: cluster.client.get(Deployment, made.key),
        lambda d: d.status.get("updatedReplicas") == 5 and d.status.get("replicas") == 13,
        timeout=20,
    )

    assert await sizes(kubelet, made) == [8, 5]
    assert stuck.status["availableReplicas"] == 8
    assert stuck.status["unavailableReplicas"] == 5
    await cluster.client.patch(Deployment, made.key, {"spec": {"replicas": 15}})
    await cluster.eventually(lambda: sizes(kubelet, made), lambda found: found == [12, 8])
    await cluster.client.patch(Deployment, made.key, {"spec": {"replicas": 4}})
    await cluster.eventually(lambda: sizes(kubelet, made), lambda found: sum(found) <= 6)
    await roll(cluster, kubelet, made.key)
    assert await sizes(kubelet, made) == [0, 4]


async def test_recreate_waits_for_the_end_of_every_old_pod(cluster, namespace, kubelet):
    made = deployment("web", namespace, replicas=2, strategy={"type": "Recreate"})
    made = await cluster.client.create(made)
    await roll(cluster, kubelet, made.key)
    held = await kubelet.pods()
    for pod in held:
        await cluster.client.patch(Pod, pod.key, {"metadata": {"finalizers": ["lab.test/hold"]}})

    await cluster.client.patch(Deployment, made.key, with_image("lab:2"))
    ending = await cluster.eventually(
        lambda: cluster.client.get(Deployment, made.key),
        lambda d: d.status.get("terminatingReplicas") == 2,
    )

    assert len(await kubelet.replica_sets(made)) == 1
    assert ending.status.get("replicas", 0) == 0
    assert status_of(ending, "Available")["status"] == "False"
    for pod in held:
        await cluster.client.patch(Pod, pod.key, {"metadata": {"finalizers": None}})
        await cluster.client.delete_all(Pod, namespace=namespace, grace_period_seconds=0)
    await roll(cluster, kubelet, made.key)
    assert await sizes(kubelet, made) == [0, 2]


async def test_pausing_and_resuming_are_conditions(cluster, namespace, kubelet):
    made = await cluster.client.create(deployment("web", namespace, replicas=1))
    await roll(cluster, kubelet, made.key)

    paused = {"spec": {"paused": True, **with_image("lab:2")["spec"]}}
    await cluster.client.patch(Deployment, made.key, paused)
    found = await cluster.eventually(
        lambda: cluster.client.get(Deployment, made.key),
        lambda d: status_of(d, "Progressing")["reason"] == "DeploymentPaused",
    )

    assert status_of(found, "Progressing")["status"] == "Unknown"
    assert status_of(found, "Progressing")["message"] == "Deployment is paused"
    assert len(await kubelet.replica_sets(made)) == 1
    await cluster.client.patch(Deployment, made.key, {"spec": {"paused": False}})
    await roll(cluster, kubelet, made.key)
    assert await sizes(kubelet, made) == [0, 1]


async def test_a_rollout_without_progress_times_out(cluster, namespace, kubelet):
    made = deployment("web", namespace, replicas=1, progressDeadlineSeconds=2)
    made = await cluster.client.create(made)

    late = await cluster.eventually(
        lambda: cluster.client.get(Deployment, made.key),
        lambda d: (status_of(d, "Progressing") or {}).get("reason") == "ProgressDeadlineExceeded",
        timeout=15,
    )

    (replica_set,) = await kubelet.replica_sets(made)
    assert without_times(late.status["conditions"]) == [
        (
            "Available",
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        ),
        (
            "Progressing",
            "False",
            "ProgressDeadlineExceeded",
            f'ReplicaSet "{replica_set.key.name}" has timed out progressing.',
        ),
    ]


async def test_refused_pods_are_a_replica_failure(cluster, namespace, kubelet):
    restricted = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    await cluster.client.patch(Namespace, Namespace.new(namespace).key, restricted)

    made = await cluster.client.create(deployment("web", namespace, replicas=1))
    failed = await cluster.eventually(
        lambda: cluster.client.get(Deployment, made.key), lambda d: status_of(d, "ReplicaFailure")
    )

    condition = status_of(failed, "ReplicaFailure")
    assert (condition["status"], condition["reason"]) == ("True", "FailedCreate")
    assert 'violates PodSecurity "restricted:latest"' in condition["message"]
    assert failed.status["unavailableReplicas"] == 1


async def test_the_history_limit_and_a_rollback(cluster, namespace, kubelet):
    made = deployment("web", namespace, replicas=1, revisionHistoryLimit=1)
    made = await cluster.client.create(made)
    for number in (2, 3):
        await roll(cluster, kubelet, made.key)
        await cluster.client.patch(Deployment, made.key, with_image(f"lab:{number}"))
    await roll(cluster, kubelet, made.key)
    kept = await cluster.eventually(
        lambda: kubelet.replica_sets(made), lambda found: len(found) == 2, timeout=20
    )
    await cluster.client.patch(Deployment, made.key, with_image("lab:2"))
    await roll(cluster, kubelet, made.key)

    back = await kubelet.replica_sets(made)

    assert [r.metadata.annotations[REVISION] for r in kept] == ["2", "3"]
    assert [r.metadata.annotations[REVISION] for r in back] == ["3", "4"]
    assert back[1].uid == kept[0].uid
    assert back[1].metadata.annotations["deployment.kubernetes.io/revision-history"] == "2"


async def test_pods_go_in_the_order_in_which_they_are_missed(cluster, namespace, kubelet):
    labels = {"app": "order"}
    spec = deployment("r", namespace, labels=labels, replicas=6).spec
    made = await cluster.client.create(ReplicaSet.new("r", namespace=namespace, spec=spec))
    pods = await cluster.eventually(kubelet.pods, lambda found: len(found) == 6)
    now, cost = cluster.clock.now(), "controller.kubernetes.io/pod-deletion-cost"
    long_ready, unready, cheap, dear, briefly_ready, pending = pods
    for pod, seconds in ((long_ready, 9000), (cheap, 9000), (dear, 10), (briefly_ready, 10)):
        await kubelet.set_ready(pod, since=now - timedelta(seconds=seconds))
    await kubelet.set_ready(unready, ready=False)
    for pod, price in ((cheap, "-5"), (dear, "5")):
        await cluster.client.patch(Pod, pod.key, {"metadata": {"annotations": {cost: price}}})
    await cluster.eventually(
        lambda: cluster.client.get(ReplicaSet, made.key),
        lambda r: r.status.get("readyReplicas") == 4,
    )

    gone = []
    for size in (5, 4, 3, 2, 1):
        await cluster.client.patch(ReplicaSet, made.key, {"spec": {"replicas": size}})
        left = await cluster.eventually(kubelet.pods, lambda found, n=size: len(found) == n)
        uids = {pod.uid for pod in left}
        gone += [pod.uid for pod in pods if pod.uid not in uids and pod.uid not in gone]

    wanted = [pending, unready, cheap, briefly_ready, long_ready]
    assert gone == [pod.uid for pod in wanted]


async def test_orphans_are_adopted_and_what_matches_no_more_is_let_go(cluster, namespace, kubelet):
    made = await cluster.client.create(deployment("web", namespace, replicas=2))
    await roll(cluster, kubelet, made.key)
    (old,) = await kubelet.replica_sets(made)
    freed, stays = await kubelet.pods()
    await cluster.client.patch(Pod, freed.key, {"metadata": {"labels": {"app": "taken-out"}}})
    await cluster.eventually(kubelet.pods, lambda found: len(found) == 3)
    await cluster.client.delete(Deployment, made.key, propagation="Orphan")
    await cluster.eventually(
        lambda: cluster.client.get(ReplicaSet, old.key), lambda r: not r.owner_references
    )

    await cluster.eventually(
        lambda: cluster.client.find(Deployment, made.key), lambda found: found is None, timeout=20
    )
    again = await cluster.client.create(deployment("web", namespace, replicas=2))
    (adopted,) = await cluster.eventually(lambda: kubelet.replica_sets(again))

    assert adopted.uid == old.uid
    assert (await cluster.client.get(Pod, freed.key)).owner_references == ()
    assert (await cluster.client.get(Pod, stays.key)).owner_references[0].uid == old.uid
