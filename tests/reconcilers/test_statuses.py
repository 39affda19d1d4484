from __future__ import annotations

import pytest

from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest
from dynamo_operator.runtime.client.errors import ConflictError
from dynamo_operator.testing.cluster import Cluster
from reconcilers.statuses import write_status
from tests.reconcilers.search import REQUEST_KEY, change, submit

pytestmark = pytest.mark.virtual_time


async def test_a_status_is_not_written_over_a_change(cluster: Cluster):
    request = await submit(cluster.client)
    await change(cluster.client, rerun={"reason": "again"})

    with pytest.raises(ConflictError):
        await write_status(cluster.client, request, {"observedGeneration": 1})


async def test_an_object_that_is_gone_is_a_reason_to_look_again(cluster: Cluster):
    request = await submit(cluster.client)
    await cluster.client.delete(DynamoGraphDeploymentRequest, REQUEST_KEY)

    with pytest.raises(ConflictError, match="was deleted since it was read"):
        await write_status(cluster.client, request, {"observedGeneration": 1})
