"""A limit on how many requests a client sends."""

from __future__ import annotations

from informers.clock import Clock


class Throttle:
    """Lets `burst` requests go at once, and then so many a second.

    Args:
        clock: what counts the seconds.
        per_second: how many requests a second in the long run.
        burst: how many at once after a pause.
    """

    def __init__(self, clock: Clock, *, per_second: float, burst: int) -> None:
        if per_second <= 0 or burst < 1:
            raise ValueError("a throttle needs a rate above 0 and a burst of 1 or more")
        self._clock = clock
        self._interval = 1 / per_second
        self._allowance = burst * self._interval
        self._spent_until = float("-inf")

    def reserve(self, *, within: float) -> float | None:
        """Take a turn and return the seconds until it comes; None if it comes too late to be taken.

        Args:
            within: the longest wait that makes sense.
        """
        now = self._clock.monotonic()
        spent_until = max(self._spent_until, now) + self._interval
        wait = max(0.0, spent_until - self._allowance - now)
        if wait > within:
            return None
        self._spent_until = spent_until
        return wait
