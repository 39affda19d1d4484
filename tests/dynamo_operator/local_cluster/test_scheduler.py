import pytest

from dynamo_operator.local_cluster.scheduler import Scheduler
from dynamo_operator.runtime.builtin_kinds import Event, Node, Pod
from dynamo_operator.testing.cluster import Cluster

pytestmark = pytest.mark.virtual_time

RESOURCES = {"cpu": "4", "memory": "8Gi", "pods": "10"}


@pytest.fixture
async def cluster():
    async with Cluster.start() as cluster:
        scheduler = Scheduler(cluster.client, clock=cluster.clock, random=cluster.random)
        async with cluster.manager(scheduler):
            yield cluster


async def add_node(cluster, name, *, ready=True, **allocatable):
    node = await cluster.client.create(Node.new(name))
    status = {
        "allocatable": {**RESOURCES, **allocatable},
        "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
    }
    await cluster.client.patch(Node, node.key, {"status": status}, subresource="status")
    return node


async def add_pod(cluster, name, cpu="1", **spec):
    container = {"name": "main", "image": "lab:1", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], **spec}
    return await cluster.client.create(Pod.new(name, namespace="default", spec=spec))


async def scheduled(cluster, pod):
    found = await cluster.eventually(
        lambda: cluster.client.get(Pod, pod.key), lambda p: p.spec.get("nodeName")
    )
    return found.spec["nodeName"]


async def refused(cluster, pod, *, message):
    def says(found):
        conditions = found.status.get("conditions") or ()
        return any(
            c["type"] == "PodScheduled"
            and c["status"] == "False"
            and c["reason"] == "Unschedulable"
            and c["message"] == message
            for c in conditions
        )

    await cluster.eventually(lambda: cluster.client.get(Pod, pod.key), says)


async def test_a_pod_gets_a_node_it_fits_on(cluster):
    await add_node(cluster, "small", cpu="1")
    await add_node(cluster, "large", cpu="64")

    assert await scheduled(cluster, await add_pod(cluster, "p", "32")) == "large"


async def test_without_nodes_the_pod_says_so_and_waits_for_one(cluster):
    pod = await add_pod(cluster, "p")
    await refused(cluster, pod, message="no nodes available to schedule pods")

    await add_node(cluster, "n")

    assert await scheduled(cluster, pod) == "n"
    scheduled_condition = next(
        c
        for c in (await cluster.client.get(Pod, pod.key)).status["conditions"]
        if c["type"] == "PodScheduled"
    )
    assert scheduled_condition["status"] == "True"


async def test_pods_that_come_together_are_not_put_where_only_one_fits(cluster):
    await add_node(cluster, "one", cpu="1")
    pods = [await add_pod(cluster, f"p{number}") for number in range(3)]

    await cluster.eventually(lambda: cluster.client.list(Pod), lambda ps: sum(map(is_bound, ps)))

    for pod in pods:
        if not is_bound(await cluster.client.get(Pod, pod.key)):
            await refused(cluster, pod, message="0/1 nodes are available: 1 Insufficient cpu.")
    assert sum(map(is_bound, await cluster.client.list(Pod))) == 1


async def test_room_that_becomes_free_is_used(cluster):
    await add_node(cluster, "one", cpu="1")
    first = await add_pod(cluster, "first")
    await scheduled(cluster, first)
    second = await add_pod(cluster, "second")
    await refused(cluster, second, message="0/1 nodes are available: 1 Insufficient cpu.")

    await cluster.client.patch(
        Pod, first.key, {"status": {"phase": "Succeeded"}}, subresource="status"
    )

    assert await scheduled(cluster, second) == "one"


async def test_a_pod_for_another_scheduler_is_left_alone(cluster):
    await add_node(cluster, "n")
    foreign = await add_pod(cluster, "foreign", schedulerName="other")

    await scheduled(cluster, await add_pod(cluster, "ours"))

    assert not is_bound(await cluster.client.get(Pod, foreign.key))


async def test_events_say_what_was_decided(cluster):
    pod = await add_pod(cluster, "p")
    await refused(cluster, pod, message="no nodes available to schedule pods")
    await add_node(cluster, "n")
    await scheduled(cluster, pod)

    events = await cluster.eventually(
        lambda: cluster.client.list(Event), lambda es: "Scheduled" in [e.reason for e in es]
    )
    assert {
        ("Normal", "Scheduled", "Successfully assigned default/p to n"),
        ("Warning", "FailedScheduling", "no nodes available to schedule pods"),
    } <= {(e.type, e.reason, e.note) for e in events}


def is_bound(pod):
    return bool(pod.spec.get("nodeName"))
