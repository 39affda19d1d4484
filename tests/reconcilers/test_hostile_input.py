"""Hostile Requests with webhooks off: the API server or the operator refuses each, in one line."""

from __future__ import annotations

import asyncio
import resource

import pytest

from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest
from dynamo_operator.runtime.builtin_kinds import Job
from dynamo_operator.runtime.client import BadRequestError, InvalidError, RequestTooLargeError
from dynamo_operator.testing.cluster import Cluster
from tests.reconcilers.conftest import Operator
from tests.reconcilers.hostile import GOOD, bad_overrides, bad_specs
from tests.reconcilers.search import NAMESPACE, accepted, runs

pytestmark = pytest.mark.virtual_time

MOST_GROWTH = 150e6


def memory() -> float:
    """The most that this process ever had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.parametrize(
    "specs", [[*bad_specs(7, 100)], [*bad_overrides(7, 100)]], ids=["typed", "overrides"]
)
async def test_each_is_refused_in_a_line_and_nothing_is_run_or_tried_for_ever(
    cluster: Cluster, operator: Operator, specs: list[dict[str, object]]
):
    before = memory()
    refused: dict[str, str] = {}
    async with operator():
        for number, spec in enumerate(specs):
            name = f"bad-{number}"
            try:
                await cluster.client.create(
                    {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec},
                    kind=DynamoGraphDeploymentRequest.resource_type,
                )
            except (BadRequestError, InvalidError, RequestTooLargeError) as error:
                refused[name] = " ".join(
                    error.message.split()
                )  # field names are quoted as they are

        def told(requests: list[DynamoGraphDeploymentRequest]) -> bool:
            return all(accepted(request) is not None for request in requests)

        stored = await cluster.eventually(
            lambda: cluster.client.list(DynamoGraphDeploymentRequest, namespace=NAMESPACE),
            told,
            timeout=60,
        )
        for request in stored:
            condition = accepted(request)
            assert condition is not None
            assert (condition.status, condition.reason) == ("False", "InvalidInput"), request.spec
            refused[request.key.name] = condition.message
        seen = len(cluster.audit.entries)
        await asyncio.sleep(3600)
        later = [e for e in cluster.audit.entries[seen:] if e.verb not in ("list", "watch", "get")]

        good = {"metadata": {"name": "good", "namespace": NAMESPACE}, "spec": GOOD}
        await cluster.client.create(good, kind=DynamoGraphDeploymentRequest.resource_type)
        (job,) = await cluster.eventually(lambda: cluster.client.list(Job, namespace=NAMESPACE))

    assert len(refused) == len(specs)
    assert [name for name, text in refused.items() if not text] == []
    assert [name for name, text in refused.items() if "Traceback" in text] == []
    assert [text for text in refused.values() if len(text.splitlines()) > 1] == []
    assert later == []
    assert job.key.name.startswith("good-")
    assert len(await runs(cluster.client)) == 1
    assert memory() - before < MOST_GROWTH
