"""What the framework does to a cluster by itself: it reads, and that only where it was told to."""

import asyncio

import pytest

from dynamo_operator.runtime.builtin_kinds import ConfigMap
from dynamo_operator.runtime.controller import Controller
from dynamo_operator.runtime.reconciler import Result
from tests.dynamo_operator.runtime.widgets import Widget, key, widget, widget_cluster

pytestmark = pytest.mark.virtual_time


class Looks:
    """Reads everything, writes nothing."""

    def __init__(self, reader, client):
        self.reader = reader

    async def reconcile(self, widget_key):
        await self.reader.find(Widget, widget_key)
        await self.reader.list(ConfigMap, namespace=widget_key.namespace)
        return Result.requeue(after=30)


@pytest.fixture
async def cluster():
    async with widget_cluster() as cluster:
        yield cluster


def looking():
    return Controller(Widget, owns=[ConfigMap], reconciler=Looks, poll_every_seconds=60)


async def test_objects_are_left_as_their_users_made_them(cluster):
    operator = cluster.client_of("the-operator", groups=["system:masters"])
    made = await cluster.client.create(widget("a"))

    async with cluster.manager(looking(), client=operator):
        changed = await cluster.client.patch(Widget, made.key, {"spec": {"size": 2}})
        await asyncio.sleep(600)

    left = await cluster.client.get(Widget, made.key)
    assert left.resource_version == changed.resource_version
    assert (left.annotations, left.metadata.finalizers) == ({}, [])
    asked = [entry for entry in cluster.audit.entries if entry.user.name == "the-operator"]
    assert {entry.verb for entry in asked} == {"watch"}


async def test_an_object_can_be_deleted_while_the_operator_is_down(cluster):
    await cluster.client.create(widget("a"))
    async with cluster.manager(looking()):
        await asyncio.sleep(60)

    await cluster.client.delete(Widget, key("a"))

    assert await cluster.client.find(Widget, key("a")) is None


async def test_an_operator_of_one_namespace_asks_for_nothing_else(cluster):
    operator = cluster.client_of("the-operator", groups=["system:masters"])

    async with cluster.manager(looking(), client=operator, namespaces=["default"]):
        await asyncio.sleep(60)

    asked = [entry for entry in cluster.audit.entries if entry.user.name == "the-operator"]
    assert asked
    assert {entry.namespace for entry in asked} == {"default"}
