"""Searches that the real AISimulate cannot begin: its own words reach the Run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from dynamo_operator.api.conditions import find_condition
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest
from dynamo_operator.cli.local import image_map
from dynamo_operator.planner.install import install
from tests.main_job.stage import KEY, NAMESPACE, is_completed, stage

pytestmark = [pytest.mark.planner, pytest.mark.timeout(240)]


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
    tmp_path: Path, model: str, optimizer: dict[str, Any], reason: str, texts: list[str]
):
    images = image_map(install(os.environ), offline=True)
    spec = {
        "model": {"name": model},
        "hardware": {"gpu": {"sku": "h200_sxm", "budget": 8}},
        "aisimulate": {"inputOverrides": {"optimizer": {"algorithm": "random", **optimizer}}},
    }
    async with stage(tmp_path / "cluster", images) as made:
        request = DynamoGraphDeploymentRequest.new(KEY.name, namespace=NAMESPACE, spec=spec)
        await made.client.create(request)
        run = await made.run_that(is_completed, timeout=180)

    completed = find_condition(run.status.conditions, "Completed")
    assert completed is not None
    assert (run.status.phase, completed.reason) == ("Failed", reason)
    assert all(text in completed.message for text in texts), completed.message
    assert "execution process exited" not in completed.message
