"""A small operator, right and wrong, whose life is simulated."""

from __future__ import annotations

from dynamo_operator.runtime import Controller, Manager
from dynamo_operator.runtime.builtin_kinds import ConfigMap
from dynamo_operator.runtime.reconciler import Result
from dynamo_operator.simulation import STANDARD, Scenario
from dynamo_operator.simulation.invariants import AtMostOne
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


async def one_is_changed(world):
    key = ObjectKey(NAMESPACE, "a")
    await world.client.create(ConfigMap.new("a", namespace=NAMESPACE))
    await world.settle()
    await world.client.patch(ConfigMap, key, {"data": {"said": "more"}})
    await world.settle()


def scenario(reconciler=Echo, **options):
    options = {
        "workload": two_come_and_one_goes,
        "invariants": STANDARD,
        "quiet_seconds": 90.0,
        **options,
    }
    return Scenario(name="echo", operator=operator_of(reconciler), controllers=("gc",), **options)


class Twice(Echo):
    """Wrong: remembers in memory alone what it made, and tries each time under a new name."""

    def __init__(self, reader, client):
        super().__init__(reader, client)
        self.made = set()

    async def write(self, found):
        if found.uid in self.made:
            return
        number = len(await self.client.list(ConfigMap, namespace=NAMESPACE))
        echo = ConfigMap.new(f"{found.key.name}-{number}-echo", namespace=NAMESPACE)
        await self.client.create(echo, owner=found)
        self.made.add(found.uid)


ONE_ECHO = AtMostOne(ConfigMap)
RIGHT = scenario(invariants=(ONE_ECHO, *STANDARD))
WRONG = scenario(Twice, workload=one_is_changed, invariants=(ONE_ECHO,))
