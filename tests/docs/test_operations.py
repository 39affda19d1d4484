"""The page for operators speaks of series that are served."""

import re

import pytest
from ruamel.yaml import YAML

from dynamo_operator.testing import cluster_fixture
from tests.docs.pages import BLOCK, DOCS, definition, module_of

PAGE = (DOCS / "operations.md").read_text()
SERIES = re.compile(
    r"\b(?:controller_runtime|workqueue|informer|leader_election|certwatcher|rest_client)_[a-z_]+\b"
)
cluster = cluster_fixture(crds=lambda: [definition()], controllers=["gc"])


@pytest.mark.virtual_time
async def test_the_series_to_watch_exist(cluster, monkeypatch):
    widgets = module_of("quick_start", monkeypatch, "widgets.py")
    async with cluster.manager(widgets.controller()) as manager:
        served = manager.metrics.render().decode()
    named = set(SERIES.findall(PAGE))

    assert len(named) == 10
    assert [name for name in named if f"# TYPE {name}" not in served] == []


def test_every_rule_is_about_a_series_and_says_what_it_means():
    (block,) = [each for each in BLOCK.findall(PAGE) if "groups:" in str(each)]
    text = block if isinstance(block, str) else block[-1]
    (group,) = YAML(typ="safe").load(text)["groups"]

    assert len(group["rules"]) == 6
    for rule in group["rules"]:
        assert SERIES.search(rule["expr"]), rule
        assert rule["annotations"]["summary"].endswith("."), rule
