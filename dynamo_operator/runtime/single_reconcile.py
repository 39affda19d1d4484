"""One reconcile by hand: caches and events run, and nothing else of a manager."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final

from dynamo_operator.runtime.manager import Manager
from dynamo_operator.runtime.runnables import Runnable, first_leaf
from dynamo_operator.runtime.running_controller import RunningController

_EVENT_SECONDS: Final = 5.0


@asynccontextmanager
async def prepared(manager: Manager, controller: RunningController) -> AsyncGenerator[None]:
    """Have everything ready for `controller.reconcile(key)` inside the block.

    The manager's caches are filled and its events are sent, the last ones at the end of the block.
    It serves nothing, takes no Lease, and none of its controllers works by itself.

    Args:
        manager: made, never run.
        controller: one that its `add` returned.

    Raises:
        CacheSyncError: what is watched did not arrive in time.
        InformerFailedError: a cache cannot be kept.
    """
    try:
        async with asyncio.TaskGroup() as group:
            recorders = dict.fromkeys((manager.events, manager.unfenced_events))
            runnables: list[Runnable] = [manager.cache, *recorders]
            tasks = [
                group.create_task(runnable.run(), name=type(runnable).__name__)
                for runnable in runnables
            ]
            try:
                await controller.wait_synced()
                await manager.cache.wait_synced()
                yield
                with suppress(TimeoutError):
                    async with asyncio.timeout(_EVENT_SECONDS):
                        for recorder in recorders:
                            await recorder.wait_sent()
            finally:
                for task in tasks:
                    task.cancel()
    except BaseExceptionGroup as failures:
        raise first_leaf(failures) from None
