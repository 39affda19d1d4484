"""What an API server refuses is told in the status of the generation that asked for it."""

from __future__ import annotations

import asyncio

import pytest

from dynamo_operator.api.conditions import ConditionType, ReadyReason
from dynamo_operator.api.v1alpha1 import DynamoPoolRelay
from dynamo_operator.runtime.builtin_kinds import Service
from dynamo_operator.testing.faults import Answer, Point
from reconcilers.pool_relay.graphs import ServedGraph
from tests.reconcilers.pool_relay.relays import CHILD, CHILDREN, GRAPH, KEY, RELAY, condition, serve

pytestmark = pytest.mark.virtual_time


@pytest.mark.parametrize("kind", CHILDREN, ids=lambda kind: kind.__name__)
async def test_a_refused_child_is_named_until_it_is_taken(cluster, interceptor, kind):
    path = f".*/{kind.resource_type.plural}"
    interceptor.inject(Point("POST", path, repeats=True), Answer(403, message="exceeded quota"))
    await cluster.client.create(RELAY)
    await cluster.client.create(GRAPH)

    ready = await condition(cluster)
    assert ready.reason == ReadyReason.APPLY_FAILED
    assert kind.resource_type.kind in ready.message
    assert CHILDREN[kind].name in ready.message
    assert "exceeded quota" in ready.message

    interceptor.heal()
    await asyncio.sleep(60.0)
    assert (await condition(cluster)).reason == ReadyReason.NO_AVAILABLE_RELAY


async def test_a_service_that_cannot_be_deleted_is_reported_for_the_current_generation(
    cluster, interceptor
):
    await serve(cluster)
    interceptor.inject(
        Point("DELETE", ".*/services/.*", repeats=True), Answer(403, message="not today")
    )
    await cluster.client.patch(DynamoPoolRelay, KEY, {"spec": {"clusterID": "dc-b"}})
    await cluster.client.delete(ServedGraph, KEY)

    ready = await condition(cluster)  # it is of the generation that the relay has
    assert ready.reason == ReadyReason.DGD_NOT_FOUND
    assert f"Service {CHILD.name} cannot be deleted: not today" in ready.message
    assert (await condition(cluster, ConditionType.PUBLISHED)).status == "False"

    interceptor.heal()
    await asyncio.sleep(60.0)
    assert await cluster.client.find(Service, CHILD) is None
    assert "cannot be deleted" not in (await condition(cluster)).message


async def test_refusals_are_asked_again_ever_more_slowly(cluster, interceptor):
    interceptor.inject(
        Point("POST", ".*/deployments", repeats=True), Answer(403, message="exceeded quota")
    )
    await cluster.client.create(RELAY)
    await cluster.client.create(GRAPH)

    await asyncio.sleep(600.0)

    assert len(interceptor.requests_of("deployments", "create")) < 25


@pytest.mark.parametrize(("method", "kind"), [("POST", "deployments"), ("DELETE", "services")])
async def test_a_server_that_says_when_to_come_back_is_heeded_and_told_of(
    cluster, interceptor, method, kind
):
    if method == "DELETE":
        await serve(cluster)
    busy = Answer(429, message="too busy", retry_after_seconds=3600)
    interceptor.inject(Point(method, f".*/{kind}(/.*)?", repeats=True), busy)
    if method == "DELETE":
        await cluster.client.delete(ServedGraph, KEY)
    else:
        await cluster.client.create(RELAY)
        await cluster.client.create(GRAPH)

    assert "too busy" in (await condition(cluster)).message
    await asyncio.sleep(120.0)
    sent = [r.at for r in interceptor.requests if r.method == method and f"/{kind}" in r.path]
    at_rest = [at for at in sent if at > sent[0]]  # at once only what events bring
    assert len(at_rest) == 4, at_rest
    assert at_rest[0] - sent[0] >= 29.0
