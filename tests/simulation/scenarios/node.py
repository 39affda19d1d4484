"""A node and its publishers: what becomes of the two containers of an execution's Pod."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from dynamo_operator.api.labels import GROUP, REQUEST_GENERATION_LABEL, RUN_UID_LABEL
from dynamo_operator.api.planner_contract import PLANNER_CONTAINER
from dynamo_operator.api.publisher_contract import (
    PUBLISHER_CONTAINER,
    PUBLISHER_FIELD_MANAGER,
    PublisherExit,
)
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentCandidate, DynamoGraphDeploymentRun
from dynamo_operator.runtime.builtin_kinds import Node, Pod
from dynamo_operator.runtime.client.errors import ApiError, ConflictError, NotFoundError
from dynamo_operator.simulation.world import World
from tests.simulation.scenarios.acting import Commits

PODS = ("", "pods")
RUNS = (GROUP, "dynamographdeploymentruns")
NAME = "gpu-1"

_ROOM = {"cpu": "640", "memory": "4Ti", "pods": "1000", "ephemeral-storage": "40Ti"}
_GPUS = {
    "nvidia.com/gpu.product": "NVIDIA-H200",
    "nvidia.com/gpu.count": "8",
    "nvidia.com/gpu.memory": "143771",
}
_PLANNER_EXITS = (0, 0, 0, 1, 2, 137)
_PUBLISHER_EXITS = (*(PublisherExit.ACKNOWLEDGED,) * 4, *PublisherExit, 137)


async def register(world: World) -> None:
    """Announce the node, ready and with room."""
    node = await world.client.create(Node.new(NAME, labels=_GPUS))
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    status = {"conditions": [ready], "allocatable": _ROOM, "capacity": _ROOM}
    await world.client.patch(Node, node.key, {"status": status}, subresource="status")


@dataclass(frozen=True, slots=True)
class Kubelet:
    """Lets each Pod that is bound to the node go on, one step every so many seconds.

    Args:
        step_seconds: between two steps.
        at_random: whether containers end as the run's random numbers have it, rather than well and
            with one Candidate.
        endless: generation of the Request whose search goes on until somebody stops it, or faults
            have ended; 0: none.
    """

    step_seconds: float = 1.0
    at_random: bool = False
    endless: int = 0

    async def act(self, world: World) -> None:
        """Work until cancelled."""
        commits, stopped = Commits(world, PODS), set[str]()
        while True:
            await asyncio.sleep(self.step_seconds)
            if not await self._step(world, stopped):
                await commits.wait()

    async def _step(self, world: World, stopped: set[str]) -> bool:
        pods = [
            Pod.model_validate(obj)
            for _, obj in sorted(world.history.objects(PODS).items())
            if _can_go_on(obj, stopped)
        ]
        for pod in pods:
            with suppress(ConflictError, NotFoundError):  # it was deleted or changed just now
                await self._advance(world, pod, stopped)
        return bool(pods)

    async def _advance(self, world: World, pod: Pod, stopped: set[str]) -> None:
        if pod.is_deleting:
            await world.client.delete(Pod, pod.key, uid=pod.uid, grace_period_seconds=0)
            stopped.add(pod.uid)
            return
        states = _states(pod)
        if not states:
            started = {"running": {"startedAt": _now(world)}}
            await _report(world, pod, {PLANNER_CONTAINER: started, PUBLISHER_CONTAINER: started})
        elif self._is_endless(world, pod):
            return
        elif "running" in states[PLANNER_CONTAINER]:
            if self._publishes(world, pod):
                await _publish(world, pod)
            else:
                code = world.random.choice(_PLANNER_EXITS) if self.at_random else 0
                await _report(world, pod, states | {PLANNER_CONTAINER: _ended(world, code)})
        else:
            code = PublisherExit.ACKNOWLEDGED
            if self.at_random:
                code = world.random.choice(_PUBLISHER_EXITS)
            await _report(world, pod, states | {PUBLISHER_CONTAINER: _ended(world, int(code))})

    def _is_endless(self, world: World, pod: Pod) -> bool:
        run = _run_of(world, pod) if world.phase == "safety" else None
        return run is not None and run.labels[REQUEST_GENERATION_LABEL] == str(self.endless)

    def _publishes(self, world: World, pod: Pod) -> bool:
        if self.at_random:
            return world.random.random() < 0.5
        run = _run_of(world, pod)
        return run is not None and not run.status.candidate_refs


def _can_go_on(obj: dict[str, Any], stopped: set[str]) -> bool:
    if obj["spec"].get("nodeName") != NAME or obj["metadata"]["uid"] in stopped:
        return False
    is_over = (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return "deletionTimestamp" in obj["metadata"] or not is_over


def _run_of(world: World, pod: Pod) -> DynamoGraphDeploymentRun | None:
    wanted = pod.labels.get(RUN_UID_LABEL)
    for obj in world.history.objects(RUNS).values():
        if obj["metadata"]["uid"] == wanted:
            run = DynamoGraphDeploymentRun.model_validate(obj)
            return None if run.is_terminal else run
    return None


async def _publish(world: World, pod: Pod) -> None:
    """Publish one more Candidate, as the publisher does: the object, then the Run's status."""
    run = _run_of(world, pod)
    if run is None:
        return
    publisher = world.client.with_field_manager(PUBLISHER_FIELD_MANAGER)
    refs = [{"name": ref.name} for ref in run.status.candidate_refs]
    name = f"{run.key.name}-{len(refs)}"
    candidate = DynamoGraphDeploymentCandidate.new(
        name, namespace=run.key.namespace, spec={"parameters": {"backend": "vllm"}}
    )
    status = {
        "candidateRefs": [*refs, {"name": name}],
        "progress": {"round": len(refs) + 1, "evaluated": 10, "published": len(refs) + 1},
    }
    with suppress(ApiError):  # it is there already, or the Run is not any more
        await publisher.create(candidate, owner=run)
        await publisher.apply_status(run, status)


async def _report(world: World, pod: Pod, states: dict[str, Any]) -> None:
    codes = [s["terminated"]["exitCode"] for s in states.values() if "terminated" in s]
    phase = "Running"
    if len(codes) == len(states):
        phase = "Failed" if any(codes) else "Succeeded"
    statuses = [
        {"name": n, "state": s, "image": "i", "imageID": "", "ready": False, "restartCount": 0}
        for n, s in states.items()
    ]
    status = {
        "phase": phase,
        "startTime": pod.status.get("startTime") or _now(world),
        "containerStatuses": statuses,
    }
    await world.client.patch(Pod, pod.key, {"status": status}, subresource="status")


def _ended(world: World, code: int) -> dict[str, Any]:
    reason = "Error" if code else "Completed"
    return {"terminated": {"exitCode": code, "reason": reason, "finishedAt": _now(world)}}


def _now(world: World) -> str:
    return world.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")


def _states(pod: Pod) -> dict[str, Any]:
    return {s["name"]: s["state"] for s in pod.status.get("containerStatuses") or ()}
