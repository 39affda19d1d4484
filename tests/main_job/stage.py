"""Where the main job is played: a cluster with a node, a namespace of its own, the operator.

The control plane is the embedded one or a real one; everything else is the same.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from dynamo_operator.api.conditions import find_condition
from dynamo_operator.api.planner_contract import PLANNER_COMMAND, PLANNER_USER_ID
from dynamo_operator.api.v1beta2 import (
    DynamoGraphDeploymentCandidate,
    DynamoGraphDeploymentRequest,
    DynamoGraphDeploymentRun,
)
from dynamo_operator.cli.crds import apply_crds
from dynamo_operator.cli.local import GPU_LABELS, grant_operator, operated, operator_image
from dynamo_operator.images import PUBLIC_PLANNER_IMAGE
from dynamo_operator.local_cluster.cluster import ClusterOptions, LocalCluster, local_cluster
from dynamo_operator.local_cluster.images import ImageEnvironment, ImageMap
from dynamo_operator.runtime.builtin_kinds import (
    ConfigMap,
    Job,
    Namespace,
    Pod,
    Role,
    RoleBinding,
    ServiceAccount,
)
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.models import KubeModel
from dynamo_operator.testing.polling import eventually
from informers.objects import ObjectKey
from tests.control_planes import ControlPlaneName, control_plane
from tests.main_job.processes import ContainerProcesses, processes_of

NAME = "llama"
CAUSED_KINDS: tuple[type[KubeModel], ...] = (
    DynamoGraphDeploymentRun,
    DynamoGraphDeploymentCandidate,
    Job,
    Pod,
    ConfigMap,
    ServiceAccount,
    Role,
    RoleBinding,
)
ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 30.0


def scripted_images() -> ImageMap:
    """The operator's own image, and a planner that follows a script."""
    planner = ImageEnvironment.for_python(
        sys.executable,
        commands={PLANNER_COMMAND[0]: ["python", "-m", "tests.main_job.scripted_planner"]},
        environment={"PYTHONPATH": str(ROOT)},
        readable=[ROOT],
        user=PLANNER_USER_ID,
    )
    return ImageMap({PUBLIC_PLANNER_IMAGE: planner, **operator_image()})


