import asyncio
from typing import Any

import pytest

from dynamo_operator.local_cluster.garbage_collector import GarbageCollector
from dynamo_operator.local_cluster.job_controller import JobController, JobReconciler
from dynamo_operator.local_cluster.job_plan import TRACKING_FINALIZER
from dynamo_operator.runtime.builtin_kinds import Event, Job, Pod
from dynamo_operator.runtime.reconciler import Result
from dynamo_operator.testing.cluster import Cluster
from informers.objects import ObjectKey

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def cluster():
    async with Cluster.start() as cluster:
        runnables = [
            kind(cluster.client, clock=cluster.clock, random=cluster.random)
            for kind in (JobController, GarbageCollector)
        ]
        async with cluster.manager(*runnables):
            yield cluster


async def start(cluster, name="j", **spec):
    container = {"name": "main", "image": "lab:1"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"backoffLimit": 0, "template": template, **spec}
    return await cluster.client.create(Job.new(name, namespace="default", spec=spec))


async def pods_of(cluster, count):
    return await cluster.eventually(lambda: cluster.client.list(Pod), lambda ps: len(ps) == count)


async def finish(cluster, pod, phase):
    await cluster.client.patch(Pod, pod.key, {"status": {"phase": phase}}, subresource="status")


async def condition(cluster, job, type_):
    def has(found):
        return next(
            (
                c
                for c in found.status.get("conditions") or ()
                if c["type"] == type_ and c["status"] == "True"
            ),
            None,
        )

    found = await cluster.eventually(lambda: cluster.client.get(Job, job.key), has, timeout=3600)
    return found, has(found)


async def test_a_job_runs_one_pod_of_its_own(cluster):
    job = await start(cluster)

    (pod,) = await pods_of(cluster, 1)

    assert pod.owner_references[0].uid == job.uid
    assert pod.owner_references[0].controller
    assert pod.metadata.finalizers == [TRACKING_FINALIZER]
    assert pod.labels["batch.kubernetes.io/controller-uid"] == job.uid
    assert pod.labels["batch.kubernetes.io/job-name"] == pod.labels["job-name"] == "j"
    assert pod.key.name.startswith("j-")


async def test_a_job_is_complete_when_its_pod_succeeded(cluster):
    job = await start(cluster)
    (pod,) = await pods_of(cluster, 1)

    await finish(cluster, pod, "Succeeded")

    job, complete = await condition(cluster, job, "Complete")
    assert complete["reason"] == "CompletionsReached"
    assert job.status["succeeded"] == 1
    assert job.status["completionTime"] >= job.status["startTime"]
    assert (await cluster.client.get(Pod, pod.key)).metadata.finalizers == []


async def test_a_job_fails_when_its_only_pod_failed(cluster):
    job = await start(cluster)
    (pod,) = await pods_of(cluster, 1)

    await finish(cluster, pod, "Failed")

    job, failed = await condition(cluster, job, "Failed")
    assert failed["reason"] == "BackoffLimitExceeded"
    assert job.status["failed"] == 1
    await asyncio.sleep(700)
    assert len(await cluster.client.list(Pod)) == 1


async def test_a_failure_within_the_limit_is_tried_again(cluster):
    job = await start(cluster, backoffLimit=1)
    (first,) = await pods_of(cluster, 1)

    await finish(cluster, first, "Failed")
    pods = await cluster.eventually(
        lambda: cluster.client.list(Pod), lambda ps: len(ps) == 2, timeout=60
    )
    await finish(cluster, next(p for p in pods if p.uid != first.uid), "Succeeded")

    job, _ = await condition(cluster, job, "Complete")
    assert (job.status["succeeded"], job.status["failed"]) == (1, 1)


async def test_several_completions_run_a_few_at_a_time(cluster):
    job = await start(cluster, completions=3, parallelism=2)

    done = set()
    for _ in range(3):
        pods = await cluster.eventually(
            lambda: cluster.client.list(Pod), lambda ps: [p for p in ps if p.uid not in done]
        )
        running = [p for p in pods if p.uid not in done]
        assert len(running) <= 2
        await finish(cluster, running[0], "Succeeded")
        done.add(running[0].uid)

    job, _ = await condition(cluster, job, "Complete")
    assert job.status["succeeded"] == 3
    assert len(await cluster.client.list(Pod)) == 3


async def test_the_deadline_ends_a_job_after_its_pods(cluster):
    job = await start(cluster, activeDeadlineSeconds=60)
    await pods_of(cluster, 1)
    await asyncio.sleep(59)
    assert len(await cluster.client.list(Pod)) == 1

    job, failed = await condition(cluster, job, "Failed")

    assert failed["reason"] == "DeadlineExceeded"
    assert [c["type"] for c in job.status["conditions"]] == ["FailureTarget", "Failed"]
    assert await cluster.client.list(Pod) == []


