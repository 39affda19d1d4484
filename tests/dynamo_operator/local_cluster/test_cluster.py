"""A cluster on either control plane: the node is an ordinary client, with a kubelet's rights."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio

from dynamo_operator.local_cluster.cluster import (
    ClusterOptions,
    LocalCluster,
    local_cluster,
    remove_abandoned,
)
from dynamo_operator.local_cluster.control_plane import PortInUseError
from dynamo_operator.local_cluster.grpc_probe import check_health
from dynamo_operator.local_cluster.images import ImageEnvironment, ImageMap
from dynamo_operator.runtime.builtin_kinds import (
    ConfigMap,
    Deployment,
    Job,
    Namespace,
    Node,
    Pod,
    Secret,
    Service,
)
from dynamo_operator.testing.endpoints import ready_endpoints
from dynamo_operator.testing.polling import eventually
from informers.objects import ObjectKey
from tests.control_planes import CONTROL_PLANES, control_plane
from tests.dynamo_operator.local_cluster.workloads import PORT, serving

pytestmark = [pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]

NODE_USER = "system:node:local"
SECONDS = 30.0
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=CONTROL_PLANES)
async def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[LocalCluster]:
    options = ClusterOptions(
        directory=tmp_path_factory.mktemp("cluster"),
        images=ImageMap({"lab:1": ImageEnvironment.for_python(sys.executable)}),
        node_labels={"lab.example/rack": "7"},
    )
    async with local_cluster(options, control_plane(request.param)) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def namespace(cluster: LocalCluster) -> AsyncIterator[str]:
    name = f"lab-{uuid4().hex[:8]}"
    await cluster.client.create(Namespace.new(name))
    yield name
    await cluster.client.delete(Namespace, ObjectKey("", name))


def job(namespace: str, script: str, **pod: Any) -> Job:
    container = {"name": "main", "image": "lab:1", "command": ["sh", "-c", script]}
    for source in ("env", "volumeMounts"):
        if source in pod:
            container[source] = pod.pop(source)
    spec = {"restartPolicy": "Never", "containers": [container], **pod}
    template = {"spec": spec}
    return Job.new("j", namespace=namespace, spec={"backoffLimit": 0, "template": template})


async def pod_that(cluster: LocalCluster, namespace: str, phase: str) -> Pod:
    async def pods() -> list[Pod]:
        return await cluster.client.list(Pod, namespace=namespace)

    (pod,) = await eventually(
        pods, lambda found: [p for p in found if p.status.get("phase") == phase], timeout=SECONDS
    )
    return pod


async def log_of(cluster: LocalCluster, pod: Pod, **query: str) -> str:
    path = f"/api/v1/namespaces/{pod.key.namespace}/pods/{pod.key.name}/log"
    async with cluster.client.stream("GET", path, query=list(query.items())) as chunks:
        return b"".join([chunk async for chunk in chunks]).decode()


async def test_the_node_is_ready_and_labelled(cluster: LocalCluster):
    node = await cluster.client.get(Node, ObjectKey("", "local"))

    assert node.labels["lab.example/rack"] == "7"
    assert [c["status"] for c in node.status["conditions"] if c["type"] == "Ready"] == ["True"]


async def test_a_job_runs_on_it_with_what_it_refers_to_and_a_token(
    cluster: LocalCluster, namespace: str
):
    client = cluster.client
    await client.create(ConfigMap.new("c", namespace=namespace, data={"word": "config"}))
    await client.create(Secret.new("s", namespace=namespace, data={"word": "c2VjcmV0"}))
    reference = {"secretKeyRef": {"name": "s", "key": "word"}}
    script = f"test -s {TOKEN} && echo $WORD $(cat /lab/word)"
    await client.create(
        job(
            namespace,
            script,
            env=[{"name": "WORD", "valueFrom": reference}],
            volumeMounts=[{"name": "lab", "mountPath": "/lab"}],
            volumes=[{"name": "lab", "configMap": {"name": "c"}}],
        )
    )

    pod = await pod_that(cluster, namespace, "Succeeded")

    assert pod.spec["nodeName"] == "local"
    assert await log_of(cluster, pod) == "secret config\n"


async def test_a_log_is_followed_to_its_end(cluster: LocalCluster, namespace: str):
    await cluster.client.create(job(namespace, "echo one; sleep 1; echo two"))
    pod = await pod_that(cluster, namespace, "Running")

    assert await log_of(cluster, pod, follow="true") == "one\ntwo\n"


async def test_nothing_is_left_of_a_deleted_job(cluster: LocalCluster, namespace: str):
    made = await cluster.client.create(job(namespace, "sleep 60"))
    await pod_that(cluster, namespace, "Running")

    await cluster.client.delete(Job, made.key, propagation="Background")

    await eventually(
        lambda: cluster.client.list(Pod, namespace=namespace),
        lambda found: not found,
        timeout=SECONDS,
    )


async def test_the_node_asks_for_nothing_that_a_kubelet_may_not(
    cluster: LocalCluster, namespace: str
):
    await cluster.client.create(job(namespace, "exit 0"))
    await pod_that(cluster, namespace, "Succeeded")

    asked = [entry for entry in cluster.audit.entries if entry.user.name == NODE_USER]
    refused = {f"{entry.verb} {entry.request_uri}" for entry in asked if entry.code == 403}
    granted = {f"{entry.verb} {entry.request_uri}" for entry in asked if entry.code < 300}

    assert {"nodes", "leases", "pods", "serviceaccounts"} <= {entry.resource for entry in asked}
    # The authorizer learns of a Pod at about the same time as its node does.
    assert refused - granted == set()


async def test_a_port_that_is_taken_is_named(
    request: pytest.FixtureRequest, tmp_path: Path, cluster: LocalCluster
):
    port = int(cluster.url.rpartition(":")[2])
    name = request.node.callspec.params["cluster"]
    options = ClusterOptions(directory=tmp_path / "cluster", images=ImageMap({}))

    with pytest.raises(PortInUseError, match=f"port {port} of 127.0.0.1 is in use"):
        async with local_cluster(options, control_plane(name, port=port)):
            pass


async def test_what_killed_clusters_left_is_removed_and_nothing_else(tmp_path: Path):
    for name in ("lab-running", "lab-killed", "lab-starting", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "lab-killed" / "control-plane").mkdir()
    (tmp_path / "other" / "file").touch()
    options = ClusterOptions(directory=tmp_path / "lab-running", images=ImageMap({}))

    async with local_cluster(options):
        remove_abandoned(tmp_path, "lab-*")

        left = sorted(os.listdir(tmp_path))

    assert left == ["lab-running", "lab-starting", "other"]


async def test_replicas_with_one_fixed_port_are_found_through_their_service(
    cluster: LocalCluster, namespace: str
) -> None:
    client = cluster.client
    ports = [{"name": "grpc", "port": PORT, "targetPort": "grpc"}]
    spec = {"selector": {"app": "web"}, "ports": ports}
    service = await client.create(Service.new("web", namespace=namespace, spec=spec))
    made = await client.create(serving("/nowhere", namespace))

    found = await eventually(
        lambda: ready_endpoints(client, service.key, "grpc"),
        lambda each: len(each) == 2,
        timeout=SECONDS,
    )

    assert len({endpoint.address for endpoint in found}) == 2
    for endpoint in found:
        assert await check_health(endpoint.address, endpoint.port, "", 5) == ""
    await client.delete(Deployment, made.key, propagation="Foreground")
    await eventually(
        lambda: ready_endpoints(client, service.key, "grpc"),
        lambda each: each == [],
        timeout=SECONDS,
    )
