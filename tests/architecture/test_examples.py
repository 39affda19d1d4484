"""The examples that we show are run."""

import asyncio
import doctest
import importlib
import pkgutil
import re
from pathlib import Path
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
async def test_the_controller_in_the_readme_works():
    (block,) = (block for block in readme_blocks() if "run_widgets" in block)
    program = run_block(block)
    widget_class, run_widgets = program["Widget"], program["run_widgets"]

    async with Cluster.start(crds=[WIDGET_CRD]) as cluster, asyncio.TaskGroup() as group:
        task = group.create_task(run_widgets(cluster.client))
        await cluster.client.create(widget_class.new("a", namespace="default", spec={"size": 3}))
        made = await cluster.eventually(
            lambda: cluster.client.get(ConfigMap, ObjectKey("default", "a"))
        )
        task.cancel()

    assert made.data == {"size": "3"}


@pytest.mark.parametrize("block", readme_blocks(), ids=lambda text: text.partition("\n")[0])
def test_a_python_block_of_the_readme_can_be_run(block):
    assert run_block(block)
