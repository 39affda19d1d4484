"""Every planted bug, of which the tests look for some each day."""

from __future__ import annotations

import time

from tests.simulation.bug_hunt import problem_with
from tests.simulation.planted_bugs import PLANTED_BUGS


def find_bugs() -> int:
    """Look for one bug after the other, and tell; return 1 if one was not found as it says."""
    missed = 0
    for bug in PLANTED_BUGS:
        began = time.monotonic()
        problem = problem_with(bug)
        missed += bool(problem)
        print(
            f"{bug.name}: {problem or 'found'}, {time.monotonic() - began:.0f} s",
            flush=True,
        )
    print(f"{len(PLANTED_BUGS) - missed} of {len(PLANTED_BUGS)} planted bugs found")
    return 1 if missed else 0
