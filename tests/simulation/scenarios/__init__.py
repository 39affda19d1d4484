"""Lives of operators that are run again and again, each time with other faults."""

from __future__ import annotations

from dynamo_operator.apiserver.storage import StorageKey
from dynamo_operator.simulation import Scenario
from tests.simulation.scenarios.pool_relays import POOL_RELAY_SCENARIOS
from tests.simulation.scenarios.pool_relays import RELAYS as POOL_RELAYS
from tests.simulation.scenarios.relays import RELAY_SCENARIOS, RELAYS
from tests.simulation.scenarios.search_promises import REQUESTS, RUNS
from tests.simulation.scenarios.searches import SEARCH_SCENARIOS
from tests.simulation.scenarios.wandering import WANDERING_SCENARIOS

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        *SEARCH_SCENARIOS,
        *RELAY_SCENARIOS,
        *POOL_RELAY_SCENARIOS,
        *WANDERING_SCENARIOS,
    )
}


def primaries_of(scenario: Scenario) -> tuple[StorageKey, ...]:
    """Return the kinds that users of a scenario delete while the operator works."""
    if scenario in POOL_RELAY_SCENARIOS:
        return (POOL_RELAYS,)
    return (RELAYS,) if scenario in RELAY_SCENARIOS else (REQUESTS, RUNS)
