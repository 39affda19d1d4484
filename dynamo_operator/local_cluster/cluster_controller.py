"""What the controllers of the local cluster have in common: each runs in a manager of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.manager import Manager
from informers.clock import Clock, Random, SystemClock, system_random


class ClusterController(ABC):
    """One of the programs that make an API server a cluster; a subclass says what it controls.

    Args:
        client: of the cluster.
        clock: times.
        random: jitter.
    """

    name: ClassVar[str]
    """Whom its Events come from, and its writes, unless `field_manager` says otherwise."""
    field_manager: ClassVar[str] = ""
    needs_leadership = False

    def __init__(
        self, client: Client, *, clock: Clock | None = None, random: Random | None = None
    ) -> None:
        self._client = client.with_field_manager(self.field_manager or self.name)
        self._clock = clock or SystemClock()
        self._random = random or system_random()

    async def run(self) -> None:
        """Run until cancelled."""
        manager = Manager(self._client, clock=self._clock, random=self._random, name=self.name)
        self.add_to(manager)
        await manager.run()

    @abstractmethod
    def add_to(self, manager: Manager) -> None:
        """Add what this controls to the manager."""
