"""A PoolRelay controller on an embedded API server, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from dynamo_operator.cli.graph_crds import GRAPH_CRDS
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.runtime import Manager
from dynamo_operator.testing import Interceptor
from dynamo_operator.testing.cluster import Cluster
from reconcilers import pool_relay


@pytest.fixture
async def unoperated() -> AsyncIterator[Cluster]:
    """A cluster with the controllers of Deployments and the collector."""
    crds = [*custom_resource_definitions(), *GRAPH_CRDS]
    async with Cluster.start(crds=crds, controllers=["gc", "deployments"]) as cluster:
        yield cluster


@pytest.fixture
def interceptor(unoperated: Cluster) -> Interceptor:
    """What stands between the controller and the API server."""
    return Interceptor(unoperated.clock)


@pytest.fixture
async def cluster(unoperated: Cluster, interceptor: Interceptor) -> AsyncIterator[Cluster]:
    """The same with our controller."""
    client = interceptor.around(unoperated.client)
    manager = Manager(client, clock=unoperated.clock, random=unoperated.random)
    pool_relay.add_to(manager)
    async with manager.running():
        yield unoperated
