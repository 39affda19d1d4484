"""What keeps a run apart from its process, and the process clean of what a run leaves behind."""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import sys
import warnings
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import structlog

from dynamo_operator.simulation.loop import SimulationLoop

_MOST_AWAITS = 100
"""In the `finally` blocks of one task, when it is thrown away."""
_RUNS_BETWEEN_COLLECTIONS = 8
_runs = itertools.count(1)


@contextmanager
def isolated() -> Iterator[list[str]]:
    """Collect no garbage and show no log, so that neither changes a run or slows it down.

    What runs leave behind is collected after every eighth of them.

    Yields:
        Every line that is logged as a warning or worse.
    """
    lines: list[str] = []

    def keep(_: object, method: str, event: MutableMapping[str, Any]) -> Any:
        lines.append(f"{method}: {dict(event)!r}")
        raise structlog.DropEvent

    configuration = structlog.get_config()
    disabled = logging.root.manager.disable
    structlog.configure(
        processors=[keep], wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING)
    )
    logging.disable(logging.CRITICAL)
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield lines
    finally:
        structlog.configure(**configuration)
        logging.disable(disabled)
        if was_enabled:
            gc.enable()
        if next(_runs) % _RUNS_BETWEEN_COLLECTIONS == 0:
            gc.collect()


def dispose(loop: SimulationLoop) -> None:
    """Throw away what is still there; whatever its `finally` blocks do, nobody sees it."""
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seen: set[asyncio.Task[Any]] = set()
            while tasks := sorted(asyncio.all_tasks(loop) - seen, key=hash):
                seen.update(tasks)
                for task in tasks:
                    _close(task)
            loop.close()
            seen.clear()
            del tasks
    finally:
        sys.unraisablehook = hook


def _close(task: asyncio.Task[Any]) -> None:
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    coroutine = task.get_coro()
    for _ in range(_MOST_AWAITS):
        try:
            coroutine.close()
        except RuntimeError:
            continue  # a `finally` awaits: again
        except BaseException:  # noqa: BLE001, S110 # it is over
            pass
        return
