"""Pods that serve: each with its own address, probed over gRPC, found through its Service."""

import sys

import pytest

from dynamo_operator.local_cluster.grpc_probe import check_health
from dynamo_operator.local_cluster.images import ImageEnvironment, ImageMap
from dynamo_operator.local_cluster.node_agent import NodeAgent, NodeOptions
from dynamo_operator.runtime.builtin_kinds import Deployment, Event, Pod, Service
from dynamo_operator.testing import Cluster, ready_endpoints
from informers.objects import ObjectKey
from tests.dynamo_operator.local_cluster.workloads import PORT, serving

pytestmark = pytest.mark.node

SERVICE = ObjectKey("default", "web")


@pytest.fixture
async def cluster(tmp_path):
    options = NodeOptions(
        name="n1",
        state_directory=tmp_path / "state",
        images=ImageMap({"lab:1": ImageEnvironment.for_python(sys.executable)}),
    )
    async with (
        Cluster.start(controllers=("deployments", "endpoint_slices", "gc", "scheduler")) as cluster,
        cluster.manager(NodeAgent(cluster.client, options)),
    ):
        yield cluster


async def serve(cluster):
    ports = [{"name": "grpc", "port": PORT, "targetPort": "grpc"}]
    spec = {"selector": {"app": "web"}, "ports": ports}
    await cluster.client.create(Service.new("web", namespace="default", spec=spec))


async def endpoints(cluster):
    return await ready_endpoints(cluster.client, SERVICE, "grpc")


async def test_two_pods_have_the_same_port_and_both_answer_for_their_service(cluster, tmp_path):
    await serve(cluster)
    made = await cluster.client.create(serving(tmp_path / "never"))

    found = await cluster.eventually(
        lambda: endpoints(cluster), lambda each: len(each) == 2, timeout=30
    )

    assert [each.port for each in found] == [PORT, PORT]
    assert found[0].address != found[1].address
    for each in found:
        assert await check_health(each.address, PORT, "", 5) == ""
    pods = await cluster.client.list(Pod)
    assert {p.status["podIP"] for p in pods} == {each.address for each in found}
    assert all(p.status["hostIP"] == "127.0.0.1" for p in pods)
    done = await cluster.eventually(
        lambda: cluster.client.get(Deployment, made.key),
        lambda d: d.status.get("availableReplicas") == 2,
    )
    assert done.status["updatedReplicas"] == 2
    await cluster.client.delete(Deployment, made.key, propagation="Foreground")
    await cluster.eventually(lambda: cluster.client.list(Pod), lambda left: not left, timeout=20)
    assert await endpoints(cluster) == []


async def test_a_service_that_is_not_healthy_keeps_its_pods_out(cluster, tmp_path):
    await serve(cluster)
    made = serving(tmp_path / "never")
    made.spec["replicas"] = 1
    (container,) = made.spec["template"]["spec"]["containers"]
    ill = {"grpc": {"port": PORT, "service": "ill"}, "periodSeconds": 1}
    container["readinessProbe"] = ill
    container["livenessProbe"] = {**ill, "failureThreshold": 2}
    await cluster.client.create(made)

    events = await cluster.eventually(
        lambda: cluster.client.list(Event),
        lambda found: [e for e in found if "failed liveness probe" in e.note],
        timeout=20,
    )

    notes = [e.note for e in events if e.reason == "Unhealthy"]
    problem = 'probe failed: service unhealthy (responded with "NOT_SERVING")'
    assert any(note == f"Readiness {problem}" for note in notes)
    assert any(note == f"Liveness {problem}" for note in notes)
    assert await endpoints(cluster) == []


async def test_probes_go_to_the_pods_own_address(cluster, tmp_path):
    serving_files = "h.test(h.SimpleHTTPRequestHandler, port=8080, bind=sys.argv[1])"
    script = f"import http.server as h, sys; {serving_files}"
    ready = {"httpGet": {"port": 8080}, "periodSeconds": 1}
    made = serving(tmp_path)
    made.spec["template"]["spec"]["containers"] = [
        {
            "name": "main",
            "image": "lab:1",
            "command": ["python", "-c", script, "$(POD_IP)"],
            "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
            "readinessProbe": ready,
        }
    ]
    made = await cluster.client.create(made)

    done = await cluster.eventually(
        lambda: cluster.client.get(Deployment, made.key),
        lambda d: d.status.get("readyReplicas") == 2,
        timeout=20,
    )

    assert done.status["replicas"] == 2
