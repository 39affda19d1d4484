"""The example of several namespaces works on a cluster."""

import asyncio

import pytest

from docs.examples import several_namespaces as example
from dynamo_operator.runtime import Manager
from dynamo_operator.runtime.builtin_kinds import ConfigMap, Namespace
from dynamo_operator.testing import Cluster
from informers.objects import ObjectKey

pytestmark = pytest.mark.virtual_time


async def test_wanted_config_maps_are_mirrored_and_kept_so():
    async with Cluster.start() as cluster:
        client = cluster.client
        for namespace in ("source", "one", "two", "other"):
            await client.create(Namespace.new(namespace))
        manager = Manager(
            client, namespaces=["source", "one", "two"], clock=cluster.clock, random=cluster.random
        )
        example.add_to(manager, "source", ["one", "two"])

        def names(namespace):
            async def fetch():
                return [
                    found.key.name for found in await client.list(ConfigMap, namespace=namespace)
                ]

            return fetch

        async with manager.running():
            wanted = ConfigMap.new(
                "a", namespace="source", labels={example.WANTED: ""}, data={"k": "v"}
            )
            await client.create(wanted)
            await client.create(ConfigMap.new("unwanted", namespace="source"))
            await client.create(ConfigMap.new("own", namespace="one"))
            labels = {example.WANTED: ""}
            await client.create(ConfigMap.new("own", namespace="source", labels=labels))
            await cluster.eventually(names("one"), lambda found: found == ["a", "own"])
            await cluster.eventually(names("two"), lambda found: found == ["a", "own"])
            assert await names("other")() == []

            await client.patch(ConfigMap, ObjectKey("one", "a"), {"data": {"k": "edited"}})
            await cluster.eventually(
                lambda: client.get(ConfigMap, ObjectKey("one", "a")),
                lambda copy: copy.data == {"k": "v"},
            )
            await client.delete(ConfigMap, ObjectKey("two", "a"))
            copy = await cluster.eventually(lambda: client.get(ConfigMap, ObjectKey("two", "a")))
            await asyncio.sleep(3600)
            assert await client.get(ConfigMap, copy.key) == copy

            for name in ("a", "own"):
                await client.delete(ConfigMap, ObjectKey("source", name))
            await cluster.eventually(names("two"), lambda found: found == [])
            await cluster.eventually(names("one"), lambda found: found == ["own"])
