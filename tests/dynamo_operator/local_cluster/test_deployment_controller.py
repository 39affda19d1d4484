import asyncio

import pytest

from dynamo_operator.local_cluster.deployment_controller import DeploymentController
from dynamo_operator.runtime.builtin_kinds import Deployment, Event, Namespace, Pod, ReplicaSet
from dynamo_operator.testing.cluster import Cluster
from informers.objects import ObjectKey
from tests.dynamo_operator.local_cluster.workloads import (
    Kubelet,
    deployment,
    is_complete,
    rolling,
    status_of,
    with_image,
)

pytestmark = pytest.mark.virtual_time

REVISION = "deployment.kubernetes.io/revision"


@pytest.fixture
async def cluster():
    async with Cluster.start(controllers=["gc", "deployments"]) as cluster:
        yield cluster


@pytest.fixture
def kubelet(cluster):
    return Kubelet(cluster)


async def roll(cluster, kubelet, key, *, until=is_complete):
    """Let Pods become ready until the rollout is over."""

    async def step():
        await kubelet.make_ready()
        return await cluster.client.get(Deployment, key)

    return await cluster.eventually(step, until, timeout=900)


async def settled(cluster, key, predicate=lambda d: d.status.get("observedGeneration")):
    return await cluster.eventually(lambda: cluster.client.get(Deployment, key), predicate)


async def test_a_deployment_makes_a_replica_set_of_its_template(cluster, kubelet):
    made = await cluster.client.create(deployment())

    done = await roll(cluster, kubelet, made.key)

    (replica_set,) = await kubelet.replica_sets(made)
    digest = replica_set.labels["pod-template-hash"]
    assert replica_set.key.name == f"web-{digest}"
    assert replica_set.spec["selector"]["matchLabels"]["pod-template-hash"] == digest
    assert replica_set.metadata.annotations[REVISION] == "1"
    assert done.metadata.annotations[REVISION] == "1"
    pods = await kubelet.pods()
    assert all(pod.labels == {"app": "web", "pod-template-hash": digest} for pod in pods)
    assert all(pod.owner_references[0].uid == replica_set.uid for pod in pods)
    assert status_of(done, "Available")["reason"] == "MinimumReplicasAvailable"
    progressing = status_of(done, "Progressing")
    assert progressing["reason"] == "NewReplicaSetAvailable"
    assert progressing["message"] == f'ReplicaSet "web-{digest}" has successfully progressed.'
    assert "unavailableReplicas" not in done.status
    assert done.status["terminatingReplicas"] == 0


async def test_a_converged_deployment_costs_no_write(cluster, kubelet):
    made = await cluster.client.create(deployment())
    await roll(cluster, kubelet, made.key)
    await asyncio.sleep(60)
    before = len(cluster.audit.writes())

    await asyncio.sleep(600)

    assert len(cluster.audit.writes()) == before


async def test_a_new_template_replaces_every_pod(cluster, kubelet):
    made = await cluster.client.create(deployment())
    await roll(cluster, kubelet, made.key)
    old = {pod.uid for pod in await kubelet.pods()}

    await cluster.client.patch(Deployment, made.key, with_image("lab:2"))
    done = await roll(cluster, kubelet, made.key)

    assert not old & {pod.uid for pod in await kubelet.pods()}
    first, second = await kubelet.replica_sets(made)
    assert (first.spec["replicas"], second.spec["replicas"]) == (0, 3)
    assert done.metadata.annotations[REVISION] == "2"


async def test_going_back_makes_the_old_replica_set_the_newest(cluster, kubelet):
    made = await cluster.client.create(deployment())
    await roll(cluster, kubelet, made.key)
    (first,) = await kubelet.replica_sets(made)
    await cluster.client.patch(Deployment, made.key, with_image("lab:2"))
    await roll(cluster, kubelet, made.key)

    await cluster.client.patch(Deployment, made.key, with_image("lab:1"))
    await roll(cluster, kubelet, made.key)

    sets = await kubelet.replica_sets(made)
    assert [r.metadata.annotations[REVISION] for r in sets] == ["2", "3"]
    assert sets[1].uid == first.uid
    assert sets[1].metadata.annotations["deployment.kubernetes.io/revision-history"] == "1"


