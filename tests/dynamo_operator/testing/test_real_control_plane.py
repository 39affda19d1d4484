"""A real control plane, started as tests do it."""

import asyncio
import os
from pathlib import Path

import pytest

from dynamo_operator.runtime.builtin_kinds import ConfigMap, Job, Namespace, Node, Pod
from dynamo_operator.runtime.client.errors import ForbiddenError
from dynamo_operator.testing import Cluster
from dynamo_operator.testing.control_plane_binaries import (
    ControlPlaneBinaries,
    ControlPlaneMissingError,
)
from dynamo_operator.testing.virtual_time import VirtualTimeLoop
from informers.objects import ObjectKey

pytestmark = pytest.mark.real

JOB_SPEC = {
    "template": {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "lab/a"}]}
    }
}


@pytest.fixture(autouse=True)
def control_plane_of_our_own(monkeypatch):
    monkeypatch.delenv("USE_EXISTING_CLUSTER", raising=False)
    try:
        ControlPlaneBinaries.find(os.environ).optional("kube-controller-manager")
    except ControlPlaneMissingError as error:
        pytest.skip(str(error))


def real_cluster(**options):
    return Cluster.start(mode="real", environ=os.environ, **options)


async def test_two_control_planes_run_side_by_side_and_leave_nothing():
    async with real_cluster() as one, real_cluster() as other:
        assert one.url != other.url
        await one.client.create(ConfigMap.new("a", namespace="default"))
        key = ObjectKey("default", "a")
        assert await one.client.find(ConfigMap, key) is not None
        assert await other.client.find(ConfigMap, key) is None

        with pytest.raises(ForbiddenError, match='User "nobody" cannot list'):
            await one.client_of("nobody").list(ConfigMap)
        writes = one.audit.writes(user="admin")
        directory = one.control_plane.directory
        servers = (one.control_plane.etcd, one.control_plane.api_server)
        processes = [Path(f"/proc/{server.pid}") for server in servers]

    assert [(write.verb, write.name, write.code) for write in writes] == [("create", "a", 201)]
    assert not any(path.exists() for path in (directory, *processes))
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_the_controllers_are_the_real_ones():
    async with real_cluster(controllers=("gc", "jobs", "namespaces")) as cluster:
        await cluster.client.create(Namespace.new("lab"))
        job = await cluster.client.create(Job.new("a", namespace="lab", spec=JOB_SPEC))
        (pod,) = await cluster.eventually(
            lambda: cluster.client.list(Pod, namespace="lab"), timeout=30
        )
        await cluster.client.delete(Job, job.key, propagation="Background")
        await cluster.eventually(
            lambda: cluster.client.list(Pod, namespace="lab"), lambda pods: not pods, timeout=30
        )
        makers = {write.user.name for write in cluster.audit.writes() if write.name == pod.key.name}

    assert "system:serviceaccount:kube-system:generic-garbage-collector" in makers


async def test_an_api_server_that_was_stopped_comes_back_with_everything():
    async with real_cluster() as cluster:
        made = await cluster.client.create(ConfigMap.new("a", namespace="default"))
        await cluster.control_plane.api_server.stop()
        await cluster.control_plane.api_server.start()

        found = await cluster.client.get(ConfigMap, made.key)

    assert (found.uid, found.resource_version) == (made.uid, made.resource_version)


def test_a_real_control_plane_is_not_of_virtual_time():
    async def start():
        async with real_cluster():
            pass

    with (
        asyncio.Runner(loop_factory=VirtualTimeLoop) as runner,
        pytest.raises(RuntimeError, match="has its own time"),
    ):
        runner.run(start())


async def test_the_scheduler_is_the_real_one():
    async with real_cluster(controllers=("scheduler",)) as cluster:
        node = await cluster.client.create(Node.new("lab"))
        capacity = {"cpu": "1", "memory": "1Gi", "pods": "10"}
        ready = {"type": "Ready", "status": "True", "reason": "Lab"}
        status = {"capacity": capacity, "allocatable": capacity, "conditions": [ready]}
        await cluster.client.patch(Node, node.key, {"status": status}, subresource="status")
        taint = {"spec": {"taints": None}}  # of a node that nothing has called ready
        await cluster.client.patch(Node, node.key, taint)
        pod = Pod.new("a", namespace="default", spec=JOB_SPEC["template"]["spec"])
        pod = await cluster.client.create(pod)

        bound = await cluster.eventually(
            lambda: cluster.client.get(Pod, pod.key),
            lambda found: found.spec.get("nodeName"),
            timeout=30,
        )

    assert bound.spec["nodeName"] == "lab"
