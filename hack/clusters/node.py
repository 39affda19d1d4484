"""A control plane and a node, in namespaces of their own: what `hack/cluster up` starts.

It runs in its own process, mount and network namespaces, and so does everything that it starts:
when its first process is killed, the kernel ends the others and takes mounts, bridge and addresses
away. What is left is files, and control groups.

    unshare ... python -m hack.clusters.node STATE CONTROL_PLANE NODE RUNTIME DESCRIPTOR
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.config import ClientConfig
from dynamo_operator.testing.control_plane_binaries import ControlPlaneBinaries
from dynamo_operator.testing.real_control_plane import SERVICE_RANGE, RealControlPlane
from dynamo_operator.testing.server_process import ServerProcess
from hack.clusters import node_configuration
from hack.clusters.places import (
    API_PORT,
    HOST_ADDRESS,
    HOST_LINK,
    LINK_PREFIX,
    NAME,
    NODE_ADDRESS,
    POD_GATEWAY,
    POD_RANGE,
)
from informers.objects import ResourceType

NODES = ResourceType("", "v1", "Node", "nodes", namespaced=False)
BINDINGS = ResourceType(
    "rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False
)
CNI_PROGRAMS = Path("/usr/lib/cni")
# What the kubelet sets for its whole machine; here it sets copies.
_MACHINE_SETTINGS = (
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
)
_READY_SECONDS = 120.0
_INTERVAL_SECONDS = 0.1


class Node:
    """Everything of the cluster.

    Args:
        state: directory of its files; `kubeconfig` there says that it is ready.
        control_plane: directory of etcd and the Kubernetes control plane.
        node: directory of kubelet and kube-proxy.
        runtime: directory of containerd, its shim, ctr, runc.
        outside: descriptor of the network namespace from which the cluster is used; closed
            once both are connected.
    """

    def __init__(
        self, state: Path, control_plane: Path, node: Path, runtime: Path, outside: int
    ) -> None:
        self._state = state
        self._node = node
        self._runtime = runtime
        self._outside = outside
        self._files = state / "node"
        self._control_plane = RealControlPlane.complete(
            ControlPlaneBinaries(control_plane),
            address=NODE_ADDRESS,
            port=API_PORT,
            directory=state / "control-plane",
        )
        self._servers: list[ServerProcess] = []

    async def run(self) -> None:
        """Start everything, say so, and stay until a part of it ends.

        Raises:
            ServerProcessError: a part did not start.
            ExceptionGroup: a part ended, which none should.
        """
        self._files.mkdir(parents=True)
        self._separate_files()
        self._connect()
        async with self._control_plane as control_plane:
            await control_plane.start_controllers()
            await self._start_containerd()
            await self._start_kubelet()
            await self._start_kube_proxy()
            kubeconfig = self._files / "admin.kubeconfig"
            control_plane.write_kubeconfig(kubeconfig)
            await self._wait_ready(kubeconfig)
            kubeconfig.rename(self._state / "kubeconfig")
            async with asyncio.TaskGroup() as group:
                for server in self._servers:
                    group.create_task(_must_not_end(server))

    def _separate_files(self) -> None:
        """Give the node its own /run, /var/lib, /var/log, and copies of the machine's settings."""
        _run("mount", "--make-rshared", "/")
        _run("mount", "-t", "tmpfs", "tmpfs", "/run")
        for name in ("lib", "log"):
            (self._files / name).mkdir()
            _run("mount", "--bind", str(self._files / name), f"/var/{name}")
        for name in _MACHINE_SETTINGS:
            setting = Path("/proc/sys", name)
            if setting.exists():
                copy = self._files / name.replace("/", ".")
                copy.write_text(setting.read_text())
                _run("mount", "--bind", str(copy), str(setting))

    def _connect(self) -> None:
        """Make the one link to the machine, and the Pods' bridge."""
        outside = f"/proc/self/fd/{self._outside}"
        outside_ip = ("nsenter", f"--net={outside}", "ip")
        _ip("link set lo up")
        _ip(f"link add machine type veth peer name {HOST_LINK} netns {outside}")
        _ip(f"address add {NODE_ADDRESS}/{LINK_PREFIX} dev machine")
        _ip("link set machine up")
        _ip(f"address add {HOST_ADDRESS}/{LINK_PREFIX} dev {HOST_LINK}", *outside_ip)
        _ip(f"link set {HOST_LINK} up", *outside_ip)
        os.close(self._outside)
        bridge, width = node_configuration.POD_BRIDGE, ipaddress.ip_network(POD_RANGE).prefixlen
        _ip(f"link add {bridge} type bridge")
        _ip(f"address add {POD_GATEWAY}/{width} dev {bridge}")
        _ip(f"link set {bridge} up")
        _ip(f"route add {SERVICE_RANGE} dev {bridge}")  # any: kube-proxy rewrites the address
        settings = Path("/proc/sys/net/ipv4")  # of this network alone
        (settings / "ip_forward").write_text("1")
        (settings / "tcp_orphan_retries").write_text("1")  # connections to Pods that are gone

    async def _start_containerd(self) -> None:
        networks = self._files / "networks"
        networks.mkdir()
        (networks / "pods.conflist").write_text(node_configuration.pod_network())
        snapshotter = _snapshotter(self._files)
        (self._files / "snapshotter").write_text(snapshotter)
        configuration = self._files / "containerd.toml"
        configuration.write_text(
            node_configuration.containerd(
                snapshotter=snapshotter,
                runc=self._runtime / "runc",
                cni_programs=CNI_PROGRAMS,
                cni_configuration=networks,
            )
        )
        socket = Path(node_configuration.CONTAINERD_SOCKET)

        async def listens() -> bool:
            return socket.exists()  # noqa: ASYNC240 # a tmpfs

        program = self._runtime / "containerd"
        await self._start("containerd", [program, "--config", configuration], listens)
        _run(
            *(str(self._runtime / "ctr"), "--namespace", "k8s.io", "images", "import", "--local"),
            *("--snapshotter", snapshotter, str(self._state / "pause.tar")),
        )

    async def _start_kubelet(self) -> None:
        certificate = self._control_plane.issue_certificate(NAME, hosts=(NODE_ADDRESS, NAME))
        files = {name: self._files / f"kubelet.{name}" for name in ("crt", "key", "kubeconfig")}
        files["crt"].write_bytes(certificate.certificate)
        files["key"].touch(mode=0o600)
        files["key"].write_bytes(certificate.key)
        self._control_plane.write_kubeconfig(
            files["kubeconfig"], user=f"system:node:{NAME}", groups=("system:nodes",)
        )
        configuration = self._files / "kubelet.json"
        configuration.write_text(
            node_configuration.kubelet(
                authority=self._control_plane.directory / "ca.crt",
                certificate=files["crt"],
                key=files["key"],
            )
        )
        command: list[str | Path] = [
            self._node / "kubelet",
            f"--config={configuration}",
            f"--kubeconfig={files['kubeconfig']}",
            f"--hostname-override={NAME}",
            f"--node-ip={NODE_ADDRESS}",
        ]
        await self._start("kubelet", command)

    async def _start_kube_proxy(self) -> None:
        kubeconfig = self._files / "kube-proxy.kubeconfig"
        self._control_plane.write_kubeconfig(kubeconfig, user="system:kube-proxy", groups=())
        configuration = self._files / "kube-proxy.json"
        configuration.write_text(node_configuration.kube_proxy(kubeconfig=kubeconfig))
        command: list[str | Path] = [
            self._node / "kube-proxy",
            f"--config={configuration}",
            f"--hostname-override={NAME}",
        ]
        await self._start("kube-proxy", command)

    async def _start(
        self,
        name: str,
        command: Sequence[str | Path],
        is_ready: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        server = ServerProcess(
            name,
            command,
            log_directory=self._files,
            is_ready=is_ready,
            environ={"PATH": f"{self._runtime}:{os.environ['PATH']}"},
        )
        await server.start()
        self._servers.append(server)

    async def _wait_ready(self, kubeconfig: Path) -> None:
        """Wait for the node, having given the API server the right to ask it for logs."""
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "kubelet-client"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "system:kubelet-api-admin",
            },
            "subjects": [{"kind": "User", "name": "kube-apiserver-kubelet-client"}],
        }
        config = ClientConfig.load(kubeconfig, environ={})
        async with Client.connect(config) as client, asyncio.timeout(_READY_SECONDS):
            await client.create(binding, kind=BINDINGS)
            while not any(map(_is_ready, await client.list(NODES))):
                for server in self._servers:
                    if not server.is_running:
                        raise RuntimeError(f"{server.name} ended: {server.log_tail()}")
                await asyncio.sleep(_INTERVAL_SECONDS)


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


