"""Every planted bug, looked for as any other bug is."""

from __future__ import annotations

from collections.abc import Sequence

from tests.simulation.open_search import search_for
from tests.simulation.planted_bugs import PLANTED_BUGS, PlantedBug

SWARM_SECONDS = 300.0
"""For how long random faults look for what no enumerated fault shows."""


def find_bugs(
    bugs: Sequence[PlantedBug] = PLANTED_BUGS,
    *,
    workers: int | None = None,
    swarm_seconds: float = SWARM_SECONDS,
    most_plans: int | None = None,
) -> int:
    """Look for one bug after the other, and tell; return 1 if one was not found.

    Args:
        bugs: that are planted, one at a time.
        workers: processes; None: one each core.
        swarm_seconds: for how long random faults are tried.
        most_plans: of each enumeration; None: all.
    """
    found = 0
    for bug in bugs:
        search = search_for(
            bug, workers=workers, swarm_seconds=swarm_seconds, most_plans=most_plans
        )
        found += not search.problem
        print(f"{bug.name}: {search}", flush=True)
    print(f"{found} of {len(bugs)} planted bugs found")
    return 0 if found == len(bugs) else 1
