"""hack/cluster up and down."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.config import ClientConfig
from dynamo_operator.testing.polling import eventually
from hack.clusters import places
from hack.clusters.control_groups import MOUNT, ControlGroups
from hack.clusters.node_configuration import POD_BRIDGE, SANDBOX_IMAGE
from hack.clusters.own_cluster import OwnCluster
from hack.go_programs import ROOT
from informers.objects import ObjectKey, ResourceType

NAMESPACES = ResourceType("", "v1", "Namespace", "namespaces", namespaced=False)
SERVICE_ACCOUNTS = ResourceType("", "v1", "ServiceAccount", "serviceaccounts", namespaced=True)
PODS = ResourceType("", "v1", "Pod", "pods", namespaced=True)
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
LINKS = (places.HOST_LINK, POD_BRIDGE)
MARKS = (str(places.state()), "kubelet", "containerd", "/cni")
FILES = [
    Path(name)
    for name in (
        *("/etc/cni/net.d", "/opt/cni", "/opt/containerd", "/run/containerd", "/var/lib/cni"),
        *("/var/lib/containerd", "/var/lib/kubelet", "/var/log/containers", "/var/log/pods"),
        places.state(),
    )
]
RESTRICTED_POD = {
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [
        {
            "name": "main",
            "image": SANDBOX_IMAGE,
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": True,
            },
        }
    ],
}

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


@pytest.fixture
def own_cluster(machine_cluster):
    if not isinstance(machine_cluster, OwnCluster):
        pytest.skip("kind makes the cluster here, and takes care of its own traces")
    return machine_cluster


def traces():
    """What a cluster, and no other program of a busy machine, could leave behind."""
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    routes = Path("/proc/net/route").read_text().splitlines()
    return {
        "mounts": [mount for mount in mounts if any(mark in mount for mark in MARKS)],
        "links": [link for link in LINKS if Path("/sys/class/net", link).exists()],
        "routes": [route for route in routes if route.startswith(LINKS)],
        "groups": sorted(map(str, MOUNT.glob(f"**/{places.NAME}"))),
        "processes": ControlGroups(places.NAME).processes(),
        "settings": [
            Path("/proc/sys", name).read_text()
            for name in ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops")
        ],
        "files": [str(path) for path in FILES if path.exists()],
    }


def hack_cluster(command):
    return subprocess.Popen([sys.executable, ROOT / "hack/cluster", command])


def test_down_takes_away_what_up_made(own_cluster):
    before = traces()
    own_cluster.up()
    while_up = traces()
    own_cluster.down()

    assert len(while_up["processes"]) > 5
    assert places.HOST_LINK in while_up["links"]
    assert while_up["mounts"] == before["mounts"]
    assert traces() == before
    assert not own_cluster.kubeconfig.exists()


@pytest.mark.parametrize("reached", ["groups", "links", "processes"])
def test_down_mends_a_start_that_was_killed(own_cluster, reached):
    before = traces()
    starting = hack_cluster("up")
    while traces()[reached] == before[reached]:
        assert starting.poll() is None
        time.sleep(0.02)
    starting.kill()
    starting.wait()
    own_cluster.down()

    assert traces() == before


async def test_up_leaves_a_running_cluster_alone_and_it_runs_restricted_pods(own_cluster):
    own_cluster.up()
    config = ClientConfig.load(own_cluster.kubeconfig, environ={})
    async with Client.connect(config) as client:
        namespace = {"metadata": {"name": "restricted", "labels": RESTRICTED}}
        await client.create(namespace, kind=NAMESPACES)
        own_cluster.up()
        await eventually(
            lambda: client.get(SERVICE_ACCOUNTS, ObjectKey("restricted", "default")), timeout=30
        )
        pod = {"metadata": {"name": "a", "namespace": "restricted"}, "spec": RESTRICTED_POD}
        await client.create(pod, kind=PODS)
        running = await eventually(
            lambda: client.get(PODS, ObjectKey("restricted", "a")),
            lambda found: found["status"].get("phase") == "Running",
            timeout=60,
        )

    own_cluster.load(places.state() / "pause.tar")  # also while Pods run

    assert running["status"]["podIP"]
