import asyncio

import pytest

from dynamo_operator.local_cluster.node_lifecycle import LEASE_NAMESPACE
from dynamo_operator.runtime.builtin_kinds import Event, Lease, Node, Pod
from dynamo_operator.testing.cluster import Cluster
from informers.objects import ObjectKey
from tests.dynamo_operator.local_cluster.workloads import status_of

pytestmark = pytest.mark.virtual_time

KEY = ObjectKey("", "n1")
KEY_OF_OTHER = ObjectKey("", "n0")
LEASE = ObjectKey(LEASE_NAMESPACE, "n1")
UNREACHABLE = "node.kubernetes.io/unreachable"


@pytest.fixture
async def cluster():
    async with Cluster.start(controllers=["nodes"]) as cluster:
        await cluster.client.create(Node.new("n1"))
        await cluster.client.create(Lease.new("n1", namespace=LEASE_NAMESPACE))
        await say(cluster, "True")
        yield cluster


@pytest.fixture
async def other_node(cluster):
    """A node that is well for as long as the test lasts."""
    await cluster.client.create(Node.new("n0"))
    await cluster.client.create(Lease.new("n0", namespace=LEASE_NAMESPACE))
    await say(cluster, "True", KEY_OF_OTHER)
    async with asyncio.TaskGroup() as tasks:
        beating = tasks.create_task(beat(cluster, 10**6, ObjectKey(LEASE_NAMESPACE, "n0")))
        yield
        beating.cancel()


async def say(cluster, ready, key=KEY):
    """Let the node's agent say how it is."""
    now = cluster.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {
        "type": "Ready",
        "status": ready,
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    await cluster.client.patch(
        Node, key, {"status": {"conditions": [condition]}}, subresource="status"
    )


async def beat(cluster, seconds, lease=LEASE):
    """Renew the Lease for so long."""
    for _ in range(seconds // 10):
        now = cluster.clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        await cluster.client.patch(Lease, lease, {"spec": {"renewTime": now}})
        await asyncio.sleep(10)


async def start(cluster, name="p", **spec):
    spec = {"nodeName": "n1", "containers": [{"name": "main", "image": "lab:1"}], **spec}
    pod = await cluster.client.create(Pod.new(name, namespace="default", spec=spec))
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return await cluster.client.patch(Pod, pod.key, {"status": ready}, subresource="status")


async def taints(cluster):
    node = await cluster.client.get(Node, KEY)
    return [(t["key"], t["effect"]) for t in node.spec.get("taints") or ()]


async def find(cluster, pod):
    found = await cluster.client.find(Pod, pod.key)
    return None if found is None or found.is_deleting else found


async def test_a_node_that_renews_its_lease_is_left_alone(cluster):
    pod = await start(cluster)

    await beat(cluster, 1200)

    assert await taints(cluster) == []
    assert status_of(await cluster.client.get(Node, KEY), "Ready")["status"] == "True"
    assert (await find(cluster, pod)).uid == pod.uid


async def test_a_silent_node_is_unknown_and_unreachable_after_its_grace(cluster, other_node):
    pod = await start(cluster)
    await beat(cluster, 100)
    await asyncio.sleep(35)
    assert await taints(cluster) == []

    await asyncio.sleep(10)

    ready = status_of(await cluster.client.get(Node, KEY), "Ready")
    assert (ready["status"], ready["reason"]) == ("Unknown", "NodeStatusUnknown")
    assert ready["message"] == "Kubelet stopped posting node status."
    assert await taints(cluster) == [(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]
    assert status_of(await find(cluster, pod), "Ready")["status"] == "False"


async def test_pods_of_an_unreachable_node_go_after_their_toleration(cluster, other_node):
    usual = await start(cluster, "usual")
    tolerant = {"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute"}
    briefly = await start(cluster, "briefly", tolerations=[{**tolerant, "tolerationSeconds": 20}])
    forever = await start(cluster, "forever", tolerations=[tolerant])
    await asyncio.sleep(60)

    async def left():
        pods = [await find(cluster, pod) for pod in (usual, briefly, forever)]
        return [pod.key.name for pod in pods if pod is not None]

    assert await left() == ["usual", "briefly", "forever"]
    await asyncio.sleep(20)
    assert await left() == ["usual", "forever"]
    await asyncio.sleep(260)
    assert await left() == ["usual", "forever"]
    await asyncio.sleep(40)
    assert await left() == ["forever"]
    ended = await cluster.client.get(Pod, usual.key)
    assert status_of(ended, "DisruptionTarget")["reason"] == "DeletionByTaintManager"
    reasons = {event.reason for event in await cluster.client.list(Event)}
    assert {"NodeNotReady", "TaintManagerEviction"} <= reasons


async def test_a_node_that_comes_back_in_time_keeps_its_pods(cluster, other_node):
    pod = await start(cluster)
    await asyncio.sleep(120)
    assert len(await taints(cluster)) == 2

    await say(cluster, "True")
    await beat(cluster, 600)

    assert await taints(cluster) == []
    assert (await find(cluster, pod)).uid == pod.uid


async def test_a_node_that_says_it_is_not_ready_is_tainted_so(cluster, other_node):
    await say(cluster, "False")
    await beat(cluster, 30)

    key = "node.kubernetes.io/not-ready"
    assert await taints(cluster) == [(key, "NoSchedule"), (key, "NoExecute")]


async def test_taints_of_others_stay_and_those_of_cordons_come_and_go(cluster):
    gpu = {"key": "gpu", "effect": "NoSchedule"}
    await cluster.client.patch(Node, KEY, {"spec": {"taints": [gpu], "unschedulable": True}})
    await beat(cluster, 10)
    cordon = ("node.kubernetes.io/unschedulable", "NoSchedule")
    assert await taints(cluster) == [("gpu", "NoSchedule"), cordon]

    await cluster.client.patch(Node, KEY, {"spec": {"unschedulable": None}})
    await beat(cluster, 10)

    assert await taints(cluster) == [("gpu", "NoSchedule")]


async def test_a_no_execute_taint_ends_at_once_what_does_not_tolerate_it(cluster):
    tolerant = await start(cluster, "t", tolerations=[{"key": "drain", "operator": "Exists"}])
    other = await start(cluster, "o")
    await beat(cluster, 10)

    drain = {"key": "drain", "effect": "NoExecute"}
    await cluster.client.patch(Node, KEY, {"spec": {"taints": [drain]}})
    await beat(cluster, 10)

    assert await find(cluster, other) is None
    assert await find(cluster, tolerant) is not None


async def test_no_pod_goes_while_no_node_is_ready(cluster):
    pod = await start(cluster)

    await asyncio.sleep(1200)

    assert status_of(await cluster.client.get(Node, KEY), "Ready")["status"] == "Unknown"
    assert await taints(cluster) == [(UNREACHABLE, "NoSchedule")]
    assert (await find(cluster, pod)).uid == pod.uid


async def test_a_taint_without_a_time_counts_from_when_it_was_seen(cluster):
    drain = {"key": "drain", "operator": "Exists", "effect": "NoExecute"}
    pod = await start(cluster, tolerations=[{**drain, "tolerationSeconds": 25}])
    await beat(cluster, 10)

    taint = {"key": "drain", "effect": "NoExecute"}
    await cluster.client.patch(Node, KEY, {"spec": {"taints": [taint]}})
    await beat(cluster, 20)
    assert await find(cluster, pod) is not None
    await beat(cluster, 10)

    assert await find(cluster, pod) is None
