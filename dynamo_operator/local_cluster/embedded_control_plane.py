"""The embedded control plane: API server and controllers in this process."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from dynamo_operator.apiserver.api_server import ApiServer
from dynamo_operator.apiserver.audit import AuditLog
from dynamo_operator.apiserver.server import HttpsServer
from dynamo_operator.certificates import Certificate
from dynamo_operator.local_cluster.control_plane import HOST, MASTERS, PortInUseError
from dynamo_operator.local_cluster.deployment_controller import DeploymentController
from dynamo_operator.local_cluster.disruption_budgets import DisruptionBudgets
from dynamo_operator.local_cluster.endpoint_slices import EndpointSlices
from dynamo_operator.local_cluster.garbage_collector import GarbageCollector
from dynamo_operator.local_cluster.job_controller import JobController
from dynamo_operator.local_cluster.namespaces import Namespaces
from dynamo_operator.local_cluster.node_lifecycle import NodeLifecycle
from dynamo_operator.local_cluster.scheduler import Scheduler
from dynamo_operator.runtime.client import Client, ClientConfig
from dynamo_operator.runtime.manager import Manager


class EmbeddedControlPlane:
    """Our API server over HTTPS, and our controllers, in this process.

    Args:
        port: of the API server; 0 for a free one.
        audit_file: where each request is logged as a JSON line, or None.
    """

    api: ApiServer

    def __init__(self, *, port: int = 0, audit_file: Path | None = None) -> None:
        self._port = port
        self._audit_file = audit_file
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            self.api = ApiServer(audit=self._audit_log(stack), service_accounts=True)
            self._https = HttpsServer(self.api, host=HOST, port=self._port)
            try:
                await stack.enter_async_context(self._https)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                raise PortInUseError(self._port) from None
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    @property
    def url(self) -> str:
        """Where the API server listens."""
        return self._https.url

    @property
    def ca_certificate(self) -> bytes:
        """The PEM certificate of the authority that the API server and its nodes believe."""
        return self._https.ca_certificate

    @property
    def audit(self) -> AuditLog:
        """Every request so far."""
        return self.api.audit

    def issue_certificate(
        self, common_name: str, *, organizations: Sequence[str] = (), hosts: Sequence[str] = ()
    ) -> Certificate:
        """Sign a certificate: for a server (a node's) when it names hosts, else for a user."""
        return self._https.issue_certificate(common_name, organizations=organizations, hosts=hosts)

    def write_kubeconfig(
        self, path: Path, *, user: str, groups: Sequence[str], namespace: str = "default"
    ) -> None:
        """Write a kubeconfig that only its owner can read."""
        self._https.write_kubeconfig(path, user=user, groups=groups, namespace=namespace)

    async def start_controllers(self) -> None:
        """Start our controllers, as one client."""
        with TemporaryDirectory() as directory:
            path = Path(directory) / "kubeconfig"
            user = "system:kube-controller-manager"
            self._https.write_kubeconfig(path, user=user, groups=MASTERS)
            config = ClientConfig.load(kubeconfig=str(path), environ={})
        client = await self._stack.enter_async_context(Client.connect(config))
        manager = Manager(client, name="controllers")
        for runnable in (
            Namespaces(client, root_ca=self.ca_certificate.decode()),
            GarbageCollector(client),
            JobController(client),
            DeploymentController(client),
            DisruptionBudgets(client),
            EndpointSlices(client),
            NodeLifecycle(client),
            Scheduler(client),
        ):
            manager.add(runnable)
        await self._stack.enter_async_context(manager.running())

    def _audit_log(self, stack: AsyncExitStack) -> AuditLog:
        if self._audit_file is None:
            return AuditLog()
        file = stack.enter_context(self._audit_file.open("a", encoding="utf-8", buffering=1))
        return AuditLog(lambda line: file.write(f"{line}\n"))
