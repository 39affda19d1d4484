"""What becomes of nodes and their Pods, on every control plane; the test plays the node's agent."""

import pytest
import pytest_asyncio

from dynamo_operator.runtime.builtin_kinds import Node, Pod
from informers.objects import ObjectKey
from tests.conformance.own_clusters import OWN_MODES, own_cluster
from tests.dynamo_operator.local_cluster.workloads import status_of

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=OWN_MODES)
async def cluster(request):
    async with own_cluster(request.param, "nodes") as cluster:
        await join(cluster, "n0")  # where no node is ready, no Pod is sent away
        yield cluster


async def join(cluster, name):
    await cluster.client.create(Node.new(name))
    await say(cluster, name, "True")
    await until(cluster, name, [])


async def say(cluster, name, ready):
    now = cluster.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    condition = {"type": "Ready", "status": ready, "reason": "Said", **times}
    status = {"status": {"conditions": [condition]}}
    await cluster.client.patch(Node, ObjectKey("", name), status, subresource="status")


async def until(cluster, name, taints):
    async def present():
        node = await cluster.client.get(Node, ObjectKey("", name))
        return sorted((t["key"], t["effect"]) for t in node.spec.get("taints") or ())

    await cluster.eventually(present, lambda found: found == sorted(taints), timeout=15)


async def start(cluster, node, name, **spec):
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "lab:1"}], **spec}
    pod = await cluster.client.create(Pod.new(name, namespace="default", spec=spec))
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return await cluster.client.patch(Pod, pod.key, {"status": ready}, subresource="status")


async def test_a_node_that_says_it_is_not_ready_is_tainted_until_it_is(cluster):
    await join(cluster, "n1")
    pod = await start(cluster, "n1", "a")

    await say(cluster, "n1", "False")

    key = "node.kubernetes.io/not-ready"
    await until(cluster, "n1", [(key, "NoSchedule"), (key, "NoExecute")])
    assert status_of(await cluster.client.get(Pod, pod.key), "Ready")["status"] == "True"
    await say(cluster, "n1", "True")
    await until(cluster, "n1", [])


async def test_a_cordon_is_a_taint_and_drains_nothing(cluster):
    await join(cluster, "n2")
    pod = await start(cluster, "n2", "b")

    cordon = {"spec": {"unschedulable": True}}
    await cluster.client.patch(Node, ObjectKey("", "n2"), cordon)

    await until(cluster, "n2", [("node.kubernetes.io/unschedulable", "NoSchedule")])
    assert not (await cluster.client.get(Pod, pod.key)).is_deleting


async def test_a_pod_goes_when_it_tolerates_a_taint_no_longer(cluster):
    await join(cluster, "n3")
    drain = {"key": "drain", "operator": "Exists", "effect": "NoExecute"}
    briefly = await start(cluster, "n3", "c", tolerations=[{**drain, "tolerationSeconds": 1}])
    forever = await start(cluster, "n3", "d", tolerations=[drain])
    held = {"metadata": {"finalizers": ["lab.test/hold"]}}
    await cluster.client.patch(Pod, briefly.key, held)

    taint = {"key": "drain", "effect": "NoExecute"}
    await cluster.client.patch(Node, ObjectKey("", "n3"), {"spec": {"taints": [taint]}})
    gone = await cluster.eventually(
        lambda: cluster.client.get(Pod, briefly.key), lambda pod: pod.is_deleting, timeout=15
    )

    target = status_of(gone, "DisruptionTarget")
    assert (target["status"], target["reason"]) == ("True", "DeletionByTaintManager")
    assert target["message"] == "Taint manager: deleting due to NoExecute taint"
    assert not (await cluster.client.get(Pod, forever.key)).is_deleting
    await cluster.client.patch(Pod, briefly.key, {"metadata": {"finalizers": None}})
