"""The PoolRelay controller under faults: a part of what `hack/soak` and enumerations run."""

from __future__ import annotations

import pytest

from dynamo_operator.simulation.enumeration import CLASSES, Enumeration
from dynamo_operator.simulation.explore import explore, reference_of
from tests.simulation.scenarios.pool_relays import POOL_RELAY, RELAYS


@pytest.fixture(scope="module")
def reference():
    return reference_of(POOL_RELAY)


def spread(found, number):
    """So many of them, evenly spread."""
    return found[:: max(1, len(found) // number)][:number]


def test_a_relay_survives_one_fault_of_every_class(reference):
    trials = list(Enumeration(reference.history, [RELAYS]).trials())
    tried = [t for name in CLASSES for t in spread([t for t in trials if t.fault_class == name], 1)]
    assert len(tried) == len(CLASSES)

    report = explore(POOL_RELAY, tried, reference=reference.end, workers=2)

    assert [str(failure) for failure in report.failures] == []
    assert report.ran == len(CLASSES)


def test_a_relay_survives_the_operators_death_around_each_write(reference):
    trials = Enumeration(reference.history, [RELAYS], ["crash"]).trials()
    writes = [t for t in trials if t.verb in ("create", "apply", "patch", "delete")]

    report = explore(POOL_RELAY, spread(writes, 8), reference=reference.end, workers=2)

    assert [str(failure) for failure in report.failures] == []
    assert report.ran == 8
