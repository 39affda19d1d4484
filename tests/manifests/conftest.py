"""A real API server that the tests of the manifests share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from dynamo_operator.runtime.client import Client, ClientConfig
from dynamo_operator.testing.real_control_plane import RealControlPlane
from tests.control_planes import require_control_plane


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def control_plane() -> AsyncIterator[RealControlPlane]:
    """An API server, and the controller that deletes what is in a namespace and what is owned."""
    controllers = ("namespace-controller", "garbage-collector-controller")
    async with RealControlPlane(require_control_plane(), controllers=controllers) as it:
        await it.start_controllers()
        yield it


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def kubeconfig(
    control_plane: RealControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """An administrator's."""
    path = tmp_path_factory.mktemp("admin") / "kubeconfig"
    control_plane.write_kubeconfig(path)
    return path


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def admin(kubeconfig: Path) -> AsyncIterator[Client]:
    """An administrator's client."""
    config = ClientConfig.load(kubeconfig, environ={})
    async with Client.connect(config, field_manager="admin") as client:
        yield client
