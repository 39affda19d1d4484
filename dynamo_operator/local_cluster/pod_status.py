"""A Pod's status from the states of its containers, in the kubelet's words. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

HOST_IP = "127.0.0.1"


def timestamp(time: datetime) -> str:
    """A time as `metav1.Time` on the wire."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True)
class Waiting:
    """The container does not run yet, or not again yet."""

    reason: str
    message: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As one of `state`'s members."""
        return {"waiting": _without_empty(reason=self.reason, message=self.message)}


@dataclass(frozen=True, slots=True)
class Running:
    """The container runs."""

    started_at: datetime

    def to_dict(self) -> dict[str, Any]:
        """As one of `state`'s members."""
        return {"running": {"startedAt": timestamp(self.started_at)}}


@dataclass(frozen=True, slots=True)
class Terminated:
    """The container ran and ended."""

    exit_code: int
    reason: str
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    container_id: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As one of `state`'s members."""
        fields = _without_empty(
            reason=self.reason,
            message=self.message,
            startedAt=timestamp(self.started_at) if self.started_at else "",
            finishedAt=timestamp(self.finished_at) if self.finished_at else "",
            containerID=self.container_id,
        )
        return {"terminated": {"exitCode": self.exit_code, **fields}}


@dataclass(slots=True)
class ContainerStatus:
    """What is known of one container; changed by its runner only."""

    name: str
    image: str
    state: Waiting | Running | Terminated = field(
        default_factory=lambda: Waiting("ContainerCreating")
    )
    last_state: Terminated | None = None
    restart_count: int = 0
    ready: bool = False
    started: bool = False
    container_id: str = ""
    is_sidecar: bool = False

    @property
    def exit_code(self) -> int | None:
        """The exit code, when it has ended and is not to run again."""
        return self.state.exit_code if isinstance(self.state, Terminated) else None

    @property
    def is_initialized(self) -> bool:
        """Whether the containers after this init container may start."""
        return self.started if self.is_sidecar else self.exit_code == 0

    def to_dict(self) -> dict[str, Any]:
        """As an entry of `containerStatuses`."""
        return {
            "name": self.name,
            "image": self.image,
            "imageID": self.image,
            "state": self.state.to_dict(),
            "lastState": self.last_state.to_dict() if self.last_state else {},
            "ready": self.ready,
            "started": self.started,
            "restartCount": self.restart_count,
            **({"containerID": self.container_id} if self.container_id else {}),
        }


@dataclass(frozen=True, slots=True)
class PodFailure:
    """Why a Pod as a whole failed, whatever its containers say."""

    reason: str
    message: str


def compute_status(
    pod: Mapping[str, Any],
    init: Sequence[ContainerStatus],
    main: Sequence[ContainerStatus],
    *,
    start_time: datetime,
    now: datetime,
    failure: PodFailure | None = None,
    is_stopped: bool = False,
    pod_ip: str = HOST_IP,
) -> dict[str, Any]:
    """Compute the status to write.

    Args:
        pod: the Pod as last read; conditions of others are kept.
        init: its init containers.
        main: its containers.
        start_time: when the agent took the Pod.
        now: for conditions that change.
        failure: set when the Pod failed as a whole.
        is_stopped: whether nothing will be started any more.
        pod_ip: the Pod's address.
    """
    phase = compute_phase(pod, init, main, is_stopped=is_stopped)
    if failure and not any(isinstance(s.state, Running) for s in (*init, *main)):
        phase = "Failed"
    status: dict[str, Any] = {
        "phase": phase,
        "hostIP": HOST_IP,
        "hostIPs": [{"ip": HOST_IP}],
        "podIP": pod_ip,
        "podIPs": [{"ip": pod_ip}],
        "startTime": timestamp(start_time),
        # By name: `kubectl get` shows the state of the first that does not run.
        "containerStatuses": [s.to_dict() for s in sorted(main, key=lambda s: s.name)],
        "conditions": _conditions(pod, _wanted_conditions(phase, init, main), now),
    }
    if init:
        status["initContainerStatuses"] = [status.to_dict() for status in init]
    if failure and phase == "Failed":
        status |= {"reason": failure.reason, "message": failure.message}
    return status