async def test_the_history_keeps_as_many_old_replica_sets_as_asked(cluster, kubelet):
    made = await cluster.client.create(deployment(replicas=1, revisionHistoryLimit=2))
    for number in range(2, 7):
        await roll(cluster, kubelet, made.key)
        await cluster.client.patch(Deployment, made.key, with_image(f"lab:{number}"))
    await roll(cluster, kubelet, made.key)

    sets = await cluster.eventually(
        lambda: kubelet.replica_sets(made), lambda sets: len(sets) == 3, timeout=60
    )

    assert [r.metadata.annotations[REVISION] for r in sets] == ["4", "5", "6"]


async def test_recreate_starts_no_new_pod_before_the_last_old_one_is_gone(cluster, kubelet):
    made = await cluster.client.create(deployment(strategy={"type": "Recreate"}))
    await roll(cluster, kubelet, made.key)
    held = await kubelet.pods()
    for pod in held:  # as one that still ends its work
        await cluster.client.patch(Pod, pod.key, {"metadata": {"finalizers": ["lab.test/hold"]}})

    await cluster.client.patch(Deployment, made.key, with_image("lab:2"))
    await asyncio.sleep(60)

    assert await kubelet.pods() == []
    assert (await settled(cluster, made.key)).status["terminatingReplicas"] == 3
    for pod in held[:2]:
        await cluster.client.patch(Pod, pod.key, {"metadata": {"finalizers": None}})
    await asyncio.sleep(60)
    assert await kubelet.pods() == []
    await cluster.client.patch(Pod, held[2].key, {"metadata": {"finalizers": None}})
    await roll(cluster, kubelet, made.key)
    assert all(p.spec["containers"][0]["image"] == "lab:2" for p in await kubelet.pods())


async def test_a_paused_deployment_rolls_nothing_out_but_is_scaled(cluster, kubelet):
    made = await cluster.client.create(deployment())
    await roll(cluster, kubelet, made.key)
    pausing = {"spec": {"paused": True, "replicas": 5, **with_image("lab:2")["spec"]}}

    await cluster.client.patch(Deployment, made.key, pausing)
    await cluster.eventually(kubelet.pods, lambda pods: len(pods) == 5)

    (replica_set,) = await kubelet.replica_sets(made)
    assert replica_set.spec["replicas"] == 5
    paused = await settled(cluster, made.key, lambda d: d.status.get("replicas") == 5)
    assert status_of(paused, "Progressing")["reason"] == "DeploymentPaused"
    assert status_of(paused, "Progressing")["status"] == "Unknown"
    await cluster.client.patch(Deployment, made.key, {"spec": {"paused": False}})
    done = await roll(cluster, kubelet, made.key)
    assert status_of(done, "Progressing")["reason"] == "NewReplicaSetAvailable"
    assert len(await kubelet.replica_sets(made)) == 2


async def test_scaling_amid_a_rollout_keeps_the_proportions(cluster, kubelet):
    made = await cluster.client.create(deployment(replicas=10, strategy=rolling(3, 2)))
    await roll(cluster, kubelet, made.key)
    await cluster.client.patch(Deployment, made.key, with_image("lab:2"))
    await asyncio.sleep(30)  # none of the new ones becomes ready
    sizes = [r.spec["replicas"] for r in await kubelet.replica_sets(made)]
    assert sizes == [8, 5]

    await cluster.client.patch(Deployment, made.key, {"spec": {"replicas": 15}})
    await asyncio.sleep(30)

    # 18 Pods may be there: the 5 more go to them as 8 to 5.
    assert [r.spec["replicas"] for r in await kubelet.replica_sets(made)] == [11, 7]


async def test_a_rollout_that_makes_no_progress_is_said_to_have_timed_out(cluster, kubelet):
    made = await cluster.client.create(deployment(progressDeadlineSeconds=30))
    await asyncio.sleep(28)
    early = await cluster.client.get(Deployment, made.key)
    assert status_of(early, "Progressing")["reason"] == "ReplicaSetUpdated"

    await asyncio.sleep(10)

    late = await cluster.client.get(Deployment, made.key)
    (replica_set,) = await kubelet.replica_sets(made)
    condition = status_of(late, "Progressing")
    assert (condition["status"], condition["reason"]) == ("False", "ProgressDeadlineExceeded")
    assert condition["message"] == f'ReplicaSet "{replica_set.key.name}" has timed out progressing.'
    assert status_of(late, "Available")["reason"] == "MinimumReplicasUnavailable"
    done = await roll(cluster, kubelet, made.key)
    assert status_of(done, "Progressing")["reason"] == "NewReplicaSetAvailable"


