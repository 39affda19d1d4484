"""Read, change, write: again when somebody else wrote in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from dynamo_operator.runtime.client.errors import ConflictError
from informers.clock import Random, system_random

T = TypeVar("T")

_FIRST_DELAY_SECONDS = 0.01


async def retry_on_conflict(
    operation: Callable[[], Awaitable[T]],
    *,
    attempts: int = 5,
    factor: float = 1.0,
    random: Random | None = None,
) -> T:
    """Run an operation that reads, changes and writes, anew after each conflict.

    Server-side apply seldom needs this: it says which fields to change and has no version to miss.

    Args:
        operation: reads the object itself, live, each time.
        attempts: how often it is run at most.
        factor: by how much each wait is longer than the one before; the first is 10 ms. 5 suits an
            object that several programs write all the time.
        random: spreads the waits.

    Raises:
        ConflictError: the last attempt was in vain, too.

    Example:
        >>> async def raise_limit(client: Client, key: ObjectKey) -> None:
        ...     async def once() -> ConfigMap:
        ...         config = await client.get(ConfigMap, key)
        ...         config.data["limit"] = str(int(config.data["limit"]) + 1)
        ...         return await client.replace(config)
        ...
        ...     await retry_on_conflict(once)
    """
    random = random or system_random()
    for attempt in range(1, attempts):
        try:
            return await operation()
        except ConflictError:
            delay = _FIRST_DELAY_SECONDS * factor ** (attempt - 1)
            await asyncio.sleep(delay * random.uniform(1.0, 1.1))
    return await operation()
