"""One cluster over HTTPS for all clients, embedded and real."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from uuid import uuid4

import pytest
import pytest_asyncio

from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.runtime.builtin_kinds import ConfigMap, Namespace, ServiceAccount
from dynamo_operator.testing import Cluster
from dynamo_operator.testing.cluster import ControllerName, Mode
from dynamo_operator.testing.control_plane_binaries import ControlPlaneMissingError
from informers.objects import ObjectKey
from tests.clients.running import TOYS

MODES = [
    pytest.param("http", id="http"),
    pytest.param("real", id="real", marks=pytest.mark.real),
]
CONTROLLERS: tuple[ControllerName, ...] = ("deployments", "gc", "jobs", "namespaces")


def cluster_of(mode: Mode, environ: Mapping[str, str]) -> AbstractAsyncContextManager[Cluster]:
    """Start the cluster that every client meets."""
    return Cluster.start(
        mode=mode,
        controllers=CONTROLLERS,
        crds=[*custom_resource_definitions(), TOYS],
        environ=environ,
    )


@pytest_asyncio.fixture(scope="session", loop_scope="session", params=MODES)
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    """A cluster with our kinds."""
    try:
        async with cluster_of(request.param, os.environ) as cluster:
            yield cluster
    except ControlPlaneMissingError as error:
        pytest.skip(f"no real control plane: {error}")


@pytest_asyncio.fixture(loop_scope="session")
async def namespace(cluster: Cluster) -> AsyncIterator[str]:
    """A namespace of its own for each test."""
    name = f"clients-{uuid4().hex[:8]}"
    await make_namespace(cluster, name)
    yield name
    await cluster.client.delete(Namespace, Namespace.new(name).key)


async def make_namespace(cluster: Cluster, name: str) -> None:
    """Make a namespace and wait for what a cluster puts into each."""
    await cluster.client.create(Namespace.new(name))
    await cluster.eventually(lambda: cluster.client.get(ServiceAccount, ObjectKey(name, "default")))
    await cluster.eventually(
        lambda: cluster.client.get(ConfigMap, ObjectKey(name, "kube-root-ca.crt"))
    )
