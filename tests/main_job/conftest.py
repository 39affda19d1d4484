"""Stages for the main job."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.main_job.real_search import RealSearch, search_twice
from tests.main_job.stage import Stage, scripted_images, stage


@pytest.fixture
async def scripted(tmp_path: Path) -> AsyncIterator[Stage]:
    """A cluster whose planner follows a script."""
    async with stage(tmp_path / "cluster", scripted_images()) as made:
        yield made


@pytest.fixture(scope="session")
def real_search(tmp_path_factory: pytest.TempPathFactory) -> RealSearch:
    """A finished search by the real AISimulate, and its repetition."""
    return search_twice(tmp_path_factory.mktemp("real-search"))
