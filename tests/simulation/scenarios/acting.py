"""What users and actors wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from dynamo_operator.apiserver.storage import StorageKey
from dynamo_operator.runtime.client.errors import ApiError
from dynamo_operator.simulation.history import WAITED_IN_VAIN, Commit
from dynamo_operator.simulation.world import World


class Commits:
    """Wakes who waits for commits.

    Args:
        world: whose commits.
        resource: of which objects; None: of any.
    """

    def __init__(self, world: World, resource: StorageKey | None = None) -> None:
        self._happened = asyncio.Event()
        self._resource = resource
        world.history.subscribe(self._committed)

    async def wait(self) -> None:
        """Return after the next commit, at once if there was one since the last call."""
        await self._happened.wait()
        self._happened.clear()

    def _committed(self, commit: Commit) -> None:
        if self._resource is None or commit.resource == self._resource:
            self._happened.set()


async def until(world: World, holds: Callable[[], bool], *, within: float = 900.0) -> bool:
    """Wait for something to hold, looking after each commit; return whether it came about.

    A workload goes on all the same: what should have come about is for invariants to say.
    """
    commits = Commits(world)
    with suppress(TimeoutError):
        async with asyncio.timeout(within):
            while not holds():
                await commits.wait()
            return True
    world.history.mark(WAITED_IN_VAIN)
    return False


async def attempt(action: Awaitable[object]) -> bool:
    """Do what a user does; return whether the API server had it done."""
    try:
        await action
    except ApiError:
        return False
    return True
