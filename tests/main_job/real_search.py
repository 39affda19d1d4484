"""A real search, twice, and everything that can be known of it afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dynamo_operator.api.v1beta2 import (
    DynamoGraphDeploymentCandidate,
    DynamoGraphDeploymentRequest,
    DynamoGraphDeploymentRun,
)
from dynamo_operator.cli.local import image_map
from dynamo_operator.planner.environment import PlannerEnvironment
from dynamo_operator.planner.install import install
from dynamo_operator.runtime.builtin_kinds import ConfigMap, Job, Pod
from dynamo_operator.testing.polling import eventually
from informers.objects import ObjectKey
from tests.control_planes import ControlPlaneName
from tests.main_job.stage import (
    NAME,
    Stage,
    is_completed,
    playhouse,
    stage,
)

MODEL = "meta-llama/Meta-Llama-3.1-8B"
BUDGET = 8
SPEC: dict[str, Any] = {
    "model": {"name": MODEL},
    "hardware": {"gpu": {"sku": "h200_sxm", "budget": BUDGET}},
    "aisimulate": {
        "inputOverrides": {
            "optimizer": {"algorithm": "random", "max_trials": 5, "parallelism": 2, "seed": 7},
            "dgdr_run": {"snapshot_interval_seconds": 1},
        }
    },
}
_SEARCH_SECONDS = 300.0
_COPY_EVERY_SECONDS = 0.05
_COPIES_PER_LOOK = 20
_RUN_UID = "nvidia.com/dgdr-run-uid"


@dataclass(frozen=True, slots=True)
class Search:
    """One finished search.

    `recommendation` is AISimulate's own account, read from the planner's output volume.
    """

    run: DynamoGraphDeploymentRun
    job: Job
    pod: Pod
    config_map: ConfigMap
    candidates: list[DynamoGraphDeploymentCandidate]
    recommendation: Path

    @property
    def ranked(self) -> list[dict[str, Any]]:
        """AISimulate's candidates in its final order."""
        account = json.loads(self.recommendation.read_text(encoding="utf-8"))
        by_id = {candidate["candidate_id"]: candidate for candidate in account["candidates"]}
        return [by_id[candidate_id] for candidate_id in account["views"]["top_n"]]


@dataclass(frozen=True, slots=True)
class RealSearch:
    """A model-only Request, searched, and searched again with the same seed.

    `created` counts what the operator created, by resource.
    """

    planner: PlannerEnvironment
    submitted: DynamoGraphDeploymentRequest
    request: DynamoGraphDeploymentRequest
    first: Search
    second: Search
    created: Counter[str]


def search_twice(directory: Path, control_plane: ControlPlaneName) -> RealSearch:
    """Play the main job on a cluster of its own."""
    planner = install(os.environ)
    return asyncio.run(_search_twice(planner, directory, control_plane))


async def _search_twice(
    planner: PlannerEnvironment, directory: Path, control_plane: ControlPlaneName
) -> RealSearch:
    images = image_map(planner, offline=True)
    async with (
        playhouse(directory / "cluster", images, control_plane) as cluster,
        stage(cluster) as made,
    ):
        request = DynamoGraphDeploymentRequest.new(NAME, namespace=made.namespace, spec=SPEC)
        submitted = await made.client.create(request)
        first = await _search(made, directory, 0)
        mirrored = await eventually(made.request, is_completed)
        again = {"spec": {"rerun": {"reason": "the same once more"}}}
        await made.client.patch(DynamoGraphDeploymentRequest, made.key, again)
        second = await _search(made, directory, 1)
        created = Counter(
            entry.resource
            for entry in made.cluster.audit.writes(user=made.operator_user)
            if entry.verb == "create" and entry.code == 201
        )
    return RealSearch(planner, submitted, mirrored, first, second, created)


async def _search(made: Stage, directory: Path, index: int) -> Search:
    target = directory / f"recommendation-{index}.json"
    async with asyncio.timeout(_SEARCH_SECONDS):
        while (run := await _completed_run(made, index)) is None:
            for _ in range(_COPIES_PER_LOOK):  # a look costs the search more than a copy
                _copy_recommendation(directory / "cluster", target)
                await asyncio.sleep(_COPY_EVERY_SECONDS)
    assert run.status.execution_snapshot is not None, run.status
    labels = {_RUN_UID: run.uid}
    (job,) = await made.client.list(Job, namespace=made.namespace, labels=labels)
    (pod,) = await made.client.list(Pod, namespace=made.namespace, labels=labels)
    return Search(
        run=run,
        job=job,
        pod=pod,
        config_map=await made.client.get(
            ConfigMap, ObjectKey(made.namespace, run.status.execution_snapshot.name)
        ),
        candidates=[
            await made.client.get(
                DynamoGraphDeploymentCandidate, ObjectKey(made.namespace, reference.name)
            )
            for reference in run.status.candidate_refs
        ],
        recommendation=target,
    )


async def _completed_run(made: Stage, index: int) -> DynamoGraphDeploymentRun | None:
    runs = await made.runs()
    return runs[index] if len(runs) > index and is_completed(runs[index]) else None


def _copy_recommendation(cluster: Path, target: Path) -> None:
    """Copy AISimulate's account while it is there: the volume goes with the last container."""
    for file in cluster.glob("node/pods/*/volumes/output/recommendation.json"):
        with contextlib.suppress(FileNotFoundError):
            target.write_bytes(file.read_bytes())
