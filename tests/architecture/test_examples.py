"""The examples that we show are run."""

import asyncio
import doctest
import importlib
import pkgutil
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dynamo_operator.runtime.builtin_kinds import ConfigMap
from dynamo_operator.testing import Cluster
from informers.objects import ObjectKey
from tests.dynamo_operator.runtime.widgets import WIDGET_CRD

ROOT = Path(__file__).parents[2]
FRAMEWORK = ("informers", "dynamo_operator.runtime", "dynamo_operator.testing")


def modules_with_examples():
    for package in FRAMEWORK:
        root = ROOT / package.replace(".", "/")
        for info in pkgutil.walk_packages([str(root)], f"{package}."):
            path = ROOT / (info.name.replace(".", "/") + ".py")
            if path.exists() and ">>> " in path.read_text():
                yield info.name


def readme_blocks():
    return re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)


def readme_block(word):
    (block,) = (block for block in readme_blocks() if word in block)
    return block


@pytest.fixture
def widgets(monkeypatch):
    """The module `widgets` that the README's test imports: the README's controller."""
    module = ModuleType("widgets")
    vars(module).update(run_block(readme_block("def run_widgets")))
    monkeypatch.setitem(sys.modules, "widgets", module)
    return module


def run_block(block):
    program: dict[str, Any] = {}
    exec(compile(block, "README.md", "exec"), program)
    return program


@pytest.mark.parametrize("name", list(modules_with_examples()))
def test_the_examples_in_docstrings_work(name):
    results = doctest.testmod(importlib.import_module(name))

    assert results.attempted
    assert results.failed == 0


@pytest.mark.virtual_time
async def test_the_controller_in_the_readme_works(widgets):
    widget_class, run_widgets = widgets.Widget, widgets.run_widgets

    async with Cluster.start(crds=[WIDGET_CRD]) as cluster, asyncio.TaskGroup() as group:
        task = group.create_task(run_widgets(cluster.client))
        await cluster.client.create(widget_class.new("a", namespace="default", spec={"size": 3}))
        made = await cluster.eventually(
            lambda: cluster.client.get(ConfigMap, ObjectKey("default", "a"))
        )
        task.cancel()

    assert made.data == {"size": "3"}


@pytest.mark.parametrize("block", readme_blocks(), ids=lambda text: text.partition("\n")[0])
def test_a_python_block_of_the_readme_can_be_run(block, widgets):
    assert run_block(block)


def test_the_test_in_the_readme_passes(widgets):
    run_block(readme_block("virtual_time.run"))["test_a_widget_gets_its_config_map"](WIDGET_CRD)
