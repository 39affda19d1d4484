"""Lives of operators that are run again and again, each time with other faults."""

from __future__ import annotations

from dynamo_operator.simulation import Scenario
from tests.simulation.scenarios.relays import RELAY_SCENARIOS
from tests.simulation.scenarios.searches import SEARCH_SCENARIOS
from tests.simulation.scenarios.wandering import WANDERING_SCENARIOS

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (*SEARCH_SCENARIOS, *RELAY_SCENARIOS, *WANDERING_SCENARIOS)
}