async def test_a_suspended_job_runs_nothing_until_it_is_resumed(cluster):
    job = await start(cluster, suspend=True)
    await condition(cluster, job, "Suspended")
    assert await cluster.client.list(Pod) == []

    await cluster.client.patch(Job, job.key, {"spec": {"suspend": False}})
    await pods_of(cluster, 1)
    await cluster.client.patch(Job, job.key, {"spec": {"suspend": True}})

    await pods_of(cluster, 0)
    job, _ = await condition(cluster, job, "Suspended")
    assert "failed" not in job.status
    assert "startTime" not in job.status


async def test_a_finished_job_is_deleted_after_its_time_to_live(cluster):
    job = await start(cluster, ttlSecondsAfterFinished=100)
    (pod,) = await pods_of(cluster, 1)
    await finish(cluster, pod, "Succeeded")
    await condition(cluster, job, "Complete")

    await asyncio.sleep(98)
    assert await cluster.client.find(Job, job.key)
    await cluster.eventually(lambda: cluster.client.list(Job), lambda js: not js, timeout=60)
    assert await cluster.client.list(Pod) == []


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_a_deleted_job_takes_its_pods_with_it(cluster, propagation):
    job = await start(cluster, parallelism=2, completions=2)
    await pods_of(cluster, 2)

    await cluster.client.delete(Job, job.key, propagation=propagation)

    await pods_of(cluster, 0)
    await cluster.eventually(lambda: cluster.client.list(Job), lambda js: not js)


async def test_orphaned_pods_stay_and_are_held_no_longer(cluster):
    job = await start(cluster)
    (pod,) = await pods_of(cluster, 1)

    await cluster.client.delete(Job, job.key, propagation="Orphan")

    await cluster.eventually(
        lambda: cluster.client.get(Pod, pod.key), lambda p: not p.metadata.finalizers, timeout=60
    )
    assert (await cluster.client.get(Pod, pod.key)).owner_references == ()


async def test_a_job_of_the_same_name_starts_anew(cluster):
    job = await start(cluster)
    (first,) = await pods_of(cluster, 1)
    await cluster.client.delete(Job, job.key, propagation="Background")

    again = await start(cluster)

    pods = await cluster.eventually(
        lambda: cluster.client.list(Pod),
        lambda ps: [p.owner_references[0].uid for p in ps] == [again.uid],
    )
    assert pods[0].uid != first.uid


async def test_a_pod_deleted_by_hand_is_a_failure(cluster):
    job = await start(cluster)
    (pod,) = await pods_of(cluster, 1)

    await cluster.client.delete(Pod, pod.key)

    _, failed = await condition(cluster, job, "Failed")
    assert failed["reason"] == "BackoffLimitExceeded"


async def test_what_this_controller_cannot_do_is_said_and_not_done(cluster):
    await start(cluster, completionMode="Indexed", completions=1)

    events = await cluster.eventually(lambda: cluster.client.list(Event))
    assert [(e.type, e.reason) for e in events] == [("Warning", "Unsupported")]
    assert await cluster.client.list(Pod) == []


async def test_exactly_one_pod_is_made_however_often_the_controller_restarts():
    async with Cluster.start() as cluster:
        job = await start(cluster)
        for _ in range(5):
            controller = JobController(cluster.client, clock=cluster.clock, random=cluster.random)
            async with cluster.manager(controller):
                await pods_of(cluster, 1)
        assert len(await cluster.client.list(Pod)) == 1
        assert (await cluster.client.get(Job, job.key)).status["startTime"]


async def test_a_settled_job_causes_no_writes(cluster):
    job = await start(cluster)
    (pod,) = await pods_of(cluster, 1)
    await finish(cluster, pod, "Succeeded")
    await condition(cluster, job, "Complete")
    await asyncio.sleep(60)
    before = (await cluster.client.get(Job, job.key)).resource_version

    await asyncio.sleep(900)

    assert (await cluster.client.get(Job, ObjectKey("default", "j"))).resource_version == before


async def test_a_job_that_changed_since_it_was_read_is_looked_at_again(cluster):
    job = await start(cluster)
    await pods_of(cluster, 1)
    await cluster.eventually(
        lambda: cluster.client.get(Job, job.key), lambda found: found.status.get("active")
    )
    async with cluster.manager() as manager:
        outdated: Any = _Outdated(job)
        reconciler = JobReconciler(
            outdated, cluster.client, events=manager.events, clock=cluster.clock
        )
        result = await reconciler.reconcile(job.key)

    assert result == Result.backoff("the Job changed since it was read")
    assert len(await cluster.client.list(Pod)) == 1


class _Outdated:
    """A cache that has an old version of one Job, and no Pod."""

    def __init__(self, job):
        self._job = job

    async def find(self, kind, key):
        return self._job

    async def by_index(self, kind, index, value):
        return []
