"""Namespaces that a label selector chooses, as they come and go."""

import asyncio

import pytest

from dynamo_operator.runtime.builtin_kinds import ConfigMap, Namespace, Node
from dynamo_operator.runtime.cache import NotCachedError
from dynamo_operator.runtime.controller import Controller
from dynamo_operator.runtime.enqueue import enqueue_mapped
from dynamo_operator.runtime.manager import Manager
from dynamo_operator.runtime.reconciler import Result
from dynamo_operator.runtime.sources import Watch
from dynamo_operator.testing.cluster import Cluster
from informers.objects import ObjectKey
from tests.dynamo_operator.runtime.widgets import HeldWatches

pytestmark = pytest.mark.virtual_time

SELECTOR = "lab/team=a"
CHOSEN = {"lab/team": "a"}


@pytest.fixture
async def cluster():
    async with Cluster.start() as cluster:
        for name, labels in (("chosen", CHOSEN), ("other", {})):
            await cluster.client.create(Namespace.new(name, labels=labels))
            await cluster.client.create(ConfigMap.new("c", namespace=name))
        yield cluster


class Recorder:
    def __init__(self):
        self.keys = []

    async def reconcile(self, key):
        self.keys.append(str(key))
        return Result.done()


def relabel(cluster, name, value):
    patch = {"metadata": {"labels": {"lab/team": value}}}
    return cluster.client.patch(Namespace, ObjectKey("", name), patch)


async def test_only_namespaces_whose_labels_match_are_watched(cluster):
    transport, recorder = HeldWatches(cluster), Recorder()
    controller = Controller(ConfigMap, reconciler=recorder)

    async with cluster.manager(
        controller, client=transport.client, namespace_selector=SELECTOR
    ) as manager:
        await asyncio.sleep(1)
        found = await manager.reader.list(ConfigMap)

    assert recorder.keys == ["chosen/c"]
    assert [c.key.namespace for c in found] == ["chosen"]
    assert transport.count("WATCH /api/v1/configmaps") == 0
    assert transport.count("WATCH /api/v1/namespaces/chosen/configmaps") == 1
    assert transport.count("namespaces/other") == 0


async def test_a_namespace_that_begins_to_match_is_watched_from_then_on(cluster):
    recorder = Recorder()
    async with cluster.manager(
        Controller(ConfigMap, reconciler=recorder), namespace_selector=SELECTOR
    ) as manager:
        await relabel(cluster, "other", "a")
        await asyncio.sleep(1)
        assert recorder.keys == ["chosen/c", "other/c"]

        await cluster.client.create(Namespace.new("new", labels=CHOSEN))
        await cluster.client.create(ConfigMap.new("d", namespace="new"))
        await asyncio.sleep(1)
        found = await manager.reader.list(ConfigMap)

    assert recorder.keys[2:] == ["new/d"]
    assert [c.key.namespace for c in found] == ["chosen", "new", "other"]


async def test_a_namespace_that_matches_no_longer_is_left_alone(cluster):
    transport, recorder = HeldWatches(cluster), Recorder()
    async with cluster.manager(
        Controller(ConfigMap, reconciler=recorder),
        client=transport.client,
        namespace_selector=SELECTOR,
    ) as manager:
        await asyncio.sleep(1)
        await relabel(cluster, "chosen", None)
        await asyncio.sleep(1)
        before = transport.count("configmaps")
        await cluster.client.create(ConfigMap.new("late", namespace="chosen"))
        await asyncio.sleep(3600)

        assert transport.count("configmaps") == before
        assert await manager.reader.list(ConfigMap) == []
        with pytest.raises(NotCachedError, match=r"the manager's namespaces match 'lab/team=a'"):
            await manager.reader.find(ConfigMap, ObjectKey("chosen", "c"))

    assert recorder.keys == ["chosen/c"]


async def test_what_leaves_with_its_namespace_is_deleted_for_those_who_watch_it(cluster):
    recorder = Recorder()
    controller = Controller(
        Node,
        reconciler=recorder,
        watches=[Watch(ConfigMap, enqueue=enqueue_mapped(lambda c: [ObjectKey("", c.key.name)]))],
    )
    async with cluster.manager(controller, namespace_selector=SELECTOR):
        await asyncio.sleep(1)
        await relabel(cluster, "chosen", None)
        await asyncio.sleep(1)

    assert recorder.keys == ["c", "c"]


async def test_a_deleted_namespace_ends_its_watches(cluster):
    transport, recorder = HeldWatches(cluster), Recorder()
    async with cluster.manager(
        Controller(ConfigMap, reconciler=recorder),
        client=transport.client,
        namespace_selector=SELECTOR,
    ):
        await asyncio.sleep(1)
        await cluster.client.delete(ConfigMap, ObjectKey("chosen", "c"))
        await cluster.client.delete(Namespace, ObjectKey("", "chosen"))
        await cluster.client.request(
            "PUT",
            "/api/v1/namespaces/chosen/finalize",
            body=b'{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"chosen"},"spec":{}}',
        )
        await asyncio.sleep(1)
        assert await cluster.client.find(Namespace, ObjectKey("", "chosen")) is None
        before = transport.count("chosen/configmaps")
        await asyncio.sleep(3600)

    assert recorder.keys == ["chosen/c", "chosen/c"]
    assert transport.count("chosen/configmaps") == before


async def test_cluster_scoped_kinds_are_watched_whatever_the_namespaces(cluster):
    recorder = Recorder()
    async with cluster.manager(
        Controller(Node, reconciler=recorder), namespace_selector="lab/team=nobody"
    ):
        await cluster.client.create(Node.new("n"))
        await asyncio.sleep(1)

    assert recorder.keys == ["n"]


async def test_an_own_write_is_awaited_in_a_namespace_that_came_later(cluster):
    async with cluster.manager(
        Controller(ConfigMap, reconciler=Recorder()), namespace_selector=SELECTOR
    ) as manager:
        await cluster.client.create(Namespace.new("new", labels=CHOSEN))
        await asyncio.sleep(1)
        await manager.client.create(ConfigMap.new("mine", namespace="new"))

        assert await manager.reader.find(ConfigMap, ObjectKey("new", "mine")) is not None


async def test_names_and_a_selector_exclude_each_other(cluster):
    with pytest.raises(ValueError, match="exclude each other"):
        Manager(cluster.client, namespaces=["a"], namespace_selector=SELECTOR)
