"""Stages for the main job, on the embedded control plane and on a real one.

A cluster serves a whole module, so tests and fixtures of a module share one event loop.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from dynamo_operator.local_cluster.cluster import LocalCluster
from tests.control_planes import CONTROL_PLANES
from tests.main_job.real_search import RealSearch, search_twice
from tests.main_job.stage import Stage, playhouse, scripted_images, stage


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=CONTROL_PLANES)
async def scripted_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[LocalCluster]:
    """A cluster whose planner follows a script."""
    directory = tmp_path_factory.mktemp("cluster")
    async with playhouse(directory, scripted_images(), request.param) as cluster:
        yield cluster


@pytest_asyncio.fixture(loop_scope="module")
async def scripted(scripted_cluster: LocalCluster) -> AsyncIterator[Stage]:
    """A stage whose planner follows a script."""
    async with stage(scripted_cluster) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def unoperated(scripted_cluster: LocalCluster) -> AsyncIterator[Stage]:
    """The same without an operator."""
    async with stage(scripted_cluster, is_operated=False) as made:
        yield made


@pytest.fixture(scope="module", params=CONTROL_PLANES)
def real_search(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> RealSearch:
    """A finished search by the real AISimulate, and its repetition."""
    return search_twice(tmp_path_factory.mktemp("real-search"), request.param)