async def test_pods_count_as_available_only_after_min_ready_seconds(cluster, kubelet):
    made = await cluster.client.create(deployment(replicas=1, minReadySeconds=20))
    await cluster.eventually(kubelet.make_ready, lambda count: count == 1)

    await asyncio.sleep(18)
    early = await cluster.client.get(Deployment, made.key)
    await asyncio.sleep(4)
    late = await cluster.client.get(Deployment, made.key)

    assert (early.status["readyReplicas"], early.status.get("availableReplicas", 0)) == (1, 0)
    assert late.status["availableReplicas"] == 1


async def test_pods_that_are_refused_are_a_replica_failure_with_the_reason(cluster, kubelet):
    namespace = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    await cluster.client.patch(Namespace, ObjectKey("", "default"), namespace)

    made = await cluster.client.create(deployment())

    failed = await settled(cluster, made.key, lambda d: status_of(d, "ReplicaFailure"))
    condition = status_of(failed, "ReplicaFailure")
    assert (condition["status"], condition["reason"]) == ("True", "FailedCreate")
    assert "violates PodSecurity" in condition["message"]
    open_again = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": None}}}
    await cluster.client.patch(Namespace, ObjectKey("", "default"), open_again)
    done = await roll(cluster, kubelet, made.key)
    assert status_of(done, "ReplicaFailure") is None


async def test_a_name_that_another_replica_set_has_is_avoided_by_a_collision_count(cluster):
    probe = await cluster.client.create(deployment("probe", replicas=0))
    kubelet = Kubelet(cluster)
    (made,) = await cluster.eventually(lambda: kubelet.replica_sets(probe))
    foreign = made.to_dict()
    name = made.key.name.replace("probe", "web")
    foreign["metadata"] = {"name": name, "namespace": "default", "labels": {"app": "other"}}
    foreign["spec"]["selector"] = {"matchLabels": {"app": "other"}}
    foreign["spec"]["template"]["metadata"]["labels"] = {"app": "other"}
    del foreign["status"]
    await cluster.client.create(foreign, kind=ReplicaSet.resource_type)

    wanted = await cluster.client.create(deployment(replicas=0))

    found = await settled(cluster, wanted.key, lambda d: d.status.get("collisionCount"))
    (replica_set,) = await cluster.eventually(lambda: kubelet.replica_sets(wanted))
    assert found.status["collisionCount"] == 1
    assert replica_set.key.name != name
    assert (await cluster.client.get(ReplicaSet, ObjectKey("default", name))).labels == {
        "app": "other"
    }


async def test_replica_sets_are_orphaned_and_adopted_again(cluster, kubelet):
    made = await cluster.client.create(deployment())
    await roll(cluster, kubelet, made.key)
    pods = {pod.uid for pod in await kubelet.pods()}
    (replica_set,) = await kubelet.replica_sets(made)
    await cluster.client.delete(Deployment, made.key, propagation="Orphan")
    await cluster.eventually(
        lambda: cluster.client.get(ReplicaSet, replica_set.key), lambda r: not r.owner_references
    )

    await cluster.eventually(
        lambda: cluster.client.find(Deployment, made.key), lambda found: found is None
    )
    again = await cluster.client.create(deployment())

    (adopted,) = await cluster.eventually(lambda: kubelet.replica_sets(again))
    await asyncio.sleep(30)
    assert adopted.uid == replica_set.uid
    owner = adopted.owner_references[0]
    assert (owner.uid, owner.controller, owner.block_owner_deletion) == (again.uid, True, True)
    assert {pod.uid for pod in await kubelet.pods()} == pods


async def test_a_deployment_that_is_deleted_takes_its_pods_along(cluster, kubelet):
    made = await cluster.client.create(deployment())
    await roll(cluster, kubelet, made.key)

    await cluster.client.delete(Deployment, made.key, propagation="Foreground")

    await cluster.eventually(lambda: cluster.client.list(Deployment), lambda ds: ds == [])
    assert await cluster.client.list(ReplicaSet) == []
    assert await cluster.client.list(Pod) == []


async def test_events_tell_what_was_scaled(cluster, kubelet):
    made = await cluster.client.create(deployment(replicas=1, strategy=rolling(0, 1)))
    await roll(cluster, kubelet, made.key)
    (first,) = await kubelet.replica_sets(made)

    await cluster.client.patch(Deployment, made.key, with_image("lab:2"))
    await roll(cluster, kubelet, made.key)

    _, second = await kubelet.replica_sets(made)
    events = await cluster.eventually(
        lambda: cluster.client.list(Event, namespace="default"),
        lambda es: sum(e.reason == "ScalingReplicaSet" for e in es) == 3,
    )
    notes = {e.note for e in events if e.reason == "ScalingReplicaSet"}
    assert notes == {
        f"Scaled up replica set {first.key.name} from 0 to 1",
        f"Scaled down replica set {first.key.name} from 1 to 0",
        f"Scaled up replica set {second.key.name} from 0 to 1",
    }
    assert sum(e.reason == "SuccessfulCreate" for e in events) == 2
    assert sum(e.reason == "SuccessfulDelete" for e in events) == 1


