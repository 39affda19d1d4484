"""A whole cluster on this machine: a control plane, and this machine as its one node."""

from __future__ import annotations

import fcntl
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from dynamo_operator.local_cluster.control_plane import (
    HOST,
    MASTERS,
    Audit,
    ControlPlane,
)
from dynamo_operator.local_cluster.embedded_control_plane import EmbeddedControlPlane
from dynamo_operator.local_cluster.images import ImageMap
from dynamo_operator.local_cluster.kubelet_server import ServingCertificate
from dynamo_operator.local_cluster.node_agent import NodeAgent, NodeOptions
from dynamo_operator.local_cluster.volumes import remove_tree
from dynamo_operator.runtime.client import Client, ClientConfig
from dynamo_operator.runtime.manager import Manager

_NODE = "local"
_NODE_USER = f"system:node:{_NODE}"
_NODE_GROUPS = ("system:nodes",)


class ClusterError(OSError):
    """A local cluster cannot be started here; one line says why."""


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """What a local cluster is like, whatever its control plane.

    Args:
        directory: everything it keeps on disk lies below; made when absent.
        images: what plays container images on its node.
        node_labels: further labels of its node, e.g. `gpu_labels(...)`.
        node_capacity: further resources of its node.
        claims: host directories that play PersistentVolumeClaims, by `namespace/name`.
    """

    directory: Path
    images: ImageMap
    node_labels: Mapping[str, str] = field(default_factory=dict)
    node_capacity: Mapping[str, str] = field(default_factory=dict)
    claims: Mapping[str, Path] = field(default_factory=dict)


class LocalCluster:
    """A running cluster; made by `local_cluster`. `client` is an administrator's."""

    def __init__(self, control_plane: ControlPlane, directory: Path, client: Client) -> None:
        self.control_plane = control_plane
        self.client = client
        self._directory = directory

    @property
    def url(self) -> str:
        """Where its API server listens."""
        return self.control_plane.url

    @property
    def audit(self) -> Audit:
        """Every request so far."""
        return self.control_plane.audit

    def connect(self, user: str, *, groups: tuple[str, ...] = (), field_manager: str) -> Client:
        """Make a client that acts as a user; the caller closes it."""
        config = ClientConfig.load(kubeconfig=str(self.kubeconfig(user, groups=groups)), environ={})
        return Client.connect(config, field_manager=field_manager)

    def kubeconfig(
        self,
        user: str = "admin",
        *,
        groups: tuple[str, ...] = MASTERS,
        path: Path | None = None,
    ) -> Path:
        """Write a kubeconfig of a user and return its path."""
        path = path or self._directory / f"{user.replace(':', '-')}.kubeconfig"
        self.control_plane.write_kubeconfig(path, user=user, groups=groups)
        return path


@asynccontextmanager
async def local_cluster(
    options: ClusterOptions,
    control_plane: ControlPlane | None = None,
    *,
    prepare: Callable[[Client], Awaitable[object]] | None = None,
) -> AsyncGenerator[LocalCluster]:
    """Run a cluster for the length of the block; nothing is left running after it.

    Args:
        options: the cluster.
        control_plane: not started yet; None for the embedded one.
        prepare: is given an administrator's client before any controller or node is there, e.g. to
            install CustomResourceDefinitions that controllers then know from their start.

    Raises:
        ClusterError: its directory cannot be had.
        PortInUseError: its port cannot be had.
    """
    control_plane = control_plane or EmbeddedControlPlane()
    async with AsyncExitStack() as stack:
        stack.enter_context(_own_directory(options.directory))
        await stack.enter_async_context(control_plane)
        client = await stack.enter_async_context(
            _connect(control_plane, options.directory / "admin.kubeconfig", "admin", MASTERS)
        )
        if prepare is not None:
            await prepare(client)
        await control_plane.start_controllers()
        node = await stack.enter_async_context(
            _connect(control_plane, options.directory / "node.kubeconfig", _NODE_USER, _NODE_GROUPS)
        )
        manager = Manager(node, name="node")
        agent = NodeAgent(node, _node_options(options, control_plane))
        manager.add(agent)
        await stack.enter_async_context(manager.running())
        await agent.wait_registered()
        yield LocalCluster(control_plane, options.directory, client)


def remove_abandoned(parent: Path, pattern: str) -> None:
    """Remove what clusters left that were killed: their files, and the mounts of their node.

    Args:
        parent: where their directories are.
        pattern: matches their directories' names; those of clusters that run, or start, stay.
    """
    for directory in parent.glob(pattern):
        if any(directory.iterdir()):  # else a cluster may be about to start in it
            with suppress(ClusterError), _own_directory(directory):
                remove_tree(directory)


def _node_directory(directory: Path) -> Path:
    return directory / "node"


@contextmanager
def _own_directory(directory: Path) -> Iterator[None]:
    """Make the directory, and let no other cluster have it meanwhile."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        reason = "is no directory" if isinstance(error, FileExistsError) else error.strerror
        raise ClusterError(f"directory {directory}: {reason}") from None
    try:
        _lock(descriptor, directory)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, directory: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ClusterError(f"directory {directory}: another cluster runs in it") from None


def _connect(
    control_plane: ControlPlane, kubeconfig: Path, user: str, groups: tuple[str, ...]
) -> Client:
    control_plane.write_kubeconfig(kubeconfig, user=user, groups=groups)
    config = ClientConfig.load(kubeconfig=str(kubeconfig), environ={})
    return Client.connect(config, field_manager="local-cluster")


def _node_options(options: ClusterOptions, control_plane: ControlPlane) -> NodeOptions:
    """Describe the node; its log endpoint is served to the API server alone."""
    directory = options.directory
    certificate = control_plane.issue_certificate(_NODE_USER, hosts=(HOST,))
    serving = ServingCertificate(
        directory / "kubelet.crt", directory / "kubelet.key", directory / "ca.crt"
    )
    serving.key_file.touch(mode=0o600)
    serving.key_file.write_bytes(certificate.key)
    serving.cert_file.write_bytes(certificate.certificate)
    serving.client_ca_file.write_bytes(control_plane.ca_certificate)
    port = int(control_plane.url.rpartition(":")[2])
    return NodeOptions(
        name=_NODE,
        state_directory=_node_directory(directory),
        images=options.images,
        labels=options.node_labels,
        capacity=options.node_capacity,
        api_server=(HOST, port),
        serving=serving,
        claims=options.claims,
    )
