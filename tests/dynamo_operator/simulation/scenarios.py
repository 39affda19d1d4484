"""A small operator, right and wrong, whose life is simulated."""

from __future__ import annotations

from dynamo_operator.runtime import Controller, Manager
from dynamo_operator.runtime.builtin_kinds import ConfigMap
from dynamo_operator.runtime.reconciler import Result
from dynamo_operator.simulation import STANDARD, Scenario
from informers.objects import ObjectKey

NAMESPACE = "default"


class Echo:
    """Gives each ConfigMap an echo of its own."""

    def __init__(self, reader, client):
        self.reader, self.client = reader, client

    async def reconcile(self, key):
        found = await self.reader.find(ConfigMap, key)
        if found is None or found.is_deleting or key.name.endswith("-echo"):
            return Result.done()
        await self.write(found)
        return Result.done()

    async def write(self, found):
        echo = ConfigMap.new(f"{found.key.name}-echo", namespace=NAMESPACE, data=found.data)
        await self.client.apply(echo, owner=found)


def operator_of(reconciler):
    def operator(client, **seams):
        manager = Manager(client, **seams)
        manager.add(Controller(ConfigMap, reconciler=reconciler, name="echo"))
        return manager

    return operator


async def two_come_and_one_goes(world):
    for name in ("a", "b"):
        await world.client.create(ConfigMap.new(name, namespace=NAMESPACE, data={"said": name}))
    await world.settle()
    await world.client.delete(ConfigMap, ObjectKey(NAMESPACE, "a"))


def scenario(reconciler=Echo, **options):
    options = {"workload": two_come_and_one_goes, "invariants": STANDARD, **options}
    return Scenario(name="echo", operator=operator_of(reconciler), controllers=("gc",), **options)
