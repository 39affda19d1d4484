"""A suite of somebody else's gets clusters and virtual time from the plugin."""

import os
import subprocess
import sys

import pytest

CONFTEST = """
pytest_plugins = ["dynamo_operator.testing.pytest_plugin"]
"""
SETTINGS = """
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
filterwarnings = error
addopts = --strict-markers
"""
SUITE = """
import asyncio

import pytest

from dynamo_operator.runtime.builtin_kinds import ConfigMap
from dynamo_operator.testing import cluster_fixture

shared = cluster_fixture(scope="module")
anywhere = cluster_fixture(modes=["in_process", "http", "real"])
DAY = 24 * 3600


@pytest.mark.virtual_time
async def test_in_virtual_time(cluster):
    began = cluster.clock.now()
    await asyncio.sleep(DAY)
    assert (cluster.clock.now() - began).total_seconds() == DAY
    await cluster.client.create(ConfigMap.new("a"))


async def test_alone(cluster):
    assert await cluster.client.list(ConfigMap) == []


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("number", [1, 2])
async def test_shared(shared, number):
    await shared.client.create(ConfigMap.new(f"c{number}"))
    assert len(await shared.client.list(ConfigMap)) == number


async def test_anywhere(anywhere):
    await anywhere.client.create(ConfigMap.new("a", namespace="default"))
"""


@pytest.fixture
def suite(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "pytest.ini").write_text(SETTINGS)

    def run(*arguments, **environ):
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", *arguments],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "COLUMNS": "200", **environ},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_a_suite_runs_in_each_mode_and_says_how_to_get_the_one_that_is_missing(suite):
    ran = suite(KUBEBUILDER_ASSETS="/nowhere")

    assert "6 passed, 1 skipped" in ran.stdout
    assert "no real control plane: no etcd and kube-apiserver in /nowhere: run hack" in ran.stdout


def test_what_needs_a_real_control_plane_can_be_left_out(suite):
    ran = suite("-m", "not real", "-k", "anywhere")

    assert "2 passed, 5 deselected" in ran.stdout


@pytest.mark.real
def test_a_suite_runs_on_a_real_control_plane(suite):
    home = {name: os.environ[name] for name in ("KUBEBUILDER_ASSETS", "HOME") if name in os.environ}
    ran = suite("-m", "real", **home)

    if "no real control plane" in ran.stdout:
        pytest.skip(ran.stdout)
    assert "1 passed, 6 deselected" in ran.stdout


def test_nothing_is_loaded_for_suites_that_do_not_ask(suite, tmp_path):
    (tmp_path / "conftest.py").unlink()
    (tmp_path / "test_suite.py").write_text(
        "import sys\n\ndef test_it():\n    assert 'dynamo_operator' not in sys.modules\n"
    )

    assert "1 passed" in suite().stdout
