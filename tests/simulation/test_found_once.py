"""What simulations found, each as the plan that showed it."""

from __future__ import annotations

import pytest

from dynamo_operator.simulation import Plan, run
from tests.simulation.scenarios import SCENARIOS

FOUND = {
    "a server that asks for an hour's patience while caches are filled ends no process": (
        "relay",
        """{"faults": [{"at": {"verb": "watch", "resource": "services"},
            "do": {"do": "fail", "code": 429, "retry_after": "3600"}}]}""",
    ),
    "a process that begins on an old view catches up once it is healed": (
        "relay",
        """{"faults": [{"at": {"verb": "create", "resource": "services", "phase": "after"},
            "do": {"do": "kill", "behind": 1}}]}""",
    ),
    "a Run that is gone, and not seen to be, gets no children over and over": (
        "search",
        """{"faults": [
            {"at": {"verb": "list", "resource": "pods", "occurrence": 3},
             "do": {"do": "freeze", "resource": "dynamographdeploymentruns", "seconds": 20}},
            {"at": {"verb": "list", "resource": "pods", "occurrence": 3},
             "do": {"do": "delete", "resource": "dynamographdeploymentruns", "recreate": true}}
        ]}""",
    ),
    "a relay that is gone, and not seen to be, gets no children over and over": (
        "pool-relay",
        """{"faults": [{"at": {"verb": "watch", "resource": "dynamopoolrelays", "event": 25},
            "do": {"do": "delay", "seconds": 10}}]}""",
    ),
    "a Run that nobody recorded before it was deleted is made again": (
        "search",
        """{"faults": [
            {"at": {"verb": "create", "resource": "dynamographdeploymentruns", "phase": "after"},
             "do": {"do": "kill", "restart_after": 10}},
            {"at": {"seconds": 5}, "do": {"do": "delete", "resource": "dynamographdeploymentruns"}}
        ]}""",
    ),
    "the Job of a Run whose name another one has by now is let go": (
        "search",
        """{"faults": [
            {"at": {"verb": "apply", "resource": "dynamographdeploymentruns/status",
                    "occurrence": 2},
             "do": {"do": "freeze", "resource": "dynamographdeploymentruns", "seconds": 20}},
            {"at": {"verb": "apply", "resource": "dynamographdeploymentruns/status",
                    "occurrence": 2},
             "do": {"do": "delete", "resource": "dynamographdeploymentruns", "recreate": true}}
        ]}""",
    ),
}


@pytest.mark.parametrize("scenario", FOUND.values(), ids=FOUND)
def test_what_was_found_once_holds_now(scenario: tuple[str, str]):
    name, plan = scenario

    outcome = run(SCENARIOS[name], plan=Plan.model_validate_json(plan))

    assert outcome.violations == []
