"""The same cluster for the whole suite, embedded in two ways and real; on one loop."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
import pytest_asyncio

from dynamo_operator.cli.crds import apply_crds
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.runtime.builtin_kinds import Namespace
from dynamo_operator.testing import Cluster
from dynamo_operator.testing.control_plane_binaries import (
    ControlPlaneMissingError,
    uses_existing_cluster,
)

MODES = [
    pytest.param("in_process", id="in_process"),
    pytest.param("http", id="http"),
    pytest.param("real", id="real", marks=pytest.mark.real),
]


@pytest_asyncio.fixture(scope="session", loop_scope="session", params=MODES)
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    """A cluster with our kinds and the controllers that make Pods of Jobs."""
    is_there_before = request.param == "real" and uses_existing_cluster(os.environ)
    try:
        starting = Cluster.start(
            mode=request.param,
            controllers=("gc", "jobs", "namespaces"),
            crds=() if is_there_before else custom_resource_definitions(),
            environ=os.environ,
        )
        async with starting as cluster:
            if is_there_before:
                await apply_crds(cluster.client)
            yield cluster
    except ControlPlaneMissingError as error:
        pytest.skip(f"no real control plane: {error}")


@pytest_asyncio.fixture(loop_scope="session")
async def namespace(cluster: Cluster) -> AsyncIterator[str]:
    """A namespace of its own for each test."""
    name = f"conformance-{uuid4().hex[:8]}"
    await cluster.client.create(Namespace.new(name))
    yield name
    await cluster.client.delete(Namespace, Namespace.new(name).key)
