"""A real control plane on this machine: etcd, kube-apiserver and controllers, one process each."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Final, Self

from dynamo_operator.apiserver.kubeconfig import client_kubeconfig, write_private
from dynamo_operator.certificates import Certificate, CertificateAuthority
from dynamo_operator.local_cluster.control_plane import HOST, MASTERS, PortInUseError
from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.config import ClientConfig
from dynamo_operator.runtime.client.errors import ApiError, TransportError
from dynamo_operator.testing.audit_file import AuditFile
from dynamo_operator.testing.control_plane_binaries import ControlPlaneBinaries
from dynamo_operator.testing.server_process import ServerProcess, ServerProcessError
from informers.clock import Clock, SystemClock

SERVICE_RANGE: Final = "10.96.0.0/16"
"""Where Services have their addresses; the first of them is the API server's."""

_SERVICE_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "10.96.0.1",
)
_START_ATTEMPTS = 3  # another process may take a port between our choice and its use
_PORT_TAKEN = "address already in use"
# The second is a default, named because tests rely on it; some distributions have the third.
_ADMISSION_PLUGINS = ("NodeRestriction", "PodSecurity", "OwnerReferencesPermissionEnforcement")
_CLUSTER_CONTROLLERS = (
    "deployment-controller",
    "disruption-controller",
    "endpointslice-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "node-lifecycle-controller",
    "replicaset-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "taint-eviction-controller",
    "ttl-after-finished-controller",
)
_AUDIT_MEGABYTES = 1_000_000  # one file, however long it gets
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


