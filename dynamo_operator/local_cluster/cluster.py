"""A whole cluster in one process: API server, controllers and one node, over HTTPS."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from dynamo_operator.apiserver.api_server import ApiServer
from dynamo_operator.apiserver.audit import AuditLog
from dynamo_operator.apiserver.server import HttpsServer
from dynamo_operator.local_cluster.garbage_collector import GarbageCollector
from dynamo_operator.local_cluster.images import ImageMap
from dynamo_operator.local_cluster.job_controller import JobController
from dynamo_operator.local_cluster.kubelet_server import ServingCertificate
from dynamo_operator.local_cluster.namespaces import Namespaces
from dynamo_operator.local_cluster.node_agent import NodeAgent, NodeOptions
from dynamo_operator.local_cluster.scheduler import Scheduler
from dynamo_operator.local_cluster.volumes import remove_tree
from dynamo_operator.runtime.client import Client, ClientConfig
from dynamo_operator.runtime.manager import Manager

_NODE = "local"
_HOST = "127.0.0.1"


class ClusterError(OSError):
    """A local cluster cannot be started here; one line says why."""


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """What a local cluster is like.

    Args:
        directory: everything it keeps on disk lies below; made when absent.
        images: what plays container images on its node.
        node_labels: further labels of its node, e.g. `gpu_labels(...)`.
        node_capacity: further resources of its node.
        claims: host directories that play PersistentVolumeClaims, by `namespace/name`.
        port: of the API server; 0 for a free one.
        audit_file: where each request is logged as a JSON line, or None.
    """

    directory: Path
    images: ImageMap
    node_labels: Mapping[str, str] = field(default_factory=dict)
    node_capacity: Mapping[str, str] = field(default_factory=dict)
    claims: Mapping[str, Path] = field(default_factory=dict)
    port: int = 0
    audit_file: Path | None = None


class LocalCluster:
    """A running cluster; made by `local_cluster`. `client` is an administrator's."""

    def __init__(self, api: ApiServer, https: HttpsServer, directory: Path, client: Client) -> None:
        self.api = api
        self.https = https
        self.client = client
        self._directory = directory

    @property
    def audit(self) -> AuditLog:
        """Every request so far."""
        return self.api.audit

    def connect(self, user: str, *, groups: tuple[str, ...] = (), field_manager: str) -> Client:
        """Make a client that acts as a user; the caller closes it."""
        config = ClientConfig.load(kubeconfig=str(self.kubeconfig(user, groups=groups)), environ={})
        return Client.connect(config, field_manager=field_manager)

    def kubeconfig(
        self,
        user: str = "admin",
        *,
        groups: tuple[str, ...] = ("system:masters",),
        path: Path | None = None,
    ) -> Path:
        """Write a kubeconfig of a user and return its path."""
        path = path or self._directory / f"{user.replace(':', '-')}.kubeconfig"
        self.https.write_kubeconfig(path, user=user, groups=groups)
        return path


@asynccontextmanager
async def local_cluster(options: ClusterOptions) -> AsyncGenerator[LocalCluster]:
    """Run a cluster for the length of the block; nothing is left running after it.

    Raises:
        ClusterError: its directory or port cannot be had.
    """
    async with AsyncExitStack() as stack:
        stack.enter_context(_own_directory(options.directory))
        api = ApiServer(audit=_audit_log(options.audit_file, stack), service_accounts=True)
        https = HttpsServer(api, host=_HOST, port=options.port)
        try:
            await stack.enter_async_context(https)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise ClusterError(f"port {options.port} of {_HOST} is in use; name another") from None
        kubeconfig = options.directory / "admin.kubeconfig"
        https.write_kubeconfig(kubeconfig)
        config = ClientConfig.load(kubeconfig=str(kubeconfig), environ={})
        client = Client.connect(config, field_manager="local-cluster")
        await stack.enter_async_context(client)
        manager = Manager(client, name="local-cluster")
        for runnable in (
            Namespaces(client, root_ca=https.ca_certificate.decode()),
            GarbageCollector(client),
            JobController(client),
            Scheduler(client),
            NodeAgent(client, _node_options(options, https)),
        ):
            manager.add(runnable)
        await stack.enter_async_context(manager.running())
        yield LocalCluster(api, https, options.directory, client)


def remove_abandoned(parent: Path, pattern: str) -> None:
    """Remove what clusters left that were killed: their files, and the mounts of their node.

    Args:
        parent: where their directories are.
        pattern: matches their directories' names; those of clusters that run, or start, stay.
    """
    for directory in parent.glob(pattern):
        if _node_directory(directory).exists():  # made by a cluster that had the directory
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


def _audit_log(path: Path | None, stack: AsyncExitStack) -> AuditLog:
    if path is None:
        return AuditLog()
    file = stack.enter_context(path.open("a", encoding="utf-8", buffering=1))
    return AuditLog(lambda line: file.write(f"{line}\n"))


def _node_options(options: ClusterOptions, https: HttpsServer) -> NodeOptions:
    """Describe the node; its log endpoint is served to the API server alone."""
    directory = options.directory
    certificate = https.issue_certificate(f"system:node:{_NODE}", hosts=(_HOST,))
    serving = ServingCertificate(
        directory / "kubelet.crt", directory / "kubelet.key", directory / "ca.crt"
    )
    serving.key_file.touch(mode=0o600)
    serving.key_file.write_bytes(certificate.key)
    serving.cert_file.write_bytes(certificate.certificate)
    serving.client_ca_file.write_bytes(https.ca_certificate)
    port = int(https.url.rpartition(":")[2])
    return NodeOptions(
        name=_NODE,
        state_directory=_node_directory(directory),
        images=options.images,
        labels=options.node_labels,
        capacity=options.node_capacity,
        api_server=(_HOST, port),
        serving=serving,
        claims=options.claims,
    )