@pytest.mark.parametrize("seed", range(8))
async def test_rollouts_stay_within_their_limits_at_every_commit(seed):
    async with Cluster.start(seed=seed) as cluster:
        random, kubelet = cluster.random, Kubelet(cluster)
        desired = random.randint(1, 6)
        surge = random.choice([0, 1, 2, "25%", "50%", "100%"])
        unavailable = random.choice([1, 2, "30%"]) if surge == 0 else random.choice([0, 1, "30%"])
        made = deployment(replicas=desired, strategy=rolling(surge, unavailable))
        history = History(cluster)
        made = await run_rollouts(cluster, kubelet, made, random, history)

        limits = history.limits(desired, surge, unavailable)
        assert history.samples > 2 * desired
        assert history.most_replicas <= limits[0]
        assert history.most_pods <= limits[0]
        assert history.least_available >= limits[1]
        assert is_complete(await cluster.client.get(Deployment, made.key))


async def run_rollouts(cluster, kubelet, made, random, history):
    """Roll three templates out while controllers die and Pods become ready as chance has it."""
    async with Controllers(cluster) as controllers:
        made = await cluster.client.create(made)
        await roll(cluster, kubelet, made.key)
        with history:
            for number in range(2, 5):
                image = with_image(f"lab:{number}")
                changed = await cluster.client.patch(Deployment, made.key, image)
                for _ in range(400):
                    if random.random() < 0.1:
                        await controllers.restart()
                    await asyncio.sleep(random.random())
                    waiting = [p for p in await kubelet.pods() if p.status["phase"] == "Pending"]
                    if waiting and random.random() < 0.7:
                        await kubelet.set_ready(random.choice(waiting))
                    now = await cluster.client.get(Deployment, made.key)
                    # A new template comes at times before the last one is out.
                    if is_complete(now) or (number < 4 and random.random() < 0.05):
                        break
                assert changed.metadata.generation
            await asyncio.sleep(5)
    return made


class Controllers:
    """The controllers of a cluster, to be stopped and started anew at any moment."""

    def __init__(self, cluster):
        self._cluster = cluster
        self._running: asyncio.Future[None]

    async def __aenter__(self):
        await self._start()
        return self

    async def __aexit__(self, *_):
        await self._stop()

    async def restart(self):
        await self._stop()
        await self._start()

    async def _start(self):
        cluster = self._cluster
        controller = DeploymentController(
            cluster.client, clock=cluster.clock, random=cluster.random
        )
        self._running = asyncio.ensure_future(controller.run())

    async def _stop(self):
        self._running.cancel()
        await asyncio.wait([self._running])


class History:
    """What every commit shows of a Deployment's Pods and sizes."""

    def __init__(self, cluster):
        self._storage = cluster.server.storage
        self.samples = self.most_replicas = self.most_pods = 0
        self.least_available = 10**6

    def __enter__(self):
        self._put, self._remove = self._storage.put, self._storage.remove
        self._storage.put = self._watched(self._put)
        self._storage.remove = self._watched(self._remove)
        return self

    def __exit__(self, *_):
        del self._storage.put, self._storage.remove

    def _watched(self, write):
        def written(*arguments, **options):
            result = write(*arguments, **options)
            self._look()
            return result

        return written

    def _look(self):
        pods = [stored.value for stored in self._storage.objects(("", "pods"), "default")]
        alive = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
        ready = [pod for pod in alive if pod["status"].get("conditions")]
        sets = self._storage.objects(("apps", "replicasets"), "default")
        self.samples += 1
        sizes = sum(stored.value["spec"]["replicas"] for stored in sets)
        self.most_replicas = max(self.most_replicas, sizes)
        self.most_pods = max(self.most_pods, len(alive))
        self.least_available = min(self.least_available, len(ready))

    @staticmethod
    def limits(desired, surge, unavailable):
        def of(value, up):
            if isinstance(value, int):
                return value
            hundredths = int(value[:-1]) * desired
            return -(-hundredths // 100) if up else hundredths // 100

        over, under = of(surge, up=True), of(unavailable, up=False)
        if over == under == 0:
            under = 1
        return desired + over, desired - min(under, desired)
