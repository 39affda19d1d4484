"""Operator processes that start, end and die at any moment, with the rights that they ship with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dynamo_operator.apiserver.messages import UserInfo
from dynamo_operator.app import OperatorSettings, build_manager
from dynamo_operator.generate import rbac
from dynamo_operator.generate.layout import MANAGER, NAME, NAMESPACE
from dynamo_operator.hardware.discovery import GPU_DISCOVERY_ROLE
from dynamo_operator.runtime import Manager
from dynamo_operator.runtime.builtin_kinds import ClusterRole, ClusterRoleBinding
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.manager import ShutdownTimeoutError
from dynamo_operator.testing.cluster import Cluster
from dynamo_operator.testing.in_process_transport import InProcessTransport
from hack.simulation.faulty_transport import CALM, FaultyTransport, Weather
from informers.clock import Random

USER = UserInfo(
    f"system:serviceaccount:{NAMESPACE}:{NAME}",
    groups=(
        "system:serviceaccounts",
        f"system:serviceaccounts:{NAMESPACE}",
        "system:authenticated",
    ),
)

_SETTINGS = OperatorSettings(operator_image="registry.lab/dynamo-operator:0.1.0")


@dataclass(frozen=True, slots=True)
class _Process:
    manager: Manager
    transport: FaultyTransport
    task: asyncio.Task[None]


class Operators:
    """The operator processes of one cluster.

    Args:
        cluster: where they work.
        random: seeds each of them.
        group: runs them.
        build: makes an operator out of client and settings.
    """

    def __init__(
        self,
        cluster: Cluster,
        random: Random,
        group: asyncio.TaskGroup,
        build: Callable[..., Manager] = build_manager,
    ) -> None:
        self._cluster = cluster
        self._random = random
        self._group = group
        self._build = build
        self._running: list[_Process] = []
        self._weather = CALM
        self.started = 0
        self.failures: list[str] = []
        """What no fault of the outside explains, of all processes that ended."""

    async def grant_rights(self) -> None:
        """Install the roles that the operator is shipped with."""
        client = self._cluster.client
        for role in (rbac.manager_role(), rbac.gpu_discovery_role()):
            await client.create(ClusterRole.model_validate(role))
        for name in (MANAGER, GPU_DISCOVERY_ROLE):
            await client.create(ClusterRoleBinding.model_validate(rbac.role_binding(name)))

    def set_weather(self, weather: Weather) -> None:
        """Let all processes meet these faults from now on."""
        self._weather = weather
        for process in self._running:
            process.transport.weather = weather

    def start(self) -> None:
        """Start one more process."""
        self.started += 1
        # Each has its own numbers, so that one's doings do not change another's.
        numbers = Random(self._random.getrandbits(64))
        inner = InProcessTransport(self._cluster.server, user=USER)
        transport = FaultyTransport(inner, Random(numbers.getrandbits(64)))
        transport.weather = self._weather
        client = Client.over(
            transport, host="in-process", clock=self._cluster.clock, random=numbers
        )
        manager = self._build(client, _SETTINGS, clock=self._cluster.clock, random=numbers)
        name = f"operator {self.started}"
        task = self._group.create_task(self._run(name, manager, client), name=name)
        self._running.append(_Process(manager, transport, task))

    async def stop(self, *, keep: int = 0) -> None:
        """End the oldest processes in good order, all but `keep`."""
        await self._end(self._take(keep))

    async def kill(self, *, keep: int = 0) -> None:
        """End the oldest processes in the middle of what they do, all but `keep`."""
        processes = self._take(keep)
        for process in processes:
            process.transport.kill()
        await self._end(processes)

    def _take(self, keep: int) -> list[_Process]:
        end = max(0, len(self._running) - keep)
        taken, self._running = self._running[:end], self._running[end:]
        return taken

    async def _end(self, processes: Iterable[_Process]) -> None:
        for process in processes:
            process.task.cancel()
            await asyncio.wait([process.task])

    async def _run(self, name: str, manager: Manager, client: Client) -> None:
        try:
            await manager.run()
        except ShutdownTimeoutError:
            pass  # a slow network may take longer than the grace period
        except Exception as error:  # noqa: BLE001 - a process that dies is what is looked for
            self.failures.append(f"{name} died: {type(error).__name__}: {error}")
        finally:
            await client.close()
            if defects := _defects(manager):
                self.failures.append(f"{name}: {defects} reconciles failed by a defect")


def _defects(manager: Manager) -> int:
    (metric,) = manager.metrics.reconcile_panics.collect()
    return int(sum(s.value for s in metric.samples if s.name.endswith("_total")))
