"""The example of chosen namespaces and metadata works on a cluster."""

import asyncio

import pytest

from docs.examples import namespaces_and_metadata as example
from dynamo_operator.runtime import Manager
from dynamo_operator.runtime.builtin_kinds import ConfigMap, Namespace, Pod
from dynamo_operator.testing import Cluster
from informers.objects import ObjectKey

pytestmark = pytest.mark.virtual_time


def pod(name, namespace, app):
    spec = {"containers": [{"name": "main", "image": "i:1"}]}
    return Pod.new(name, namespace=namespace, labels={"app": app}, spec=spec)


async def test_the_pods_of_namespaces_that_ask_are_counted():
    async with Cluster.start() as cluster:
        client = cluster.client
        await client.create(Namespace.new("asks", labels={example.WANTED: ""}))
        await client.create(Namespace.new("silent"))
        for namespace in ("asks", "silent"):
            await client.create(pod("a", namespace, "web"))
            await client.create(pod("b", namespace, "web"))
            await client.create(pod("c", namespace, "db"))
        manager = Manager(
            client,
            namespace_selector=example.WANTED,
            clock=cluster.clock,
            random=cluster.random,
        )
        example.add_to(manager)

        def census(namespace):
            return client.get(ConfigMap, ObjectKey(namespace, example.NAME))

        async with manager.running():
            await cluster.eventually(
                lambda: census("asks"), lambda c: c.data == {"db": "1", "web": "2"}
            )
            assert await client.find(ConfigMap, ObjectKey("silent", example.NAME)) is None

            await client.delete(Pod, ObjectKey("asks", "c"), grace_period_seconds=0)
            await cluster.eventually(lambda: census("asks"), lambda c: c.data == {"web": "2"})
            labels = {"metadata": {"labels": {example.WANTED: ""}}}
            await client.patch(Namespace, ObjectKey("", "silent"), labels)
            settled = await cluster.eventually(lambda: census("silent"), lambda c: len(c.data) == 2)
            await asyncio.sleep(3600)
            assert (await census("silent")).resource_version == settled.resource_version
