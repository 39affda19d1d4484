"""How long a list or a watch that failed waits before it is tried again."""

from __future__ import annotations

from informers.clock import Random

FIRST_SECONDS = 0.8
FACTOR = 2.0
CAP_SECONDS = 30.0
JITTER = 1.0
QUIET_SECONDS = 120.0
RETRY_AFTER_CAP_SECONDS = 60.0  # less than a cache may take to be filled


class Backoff:
    """Exponential delays with jitter, which begin anew after a quiet while.

    Each delay is drawn from `[base, base * (1 + jitter)]`; `base` starts at `first_seconds` and
    grows by `factor` up to `cap_seconds`. Clients that failed together thus do not come back
    together.
    """

    __slots__ = ("_base", "_cap", "_factor", "_first", "_jitter", "_last", "_quiet", "_random")

    def __init__(
        self,
        random: Random,
        *,
        first_seconds: float = FIRST_SECONDS,
        factor: float = FACTOR,
        cap_seconds: float = CAP_SECONDS,
        jitter: float = JITTER,
        quiet_seconds: float = QUIET_SECONDS,
    ) -> None:
        self._random = random
        self._first = first_seconds
        self._factor = factor
        self._cap = cap_seconds
        self._jitter = jitter
        self._quiet = quiet_seconds
        self._base = first_seconds
        self._last: float | None = None

    def next_delay(self, now: float, *, retry_after_seconds: float | None = None) -> float:
        """Return the delay after a failure at `now`.

        Args:
            now: monotonic time.
            retry_after_seconds: what the server asked for: a lower bound, itself capped so that
                no answer can silence a client for long.
        """
        if self._last is not None and now - self._last > self._quiet:
            self._base = self._first
        self._last = now
        delay = self._base * (1.0 + self._jitter * self._random.random())
        self._base = min(self._base * self._factor, self._cap)
        if retry_after_seconds is not None:
            delay = max(delay, min(retry_after_seconds, RETRY_AFTER_CAP_SECONDS))
        return delay
