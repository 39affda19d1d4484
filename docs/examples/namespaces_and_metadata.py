"""Counts Pods in the namespaces that ask for it, from their metadata alone.

A namespace asks with the label `census.example/wanted`, at any time, and gets a ConfigMap `census`
with the number of Pods of each `app`. Of Pods no more than metadata is fetched and kept. It may
list and watch namespaces, Pods and ConfigMaps, and patch ConfigMaps.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Iterable

from dynamo_operator.runtime import (
    CachedReader,
    Controller,
    Manager,
    Result,
    Watch,
    enqueue_mapped,
    ensure,
)
from dynamo_operator.runtime.builtin_kinds import ConfigMap, Pod
from dynamo_operator.runtime.client import Client, ClientConfig
from informers.objects import CachedObject, ObjectKey

WANTED = "census.example/wanted"
NAME = "census"


class Census:
    """Keeps the numbers of one namespace; the key is that of its ConfigMap."""

    def __init__(self, reader: CachedReader, client: Client) -> None:
        self._reader = reader
        self._client = client

    async def reconcile(self, key: ObjectKey) -> Result:
        """Count, and write if the numbers are others than before."""
        pods = await self._reader.list_metadata(Pod, namespace=key.namespace, labels="app")
        counts = Counter(pod.labels["app"] for pod in pods)
        data = {app: str(count) for app, count in sorted(counts.items())}
        wanted = ConfigMap.new(key.name, namespace=key.namespace, data=data)
        await ensure(self._client, wanted, live=await self._reader.find(ConfigMap, key))
        return Result.done()


def census_of(pod: CachedObject) -> Iterable[ObjectKey]:
    """Return which census a Pod is counted in."""
    yield ObjectKey(pod.key.namespace, NAME)


def is_census(obj: CachedObject) -> bool:
    """Whether a ConfigMap is one of ours."""
    return obj.key.name == NAME


def add_to(manager: Manager) -> None:
    """Add the controller."""
    manager.add(
        Controller(
            ConfigMap,
            name=NAME,
            reconciler=Census(manager.reader, manager.client.with_field_manager(NAME)),
            predicates=[lambda event: is_census(event.object)],
            watches=[Watch(Pod, enqueue=enqueue_mapped(census_of), metadata_only=True)],
        )
    )


async def main() -> None:
    """Run the operator."""
    async with Client.connect(ClientConfig.load(environ=os.environ)) as client:
        manager = Manager(client, namespace_selector=WANTED, health_address=":8081")
        add_to(manager)
        await manager.run()


if __name__ == "__main__":
    asyncio.run(main())
