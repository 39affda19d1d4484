"""The node agent: registers a Node, keeps its Lease, runs the Pods that are bound to it.

An ordinary client of any API server: Pods come from an informer with the field selector
`spec.nodeName`, each is run by a `PodWorker`. Everything that the agent makes on the machine lies
below its state directory; what an earlier agent left there is removed before anything starts.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import platform
import shutil
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from dynamo_operator.local_cluster.container_process import (
    Isolation,
    end_leftovers,
    probe_isolation,
)
from dynamo_operator.local_cluster.images import ImageMap
from dynamo_operator.local_cluster.kubelet_server import (
    ContainerLog,
    KubeletServer,
    NoSuchLogError,
    NotStartedError,
    ServingCertificate,
)
from dynamo_operator.local_cluster.mounts import Machine
from dynamo_operator.local_cluster.pod_network import PodAddresses, pod_network
from dynamo_operator.local_cluster.pod_status import Waiting, timestamp
from dynamo_operator.local_cluster.pod_worker import NodeContext, PodWorker
from dynamo_operator.local_cluster.volumes import remove_tree
from dynamo_operator.runtime.builtin_kinds import Lease, Node, Pod
from dynamo_operator.runtime.client import codec
from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.errors import (
    AlreadyExistsError,
    ClientError,
    ConflictError,
    NotFoundError,
)
from dynamo_operator.runtime.event_recorder import EventRecorder
from informers.clock import Clock, Random, SystemClock, system_random
from informers.events import Deleted, ObjectEvent
from informers.objects import ObjectKey
from informers.shared_informer import SharedInformer

LEASE_NAMESPACE = "kube-node-lease"

_HOST = "127.0.0.1"
_LEASE_SECONDS = 40
_HEARTBEAT_SECONDS = 10.0
_STATUS_EVERY_SECONDS = 300.0
_RETRY_SECONDS = 1.0

_log = structlog.get_logger(__name__)


class StateDirectoryInUseError(Exception):
    """Another agent works in that state directory."""


def gpu_labels(product: str, count: int, memory_mib: int) -> dict[str, str]:
    """The node labels of so many GPUs of one product, as GPU feature discovery writes them."""
    return {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.count": str(count),
        "nvidia.com/gpu.memory": str(memory_mib),
    }


def machine_capacity() -> dict[str, str]:
    """What this machine has."""
    memory_kib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1024
    return {
        "cpu": str(os.cpu_count() or 1),
        "memory": f"{memory_kib}Ki",
        "ephemeral-storage": f"{shutil.disk_usage('/').total // 1024}Ki",
        "pods": "110",
    }


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """How a node presents itself, and what it plays.

    Args:
        name: the Node's name.
        state_directory: everything the agent makes lies below; made when absent.
        images: what plays container images.
        labels: of the Node, besides its host name and architecture.
        capacity: resources by name, over what the machine has.
        taints: of the Node.
        api_server: host and port of the API server as Pods reach it.
        serving: for the log endpoint; None for no endpoint.
        port: of the log endpoint; 0 for any.
        claims: host directories that play PersistentVolumeClaims, by `namespace/name`.
        isolation: None for the strongest that works here.
        volume_refresh_seconds: how often volumes are brought up to date with their sources, but
            for those that cannot change.
    """

    name: str
    state_directory: Path
    images: ImageMap
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()
    api_server: tuple[str, int] | None = None
    serving: ServingCertificate | None = None
    port: int = 0
    claims: Mapping[str, Path] = field(default_factory=dict)
    isolation: Isolation | None = None
    volume_refresh_seconds: float = 2.0


class NodeAgent:
    """Makes this machine a node.

    Args:
        client: of the cluster.
        options: the node.
        clock: times.
        random: jitter.
    """

    needs_leadership = False

    def __init__(
        self,
        client: Client,
        options: NodeOptions,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        self._client = client.with_field_manager("node-agent")
        self._options = options
        self._clock = clock or SystemClock()
        self._random = random or system_random()
        self._workers: dict[str, PodWorker] = {}
        self._ended: set[str] = set()  # Pods that are over but still known to the API server
        self._addresses: PodAddresses
        self._pods_directory = options.state_directory / "pods"
        self._port = 0
        self._registered = asyncio.Event()

    async def run(self) -> None:
        """Run until cancelled; then every process, mount and file of the Pods is gone.

        Raises:
            StateDirectoryInUseError: another agent works in the state directory.
            NoPodNetworkError: agents on this machine have all addresses that there are for Pods.
        """
        with self._state_directory():
            isolation = self._options.isolation
            if isolation is None:
                isolation = await probe_isolation(self._pods_directory, self._clock)
                if isolation is Isolation.NONE:
                    _log.warning("containers are plain processes: no root, no user namespaces")
            with pod_network() as network:
                self._addresses = PodAddresses(network)
                async with self._serving():
                    await self._run(isolation)

    async def wait_registered(self) -> None:
        """Wait until the Node is there and says that it is ready."""
        await self._registered.wait()

    async def _run(self, isolation: Isolation) -> None:
        events = EventRecorder(
            self._client,
            clock=self._clock,
            reporting_controller="kubelet",
            reporting_instance=self._options.name,
        )
        context = self._context(isolation, events)
        list_watch = self._client.list_watch(Pod, fields={"spec.nodeName": self._options.name})
        informer = SharedInformer(list_watch, clock=self._clock, random=self._random)
        async with asyncio.TaskGroup() as tasks:
            informer.add_handler(lambda event: self._on_event(event, context, tasks))
            tasks.create_task(events.run())
            await self._retry(self._register, "node not registered")
            self._registered.set()
            tasks.create_task(informer.run())
            tasks.create_task(self._beat())

    # --- Pods -----------------------------------------------------------------------------------

    def _on_event(self, event: ObjectEvent, context: NodeContext, tasks: asyncio.TaskGroup) -> None:
        pod = codec.decode(Pod, event.object.data)
        if isinstance(event, Deleted):
            self._on_gone(pod.uid)
            return
        if pod.uid in self._ended:
            return  # nothing of it is here; only its finalizers keep it
        for uid, worker in self._workers.items():
            if worker.pod.key == pod.key and uid != pod.uid:
                worker.delete(0)  # replaced while nobody watched
        if pod.uid not in self._workers:
            address = self._addresses.assign(pod)
            worker = PodWorker(pod, self._pods_directory / pod.uid, context, address)
            self._workers[pod.uid] = worker
            tasks.create_task(self._run_worker(worker))
        self._workers[pod.uid].update(pod)

    def _on_gone(self, uid: str) -> None:
        self._ended.discard(uid)
        worker = self._workers.get(uid)
        if worker is not None:
            worker.delete(0)

    async def _run_worker(self, worker: PodWorker) -> None:
        try:
            await worker.run()
            self._ended.add(worker.uid)
        except Exception:  # noqa: BLE001 - one Pod must not end the others
            _log.exception("pod worker failed", pod=str(worker.pod.key))
        finally:
            self._workers.pop(worker.uid, None)
            self._addresses.release(worker.uid)

    def _context(self, isolation: Isolation, events: EventRecorder) -> NodeContext:
        variables: dict[str, str] = {}
        if self._options.api_server is not None:
            host, port = self._options.api_server
            variables = {
                "KUBERNETES_SERVICE_HOST": host,
                "KUBERNETES_SERVICE_PORT": str(port),
                "KUBERNETES_SERVICE_PORT_HTTPS": str(port),
            }
        return NodeContext(
            client=self._client,
            events=events,
            images=self._options.images,
            machine=Machine(isolation, self._options.state_directory.resolve()),
            allocatable=self._capacity(),
            claims=self._options.claims,
            service_variables=variables,
            volume_refresh_seconds=self._options.volume_refresh_seconds,
            clock=self._clock,
        )

    # --- the Node and its Lease -----------------------------------------------------------------

    async def _register(self) -> None:
        name = self._options.name
        labels = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": _architecture(),
            **self._options.labels,
        }
        node = Node.new(name, labels=labels, spec={"taints": [*self._options.taints]})
        try:
            await self._client.create(node)
        except AlreadyExistsError:
            await self._client.patch(Node, node.key, {"metadata": {"labels": labels}})
        await self._write_status()

    async def _write_status(self) -> None:
        now = timestamp(self._clock.now())
        status: dict[str, Any] = {
            "capacity": self._capacity(),
            "allocatable": self._capacity(),
            "addresses": [
                {"type": "InternalIP", "address": _HOST},
                {"type": "Hostname", "address": self._options.name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._port}},
            "nodeInfo": _node_info(),
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "KubeletReady",
                    "message": "the node agent is ready",
                    "lastHeartbeatTime": now,
                    "lastTransitionTime": now,
                }
            ],
        }
        key = ObjectKey("", self._options.name)
        node = await self._client.get(Node, key)
        for condition in node.status.get("conditions") or ():
            if condition["type"] == "Ready" and condition["status"] == "True":
                status["conditions"][0]["lastTransitionTime"] = condition["lastTransitionTime"]
        await self._client.patch(Node, key, {"status": status}, subresource="status")

    async def _beat(self) -> None:
        """Renew the Lease, and now and then the Node's status."""
        written = self._clock.monotonic()
        while True:
            await self._retry(self._renew_lease, "node lease not renewed")
            await asyncio.sleep(_HEARTBEAT_SECONDS)
            if self._clock.monotonic() - written >= _STATUS_EVERY_SECONDS:
                written = self._clock.monotonic()
                await self._retry(self._register, "node status not written")
            else:
                await self._retry(self._stay_ready, "node not looked at")

    async def _stay_ready(self) -> None:
        """Take back what was written of the node while its Lease could not be renewed."""
        node = await self._client.find(Node, ObjectKey("", self._options.name))
        ready = {"type": "Ready", "status": "True"}
        conditions = () if node is None else node.status.get("conditions") or ()
        if not any(ready.items() <= condition.items() for condition in conditions):
            await self._register()

    async def _renew_lease(self) -> None:
        key = ObjectKey(LEASE_NAMESPACE, self._options.name)
        spec = {
            "holderIdentity": self._options.name,
            "leaseDurationSeconds": _LEASE_SECONDS,
            "renewTime": self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
        try:
            await self._client.patch(Lease, key, {"spec": spec})
        except NotFoundError:
            await self._register()  # the Lease may have gone with its Node
            node = await self._client.get(Node, ObjectKey("", self._options.name))
            owner = {"apiVersion": "v1", "kind": "Node", "name": node.key.name, "uid": node.uid}
            lease = Lease.new(key.name, namespace=key.namespace, spec=spec).to_dict()
            lease["metadata"]["ownerReferences"] = [owner]
            with contextlib.suppress(AlreadyExistsError):
                await self._client.create(lease, kind=Lease.resource_type)

    async def _retry(self, write: Any, complaint: str) -> None:
        while True:
            try:
                await write()
            except ConflictError:
                continue
            except ClientError as error:
                _log.warning(complaint, node=self._options.name, error=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return

    def _capacity(self) -> dict[str, str]:
        return {**machine_capacity(), **self._options.capacity}

    # --- this machine ---------------------------------------------------------------------------

    @contextlib.contextmanager
    def _state_directory(self) -> Any:
        directory = self._options.state_directory
        is_new = not directory.exists()
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o711)
        lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StateDirectoryInUseError(
                    f"state directory {directory}: another node agent works in it"
                ) from None
            end_leftovers(self._pods_directory)
            remove_tree(self._pods_directory)
            self._pods_directory.mkdir(mode=0o711)
            try:
                yield
            finally:
                remove_tree(self._pods_directory)
        finally:
            os.close(lock)
            if is_new:
                with contextlib.suppress(OSError):
                    directory.rmdir()

    @asynccontextmanager
    async def _serving(self) -> AsyncGenerator[None]:
        if self._options.serving is None:
            yield
            return
        server = KubeletServer(self._options.serving, self._find_log, self._clock)
        async with server.serving(_HOST, self._options.port) as port:
            self._port = port
            yield

    def _find_log(self, namespace: str, pod: str, container: str, previous: bool) -> ContainerLog:
        key = ObjectKey(namespace, pod)
        worker = next((w for w in self._workers.values() if w.pod.key == key), None)
        if worker is None:
            raise NoSuchLogError(f'pod "{pod}" in namespace "{namespace}" does not run here')
        runner = worker.runner(container)
        if runner is None:
            raise NoSuchLogError(f'container "{container}" is not in pod "{pod}"')
        path = runner.log_path(previous=previous)
        if previous and not path.exists():
            text = f'previous terminated container "{container}" in pod "{pod}" not found'
            raise NoSuchLogError(text)
        state = runner.status.state
        if runner.log is None and isinstance(state, Waiting):
            text = f'container "{container}" in pod "{pod}" is waiting to start: {state.reason}'
            raise NotStartedError(text)
        return ContainerLog(path, None if previous else runner.log)


def _architecture() -> str:
    machine = platform.machine()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


def _node_info() -> dict[str, str]:
    return {
        "architecture": _architecture(),
        "operatingSystem": "linux",
        "kernelVersion": platform.release(),
        "osImage": "local processes",
        "containerRuntimeVersion": "local://1",
        "kubeletVersion": "v1.37.2-local",
        "kubeProxyVersion": "",
        "machineID": "",
        "systemUUID": "",
        "bootID": "",
    }
