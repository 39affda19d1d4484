"""Mirrors chosen ConfigMaps of one namespace into others: a controller of several namespaces.

A ConfigMap of the source with the label `mirror.example/wanted` has a copy in each target; what is
changed or deleted there is put right, and a copy goes with its original. It may list, watch, patch
and delete ConfigMaps in these namespaces, and needs no right in any other: Roles, no ClusterRole.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence

from dynamo_operator.runtime import (
    CachedReader,
    Controller,
    Manager,
    Result,
    Watch,
    enqueue_mapped,
    ensure,
)
from dynamo_operator.runtime.builtin_kinds import ConfigMap
from dynamo_operator.runtime.client import Client, ClientConfig
from informers.objects import CachedObject, ObjectKey

WANTED = "mirror.example/wanted"
COPY = "mirror.example/copy"


class Mirror:
    """Keeps the copies of one ConfigMap; the key is that of the original, there or not."""

    def __init__(self, reader: CachedReader, client: Client, targets: Sequence[str]) -> None:
        self._reader = reader
        self._client = client
        self._targets = targets

    async def reconcile(self, key: ObjectKey) -> Result:
        """Compare each copy with the original; owners cannot be in another namespace."""
        original = await self._reader.find(ConfigMap, key)
        is_wanted = original is not None and WANTED in original.labels
        for target in self._targets:
            there = ObjectKey(target, key.name)
            copy = await self._reader.find(ConfigMap, there)
            if copy is not None and COPY not in copy.labels:
                continue  # somebody's own
            if original is not None and is_wanted:
                wanted = ConfigMap.new(
                    key.name, namespace=target, labels={COPY: ""}, data=original.data
                )
                await ensure(self._client, wanted, live=copy)
            elif copy is not None:
                await self._client.delete(ConfigMap, there, uid=copy.uid)
        return Result.done()


def add_to(manager: Manager, source: str, targets: Sequence[str]) -> None:
    """Add the controller."""

    def original_of(copy: CachedObject) -> Iterable[ObjectKey]:
        if copy.key.namespace in targets:
            yield ObjectKey(source, copy.key.name)

    manager.add(
        Controller(
            ConfigMap,
            name="mirror",
            reconciler=Mirror(manager.reader, manager.client.with_field_manager("mirror"), targets),
            predicates=[lambda event: event.object.key.namespace == source],
            watches=[Watch(ConfigMap, enqueue=enqueue_mapped(original_of))],
        )
    )


async def main() -> None:
    """Run the operator for `SOURCE` and the comma-separated `TARGETS`."""
    source, targets = os.environ["SOURCE"], os.environ["TARGETS"].split(",")
    async with Client.connect(ClientConfig.load(environ=os.environ)) as client:
        manager = Manager(client, namespaces=[source, *targets], health_address=":8081")
        add_to(manager, source, targets)
        await manager.run()


if __name__ == "__main__":
    asyncio.run(main())
