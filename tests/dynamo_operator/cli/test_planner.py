from __future__ import annotations

import os

import pytest

from dynamo_operator.cli.__main__ import main
from dynamo_operator.planner.install import install


@pytest.mark.planner
def test_status_says_where_the_planner_is_and_lists_the_models_that_need_no_hub(capsys):
    planner = install(os.environ)

    code = main(["planner", "status"])

    lines = capsys.readouterr().out.splitlines()
    assert code == 0
    assert f"environment: {planner.path}" in lines
    assert f"aisimulate: {planner.versions['aisimulate']}" in lines
    assert [line.strip() for line in lines if line.startswith("  ")] == list(planner.models)
    assert "  meta-llama/Meta-Llama-3.1-8B" in lines
