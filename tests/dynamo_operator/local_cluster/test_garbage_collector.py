import asyncio
from contextlib import asynccontextmanager

import pytest

from dynamo_operator.local_cluster.garbage_collector import GarbageCollector
from dynamo_operator.runtime.builtin_kinds import (
    ClusterRole,
    ConfigMap,
    CustomResourceDefinition,
    Event,
    Namespace,
    Secret,
)
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.client.errors import NotFoundError
from dynamo_operator.runtime.models import KubeModel
from dynamo_operator.testing.cluster import Cluster
from dynamo_operator.testing.in_process_transport import InProcessTransport
from informers.objects import ObjectKey, ResourceType

pytestmark = pytest.mark.virtual_time

LONG = 100.0  # more than any retry


class Widget(KubeModel):
    resource_type = ResourceType("lab.test", "v1", "Widget", "widgets")


WIDGETS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.lab.test"},
    "spec": {
        "group": "lab.test",
        "names": {"kind": "Widget", "plural": "widgets"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }
        ],
    },
}


@pytest.fixture
async def cluster():
    async with Cluster.start() as cluster:
        for name in ("a", "b"):
            await cluster.client.create(Namespace.new(name))
        yield cluster


@asynccontextmanager
async def collecting(cluster, client=None):
    client = client or cluster.client
    collector = GarbageCollector(client, clock=cluster.clock, random=cluster.random)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(collector.run())
        await collector.wait_synced()
        try:
            yield
        finally:
            task.cancel()


def owned(name, *owners, kind=ConfigMap, namespace="a", block=True, finalizers=()):
    made = kind.new(name, namespace=namespace)
    body = made.to_dict()
    body["metadata"]["finalizers"] = list(finalizers)
    body["metadata"]["ownerReferences"] = [
        {
            "apiVersion": owner.resource_type.api_version,
            "kind": owner.resource_type.kind,
            "name": owner.key.name,
            "uid": owner.uid,
            "blockOwnerDeletion": block,
        }
        for owner in owners
    ]
    return kind.model_validate(body)


async def gone(cluster, obj):
    async def find():
        found = await cluster.client.find(type(obj), obj.key)
        return found is None or found.uid != obj.uid

    await cluster.eventually(find, timeout=LONG)


async def still_there(cluster, obj):
    await asyncio.sleep(LONG)
    return (await cluster.client.get(type(obj), obj.key)).uid == obj.uid


async def warnings(cluster):
    return [
        (event.key.namespace, event.reason, event.regarding["name"])
        for event in await cluster.client.list(Event)
        if event.type == "Warning"
    ]


async def test_what_has_lost_its_owner_is_deleted(cluster):
    async with collecting(cluster):
        owner = await cluster.client.create(ConfigMap.new("own", namespace="a"))
        child = await cluster.client.create(owned("kid", owner, kind=Secret))
        grandchild = await cluster.client.create(owned("grand", child))

        await cluster.client.delete(ConfigMap, owner.key)

        await gone(cluster, child)
        await gone(cluster, grandchild)


class Overtaken(InProcessTransport):
    """Answers the first read of an object only after everybody has heard that it is gone."""

    def __init__(self, cluster, obj):
        super().__init__(cluster.server)
        self._cluster, self._obj = cluster, obj
        self.has_overtaken = False

    async def send(self, request, *, timeout_seconds):
        answer = await super().send(request, timeout_seconds=timeout_seconds)
        if request.path.endswith(self._obj.key.name) and not self.has_overtaken:
            self.has_overtaken = True
            await self._cluster.client.delete(type(self._obj), self._obj.key)
            await asyncio.sleep(1.0)
        return answer


async def test_what_goes_while_it_is_looked_at_does_not_end_the_collector(cluster):
    owner = await cluster.client.create(ConfigMap.new("own", namespace="a"))
    child = await cluster.client.create(owned("kid", owner))
    other = await cluster.client.create(owned("other", owner))
    transport = Overtaken(cluster, child)
    client = Client.over(transport, host="a", clock=cluster.clock, random=cluster.random)

    async with collecting(cluster, client):
        await cluster.client.delete(ConfigMap, owner.key)
        await gone(cluster, other)
        await asyncio.sleep(LONG)

    assert transport.has_overtaken


async def test_garbage_from_before_the_collector_started_is_deleted(cluster):
    owner = await cluster.client.create(ConfigMap.new("own", namespace="a"))
    child = await cluster.client.create(owned("kid", owner))
    await cluster.client.delete(ConfigMap, owner.key)

    async with collecting(cluster):
        await gone(cluster, child)


async def test_one_owner_left_is_enough_and_the_lost_one_is_no_longer_named(cluster):
    async with collecting(cluster):
        first = await cluster.client.create(ConfigMap.new("first", namespace="a"))
        second = await cluster.client.create(ConfigMap.new("second", namespace="a"))
        child = await cluster.client.create(owned("kid", first, second))

        await cluster.client.delete(ConfigMap, first.key)

        left = await cluster.eventually(
            lambda: cluster.client.get(ConfigMap, child.key),
            lambda found: len(found.owner_references) == 1,
            timeout=LONG,
        )
        assert left.owner_references[0].name == "second"


