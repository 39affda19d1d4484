"""A controller with a bug that its unit tests do not show, and the simulation that finds it.

Each ConfigMap with the label `backup` is to be backed up by one Job. The forgetful version names a
Job after the time and remembers in memory for whom it made one. It works, until its process dies in
the wrong moment: then there are two.

    python docs/examples/simulated_backups.py
"""

from __future__ import annotations

from collections.abc import Callable

from dynamo_operator.runtime import Controller, Manager, Result
from dynamo_operator.runtime.builtin_kinds import ConfigMap, Job
from dynamo_operator.runtime.client import Client, Reader
from dynamo_operator.simulation import STANDARD, Program, Scenario, World, enumerate_faults, run
from dynamo_operator.simulation.invariants import AtMostOne
from informers.clock import Clock, Random
from informers.objects import ObjectKey

NAMESPACE = "default"
_CONTAINER = {"name": "backup", "image": "lab.example/backup:1"}
_SPEC = {"template": {"spec": {"restartPolicy": "Never", "containers": [_CONTAINER]}}}


class ForgetfulBackups:
    """Wrong: what it did is in its memory alone, and each name is another one."""

    def __init__(self, reader: Reader, client: Client, clock: Clock) -> None:
        self._reader, self._client, self._clock = reader, client, clock
        self._done: set[str] = set()

    async def reconcile(self, key: ObjectKey) -> Result:
        """Have a Job run for a ConfigMap that wants one."""
        config = await self._reader.find(ConfigMap, key)
        if config is not None and "backup" in config.labels and config.uid not in self._done:
            name = f"backup-{key.name}-{self._clock.now():%H%M%S}"
            await self._client.create(Job.new(name, namespace=NAMESPACE, spec=_SPEC), owner=config)
            self._done.add(config.uid)
        return Result.done()


class Backups:
    """Right: the name says for whom a Job is, and the cluster remembers."""

    def __init__(self, reader: Reader, client: Client) -> None:
        self._reader, self._client = reader, client

    async def reconcile(self, key: ObjectKey) -> Result:
        """Have a Job run for a ConfigMap that wants one."""
        config = await self._reader.find(ConfigMap, key)
        if config is None or config.is_deleting or "backup" not in config.labels:
            return Result.done()
        name = ObjectKey(NAMESPACE, f"backup-{key.name}-{config.uid[:8]}")
        if await self._reader.find(Job, name) is None:
            job = Job.new(name.name, namespace=NAMESPACE, spec=_SPEC)
            await self._client.create(job, owner=config)
        return Result.done()


def forgetful(client: Client, *, clock: Clock, random: Random) -> Program:
    """Make the wrong operator."""
    manager = Manager(client, clock=clock, random=random)
    manager.add(
        Controller(
            ConfigMap,
            owns=[Job],
            name="backups",
            reconciler=lambda reader, client: ForgetfulBackups(reader, client, clock),
        )
    )
    return manager


def careful(client: Client, *, clock: Clock, random: Random) -> Program:
    """Make the right operator."""
    manager = Manager(client, clock=clock, random=random)
    manager.add(Controller(ConfigMap, owns=[Job], name="backups", reconciler=Backups))
    return manager


async def two_configs(world: World) -> None:
    """Let users make two ConfigMaps, and delete one later."""
    for name in ("orders", "users"):
        config = ConfigMap.new(name, namespace=NAMESPACE, labels={"backup": "yes"})
        await world.client.create(config)
    await world.settle()
    await world.client.delete(ConfigMap, ObjectKey(NAMESPACE, "orders"))


def scenario_of(name: str, operator: Callable[..., Program]) -> Scenario:
    """Return the life that either operator is to survive."""
    return Scenario(
        name=name,
        operator=operator,
        workload=two_configs,
        controllers=("gc",),
        invariants=(AtMostOne(Job), *STANDARD),
        quiet_seconds=120.0,
    )


WRONG = scenario_of("forgetful backups", forgetful)
RIGHT = scenario_of("backups", careful)


def main() -> None:
    """Kill each operator at every call in turn, and tell the first story."""
    for scenario in (WRONG, RIGHT):
        report = enumerate_faults(scenario, classes=("crash",))
        print(f"{report.told().splitlines()[0]}\n")
        if report.failures:
            print(run(scenario, plan=report.failures[0].trial.plan).story(scenario), end="\n\n")


if __name__ == "__main__":
    main()
