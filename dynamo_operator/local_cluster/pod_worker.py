"""One Pod on this node, from being bound to being gone.

    set up volumes -> init containers, one by one -> containers -> Succeeded | Failed
    deletion asked for, from anywhere above: stop containers -> last status -> delete the object

One task a Pod. Its status is written by one writer, which coalesces changes and never writes to
another instance of the same name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import structlog

from dynamo_operator.local_cluster.container_environment import (
    decoded_data,
    resolve_variables,
)
from dynamo_operator.local_cluster.container_process import Launch
from dynamo_operator.local_cluster.container_runner import ContainerRunner, RunnerContext
from dynamo_operator.local_cluster.images import ImageEnvironment, ImageMap
from dynamo_operator.local_cluster.mounts import Machine, UntruePathError, plan_launch
from dynamo_operator.local_cluster.pod_status import (
    ContainerStatus,
    PodFailure,
    Terminated,
    compute_status,
    parse_time,
    state_from,
)
from dynamo_operator.local_cluster.status_writer import StatusWriter
from dynamo_operator.local_cluster.volumes import (
    PodVolumes,
    Token,
    VolumeError,
    VolumeSources,
    remove_tree,
)
from dynamo_operator.runtime.builtin_kinds import ConfigMap, Pod, Secret
from dynamo_operator.runtime.client import codec
from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.errors import (
    ClientError,
    ConflictError,
    NotFoundError,
)
from dynamo_operator.runtime.event_recorder import EventRecorder
from informers.clock import Clock
from informers.objects import ObjectKey

_DEFAULT_GRACE_SECONDS = 30.0
_VOLUME_RETRY_SECONDS = 2.0
_WRITE_RETRY_SECONDS = 1.0
_DATA_KINDS: Mapping[str, type[ConfigMap] | type[Secret]] = {
    "ConfigMap": ConfigMap,
    "Secret": Secret,
}

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class NodeContext:
    """What all Pods of a node share.

    Args:
        client: writes statuses, reads what Pods need.
        events: records Events.
        images: what plays images.
        machine: what containers are kept apart from.
        allocatable: what the node has.
        claims: directories that play PersistentVolumeClaims, by `namespace/name`.
        service_variables: `KUBERNETES_SERVICE_HOST` and its kin.
        volume_refresh_seconds: how often written volumes are brought up to date.
        clock: times.
    """

    client: Client
    events: EventRecorder
    images: ImageMap
    machine: Machine
    allocatable: Mapping[str, str]
    claims: Mapping[str, Path]
    service_variables: Mapping[str, str]
    volume_refresh_seconds: float
    clock: Clock


class PodWorker:
    """Runs one Pod; `run` returns when the Pod is gone from this node."""

    def __init__(self, pod: Pod, directory: Path, node: NodeContext, address: str) -> None:
        self._pod = pod
        self._address = address
        self._directory = directory
        self._node = node
        self._deleted = asyncio.Event()
        self._hastened = asyncio.Event()
        self._grace_seconds: float | None = None
        self._stopping = asyncio.Event()
        self._failure: PodFailure | None = None
        self._refused: set[str] = set()  # ephemeral containers
        status = pod.status
        self._was_over = status.get("phase") in ("Succeeded", "Failed")  # before this agent came
        self._start_time = parse_time(status.get("startTime")) or node.clock.now()
        self._volumes = PodVolumes(
            directory / "volumes",
            VolumeSources(self._read_data, self._request_token, node.allocatable, node.claims),
            node.clock,
        )
        self._immutable_data: dict[tuple[str, str], Mapping[str, bytes]] = {}
        context = self._runner_context()
        self._init = [self._runner(c, context, is_init=True) for c in self._containers("init")]
        self._main = [self._runner(c, context) for c in self._containers("")]
        self._writer = StatusWriter(pod, self._compute_status, node.client)

    @property
    def uid(self) -> str:
        """The Pod's UID."""
        return self._pod.uid

    @property
    def pod(self) -> Pod:
        """The Pod as last seen."""
        return self._pod

    def update(self, pod: Pod) -> None:
        """Take note of a newer version of the Pod."""
        self._pod = pod
        self._refuse_ephemeral_containers()
        self._writer.observe(pod)
        if pod.is_deleting:
            grace = pod.to_dict()["metadata"].get("deletionGracePeriodSeconds")
            self.delete(self._own_grace() if grace is None else float(grace))

    def _refuse_ephemeral_containers(self) -> None:
        """Say of each once that it will not run, rather than let whoever debugs wait for it."""
        for container in self._pod.spec.get("ephemeralContainers") or ():
            name = container["name"]
            if name not in self._refused:
                self._refused.add(name)
                note = f"ephemeral container {name}: this node runs none"
                self._record("Warning", "Unsupported", note)

    def delete(self, grace_seconds: float) -> None:
        """End the Pod; the containers get that much time."""
        if self._grace_seconds is None or grace_seconds < self._grace_seconds:
            self._grace_seconds = grace_seconds
            self._hastened.set()
        self._deleted.set()

    def runner(self, container: str) -> ContainerRunner | None:
        """The runner of a container, by name."""
        runners = [*self._init, *self._main]
        return next((r for r in runners if r.status.name == container), None)

    async def run(self) -> None:
        """Run the Pod until it is deleted. Cancelling kills its processes."""
        try:
            async with asyncio.TaskGroup() as tasks:
                writing = tasks.create_task(self._writer.run())
                living = tasks.create_task(self._live_until_over())
                await self._deleted.wait()
                await self._stop_in_time()
                await living
                await self._writer.flush()
                writing.cancel()
        finally:
            remove_tree(self._directory)
        await self._delete_object()

    # --- the Pod's life -------------------------------------------------------------------------

    async def _live_until_over(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            beside = [
                tasks.create_task(self._refresh_volumes()),
                tasks.create_task(self._fail_at_deadline()),
            ]
            await self._live()
            for task in beside:
                task.cancel()
        self._volumes.remove()
        self._writer.changed()

    async def _live(self) -> None:
        if self._was_over:
            self._stopping.set()
            self._restore()
            return
        self._restore()
        self._writer.changed()
        if not await self._set_up_volumes():
            return
        async with asyncio.TaskGroup() as sidecars:
            if await self._initialize(sidecars) and not self._stopping.is_set():
                async with asyncio.TaskGroup() as containers:
                    for runner in self._main:
                        if self._may_run(runner):
                            containers.create_task(runner.run())
            for runner in reversed(self._init):
                await runner.stop()

    async def _initialize(self, sidecars: asyncio.TaskGroup) -> bool:
        for runner in self._init:
            if runner.status.is_sidecar:
                sidecars.create_task(runner.run())
                await self._unless_stopping(runner.wait_started())
            elif runner.status.exit_code != 0:
                await runner.run()
                if runner.status.exit_code != 0:
                    return False
            if self._stopping.is_set():
                return False
        return True

    def _may_run(self, runner: ContainerRunner) -> bool:
        """Whether a container may run, given what an earlier agent saw of it."""
        code = runner.status.exit_code
        if code is None:
            return True
        policy = self._restart_policy()
        return policy == "Always" or (policy == "OnFailure" and code != 0)

    async def _set_up_volumes(self) -> bool:
        reported = ""
        while not self._stopping.is_set():
            try:
                await self._volumes.set_up(self._pod.to_dict())
            except (VolumeError, ClientError) as error:
                if str(error) != reported:
                    reported = str(error)
                    note = f"MountVolume.SetUp failed for {error}"
                    self._record("Warning", "FailedMount", note)
                await self._unless_stopping(asyncio.sleep(_VOLUME_RETRY_SECONDS))
            else:
                return True
        return False

    async def _refresh_volumes(self) -> None:
        while True:
            await asyncio.sleep(self._node.volume_refresh_seconds)
            if self._stopping.is_set() or not self._volumes_are_set_up():
                continue
            try:
                await self._volumes.refresh(self._pod.to_dict())
            except (VolumeError, ClientError) as error:
                _log.warning("volume not refreshed", pod=str(self._pod.key), error=str(error))

    def _volumes_are_set_up(self) -> bool:
        return any(not _is_waiting(r.status) for r in [*self._init, *self._main])

    async def _fail_at_deadline(self) -> None:
        seconds = self._pod.spec.get("activeDeadlineSeconds")
        if seconds is None:
            return
        elapsed = (self._node.clock.now() - self._start_time).total_seconds()
        await asyncio.sleep(max(seconds - elapsed, 0))
        if not self._is_over():
            note = "Pod was active on the node longer than the specified deadline"
            self._record("Normal", "DeadlineExceeded", note)
            await self._fail(PodFailure("DeadlineExceeded", note))

    async def _fail(self, failure: PodFailure) -> None:
        self._failure = failure
        await self._stop(self._own_grace())
        self._writer.changed()

    def _is_over(self) -> bool:
        return self._compute_status(self._pod)["phase"] in ("Succeeded", "Failed")

    async def _stop(self, grace_seconds: float) -> None:
        """Stop every container; main ones first, sidecars after them."""
        self._stopping.set()
        for runners in (self._main, self._init):
            async with asyncio.TaskGroup() as tasks:
                for runner in runners:
                    tasks.create_task(runner.stop(grace_seconds))

    async def _stop_in_time(self) -> None:
        """Stop within the grace period, which may be cut short meanwhile."""
        async with asyncio.TaskGroup() as tasks:
            self._hastened.clear()
            stopping = tasks.create_task(self._stop(self._grace_seconds or 0))
            hastening = tasks.create_task(self._stop_sooner())
            await stopping
            hastening.cancel()

    async def _stop_sooner(self) -> None:
        while True:
            await self._hastened.wait()
            self._hastened.clear()
            await self._stop(self._grace_seconds or 0)

    async def _unless_stopping(self, event: Coroutine[Any, Any, object]) -> None:
        """Wait for something, or for the Pod's end."""
        async with asyncio.TaskGroup() as tasks:
            waits = [tasks.create_task(event), tasks.create_task(self._stopping.wait())]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()

    async def _delete_object(self) -> None:
        """Tell the API server that nothing is left of the Pod here."""
        while True:
            try:
                await self._node.client.delete(
                    Pod, self._pod.key, uid=self._pod.uid, grace_period_seconds=0
                )
            except (NotFoundError, ConflictError):
                return
            except ClientError as error:
                _log.warning("pod not deleted", pod=str(self._pod.key), error=str(error))
                await asyncio.sleep(_WRITE_RETRY_SECONDS)
            else:
                return

    # --- what an earlier agent left -------------------------------------------------------------

    def _restore(self) -> None:
        """Say of each container that an earlier agent ran how it ended: with that agent."""
        known = {
            entry["name"]: entry
            for part in ("initContainerStatuses", "containerStatuses")
            for entry in self._pod.status.get(part) or ()
        }
        for runner in [*self._init, *self._main]:
            if entry := known.get(runner.status.name):
                self._restore_one(runner, entry)

    def _restore_one(self, runner: ContainerRunner, entry: Mapping[str, Any]) -> None:
        ended = state_from(entry)
        running = (entry.get("state") or {}).get("running")
        last = state_from({"state": entry.get("lastState")})
        if ended is None and running is not None:
            ended = Terminated(
                137,
                "ContainerStatusUnknown",
                "The container's processes ended with the node agent that ran them",
                parse_time(running.get("startedAt")),
                self._node.clock.now(),
                entry.get("containerID", ""),
            )
        status = ContainerStatus(
            name=runner.status.name,
            image=runner.status.image,
            last_state=last,
            restart_count=entry.get("restartCount", 0),
        )
        if ended is not None:
            status.state = ended
            if self._restart_policy() == "Always" or (
                self._restart_policy() == "OnFailure" and ended.exit_code != 0
            ):
                status.last_state = ended
        runner.resume(status)

    # --- what containers are made of ------------------------------------------------------------

    def _containers(self, kind: Literal["init", ""]) -> list[dict[str, Any]]:
        return list(self._pod.spec.get(f"{kind}Containers" if kind else "containers") or ())

    def _runner(
        self, container: Mapping[str, Any], context: RunnerContext, *, is_init: bool = False
    ) -> ContainerRunner:
        policy = self._restart_policy()
        is_sidecar = is_init and container.get("restartPolicy") == "Always"
        if is_sidecar:
            policy = "Always"
        elif is_init and policy == "Always":
            policy = "OnFailure"
        directory = self._directory / "containers" / container["name"]
        return ContainerRunner(container, directory, policy, context, is_sidecar=is_sidecar)

    def _restart_policy(self) -> Literal["Always", "OnFailure", "Never"]:
        policy: Literal["Always", "OnFailure", "Never"]
        policy = self._pod.spec.get("restartPolicy", "Always")
        return policy

    def _runner_context(self) -> RunnerContext:
        key = self._pod.key
        return RunnerContext(
            pod_name=f"{key.name}_{key.namespace}({self._pod.uid})",
            images=self._node.images,
            make_launch=self._make_launch,
            record=self._record,
            changed=lambda: self._writer.changed(),
            clock=self._node.clock,
            grace_seconds=self._own_grace(),
            address=self._address,
        )

    def _own_grace(self) -> float:
        return float(self._pod.spec.get("terminationGracePeriodSeconds", _DEFAULT_GRACE_SECONDS))

    async def _make_launch(self, container: Mapping[str, Any], image: ImageEnvironment) -> Launch:
        pod = self._pod.to_dict()
        # Its status may not say yet what its containers are to know.
        addresses = {"podIP": self._address, "podIPs": [{"ip": self._address}]}
        pod["status"] = {**(pod.get("status") or {}), **addresses}
        base = {
            **image.variables(),
            "HOSTNAME": self._pod.key.name,
            **self._node.service_variables,
        }
        variables = await resolve_variables(
            pod,
            container,
            base=base,
            read=self._read_data,
            allocatable=self._node.allocatable,
        )
        try:
            return plan_launch(
                pod,
                container,
                image=image,
                variables=variables,
                volumes=self._volumes,
                directory=self._directory / "containers" / container["name"],
                machine=self._node.machine,
            )
        except UntruePathError as error:  # no later attempt can go better
            await self._fail(PodFailure("MountPathsNotSupported", str(error)))
            raise

    async def _read_data(self, kind: str, name: str) -> Mapping[str, bytes] | None:
        if (kept := self._immutable_data.get((kind, name))) is not None:
            return kept
        key = ObjectKey(self._pod.key.namespace, name)
        obj = await self._node.client.find(_DATA_KINDS[kind], key)
        if obj is None:
            return None
        source = obj.to_dict()
        data = decoded_data(kind, source)
        if source.get("immutable"):
            self._immutable_data[kind, name] = data
        return data

    async def _request_token(self, audience: str, seconds: int) -> Token:
        pod, spec = self._pod, self._pod.spec
        account = spec.get("serviceAccountName") or "default"
        body: dict[str, Any] = {
            "expirationSeconds": seconds,
            "boundObjectRef": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": pod.key.name,
                "uid": pod.uid,
            },
        }
        if audience:
            body["audiences"] = [audience]
        status = await request_token(self._node.client, pod.key.namespace, account, body)
        expires = parse_time(status["expirationTimestamp"]) or self._node.clock.now()
        return Token(status["token"], expires)

    # --- telling --------------------------------------------------------------------------------

    def _record(self, type: Literal["Normal", "Warning"], reason: str, note: str) -> None:
        self._node.events.record(self._pod, type=type, reason=reason, action=reason, note=note)

    def _compute_status(self, pod: Pod) -> dict[str, Any]:
        if self._was_over:
            return dict(pod.status)
        return compute_status(
            pod.to_dict(),
            [runner.status for runner in self._init],
            [runner.status for runner in self._main],
            start_time=self._start_time,
            now=self._node.clock.now(),
            failure=self._failure,
            is_stopped=self._stopping.is_set(),
            pod_ip=self._address,
        )


async def request_token(
    client: Client, namespace: str, account: str, spec: Mapping[str, Any]
) -> dict[str, Any]:
    """Ask for a ServiceAccount token; returns the TokenRequest's status."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    response = await client.request("POST", path, body=codec.encode(body))
    status: dict[str, Any] = codec.decode_json(response.body)["status"]
    return status


def _is_waiting(status: ContainerStatus) -> bool:
    return "waiting" in status.state.to_dict()
