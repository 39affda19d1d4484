"""No run may depend on anything but its seed: what would make it so is refused, or made virtual.

For the length of a run the machine's randomness and threads raise `EntropyError`, wherever in the
process they are asked for, and the time module tells virtual time. `datetime.now` cannot be
replaced: whoever takes the wall clock from there is found by comparing two runs.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from dynamo_operator.testing.virtual_time import START
from informers.clock import SystemClock

_LIBRARY = f"{os.path.dirname(os.__file__)}{os.sep}"
_SEED = random.Random.seed
_DRAWS = tuple(name for name in random.__all__ if hasattr(random.Random, name))
_WALL = ("time", "time_ns")
_MONOTONIC = ("monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns")


class EntropyError(RuntimeError):
    """Something asked the machine for what a seed has to decide; says what would be right."""


class EntropyGuard:
    """Refuses the machine's randomness and threads, and makes the time module's time virtual.

    Args:
        now: returns the virtual time in seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self.found: list[str] = []
        """What asked for it, and where, each once."""
        self._now = now

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Do so for the length of a block."""
        with ExitStack() as stack:

            def replace(where: Any, name: str, by: Any) -> None:
                stack.enter_context(patch.object(where, name, by))

            for name in _DRAWS:
                replace(random, name, self._refusing(f"random.{name}"))
            replace(random.Random, "seed", self._seeding())
            replace(random, "_urandom", self._refusing("random.SystemRandom"))
            replace(os, "urandom", self._refusing("os.urandom"))
            replace(uuid, "uuid1", self._refusing("uuid.uuid1"))
            replace(uuid, "uuid4", self._refusing("uuid.uuid4"))
            replace(threading.Thread, "start", self._refusing("threading.Thread.start"))
            replace(time, "sleep", self._refusing("time.sleep"))
            replace(SystemClock, "now", self._refusing("informers.clock.SystemClock.now"))
            for name in _WALL:
                replace(time, name, self._telling(name, START.timestamp()))
            for name in _MONOTONIC:
                replace(time, name, self._telling(name, 0.0))
            yield

    def _refusing(self, name: str) -> Callable[..., Any]:
        def refuse(*_: Any, **__: Any) -> Any:
            raise self._error(name)

        return refuse

    def _seeding(self) -> Callable[..., None]:
        def seed(generator: random.Random, a: Any = None, *arguments: Any, **options: Any) -> None:
            if a is None:
                raise self._error("random.Random() without a seed")
            _SEED(generator, a, *arguments, **options)

        return seed

    def _telling(self, name: str, start: float) -> Callable[[], float | int]:
        def seconds() -> float:
            return start + self._now()

        def nanoseconds() -> int:
            return round((start + self._now()) * 1e9)

        return nanoseconds if name.endswith("_ns") else seconds

    def _error(self, name: str) -> EntropyError:
        frame = sys._getframe(2)
        while frame.f_back is not None and _is_library(frame.f_code.co_filename):
            frame = frame.f_back
        place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        told = f"{name} was called at {place}: take time and randomness from `clock` and `random`"
        if told not in self.found:
            self.found.append(told)
        return EntropyError(told)


def _is_library(path: str) -> bool:
    return path.startswith(_LIBRARY) and "site-packages" not in path
