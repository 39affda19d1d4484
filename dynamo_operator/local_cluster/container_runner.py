"""One container of a Pod: starts it, probes it, restarts it as its policy says.

States of a container, as its status shows them:

    Waiting(ContainerCreating) -> Running -> Terminated -> (CrashLoopBackOff -> Running ...)
    Waiting(ErrImagePull <-> ImagePullBackOff | CreateContainerConfigError), tried again

`run` returns when the container will not run again; `stop` brings that about.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dynamo_operator.local_cluster import probes
from dynamo_operator.local_cluster.container_environment import ContainerConfigError
from dynamo_operator.local_cluster.container_process import (
    ContainerProcess,
    Launch,
    StartError,
    run_container,
    run_inside,
)
from dynamo_operator.local_cluster.images import ImageEnvironment, ImageMap, UnknownImageError
from dynamo_operator.local_cluster.logs import LogFile
from dynamo_operator.local_cluster.mounts import termination_log
from dynamo_operator.local_cluster.pod_status import (
    ContainerStatus,
    Running,
    Terminated,
    Waiting,
)
from dynamo_operator.local_cluster.volumes import VolumeError
from informers.clock import Clock

_CONFIG_RETRY_SECONDS = 2.0
_PULL_SECONDS = 1.0
_FIRST_BACKOFF_SECONDS = 10.0
_LONGEST_BACKOFF_SECONDS = 300.0
_BACKOFF_RESET_SECONDS = 600.0
_MESSAGE_BYTES = 4096
_FALLBACK_LINES, _FALLBACK_BYTES = 80, 2048
_START_ERROR_CODE = 128

RestartPolicy = Literal["Always", "OnFailure", "Never"]

# Makes the launch of a container played by an image; may read ConfigMaps and Secrets.
MakeLaunch = Callable[[Mapping[str, Any], ImageEnvironment], Awaitable[Launch]]
# Records an Event about the Pod: type, reason, note.
Record = Callable[[Literal["Normal", "Warning"], str, str], None]


@dataclass(frozen=True, slots=True)
class RunnerContext:
    """What the runners of one Pod share.

    Args:
        pod_name: for messages, as `name_namespace(uid)`.
        images: what plays images.
        make_launch: how a container is started.
        record: records Events about the Pod.
        changed: told that a status changed.
        clock: times.
        grace_seconds: the Pod's termination grace period.
        address: the Pod's, for probes.
    """

    pod_name: str
    images: ImageMap
    make_launch: MakeLaunch
    record: Record
    changed: Callable[[], None]
    clock: Clock
    grace_seconds: float
    address: str = "127.0.0.1"


class ContainerRunner:
    """Runs one container until it will not run again."""

    def __init__(
        self,
        container: Mapping[str, Any],
        directory: Path,
        restart_policy: RestartPolicy,
        context: RunnerContext,
        *,
        is_sidecar: bool = False,
    ) -> None:
        self.container = container
        self.directory = directory
        self.status = ContainerStatus(
            name=container["name"], image=container["image"], is_sidecar=is_sidecar
        )
        self.log: LogFile | None = None
        self._restart_policy = restart_policy
        self._context = context
        self._process: ContainerProcess | None = None
        self._launch: Launch | None = None
        self._stopping = asyncio.Event()
        self._started = asyncio.Event()
        self._backoff = _FIRST_BACKOFF_SECONDS

    async def run(self) -> None:
        """Run the container, again and again where its policy says so."""
        while not self._stopping.is_set():
            launch = await self._prepare()
            if launch is None:
                return
            began = self._context.clock.monotonic()
            code = await self._run_once(launch)
            if self._stopping.is_set() or not self._restarts_after(code):
                return
            if self._context.clock.monotonic() - began > _BACKOFF_RESET_SECONDS:
                self._backoff = _FIRST_BACKOFF_SECONDS
            await self._back_off()

    async def wait_started(self) -> None:
        """Wait until the container was started once and its startup probe succeeded."""
        await self._started.wait()

    async def stop(self, grace_seconds: float | None = None) -> None:
        """End the container for good; returns once none of its processes is left.

        Args:
            grace_seconds: the Pod's own grace period when None; 0 kills at once.
        """
        self._stopping.set()
        await self._stop_process(
            self._context.grace_seconds if grace_seconds is None else grace_seconds
        )

    def log_path(self, *, previous: bool = False) -> Path:
        """The log of the present run, or of the one before."""
        return self.directory / f"{self.status.restart_count - previous}.log"

    def resume(self, status: ContainerStatus) -> None:
        """Take over what an earlier agent said of this container."""
        self.status.last_state = status.last_state
        self.status.restart_count = status.restart_count
        self.status.state = status.state

    # --- starting -------------------------------------------------------------------------------

    async def _prepare(self) -> Launch | None:
        """Retry until the container can be started; None when it is to stop."""
        delay = _FIRST_BACKOFF_SECONDS
        while not self._stopping.is_set():
            try:
                image = self._context.images.resolve(self.container["image"])
                return await self._context.make_launch(self.container, image)
            except UnknownImageError as error:
                await self._wait_for_image(str(error), delay)
            except (ContainerConfigError, VolumeError) as error:
                self._set_state(Waiting("CreateContainerConfigError", str(error)))
                self._context.record("Warning", "Failed", f"Error: {error}")
                await self._pause(_CONFIG_RETRY_SECONDS)
            delay = min(delay * 2, _LONGEST_BACKOFF_SECONDS)
        return None

    async def _wait_for_image(self, message: str, delay: float) -> None:
        image = self.container["image"]
        self._set_state(Waiting("ErrImagePull", message))
        self._context.record("Warning", "Failed", f'Failed to pull image "{image}": {message}')
        await self._pause(_PULL_SECONDS)
        if not self._stopping.is_set():
            text = f'Back-off pulling image "{image}": ErrImagePull: {message}'
            self._set_state(Waiting("ImagePullBackOff", text))
            self._context.record("Normal", "BackOff", f'Back-off pulling image "{image}"')
            await self._pause(delay)

    async def _run_once(self, launch: Launch) -> int:
        if self.status.last_state is not None:
            self.status.restart_count += 1
        self._launch = launch
        self._forget_older_logs()
        self.log = LogFile(self.log_path(), self._context.clock)
        self._make_termination_log()
        image = self.container["image"]
        self._context.record(
            "Normal", "Pulled", f'Container image "{image}" already present on machine'
        )
        began = self._context.clock.now()
        reason, message = "", ""
        probing: list[asyncio.Task[None]] = []
        async with asyncio.TaskGroup() as tasks:

            def started(process: ContainerProcess) -> None:
                self._on_started(process)
                beside = (self._run_post_start(process), self._probe(process))
                probing.extend(map(tasks.create_task, beside))

            try:
                code = await run_container(launch, self.log, started)
                reason = "Completed" if code == 0 else "Error"
                message = self._termination_message(code)
            except StartError as error:
                code, reason, message = _START_ERROR_CODE, "StartError", str(error)
                self._context.record("Warning", "Failed", f"Error: {message}")
            finally:
                self._process = None
                for task in probing:
                    task.cancel()
        self.status.ready = self.status.started = False
        ended = self._context.clock.now()
        self._set_state(Terminated(code, reason, message, began, ended, self.status.container_id))
        return code

    def _on_started(self, process: ContainerProcess) -> None:
        name = self.container["name"]
        self._process = process
        self.status.container_id = f"local://{process.init_pid}-{self.status.restart_count}"
        startup = self.container.get("startupProbe")
        self.status.started = startup is None
        self.status.ready = startup is None and "readinessProbe" not in self.container
        self._set_state(Running(self._context.clock.now()))
        self._context.record("Normal", "Started", f"Container {name} started")
        if startup is None:
            self._started.set()
        if self._stopping.is_set():
            process.kill()

    def _make_termination_log(self) -> None:
        path = termination_log(self.directory)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.touch()
        path.chmod(0o666)

    def _forget_older_logs(self) -> None:
        keep = {self.log_path().name, self.log_path(previous=True).name}
        for log in self.directory.glob("*.log*"):
            if log.name.removesuffix(".1") not in keep:
                log.unlink()

    async def _run_post_start(self, process: ContainerProcess) -> None:
        hook = (self.container.get("lifecycle") or {}).get("postStart") or {}
        if command := (hook.get("exec") or {}).get("command"):
            status = await self._run_inside(process, command, float("inf"))
            if status != 0:
                note = f"PostStartHook failed: status {status}"
                self._context.record("Warning", "FailedPostStartHook", note)
                await self._stop_process(self._context.grace_seconds)

    # --- ending ---------------------------------------------------------------------------------

    async def _stop_process(self, grace_seconds: float) -> None:
        process = self._process
        if process is None or process.has_ended:
            return
        self._context.record("Normal", "Killing", f"Stopping container {self.container['name']}")
        began = self._context.clock.monotonic()
        if grace_seconds > 0:
            await self._run_pre_stop(process, grace_seconds)
        spent = self._context.clock.monotonic() - began
        await process.stop(max(grace_seconds - spent, 0))

    async def _run_pre_stop(self, process: ContainerProcess, grace_seconds: float) -> None:
        hook = (self.container.get("lifecycle") or {}).get("preStop") or {}
        if (command := (hook.get("exec") or {}).get("command")) and self._launch is not None:
            status = await self._run_inside(process, command, grace_seconds)
            if status != 0:
                self._context.record(
                    "Warning", "FailedPreStopHook", f"PreStopHook failed: status {status}"
                )
        elif seconds := (hook.get("sleep") or {}).get("seconds"):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), min(seconds, grace_seconds))

    def _termination_message(self, code: int) -> str:
        path = termination_log(self.directory)
        with contextlib.suppress(OSError):
            text = path.read_bytes()[:_MESSAGE_BYTES].decode(errors="replace")
            if text:
                return text
        policy = self.container.get("terminationMessagePolicy")
        if policy == "FallbackToLogsOnError" and code != 0 and self.log is not None:
            return self.log.tail(lines=_FALLBACK_LINES, limit_bytes=_FALLBACK_BYTES)
        return ""

    def _restarts_after(self, code: int) -> bool:
        if self._restart_policy == "OnFailure":
            return code != 0
        return self._restart_policy == "Always"

    async def _back_off(self) -> None:
        ended = self.status.state
        delay, self._backoff = self._backoff, min(self._backoff * 2, _LONGEST_BACKOFF_SECONDS)
        if isinstance(ended, Terminated):
            self.status.last_state = ended
        name = self.container["name"]
        message = f"back-off {delay:g}s restarting failed container={name} "
        message += f"pod={self._context.pod_name}"
        self._set_state(Waiting("CrashLoopBackOff", message))
        self._context.record("Warning", "BackOff", message)
        await self._pause(delay)
        if self._stopping.is_set() and isinstance(ended, Terminated):
            self._set_state(ended)  # it will not run again: say how it ended

    # --- probing --------------------------------------------------------------------------------

    async def _probe(self, process: ContainerProcess) -> None:
        if startup := self.container.get("startupProbe"):
            await self._watch("startup", startup, process, self._on_startup)
            if not self.status.started:
                return
        async with asyncio.TaskGroup() as tasks:
            if readiness := self.container.get("readinessProbe"):
                tasks.create_task(self._watch("readiness", readiness, process, self._on_readiness))
            if liveness := self.container.get("livenessProbe"):
                tasks.create_task(self._watch("liveness", liveness, process, self._on_liveness))

    async def _watch(
        self,
        kind: str,
        probe: Mapping[str, Any],
        process: ContainerProcess,
        verdict: Callable[[bool], bool],
    ) -> None:
        failed = False

        async def attempt() -> probes.ProbeResult:
            result = await probes.try_probe(
                probe,
                self.container,
                lambda c, t: self._run_inside(process, c, t),
                host=self._context.address,
            )
            if not result.ok:
                note = f"{kind.capitalize()} probe failed: {result.message}"
                self._context.record("Warning", "Unhealthy", note)
            return result

        def report(ok: bool, message: str) -> bool:
            nonlocal failed
            failed = not ok and kind != "readiness"
            return verdict(ok)

        try:
            await probes.watch_probe(probe, attempt, report)
        except probes.UnsupportedProbeError as error:
            self._context.record("Warning", "Unhealthy", f"{kind} {error}")
            return
        if failed:
            name = self.container["name"]
            note = f"Container {name} failed {kind} probe, will be restarted"
            self._context.record("Normal", "Killing", note)
            seconds = probe.get("terminationGracePeriodSeconds", self._context.grace_seconds)
            await self._stop_process(float(seconds))

    def _on_startup(self, ok: bool) -> bool:
        if ok:
            self.status.started = True
            self.status.ready = "readinessProbe" not in self.container
            self._started.set()
            self._context.changed()
        return False

    def _on_readiness(self, ok: bool) -> bool:
        if self.status.ready is not ok:
            self.status.ready = ok
            self._context.changed()
        return True

    def _on_liveness(self, ok: bool) -> bool:
        return ok

    async def _run_inside(
        self, process: ContainerProcess, command: list[str], timeout: float
    ) -> int | None:
        if self._launch is None:
            return 126
        return await run_inside(process, self._launch, command, timeout)

    # --- small things ---------------------------------------------------------------------------

    def _set_state(self, state: Waiting | Running | Terminated) -> None:
        self.status.state = state
        self._context.changed()

    async def _pause(self, seconds: float) -> None:
        """Sleep, unless the container is to stop."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)
