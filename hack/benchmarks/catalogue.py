"""All benchmarks by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hack.benchmarks import caches, controllers, peers, relays, searches, servers, startup
from hack.benchmarks.measurement import Measurement

Run = Callable[[float], list[Measurement]]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One benchmark.

    Args:
        name: to ask for it.
        run: takes a scale, 1 for the full size, and measures.
        is_long: whether it takes minutes and is only run when asked for.
    """

    name: str
    run: Run
    is_long: bool = False

    @property
    def about(self) -> str:
        """What it measures, in a line."""
        return (self.run.__doc__ or "").strip()


BENCHMARKS = (
    Benchmark("import", startup.imports),
    Benchmark("publisher", startup.publisher),
    Benchmark("api-server", startup.api_server),
    Benchmark("server-start", servers.start),
    Benchmark("server-creates", servers.creates),
    Benchmark("server-watches", servers.watches),
    Benchmark("events", caches.events),
    Benchmark("list", caches.listing),
    Benchmark("residence", caches.residence),
    Benchmark("growth", caches.growth, is_long=True),
    Benchmark("queue", controllers.queue),
    Benchmark("reconcile", controllers.reconcile),
    Benchmark("end-to-end", controllers.end_to_end),
    Benchmark("relays", relays.follow),
    Benchmark("searches", searches.searches, is_long=True),
    Benchmark("peers", peers.peers, is_long=True),
)
