"""What AISimulate would refuse, where no webhook judges it: the Request controller does, alike."""

from __future__ import annotations

from typing import Any

import pytest

from dynamo_operator.testing.cluster import Cluster
from tests.reconcilers.conftest import Operator
from tests.reconcilers.search import (
    accepted,
    accepted_with,
    change,
    event_about,
    events_about,
    finish_search,
    request_that,
    runs,
    start_pod,
    submit,
    the_job,
)

pytestmark = pytest.mark.virtual_time


def overridden(**optimizer: Any) -> dict[str, Any]:
    return {"aisimulate": {"inputOverrides": {"optimizer": optimizer}}}


async def test_with_the_policy_warn_a_fault_is_told_beside_its_run(
    cluster: Cluster, operator: Operator
):
    async with operator(validate_effective_input="warn"):
        await submit(cluster.client, **overridden(max_trials=0))
        request = await request_that(cluster, accepted_with("RunCreated"))
        event = await event_about(cluster, request, "InputWarning")

    assert event.type == "Warning"
    assert event.note.startswith("effective input optimizer.max_trials (override, ")
    assert len(await runs(cluster.client)) == 1


async def test_with_the_policy_off_nobody_looks(cluster: Cluster, operator: Operator):
    async with operator(validate_effective_input="off"):
        await submit(cluster.client, **overridden(max_trials=0))
        request = await request_that(cluster, accepted_with("RunCreated"))
        await event_about(cluster, request, "RunCreated")

    reasons = [event.reason for event in await events_about(cluster.client, request)]
    assert "InputWarning" not in reasons


async def test_a_fault_of_the_run_before_only_warns_and_a_new_one_is_refused(
    cluster: Cluster, operator: Operator
):
    async with operator(validate_effective_input="off"):
        await submit(cluster.client, **overridden(max_trials=0))
        job = await the_job(cluster)
        await finish_search(cluster, job, await start_pod(cluster.client, job))
    async with operator():
        await change(cluster.client, rerun={"reason": "again"})
        request = await request_that(
            cluster, lambda found: found.generation == 2 and accepted_with("RunCreated")(found)
        )
        event = await event_about(cluster, request, "InputWarning")
        await change(cluster.client, **overridden(max_trials=0, parallelism=0))
        request = await request_that(cluster, accepted_with("InvalidInput"))

    refused = accepted(request)
    assert refused is not None
    assert event.note.startswith("effective input optimizer.max_trials (override, ")
    assert refused.message.startswith("effective input optimizer.parallelism (override, ")
    assert "max_trials" not in refused.message