def compute_phase(
    pod: Mapping[str, Any],
    init: Sequence[ContainerStatus],
    main: Sequence[ContainerStatus],
    *,
    is_stopped: bool = False,
) -> str:
    """Pending, Running, Succeeded or Failed."""
    policy = pod["spec"].get("restartPolicy", "Always")
    restarts_failures = policy != "Never" and not is_stopped
    began = any(not isinstance(s.state, Waiting) or s.last_state is not None for s in main)
    if not began and not all(status.is_initialized for status in init):
        failed = any(s.exit_code not in (None, 0) and not s.is_sidecar for s in init)
        return "Failed" if failed and not restarts_failures else "Pending"
    codes = [status.exit_code for status in main]
    if all(code is not None for code in codes):
        if any(isinstance(s.state, Running) for s in init):
            return "Running"  # a sidecar is about to be stopped
        failed = any(codes)
        if policy != "Always" or is_stopped:
            if not failed:
                return "Succeeded"
            if not restarts_failures:
                return "Failed"
        return "Running"
    has_unstarted = any(isinstance(s.state, Waiting) and s.last_state is None for s in main)
    return "Running" if began and not has_unstarted else "Pending"


def _wanted_conditions(
    phase: str, init: Sequence[ContainerStatus], main: Sequence[ContainerStatus]
) -> list[dict[str, str]]:
    uninitialized = [status.name for status in init if not status.is_initialized]
    initialized = not uninitialized or phase in ("Running", "Succeeded")
    unready = [s.name for s in [*init, *main] if not s.ready and (s.is_sidecar or s in main)]
    if phase == "Succeeded":
        not_ready = {"reason": "PodCompleted"}
    elif phase == "Failed":
        not_ready = {"reason": "PodFailed"}
    else:
        not_ready = {
            "reason": "ContainersNotReady",
            "message": f"containers with unready status: [{' '.join(unready)}]",
        }
    is_ready = not unready and phase == "Running" and initialized
    ready = {"status": "True"} if is_ready else {"status": "False", **not_ready}
    return [
        {"type": "PodReadyToStartContainers", "status": _bool(phase in ("Pending", "Running"))},
        {"type": "Initialized", "status": "True"}
        if initialized
        else {
            "type": "Initialized",
            "status": "False",
            "reason": "ContainersNotInitialized",
            "message": f"containers with incomplete status: [{' '.join(uninitialized)}]",
        },
        {"type": "Ready", **ready},
        {"type": "ContainersReady", **ready},
    ]


def _conditions(
    pod: Mapping[str, Any], wanted: Sequence[Mapping[str, str]], now: datetime
) -> list[dict[str, Any]]:
    """Put the wanted conditions among those that others wrote."""
    present = {c["type"]: c for c in (pod.get("status") or {}).get("conditions") or ()}
    for condition in wanted:
        old = present.get(condition["type"])
        changed = old is None or old.get("status") != condition["status"]
        since = timestamp(now) if changed or old is None else old.get("lastTransitionTime")
        present[condition["type"]] = {
            **condition,
            "lastProbeTime": None,
            "lastTransitionTime": since,
        }
    return list(present.values())


def _bool(value: bool) -> str:
    return "True" if value else "False"


def _without_empty(**fields: str) -> dict[str, str]:
    return {name: value for name, value in fields.items() if value}


def state_from(entry: Mapping[str, Any]) -> Terminated | None:
    """What an entry of `containerStatuses` says of a container that has ended, else None."""
    ended = (entry.get("state") or {}).get("terminated")
    if ended is None:
        return None
    return Terminated(
        exit_code=ended.get("exitCode", 0),
        reason=ended.get("reason", ""),
        message=ended.get("message", ""),
        started_at=parse_time(ended.get("startedAt")),
        finished_at=parse_time(ended.get("finishedAt")),
        container_id=ended.get("containerID", ""),
    )


def parse_time(text: str | None) -> datetime | None:
    """Read a `metav1.Time`; None for none."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None
