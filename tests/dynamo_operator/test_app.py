from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest
from dynamo_operator.app import OperatorSettings, build_manager
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.runtime import ShutdownTimeoutError
from dynamo_operator.runtime.client import Client
from dynamo_operator.testing.cluster import Cluster
from dynamo_operator.testing.in_process_transport import InProcessTransport

pytestmark = pytest.mark.virtual_time


class HangingTransport(InProcessTransport):
    """Never answers a write."""

    async def send(self, request, *, timeout_seconds):
        if request.method != "GET":
            await asyncio.sleep(3600)
        return await super().send(request, timeout_seconds=timeout_seconds)


async def test_a_stop_takes_less_than_half_a_minute_though_the_api_server_hangs():
    async with Cluster.start(crds=custom_resource_definitions()) as cluster:
        hanging = HangingTransport(cluster.server)
        client = Client.over(hanging, host="hanging", clock=cluster.clock, random=cluster.random)
        manager = build_manager(
            client,
            OperatorSettings(operator_image="operator:1"),
            clock=cluster.clock,
            random=cluster.random,
        )
        async with asyncio.TaskGroup() as group:
            running = group.create_task(_stopped(manager))
            await manager.wait_synced()
            spec = {"model": {"name": "m"}, "hardware": {"gpu": {"sku": "h200_sxm", "budget": 8}}}
            await cluster.client.create(
                DynamoGraphDeploymentRequest.new("a", namespace="default", spec=spec)
            )
            await asyncio.sleep(1)
            before = asyncio.get_running_loop().time()
            running.cancel()
        await client.close()

        assert 20 < asyncio.get_running_loop().time() - before < 30


async def _stopped(manager):
    with suppress(asyncio.CancelledError, ShutdownTimeoutError):
        await manager.run()
