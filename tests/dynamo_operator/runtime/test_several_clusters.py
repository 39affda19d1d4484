"""One controller over the objects of several clusters."""

import asyncio
from contextlib import asynccontextmanager

import pytest
import structlog

from dynamo_operator.runtime.builtin_kinds import ConfigMap
from dynamo_operator.runtime.controller import Controller
from dynamo_operator.runtime.manager import Manager
from dynamo_operator.runtime.reconciler import Result
from dynamo_operator.runtime.sources import InformerSource
from dynamo_operator.testing.cluster import Cluster
from informers.objects import ObjectKey
from informers.shared_informer import SharedInformer

pytestmark = pytest.mark.virtual_time

KEY = ObjectKey("default", "a")


def test_a_key_names_its_cluster_only_where_there_are_several():
    there = ObjectKey("default", "a", "east")

    assert (str(KEY), str(there)) == ("default/a", "east:default/a")
    assert there != KEY
    assert there.local == KEY
    assert KEY.local is KEY


@asynccontextmanager
async def informer_of(cluster):
    informer = SharedInformer(
        cluster.client.list_watch(ConfigMap), clock=cluster.clock, random=cluster.random
    )
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        yield informer
        task.cancel()


async def test_objects_of_one_name_in_several_clusters_are_several_keys():
    seen = []

    async with Cluster.start() as home, Cluster.start(seed=1) as east:
        clients = {"": home.client, "east": east.client}

        class Copies:
            async def reconcile(self, key):
                found = await clients[key.cluster].get(ConfigMap, key.local)
                seen.append((str(key), found.data["in"]))
                if key.cluster:
                    assert structlog.contextvars.get_contextvars()["cluster"] == "east"
                return Result.done()

        for name, client in (("home", home.client), ("east", east.client)):
            await client.create(ConfigMap.new("a", namespace="default", data={"in": name}))
        async with informer_of(east) as informer:
            source = InformerSource(informer, cluster="east")
            controller = Controller(ConfigMap, reconciler=Copies(), channels=[source])
            async with home.manager(controller):
                await asyncio.sleep(1)

    assert sorted(seen) == [("default/a", "home"), ("east:default/a", "east")]


async def test_no_reader_or_client_takes_a_key_of_another_cluster_for_its_own():
    there = KEY._replace(cluster="east")
    async with Cluster.start() as cluster:
        await cluster.client.create(ConfigMap.new("a", namespace="default"))
        manager = Manager(cluster.client, clock=cluster.clock, random=cluster.random)
        manager.cache.declare(ConfigMap)
        async with manager.running():
            for reader in (manager.reader, manager.uncached_reader):
                with pytest.raises(ValueError, match=r"'east': ask that cluster's reader"):
                    await reader.find(ConfigMap, there)
            with pytest.raises(ValueError, match=r"for key\.local"):
                await manager.client.delete(ConfigMap, there)
