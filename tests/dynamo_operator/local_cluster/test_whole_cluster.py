"""The controllers and the node agent together: a Job becomes processes, and nothing of it stays."""

import sys

import pytest

from dynamo_operator.local_cluster.garbage_collector import GarbageCollector
from dynamo_operator.local_cluster.images import ImageEnvironment, ImageMap
from dynamo_operator.local_cluster.job_controller import JobController
from dynamo_operator.local_cluster.namespaces import Namespaces
from dynamo_operator.local_cluster.node_agent import NodeAgent, NodeOptions
from dynamo_operator.local_cluster.scheduler import Scheduler
from dynamo_operator.runtime.builtin_kinds import ConfigMap, Job, Namespace, Pod
from dynamo_operator.testing.cluster import Cluster
from informers.objects import ObjectKey
from tests.dynamo_operator.local_cluster.processes import with_word

pytestmark = pytest.mark.node


@pytest.fixture
async def cluster(tmp_path):
    options = NodeOptions(
        name="n1",
        state_directory=tmp_path / "state",
        images=ImageMap({"lab:1": ImageEnvironment.for_python(sys.executable)}),
    )
    async with Cluster.start() as cluster:
        kinds = (Namespaces, GarbageCollector, JobController, Scheduler)
        runnables = [kind(cluster.client) for kind in kinds]
        async with cluster.manager(*runnables, NodeAgent(cluster.client, options)):
            yield cluster


async def start(cluster, script, **spec):
    container = {"name": "main", "image": "lab:1", "command": ["sh", "-c", script]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"backoffLimit": 0, "template": template, **spec}
    return await cluster.client.create(Job.new("j", namespace="default", spec=spec))


def condition(job, type_):
    conditions = job.status.get("conditions") or ()
    return next((c for c in conditions if c["type"] == type_ and c["status"] == "True"), None)


async def nothing_of(cluster, kind):
    await cluster.eventually(lambda: cluster.client.list(kind), lambda found: not found)


async def test_a_job_runs_to_its_end(cluster):
    job = await start(cluster, "python -c 'print(6 * 7)'")

    job = await cluster.eventually(
        lambda: cluster.client.get(Job, job.key), lambda j: condition(j, "Complete")
    )

    assert job.status["succeeded"] == 1


async def test_a_failing_command_fails_the_job(cluster):
    job = await start(cluster, "exit 3")

    job = await cluster.eventually(
        lambda: cluster.client.get(Job, job.key), lambda j: condition(j, "Failed")
    )

    assert condition(job, "Failed")["reason"] == "BackoffLimitExceeded"


@pytest.mark.parametrize("propagation", ["Foreground", "Background"])
async def test_deleting_what_owns_a_job_ends_its_processes(cluster, propagation):
    word = f"owned-job-process-{propagation}"
    owner = await cluster.client.create(ConfigMap.new("owner", namespace="default"))
    container = {
        "name": "main",
        "image": "lab:1",
        "command": ["sh", "-c", "trap 'exit 0' TERM; sh -c 'sleep 60; :' $0 & wait", word],
    }
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    job = Job.new("j", namespace="default", spec={"template": template})
    await cluster.client.create(job, owner=owner)
    await cluster.eventually(lambda: with_word(word))

    await cluster.client.delete(ConfigMap, owner.key, propagation=propagation)

    await nothing_of(cluster, Job)
    await nothing_of(cluster, Pod)
    assert with_word(word) == []


async def test_the_deadline_ends_the_processes_first(cluster):
    word = "deadline-job-process"
    job = await start(cluster, f"exec sh -c 'sleep 60; :' {word}", activeDeadlineSeconds=3)
    await cluster.eventually(lambda: with_word(word))

    job = await cluster.eventually(
        lambda: cluster.client.get(Job, job.key), lambda j: condition(j, "Failed")
    )

    assert condition(job, "Failed")["reason"] == "DeadlineExceeded"
    assert with_word(word) == []


async def test_deleting_a_namespace_ends_what_runs_in_it(cluster):
    word = "namespace-process"
    await cluster.client.create(Namespace.new("lab"))
    command = ["sh", "-c", f"exec sh -c 'sleep 60; :' {word}"]
    container = {"name": "main", "image": "lab:1", "command": command}
    pod = Pod.new("p", namespace="lab", spec={"containers": [container]})
    await cluster.client.create(pod)
    await cluster.eventually(lambda: with_word(word))

    await cluster.client.delete(Namespace, ObjectKey("", "lab"))

    await cluster.eventually(
        lambda: cluster.client.list(Namespace), lambda ns: "lab" not in [n.key.name for n in ns]
    )
    assert with_word(word) == []