class RealControlPlane:
    """Starts on free ports, beside any number of others. `async with` starts and stops it.

    Its controllers start with `start_controllers`.

    Nothing of it survives the block. A test may stop and start `etcd` and `api_server` on their
    own in between.

    Args:
        binaries: what to start.
        controllers: the controllers of kube-controller-manager to run; it runs only for these.
        scheduler: whether kube-scheduler runs.
        service_accounts: whether Pods need their ServiceAccount to exist.
        address: where the API server listens; another than the default is what Pods reach it by.
        port: of the API server; 0 for a free one.
        directory: where its files are while it runs; None for a temporary directory.
        audit_file: where the API server logs each request as a JSON line; None for one of its own.
        clock: dates certificates.

    Example:
        >>> async def start(environ: Mapping[str, str]) -> None:
        ...     async with RealControlPlane(ControlPlaneBinaries.find(environ)) as control_plane:
        ...         control_plane.write_kubeconfig(Path("admin.kubeconfig"))
    """

    etcd: ServerProcess
    api_server: ServerProcess

    def __init__(
        self,
        binaries: ControlPlaneBinaries,
        *,
        controllers: Iterable[str] = (),
        scheduler: bool = False,
        service_accounts: bool = False,
        address: str = HOST,
        port: int = 0,
        directory: Path | None = None,
        audit_file: Path | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._binaries = binaries
        self._controllers = tuple(controllers)
        self._scheduler = scheduler
        self._service_accounts = service_accounts
        self._address = address
        self._port = port
        self._given_directory = directory
        self._audit_file = audit_file
        self._clock = clock or SystemClock()
        self._authority = CertificateAuthority.create(self._clock.now())
        self._stack = AsyncExitStack()
        self._ports: dict[str, int] = {}

    @classmethod
    def complete(cls, binaries: ControlPlaneBinaries, **options: Any) -> Self:
        """Make one with everything that runs Jobs on nodes; `options` are those of the class."""
        return cls(
            binaries,
            controllers=_CLUSTER_CONTROLLERS,
            scheduler=True,
            service_accounts=True,
            **options,
        )

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            self.directory = stack.enter_context(_emptied(self._given_directory))
            self._write_files()
            self._audit_path = self._audit_file or self.directory / "audit.log"
            self.audit = AuditFile(self._audit_path)
            await self._start_servers(stack)
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
        return f"https://{self._address}:{self._ports['api']}"

    @property
    def ca_certificate(self) -> bytes:
        """The PEM certificate of the authority that the API server and its nodes believe."""
        return self._authority.pem

    def issue_certificate(
        self, common_name: str, *, organizations: Sequence[str] = (), hosts: Sequence[str] = ()
    ) -> Certificate:
        """Sign a certificate: for a server (a node's) when it names hosts, else for a user."""
        now = self._clock.now()
        return self._authority.issue(common_name, now, organizations=organizations, hosts=hosts)

    def kubeconfig(
        self,
        *,
        user: str = "admin",
        groups: Sequence[str] = MASTERS,
        namespace: str = "default",
    ) -> dict[str, Any]:
        """Return a kubeconfig with a fresh client certificate."""
        certificate = self.issue_certificate(user, organizations=groups)
        return client_kubeconfig(
            self.url,
            self.ca_certificate,
            certificate,
            user=user,
            namespace=namespace,
            cluster="real",
        )

    def write_kubeconfig(
        self,
        path: Path,
        *,
        user: str = "admin",
        groups: Sequence[str] = MASTERS,
        namespace: str = "default",
    ) -> None:
        """Write a kubeconfig that only its owner can read."""
        write_private(path, self.kubeconfig(user=user, groups=groups, namespace=namespace))

    async def forget_history(self) -> None:
        """Compact etcd and restart the API server: every version until now is gone for good."""
        etcd = ClientConfig(server=self._etcd_url)
        async with Client.connect(etcd) as client:
            answer = await client.request("POST", "/v3/kv/range", body=b'{"key":"AA=="}')
            revision = json.loads(answer.body)["header"]["revision"]
            body = json.dumps({"revision": revision, "physical": True}).encode()
            await client.request("POST", "/v3/kv/compaction", body=body)
        await self.api_server.kill()  # an orderly end would wait for open watches
        await self.api_server.start()

    @property
    def _etcd_url(self) -> str:
        return f"http://{HOST}:{self._ports['etcd']}"

    def _write_files(self) -> None:
        now, directory = self._clock.now(), self.directory
        self._authority.save(directory / "ca.crt", directory / "ca.key")
        hosts = dict.fromkeys((HOST, self._address, *_SERVICE_NAMES))
        server = self._authority.issue("kube-apiserver", now, hosts=[*hosts])
        kubelet_client = self._authority.issue("kube-apiserver-kubelet-client", now)
        tokens = self._authority.issue("service-accounts", now)
        for name, certificate in (
            ("server", server),
            ("kubelet-client", kubelet_client),
            ("tokens", tokens),
        ):
            (directory / f"{name}.crt").write_bytes(certificate.certificate)
            (directory / f"{name}.key").touch(mode=0o600)
            (directory / f"{name}.key").write_bytes(certificate.key)
        (directory / "audit-policy.yaml").write_text(json.dumps(_AUDIT_POLICY), encoding="utf-8")

    async def _start_servers(self, stack: AsyncExitStack) -> None:
        for attempt in range(1, _START_ATTEMPTS + 1):
            self._ports = dict(zip(("etcd", "peer", "api"), free_ports(3), strict=True))
            self._ports["api"] = self._port or self._ports["api"]
            self.write_kubeconfig(self.directory / "admin.kubeconfig")
            self.etcd = self._server("etcd", self._etcd_command(attempt), self._etcd_is_ready)
            self.api_server = self._server(
                "kube-apiserver", self._api_server_command(), self._api_server_is_ready
            )
            try:
                await self.etcd.start()
                await self.api_server.start()
            except ServerProcessError as error:
                await self.api_server.kill()
                await self.etcd.kill()
                if self._port and _PORT_TAKEN in str(error) and f":{self._port}" in str(error):
                    raise PortInUseError(self._port) from None
                if _PORT_TAKEN in str(error) and attempt < _START_ATTEMPTS:
                    continue
                raise
            # Killed, as nothing of theirs is kept: an orderly end takes seconds.
            stack.push_async_callback(self.etcd.kill)
            stack.push_async_callback(self.api_server.kill)
            return

    async def start_controllers(self) -> None:
        """Start the controllers and the scheduler that were asked for.

        After the CustomResourceDefinitions: the garbage collector looks for new kinds only twice a
        minute.
        """
        commands: list[tuple[str, list[str]]] = []
        if self._controllers:
            commands.append(("kube-controller-manager", self._controller_manager_flags()))
        if self._scheduler:
            commands.append(("kube-scheduler", []))
        for name, flags in commands:
            path = self.directory / f"{name}.kubeconfig"
            self.write_kubeconfig(path, user=f"system:{name}", groups=())
            common = [f"--kubeconfig={path}", "--leader-elect=false", "--secure-port=0"]
            server = self._server(name, [self._binaries.optional(name), *common, *flags])
            await server.start()
            self._stack.push_async_callback(server.kill)

    def _server(
        self, name: str, command: Sequence[str | Path], is_ready: Any = None
    ) -> ServerProcess:
        return ServerProcess(name, command, log_directory=self.directory, is_ready=is_ready)

    def _etcd_command(self, attempt: int) -> list[str | Path]:
        peer = f"http://{HOST}:{self._ports['peer']}"
        return [
            self._binaries.etcd,
            "--name=test",
            f"--data-dir={self.directory / f'etcd-{attempt}'}",
            f"--listen-client-urls={self._etcd_url}",
            f"--advertise-client-urls={self._etcd_url}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=test={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]

    def _api_server_command(self) -> list[str | Path]:
        directory = self.directory
        disabled = [] if self._service_accounts else ["--disable-admission-plugins=ServiceAccount"]
        if self._address == HOST:
            reached = "--endpoint-reconciler-type=none"  # loopback may not be advertised
        else:
            reached = f"--advertise-address={self._address}"
        return [
            self._binaries.kube_apiserver,
            f"--etcd-servers={self._etcd_url}",
            f"--bind-address={self._address}",
            f"--secure-port={self._ports['api']}",
            "--external-hostname=localhost",
            reached,
            f"--tls-cert-file={directory / 'server.crt'}",
            f"--tls-private-key-file={directory / 'server.key'}",
            f"--client-ca-file={directory / 'ca.crt'}",
            f"--kubelet-certificate-authority={directory / 'ca.crt'}",
            f"--kubelet-client-certificate={directory / 'kubelet-client.crt'}",
            f"--kubelet-client-key={directory / 'kubelet-client.key'}",
            "--kubelet-preferred-address-types=InternalIP",  # host names need not resolve
            "--authorization-mode=Node,RBAC",
            f"--enable-admission-plugins={','.join(_ADMISSION_PLUGINS)}",
            *disabled,
            "--allow-privileged=true",
            f"--service-cluster-ip-range={SERVICE_RANGE}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={directory / 'tokens.crt'}",
            f"--service-account-signing-key-file={directory / 'tokens.key'}",
            f"--audit-policy-file={directory / 'audit-policy.yaml'}",
            f"--audit-log-path={self._audit_path}",
            f"--audit-log-maxsize={_AUDIT_MEGABYTES}",
            "--audit-log-mode=blocking-strict",
            "--profiling=false",
        ]

    def _controller_manager_flags(self) -> list[str]:
        return [
            f"--controllers={','.join(self._controllers)}",
            "--use-service-account-credentials=true",
            f"--root-ca-file={self.directory / 'ca.crt'}",
            f"--service-account-private-key-file={self.directory / 'tokens.key'}",
            "--kube-api-qps=200",
            "--kube-api-burst=400",
        ]

    async def _etcd_is_ready(self) -> bool:
        return await _answers(ClientConfig(server=self._etcd_url), "/readyz")

    async def _api_server_is_ready(self) -> bool:
        config = ClientConfig.load(self.directory / "admin.kubeconfig", environ={})
        return await _answers(config, "/readyz")


@contextmanager
def _emptied(directory: Path | None) -> Iterator[Path]:
    """Make the directory anew, a temporary one by default, and remove it in the end."""
    if directory is None:
        with TemporaryDirectory(prefix="control-plane-", ignore_cleanup_errors=True) as name:
            yield Path(name)
        return
    shutil.rmtree(directory, ignore_errors=True)  # of one that was killed
    directory.mkdir(parents=True)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


async def _answers(config: ClientConfig, path: str) -> bool:
    async with Client.connect(config) as client:
        try:
            await client.request("GET", path, timeout_seconds=5.0)
        except (ApiError, TransportError):
            return False
    return True


def free_ports(count: int) -> list[int]:
    """Return ports of the loopback interface that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind((HOST, 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