@dataclass(frozen=True, slots=True)
class Stage:
    """A namespace and who acts in it, as tests act on it.

    `operator_user` is the operator, whether it runs yet or not.
    """

    cluster: LocalCluster
    namespace: str
    operator_user: str

    @property
    def client(self) -> Client:
        """An administrator's client."""
        return self.cluster.client

    @property
    def key(self) -> ObjectKey:
        """The Request's key."""
        return ObjectKey(self.namespace, NAME)

    async def submit(self, script: str, **spec: Any) -> DynamoGraphDeploymentRequest:
        """Create the Request for a scripted search."""
        return await self.client.create(
            DynamoGraphDeploymentRequest.new(
                NAME,
                namespace=self.namespace,
                spec={
                    "model": {"name": f"scripted/{script}"},
                    "hardware": {"gpu": {"sku": "h200_sxm", "budget": 8}},
                    "aisimulate": {
                        "inputOverrides": {"dgdr_run": {"snapshot_interval_seconds": 0}}
                    },
                    **spec,
                },
            )
        )

    async def request(self) -> DynamoGraphDeploymentRequest:
        """The Request now."""
        return await self.client.get(DynamoGraphDeploymentRequest, self.key)

    async def runs(self) -> list[DynamoGraphDeploymentRun]:
        """The Runs there are, oldest first."""
        found = await self.client.list(DynamoGraphDeploymentRun, namespace=self.namespace)
        return sorted(found, key=lambda run: run.labels["nvidia.com/dgdr-request-generation"])

    async def run_that(
        self,
        holds: Callable[[DynamoGraphDeploymentRun], object],
        *,
        index: int = 0,
        timeout: float = PATIENCE_SECONDS,
    ) -> DynamoGraphDeploymentRun:
        """Wait until the Run of that index is like that."""
        runs = await eventually(
            self.runs, lambda runs: len(runs) > index and holds(runs[index]), timeout=timeout
        )
        return runs[index]

    async def candidates(self) -> list[DynamoGraphDeploymentCandidate]:
        """The Candidates there are."""
        return await self.client.list(DynamoGraphDeploymentCandidate, namespace=self.namespace)

    async def the_pod(self) -> Pod:
        """Wait for a Pod with both containers running."""
        pods = await eventually(
            lambda: self.client.list(Pod, namespace=self.namespace),
            lambda pods: pods and all(processes_of(pod, name) for pod in pods for name in _NAMES),
            timeout=PATIENCE_SECONDS,
        )
        (pod,) = pods
        return pod

    async def searching(self) -> tuple[DynamoGraphDeploymentRun, Pod]:
        """Wait until a search that goes on has published two Candidates."""
        run = await self.run_that(lambda run: len(run.status.candidate_refs) == 2)
        return run, await self.the_pod()

    async def caused(self) -> list[str]:
        """Everything in the namespace that a Request can cause, as `Kind name`."""
        return [
            f"{kind.resource_type.kind} {obj.key.name}"
            for kind in CAUSED_KINDS
            for obj in await self.client.list(kind, namespace=self.namespace)
            if obj.key.name not in ("default", "kube-root-ca.crt")
        ]

    async def clear(self) -> None:
        """Remove what Requests caused; the empty namespace goes later, which takes seconds."""
        for request in await self.client.list(
            DynamoGraphDeploymentRequest, namespace=self.namespace
        ):
            await self.client.delete(DynamoGraphDeploymentRequest, request.key)
        await eventually(self.caused, lambda left: not left, timeout=PATIENCE_SECONDS)
        await self.client.delete(Namespace, ObjectKey("", self.namespace))


_NAMES = ("planner", "publisher")


def completed_with(reason: str) -> Callable[[Any], bool]:
    """A predicate on Runs and Requests: over, for that reason."""

    def holds(obj: Any) -> bool:
        condition = find_condition(obj.status.conditions, "Completed")
        return condition is not None and (condition.status, condition.reason) == ("True", reason)

    return holds


def message_of(run: DynamoGraphDeploymentRun) -> str:
    """What the Run says of its end."""
    condition = find_condition(run.status.conditions, "Completed")
    return condition.message if condition is not None else ""


def is_completed(obj: Any) -> bool:
    """Whether a Run or Request is over, however it ended."""
    condition = find_condition(obj.status.conditions, "Completed")
    return condition is not None and condition.status == "True"


@asynccontextmanager
async def playhouse(
    directory: Path, images: ImageMap, name: ControlPlaneName = "embedded"
) -> AsyncGenerator[LocalCluster]:
    """Run a cluster with our kinds and a node, for any number of stages one after the other."""
    options = ClusterOptions(directory=directory, images=images, node_labels=GPU_LABELS)
    async with local_cluster(options, control_plane(name), prepare=apply_crds) as cluster:
        yield cluster


@asynccontextmanager
async def stage(cluster: LocalCluster, *, is_operated: bool = True) -> AsyncGenerator[Stage]:
    """Set the stage for the length of the block; nothing of it is left in the cluster.

    Args:
        cluster: made by `playhouse`.
        is_operated: whether the operator runs, in this process and with its own rights; else only
            the rights are there.
    """
    namespace = f"stage-{uuid4().hex[:8]}"
    user = await grant_operator(cluster.client)
    operator = operated(cluster) if is_operated else nullcontext()
    await cluster.client.create(Namespace.new(namespace))
    made = Stage(cluster, namespace, user)
    async with operator:
        try:
            yield made
        finally:
            await made.clear()


def container_processes(pod: Pod) -> ContainerProcesses:
    """The processes of both containers."""
    return ContainerProcesses([each for name in _NAMES for each in processes_of(pod, name)])
