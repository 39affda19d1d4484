"""How long an item that failed waits before it is queued again."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar

from informers.clock import Clock, Random

K = TypeVar("K", bound=Hashable)
K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)


class RateLimiter(Protocol[K_contra]):
    """Decides the delay of each re-queue; holds no item itself."""

    def when(self, key: K_contra) -> float:
        """Charge one failure to `key` and return the seconds it has to wait."""

    def forget(self, key: K_contra) -> None:
        """Start `key` over, after it succeeded or went away."""

    def retries(self, key: K_contra) -> int:
        """Count the failures charged to `key` since it was forgotten."""


class ItemExponential(Generic[K]):
    """`base * 2 ** failures` for each item, capped."""

    def __init__(self, *, base_seconds: float = 0.005, cap_seconds: float = 1000.0) -> None:
        self._base = base_seconds
        self._cap = cap_seconds
        self._failures: dict[K, int] = {}

    def when(self, key: K) -> float:
        """Charge one failure to `key` and return the seconds it has to wait."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        # No cap worth having is 2**64 bases away, and a float has room for that.
        return min(self._base * 2.0 ** min(failures, 64), self._cap)

    def forget(self, key: K) -> None:
        """Start `key` over."""
        self._failures.pop(key, None)

    def retries(self, key: K) -> int:
        """Count the failures charged to `key`."""
        return self._failures.get(key, 0)


class FastSlow(Generic[K]):
    """A short delay for an item's first failures and a long one after those."""

    def __init__(self, *, fast_seconds: float, slow_seconds: float, fast_attempts: int) -> None:
        self._fast = fast_seconds
        self._slow = slow_seconds
        self._attempts = fast_attempts
        self._failures: dict[K, int] = {}

    def when(self, key: K) -> float:
        """Charge one failure to `key` and return the seconds it has to wait."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        return self._fast if failures <= self._attempts else self._slow

    def forget(self, key: K) -> None:
        """Start `key` over."""
        self._failures.pop(key, None)

    def retries(self, key: K) -> int:
        """Count the failures charged to `key`."""
        return self._failures.get(key, 0)


class TokenBucket(Generic[K]):
    """At most `rate` items a second over all keys, after a burst.

    Every call reserves a token, also one from the future: then the delay is the time until it
    exists.
    """

    def __init__(self, clock: Clock, *, rate: float = 10.0, burst: int = 100) -> None:
        if rate <= 0:
            raise ValueError(f"rate {rate}: must be positive")
        self._clock = clock
        self._rate = rate
        self._burst = burst
        self._tokens = float(burst)
        self._updated: float | None = None

    def when(self, key: K) -> float:
        """Reserve a token and return the seconds until it exists."""
        now = self._clock.monotonic()
        if self._updated is not None:
            refilled = self._tokens + (now - self._updated) * self._rate
            self._tokens = min(refilled, float(self._burst))
        self._updated = now
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self._rate)

    def forget(self, key: K) -> None:
        """Do nothing: tokens belong to no key."""

    def retries(self, key: K) -> int:
        """Return 0: the bucket counts no key."""
        return 0


class MaxOf(Generic[K]):
    """The longest delay of several limiters, each of which is charged."""

    def __init__(self, *limiters: RateLimiter[K]) -> None:
        if not limiters:
            raise ValueError("MaxOf() needs at least one limiter")
        self._limiters = limiters

    def when(self, key: K) -> float:
        """Charge every limiter and return the longest delay."""
        return max([limiter.when(key) for limiter in self._limiters])

    def forget(self, key: K) -> None:
        """Start `key` over in every limiter."""
        for limiter in self._limiters:
            limiter.forget(key)

    def retries(self, key: K) -> int:
        """Return the largest count."""
        return max(limiter.retries(key) for limiter in self._limiters)


class WithMaxWait(Generic[K]):
    """Another limiter's delays, none longer than `max_seconds`."""

    def __init__(self, limiter: RateLimiter[K], max_seconds: float) -> None:
        self._limiter = limiter
        self._max = max_seconds

    def when(self, key: K) -> float:
        """Charge the limiter and return its delay, cut to the longest allowed."""
        return min(self._limiter.when(key), self._max)

    def forget(self, key: K) -> None:
        """Start `key` over."""
        self._limiter.forget(key)

    def retries(self, key: K) -> int:
        """Return the limiter's count."""
        return self._limiter.retries(key)


class WithJitter(Generic[K]):
    """Another limiter's delays, each stretched by up to `factor`.

    Keys that failed together, as in an outage, then do not retry together.
    """

    def __init__(self, limiter: RateLimiter[K], random: Random, *, factor: float = 0.5) -> None:
        self._limiter = limiter
        self._random = random
        self._factor = factor

    def when(self, key: K) -> float:
        """Charge the limiter and return its delay, stretched at random."""
        return self._limiter.when(key) * (1.0 + self._factor * self._random.random())

    def forget(self, key: K) -> None:
        """Start `key` over."""
        self._limiter.forget(key)

    def retries(self, key: K) -> int:
        """Return the limiter's count."""
        return self._limiter.retries(key)
