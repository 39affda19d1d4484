"""A cluster for tests: an API server, a client, and the controllers that are asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, Protocol

from dynamo_operator.apiserver.api_server import ApiServer
from dynamo_operator.apiserver.audit import AuditLog
from dynamo_operator.apiserver.kubeconfig import acting_as, write_private
from dynamo_operator.apiserver.messages import UserInfo
from dynamo_operator.apiserver.server import HttpsServer, HttpsWebhookClient
from dynamo_operator.certificates import LONGEST_COMMON_NAME
from dynamo_operator.runtime.builtin_kinds import CustomResourceDefinition
from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.config import ClientConfig
from dynamo_operator.runtime.client.http import Transport
from dynamo_operator.runtime.controller import Controller
from dynamo_operator.runtime.manager import Manager
from dynamo_operator.runtime.runnables import Runnable
from dynamo_operator.runtime.webhooks.configuration import UrlEndpoint
from dynamo_operator.runtime.webhooks.server import Webhooks
from dynamo_operator.testing.audit_file import AuditFile
from dynamo_operator.testing.control_plane_binaries import (
    ControlPlaneBinaries,
    uses_existing_cluster,
)
from dynamo_operator.testing.existing_cluster import ExistingCluster
from dynamo_operator.testing.in_process_transport import InProcessTransport
from dynamo_operator.testing.in_process_webhooks import InProcessWebhooks
from dynamo_operator.testing.polling import eventually
from dynamo_operator.testing.real_control_plane import RealControlPlane
from dynamo_operator.testing.virtual_time import VirtualClock, VirtualTimeLoop
from informers.clock import Clock, Random, SystemClock

Mode = Literal["in_process", "http", "real"]
ControllerName = Literal[
    "deployments",
    "disruption_budgets",
    "endpoint_slices",
    "gc",
    "jobs",
    "namespaces",
    "nodes",
    "scheduler",
]

ADMIN_GROUPS = ("system:masters",)

_CONTROLLERS: dict[ControllerName, tuple[str, str]] = {
    "deployments": ("deployment_controller", "DeploymentController"),
    "disruption_budgets": ("disruption_budgets", "DisruptionBudgets"),
    "endpoint_slices": ("endpoint_slices", "EndpointSlices"),
    "gc": ("garbage_collector", "GarbageCollector"),
    "jobs": ("job_controller", "JobController"),
    "namespaces": ("namespaces", "Namespaces"),
    "nodes": ("node_lifecycle", "NodeLifecycle"),
    "scheduler": ("scheduler", "Scheduler"),
}
_REAL_CONTROLLERS: dict[ControllerName, tuple[str, ...]] = {
    "deployments": ("deployment-controller", "replicaset-controller"),
    "disruption_budgets": ("disruption-controller",),
    "endpoint_slices": ("endpointslice-controller",),
    "gc": ("garbage-collector-controller",),
    "jobs": ("job-controller",),
    "namespaces": (
        "namespace-controller",
        "root-ca-certificate-publisher-controller",
        "serviceaccount-controller",
    ),
    "nodes": ("node-lifecycle-controller", "taint-eviction-controller"),
    "scheduler": (),  # a program of its own
}


class Connect(Protocol):
    """Makes the transport between a user and an API server in this process."""

    def __call__(self, server: ApiServer, *, user: UserInfo) -> Transport:
        """Return it."""


class Cluster:
    """Made by `Cluster.start`.

    `client` is an administrator's, `audit` has every request, `server` is the API server itself,
    for faults.

    Example:
        >>> async def test_widget_gets_its_config_map() -> None:
        ...     async with Cluster.start(crds=[WIDGET_CRD], controllers=["gc"]) as cluster:
        ...         async with cluster.manager(Controller(Widget, reconciler=WidgetReconciler)):
        ...             await cluster.client.create(Widget.new("a"))
        ...             await cluster.eventually(lambda: cluster.client.get(ConfigMap, key))
    """

    def __init__(
        self,
        *,
        embedded: ApiServer | None,
        served: HttpsServer | RealControlPlane | ExistingCluster | None,
        clock: Clock,
        random: Random,
        stack: AsyncExitStack,
        connect: Connect,
    ) -> None:
        self.clock = clock
        self.random = random
        self._embedded = embedded
        self._served = served
        self._stack = stack
        self._made_directory: Path | None = None
        self._connect = connect
        self._webhooks: InProcessWebhooks | None = None
        self.client = self.client_of("admin", ADMIN_GROUPS)

    @classmethod
    @asynccontextmanager
    async def start(
        cls,
        *,
        mode: Mode = "in_process",
        controllers: Iterable[ControllerName] = (),
        crds: Iterable[Mapping[str, Any]] = (),
        seed: int = 0,
        environ: Mapping[str, str] | None = None,
        connect: Connect = InProcessTransport,
    ) -> AsyncGenerator[Cluster]:
        """Start a cluster for the length of the block; on a virtual-time loop its time is virtual.

        Args:
            mode: call an embedded API server in this loop, or over HTTPS on the loopback interface,
                or start a real control plane.
            controllers: what of a real cluster runs beside it; with `namespaces` Pods have service
                accounts. In mode real they are the real ones.
            crds: CustomResourceDefinitions to install first.
            seed: of every random choice.
            environ: in mode real: says where the binaries are (KUBEBUILDER_ASSETS, caches), or
                which cluster to use instead (USE_EXISTING_CLUSTER, KUBECONFIG).
            connect: in mode in_process: makes the transport of a user's client.

        Raises:
            ControlPlaneMissingError: mode real has nothing to start; says how to get it.
        """
        virtual = isinstance(asyncio.get_running_loop(), VirtualTimeLoop)
        if virtual and mode == "real":
            raise RuntimeError("a real control plane has its own time: use no virtual-time loop")
        clock: Clock = VirtualClock() if virtual else SystemClock()
        random = Random(seed)
        controllers = tuple(controllers)
        async with AsyncExitStack() as stack:
            embedded: ApiServer | None = None
            served: HttpsServer | RealControlPlane | ExistingCluster | None = None
            if mode == "real":
                served = await stack.enter_async_context(_real(controllers, environ or {}, clock))
            else:
                embedded = ApiServer(
                    clock=clock,
                    random=random,
                    audit=AuditLog(),
                    service_accounts="namespaces" in controllers,
                )
                stack.callback(embedded.close)
                if mode == "http":
                    served = await stack.enter_async_context(HttpsServer(embedded))
            cluster = cls(
                embedded=embedded,
                served=served,
                clock=clock,
                random=random,
                stack=stack,
                connect=connect,
            )
            if embedded is not None:
                await stack.enter_async_context(cluster._calling_webhooks(embedded))
            for crd in crds:
                await cluster.install(crd)
            if isinstance(served, RealControlPlane):
                await served.start_controllers()
            runnables = [cluster._make(name) for name in controllers if embedded is not None]
            if runnables:
                await stack.enter_async_context(cluster.manager(*runnables, name="cluster"))
            yield cluster

    @property
    def server(self) -> ApiServer:
        """The API server itself, for faults; not in mode real."""
        if self._embedded is None:
            raise RuntimeError("the cluster's API server is another process")
        return self._embedded

    @property
    def control_plane(self) -> RealControlPlane:
        """The processes of the control plane, for faults; only in mode real."""
        if not isinstance(self._served, RealControlPlane):
            raise RuntimeError('the cluster has no processes of its own: start it with mode="real"')
        return self._served

    @property
    def has_own_server(self) -> bool:
        """Whether the API server was started for this cluster, and is the test's to break."""
        return not isinstance(self._served, ExistingCluster)

    @property
    def audit(self) -> AuditLog | AuditFile:
        """Every request that was answered; of a cluster that was there before, none is known."""
        if isinstance(self._served, RealControlPlane):
            return self._served.audit
        return self.server.audit

    @property
    def url(self) -> str:
        """Where the API server listens; not in mode in_process."""
        return self._address.url

    def kubeconfig(self, user: str = "admin", groups: Sequence[str] = ADMIN_GROUPS) -> Path:
        """Write a kubeconfig for a user and return its path; not in mode in_process."""
        path = self._directory / f"{user.replace(':', '-').replace('/', '-')}.kubeconfig"
        address = self._address
        if len(user) <= LONGEST_COMMON_NAME or isinstance(address, ExistingCluster):
            address.write_kubeconfig(path, user=user, groups=groups)
        else:
            write_private(path, acting_as(address.kubeconfig(), user, groups))
        return path

    def client_of(self, user: str, groups: Sequence[str] = ()) -> Client:
        """Return a client of another user; without groups it may do what RBAC grants it."""
        if self._served is None:
            info = UserInfo(user, groups=(*groups, "system:authenticated"))
            transport = self._connect(self.server, user=info)
            client = Client.over(transport, host="in-process", clock=self.clock, random=self.random)
        else:
            config = ClientConfig.load(self.kubeconfig(user, groups), environ={})
            client = Client.connect(config, clock=self.clock, random=self.random)
        self._stack.push_async_callback(client.close)
        return client

    async def forget_history(self) -> None:
        """Make every resource version until now expired (410) for lists and watches.

        On a real control plane the API server restarts, and with that every watch ends.
        """
        if self._embedded is not None:
            self._embedded.storage.compact(self._embedded.storage.resource_version)
        else:
            await self.control_plane.forget_history()

    def serve(self, webhooks: Webhooks) -> UrlEndpoint:
        """Have the API server call webhooks in this process without a socket; not in mode real.

        What says that it shall call them is made with the endpoint that this returns, e.g. by
        `mutating_configuration`.
        """
        if self._webhooks is None:
            raise RuntimeError("the cluster's API server is another process: serve over TLS")
        return self._webhooks.add(webhooks)

    eventually = staticmethod(eventually)

    async def install(self, crd: Mapping[str, Any]) -> None:
        """Create a CustomResourceDefinition and wait until its kind is served."""
        made = await self.client.create(CustomResourceDefinition.model_validate(crd))
        await self.eventually(
            lambda: self.client.get(CustomResourceDefinition, made.key), _is_established
        )

    def manager(
        self, *runnables: Controller | Runnable, **options: Any
    ) -> AbstractAsyncContextManager[Manager]:
        """Run a manager with these for the length of the block; `options` are Manager's."""
        options = {"clock": self.clock, "random": self.random, **options}
        manager = Manager(options.pop("client", self.client), **options)
        for runnable in runnables:
            manager.add(runnable)
        return manager.running()

    @asynccontextmanager
    async def _calling_webhooks(self, embedded: ApiServer) -> AsyncGenerator[None]:
        over_tls = HttpsWebhookClient()
        self._webhooks = InProcessWebhooks(over_tls)
        embedded.webhooks.client = self._webhooks
        try:
            yield
        finally:
            embedded.webhooks.client = None
            await over_tls.close()

    def _make(self, name: ControllerName) -> Runnable:
        module, class_name = _CONTROLLERS[name]
        # Imported when asked for: a test of one controller loads no other.
        make = getattr(import_module(f"dynamo_operator.local_cluster.{module}"), class_name)
        client = self.client_of(f"system:controller:{name}", ADMIN_GROUPS)
        options: dict[str, Any] = {"clock": self.clock, "random": self.random}
        if name == "namespaces" and isinstance(self._served, HttpsServer):
            options["root_ca"] = self._served.ca_certificate.decode()
        made: Runnable = make(client, **options)
        return made

    @property
    def _directory(self) -> Path:
        """For kubeconfigs; most clusters never need one."""
        if self._made_directory is None:
            made = self._stack.enter_context(TemporaryDirectory(prefix="cluster-"))
            self._made_directory = Path(made)
        return self._made_directory

    @property
    def _address(self) -> HttpsServer | RealControlPlane | ExistingCluster:
        if self._served is None:
            raise RuntimeError('the cluster has no address: start it with mode="http"')
        return self._served


def _real(
    controllers: Sequence[ControllerName], environ: Mapping[str, str], clock: Clock
) -> RealControlPlane | ExistingCluster:
    if uses_existing_cluster(environ):
        return ExistingCluster(environ)
    return RealControlPlane(
        ControlPlaneBinaries.find(environ),
        controllers=[real for name in controllers for real in _REAL_CONTROLLERS[name]],
        scheduler="scheduler" in controllers,
        service_accounts="namespaces" in controllers,
        clock=clock,
    )


def _is_established(crd: CustomResourceDefinition) -> bool:
    conditions = crd.status.get("conditions") or []
    return any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions)
