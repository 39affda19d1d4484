"""Time and randomness as ports: the only place that reads the machine's."""

from __future__ import annotations

import random
import time
from asyncio import get_running_loop
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where the machinery takes its time from."""

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back; only differences mean something."""

    def now(self) -> datetime:
        """The wall clock, in UTC."""


class SystemClock:
    """The running event loop's monotonic time and the machine's wall clock.

    Monotonic time is the loop's, so that timers and measurements agree under a virtual-time loop
    too.
    """

    def monotonic(self) -> float:
        """Return the running loop's time, or the machine's outside a loop."""
        try:
            return get_running_loop().time()
        except RuntimeError:
            return time.monotonic()

    def now(self) -> datetime:
        """Return the wall clock in UTC."""
        return datetime.now(UTC)


Random = random.Random


def system_random() -> Random:
    """Return a generator seeded by the operating system."""
    return random.Random()
