"""A cluster for tests: an embedded API server, a client, and the controllers that are asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Literal, TypeVar

from dynamo_operator.apiserver.api_server import ApiServer
from dynamo_operator.runtime.builtin_kinds import CustomResourceDefinition
from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.controller import Controller
from dynamo_operator.runtime.manager import Manager, Runnable
from dynamo_operator.testing.in_process_transport import InProcessTransport
from dynamo_operator.testing.polling import TIMEOUT_SECONDS, eventually
from dynamo_operator.testing.virtual_time import VirtualClock, VirtualTimeLoop
from informers.clock import Clock, Random, SystemClock

T = TypeVar("T")
Mode = Literal["in_process", "http"]


class Cluster:
    """Made by `Cluster.start`; `client` is an administrator's.

    Example:
        >>> async def test_widget_gets_its_config_map() -> None:
        ...     async with Cluster.start(crds=[WIDGET_CRD]) as cluster:
        ...         async with cluster.manager(Controller(Widget, reconciler=WidgetReconciler)):
        ...             await cluster.client.create(Widget.new("a"))
        ...             await cluster.eventually(lambda: cluster.client.get(ConfigMap, key))
    """

    def __init__(self, server: ApiServer, client: Client, clock: Clock, random: Random) -> None:
        self.server = server
        self.client = client
        self.clock = clock
        self.random = random

    @classmethod
    @asynccontextmanager
    async def start(
        cls,
        *,
        crds: list[Mapping[str, Any]] | None = None,
        seed: int = 0,
    ) -> AsyncGenerator[Cluster]:
        """Start a cluster for the length of the block; on a virtual-time loop its time is virtual.

        Args:
            crds: CustomResourceDefinitions to install first.
            seed: of every random choice.
        """
        virtual = isinstance(asyncio.get_running_loop(), VirtualTimeLoop)
        clock: Clock = VirtualClock() if virtual else SystemClock()
        random = Random(seed)
        server = ApiServer(clock=clock, random=random)
        client = Client.over(
            InProcessTransport(server), host="in-process", clock=clock, random=random
        )
        try:
            cluster = cls(server, client, clock, random)
            for crd in crds or ():
                await cluster.install(crd)
            yield cluster
        finally:
            await client.close()
            server.close()

    async def install(self, crd: Mapping[str, Any]) -> None:
        """Create a CustomResourceDefinition and wait until its kind is served."""
        made = await self.client.create(CustomResourceDefinition.model_validate(crd))
        await self.eventually(
            lambda: self.client.get(CustomResourceDefinition, made.key), _is_established
        )

    def manager(
        self, *runnables: Controller | Runnable, **options: Any
    ) -> AbstractAsyncContextManager[Manager]:
        """Run a manager with these for the length of the block; `options` are Manager's."""
        options = {"clock": self.clock, "random": self.random, **options}
        manager = Manager(options.pop("client", self.client), **options)
        for runnable in runnables:
            manager.add(runnable)
        return manager.running()

    async def eventually(
        self,
        fetch: Callable[[], Awaitable[T] | T],
        predicate: Callable[[T], object] = bool,
        *,
        timeout: float = TIMEOUT_SECONDS,
    ) -> T:
        """Wait until what is fetched satisfies the predicate; see `polling.eventually`."""
        return await eventually(fetch, predicate, timeout=timeout)


def _is_established(crd: CustomResourceDefinition) -> bool:
    conditions = crd.status.get("conditions") or []
    return any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions)
