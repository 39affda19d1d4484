from __future__ import annotations

from pathlib import Path

import pytest

from dynamo_operator.cli.local import image_map
from dynamo_operator.images import PUBLIC_PLANNER_IMAGE
from dynamo_operator.planner.environment import PlannerEnvironment

PLANNER = PlannerEnvironment(
    path=Path("/lab/planner"),
    python=Path("/lab/planner/bin/python"),
    versions={},
    hf_home=Path("/lab/huggingface"),
    models=(),
)


@pytest.fixture(autouse=True)
def _hub_and_proxy(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.lab")
    monkeypatch.setenv("https_proxy", "http://proxy.lab:3128")
    monkeypatch.setenv("LAB_SECRET", "x")


def planner_variables(*, offline: bool) -> dict[str, str]:
    return image_map(PLANNER, offline=offline).resolve(PUBLIC_PLANNER_IMAGE).variables()


def test_a_planner_that_asks_the_hub_reaches_it_as_whoever_started_the_cluster_does():
    variables = planner_variables(offline=False)

    assert variables["HF_ENDPOINT"] == "https://hub.lab"
    assert variables["https_proxy"] == "http://proxy.lab:3128"
    assert "HF_HUB_OFFLINE" not in variables
    assert "LAB_SECRET" not in variables


def test_a_planner_with_the_shipped_configurations_asks_no_hub():
    variables = planner_variables(offline=True)

    assert variables["HF_HUB_CACHE"] == "/lab/huggingface/hub"
    assert variables["HF_HUB_OFFLINE"] == "1"
    assert "HF_ENDPOINT" not in variables
