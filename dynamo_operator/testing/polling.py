"""Waiting in a test for what a controller will do sooner or later."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

from dynamo_operator.runtime.client.errors import NotFoundError

T = TypeVar("T")

TIMEOUT_SECONDS = 10.0
_INTERVAL_SECONDS = 0.02


@overload
async def eventually(
    fetch: Callable[[], Awaitable[T]],
    predicate: Callable[[T], object] = bool,
    *,
    timeout: float = TIMEOUT_SECONDS,
) -> T: ...
@overload
async def eventually(
    fetch: Callable[[], T],
    predicate: Callable[[T], object] = bool,
    *,
    timeout: float = TIMEOUT_SECONDS,
) -> T: ...
async def eventually(
    fetch: Callable[[], Any],
    predicate: Callable[[Any], object] = bool,
    *,
    timeout: float = TIMEOUT_SECONDS,
) -> Any:
    """Fetch again and again until the predicate holds, and return what was fetched then.

    Args:
        fetch: looks at the world; NotFoundError means "not yet".
        predicate: what is waited for.
        timeout: seconds of the loop's time.

    Raises:
        AssertionError: it did not come true; shows what was fetched last.
    """
    last: object = "nothing yet"
    try:
        async with asyncio.timeout(timeout):
            while True:
                try:
                    value = fetch()
                    found = await value if inspect.isawaitable(value) else value
                except NotFoundError as error:
                    last = error
                else:
                    last = found
                    if predicate(found):
                        return found
                await asyncio.sleep(_INTERVAL_SECONDS)
    except TimeoutError:
        raise AssertionError(f"not within {timeout:g} s; last seen: {last!r}") from None