async def test_an_owner_of_the_same_name_is_not_the_owner(cluster):
    async with collecting(cluster):
        owner = await cluster.client.create(ConfigMap.new("own", namespace="a"))
        child = await cluster.client.create(owned("kid", owner))

        await cluster.client.delete(ConfigMap, owner.key)
        await cluster.client.create(ConfigMap.new("own", namespace="a"))

        await gone(cluster, child)


async def test_foreground_deletion_takes_dependents_first(cluster):
    async with collecting(cluster):
        owner = await cluster.client.create(ConfigMap.new("own", namespace="a"))
        child = await cluster.client.create(owned("kid", owner, finalizers=["lab.test/hold"]))
        loose = await cluster.client.create(owned("loose", owner, block=False))

        await cluster.client.delete(ConfigMap, owner.key, propagation="Foreground")

        await cluster.eventually(
            lambda: cluster.client.get(ConfigMap, child.key), lambda c: c.is_deleting, timeout=LONG
        )
        assert await still_there(cluster, owner)
        patch = {"metadata": {"finalizers": None}}
        await cluster.client.patch(ConfigMap, child.key, patch)
        await gone(cluster, owner)
        await gone(cluster, loose)


async def test_orphaned_dependents_stay_without_their_owner(cluster):
    async with collecting(cluster):
        owner = await cluster.client.create(ConfigMap.new("own", namespace="a"))
        child = await cluster.client.create(owned("kid", owner))

        await cluster.client.delete(ConfigMap, owner.key, propagation="Orphan")

        await gone(cluster, owner)
        assert await still_there(cluster, child)
        assert (await cluster.client.get(ConfigMap, child.key)).owner_references == ()


async def test_a_circle_deleted_in_the_foreground_ends(cluster):
    async with collecting(cluster):
        first = await cluster.client.create(ConfigMap.new("first", namespace="a"))
        second = await cluster.client.create(owned("second", first))
        body = owned("first", second).to_dict()["metadata"]
        patch = {"metadata": {"ownerReferences": body["ownerReferences"]}}
        await cluster.client.patch(ConfigMap, first.key, patch)

        await cluster.client.delete(ConfigMap, first.key, propagation="Foreground")

        await gone(cluster, first)
        await gone(cluster, second)


@pytest.mark.parametrize("moment", ["before the owner is seen", "after", "after a restart"])
async def test_an_owner_in_another_namespace_is_no_owner(cluster, moment):
    if moment == "before the owner is seen":
        owner = await cluster.client.create(ConfigMap.new("own", namespace="a"))
        child = await cluster.client.create(owned("kid", owner, kind=Secret, namespace="b"))
        async with collecting(cluster):
            await gone(cluster, child)
            await asyncio.sleep(LONG)
    else:
        owner = await cluster.client.create(ConfigMap.new("own", namespace="a"))
        if moment == "after a restart":
            async with collecting(cluster):
                await asyncio.sleep(LONG)
        async with collecting(cluster):
            child = await cluster.client.create(owned("kid", owner, kind=Secret, namespace="b"))
            await gone(cluster, child)
            await asyncio.sleep(LONG)

    assert await warnings(cluster) == [("b", "OwnerRefInvalidNamespace", "kid")]
    assert await cluster.client.find(ConfigMap, owner.key)


async def test_a_cluster_scoped_object_with_a_namespaced_owner_stays(cluster):
    async with collecting(cluster):
        owner = await cluster.client.create(ConfigMap.new("own", namespace="a"))
        child = await cluster.client.create(owned("kid", owner, kind=ClusterRole, namespace=""))

        assert await still_there(cluster, child)

    assert await warnings(cluster) == [("default", "OwnerRefInvalidNamespace", "kid")]


async def test_kinds_that_come_later_are_collected_too(cluster):
    async with collecting(cluster):
        await cluster.install(WIDGETS)
        owner = await cluster.client.create(Widget.new("own", namespace="a"))
        child = await cluster.client.create(owned("kid", owner, kind=Widget))
        config = await cluster.client.create(owned("config", owner))

        await cluster.client.delete(Widget, owner.key)

        await gone(cluster, child)
        await gone(cluster, config)


async def test_an_owner_of_a_kind_that_is_not_served_keeps_its_dependents(cluster):
    await cluster.install(WIDGETS)
    owner = await cluster.client.create(Widget.new("own", namespace="a"))
    child = await cluster.client.create(owned("kid", owner))
    await cluster.client.delete(CustomResourceDefinition, ObjectKey("", "widgets.lab.test"))
    with pytest.raises(NotFoundError):
        await cluster.client.get(Widget, owner.key)

    async with collecting(cluster):
        assert await still_there(cluster, child)


async def test_an_object_created_for_an_owner_that_was_just_deleted_is_collected(cluster):
    async with collecting(cluster):
        owner = await cluster.client.create(ConfigMap.new("own", namespace="a"))
        await cluster.client.delete(ConfigMap, owner.key)
        await asyncio.sleep(LONG)

        child = await cluster.client.create(owned("kid", owner))

        await gone(cluster, child)
