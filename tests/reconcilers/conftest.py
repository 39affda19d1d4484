"""A search operator on an embedded API server, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

import pytest

from dynamo_operator.app import build_manager
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.runtime import Manager
from dynamo_operator.runtime.builtin_kinds import Node
from dynamo_operator.runtime.client import Client
from dynamo_operator.settings import OperatorSettings
from dynamo_operator.testing.cluster import Cluster

OPERATOR_IMAGE = "registry.lab/dynamo-operator:0.1.0"
GPU_NODE = Node.new(
    "gpu-1",
    labels={
        "nvidia.com/gpu.product": "NVIDIA-H200",
        "nvidia.com/gpu.count": "8",
        "nvidia.com/gpu.memory": "143771",
    },
)
with_garbage_collector = pytest.mark.parametrize("cluster", [("gc",)], indirect=True, ids=["gc"])

Operator = Callable[..., AbstractAsyncContextManager[Manager]]


@pytest.fixture
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    """A cluster with one GPU node; a parameter names the cluster's own controllers."""
    controllers = getattr(request, "param", ())
    crds = custom_resource_definitions()
    async with Cluster.start(crds=crds, controllers=controllers) as cluster:
        await cluster.client.create(GPU_NODE)
        yield cluster


@pytest.fixture
def operator(cluster: Cluster) -> Operator:
    """Start an operator for the length of a block; keywords are settings, `client` excepted."""

    def start(
        client: Client | None = None, **settings: object
    ) -> AbstractAsyncContextManager[Manager]:
        resolved = OperatorSettings.model_validate({"operator_image": OPERATOR_IMAGE, **settings})
        manager = build_manager(
            client or cluster.client, resolved, clock=cluster.clock, random=cluster.random
        )
        return manager.running()

    return start
