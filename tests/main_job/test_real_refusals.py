"""Searches that the real AISimulate cannot begin: its own words reach the Run."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from dynamo_operator.api.conditions import find_condition
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest
from dynamo_operator.cli.local import image_map
from dynamo_operator.local_cluster.cluster import LocalCluster
from dynamo_operator.planner.install import install
from tests.control_planes import CONTROL_PLANES
from tests.main_job.stage import NAME, is_completed, playhouse, stage

pytestmark = [
    pytest.mark.planner,
    pytest.mark.timeout(240),
    pytest.mark.asyncio(loop_scope="module"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=CONTROL_PLANES)
async def planner_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[LocalCluster]:
    """A cluster with the real AISimulate."""
    images = image_map(install(os.environ), offline=True)
    directory = tmp_path_factory.mktemp("cluster")
    async with playhouse(directory, images, request.param) as cluster:
        yield cluster


@pytest.mark.parametrize(
    ("model", "optimizer", "reason", "texts"),
    [
        (
            "meta-llama/Meta-Llama-3.1-8B",
            {"max_trials": 1},
            "InvalidInput",
            ["optimizer.max_trials must be at least the number of active deployment branches (2)"],
        ),
        (
            "nobody/No-Such-Model",
            {},
            "Failed",
            ["nobody/No-Such-Model's config.json", "envFromSecret", "cachePVC"],
        ),
    ],
    ids=["an input that it refuses", "a model that cannot be had"],
)
async def test_the_run_ends_with_aisimulates_own_words(
    planner_cluster: LocalCluster,
    model: str,
    optimizer: dict[str, Any],
    reason: str,
    texts: list[str],
):
    spec = {
        "model": {"name": model},
        "hardware": {"gpu": {"sku": "h200_sxm", "budget": 8}},
        "aisimulate": {"inputOverrides": {"optimizer": {"algorithm": "random", **optimizer}}},
    }
    async with stage(planner_cluster) as made:
        request = DynamoGraphDeploymentRequest.new(NAME, namespace=made.namespace, spec=spec)
        await made.client.create(request)
        run = await made.run_that(is_completed, timeout=180)

    completed = find_condition(run.status.conditions, "Completed")
    assert completed is not None
    assert (run.status.phase, completed.reason) == ("Failed", reason)
    assert all(text in completed.message for text in texts), completed.message
    assert "execution process exited" not in completed.message
