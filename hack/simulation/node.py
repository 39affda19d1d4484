"""A node on which random things happen to the two containers of an execution's Pod."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from dynamo_operator.api.labels import RUN_UID_LABEL
from dynamo_operator.api.planner_contract import PLANNER_CONTAINER
from dynamo_operator.api.publisher_contract import (
    PUBLISHER_CONTAINER,
    PUBLISHER_FIELD_MANAGER,
    PublisherExit,
)
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentCandidate, DynamoGraphDeploymentRun
from dynamo_operator.runtime.builtin_kinds import Node, Pod
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.client.errors import ApiError, ConflictError, NotFoundError
from informers.clock import Clock, Random

_PLANNER_EXITS = (0, 0, 0, 1, 2, 137)
_PUBLISHER_EXITS = (*(PublisherExit.ACKNOWLEDGED,) * 4, *PublisherExit, 137)
_ROOM = {"cpu": "640", "memory": "4Ti", "pods": "1000", "ephemeral-storage": "40Ti"}


class RandomNode:
    """Runs every Pod that is bound to it, one step of one Pod at a time.

    Args:
        client: an administrator's.
        clock: times of what happens.
        random: draws which Pod goes on, and how its containers end.
        name: of the node; its labels announce eight GPUs.
    """

    def __init__(
        self, client: Client, *, clock: Clock, random: Random, name: str = "gpu-1"
    ) -> None:
        self._client = client
        self._publisher = client.with_field_manager(PUBLISHER_FIELD_MANAGER)
        self._clock = clock
        self._random = random
        self._name = name
        self._stopped: set[str] = set()  # UIDs of Pods that only a finalizer still holds

    async def register(self) -> None:
        """Announce the node, ready and with room."""
        labels = {
            "nvidia.com/gpu.product": "NVIDIA-H200",
            "nvidia.com/gpu.count": "8",
            "nvidia.com/gpu.memory": "143771",
        }
        node = await self._client.create(Node.new(self._name, labels=labels))
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
        status = {"conditions": [ready], "allocatable": _ROOM, "capacity": _ROOM}
        await self._client.patch(Node, node.key, {"status": status}, subresource="status")

    async def step(self) -> bool:
        """Let one Pod go on; return whether there was one that could."""
        pods = await self._client.list(Pod)
        able = [pod for pod in pods if self._can_go_on(pod)]
        if not able:
            return False
        with suppress(ConflictError, NotFoundError):  # it was deleted or changed just now
            await self._advance(self._random.choice(able))
        return True

    def _can_go_on(self, pod: Pod) -> bool:
        if pod.spec.get("nodeName") != self._name or pod.uid in self._stopped:
            return False
        return pod.is_deleting or pod.status.get("phase") not in ("Succeeded", "Failed")

    async def _advance(self, pod: Pod) -> None:
        if pod.is_deleting:
            await self._client.delete(Pod, pod.key, uid=pod.uid, grace_period_seconds=0)
            self._stopped.add(pod.uid)
            return
        states = _states(pod)
        if not states:
            started = {"running": {"startedAt": self._now()}}
            await self._report(pod, {PLANNER_CONTAINER: started, PUBLISHER_CONTAINER: started})
        elif "running" in states[PLANNER_CONTAINER]:
            if self._random.random() < 0.5:
                await self._publish(pod)
            else:
                code = self._random.choice(_PLANNER_EXITS)
                await self._report(pod, states | {PLANNER_CONTAINER: self._ended(code)})
        else:
            code = self._random.choice(_PUBLISHER_EXITS)
            await self._report(pod, states | {PUBLISHER_CONTAINER: self._ended(int(code))})

    async def _publish(self, pod: Pod) -> None:
        """Publish one more Candidate, as the publisher does: the object, then the Run's status."""
        wanted = pod.labels.get(RUN_UID_LABEL)
        runs = await self._client.list(DynamoGraphDeploymentRun, namespace=pod.key.namespace)
        run = next((run for run in runs if run.uid == wanted and not run.is_terminal), None)
        if run is None:
            return
        refs = [{"name": ref.name} for ref in run.status.candidate_refs]
        name = f"{run.key.name}-{len(refs)}"
        candidate = DynamoGraphDeploymentCandidate.new(
            name, namespace=run.key.namespace, spec={"parameters": {"backend": "vllm"}}
        )
        try:
            await self._publisher.create(candidate, owner=run)
        except ApiError:
            return  # it is there already, or the Run is not any more
        status = {
            "candidateRefs": [*refs, {"name": name}],
            "progress": {"round": len(refs) + 1, "evaluated": 10, "published": len(refs) + 1},
        }
        await self._publisher.apply_status(run, status)

    async def _report(self, pod: Pod, states: dict[str, Any]) -> None:
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
            "startTime": pod.status.get("startTime") or self._now(),
            "containerStatuses": statuses,
        }
        await self._client.patch(Pod, pod.key, {"status": status}, subresource="status")

    def _ended(self, code: int) -> dict[str, Any]:
        reason = "Error" if code else "Completed"
        return {"terminated": {"exitCode": code, "reason": reason, "finishedAt": self._now()}}

    def _now(self) -> str:
        return self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")


def _states(pod: Pod) -> dict[str, Any]:
    return {s["name"]: s["state"] for s in pod.status.get("containerStatuses") or ()}