async def _must_not_end(server: ServerProcess) -> None:
    code = await server.wait()
    raise RuntimeError(f"{server.name} ended with code {code}: {server.log_tail()}")


def _snapshotter(directory: Path) -> str:
    """Return what layers are put together with: overlays, or copies where those are refused."""
    parts = {name: directory / f"overlay-{name}" for name in ("lower", "upper", "work", "merged")}
    for path in parts.values():
        path.mkdir(exist_ok=True)
    options = ",".join(f"{name}dir={parts[name]}" for name in ("lower", "upper", "work"))
    command = ["mount", "-t", "overlay", "-o", options, "overlay", str(parts["merged"])]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        return "native"
    _run("umount", str(parts["merged"]))
    return "overlayfs"


def _ip(arguments: str, *program: str) -> None:
    _run(*(program or ("ip",)), *arguments.split())


def _run(*command: str) -> None:
    # Descriptors that this process was given go along: `outside` is one.
    ran = subprocess.run(command, check=False, capture_output=True, text=True, close_fds=False)
    if ran.returncode:
        raise RuntimeError(f"{' '.join(command)}: {(ran.stdout + ran.stderr).strip()}")


if __name__ == "__main__":
    state, control_plane, node, runtime = map(Path, sys.argv[1:5])
    asyncio.run(Node(state, control_plane, node, runtime, int(sys.argv[5])).run())
