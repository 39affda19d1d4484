"""What a Request's Runs mean for the Request."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from dynamo_operator.api.conditions import AcceptedReason
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRun
from reconcilers.request.plan import (
    RECENT_RUNS,
    Acceptance,
    active_run,
    desired_status,
    newest_first,
    prunable,
    unfinished_before,
)
from tests.builders import request, run

NOW = datetime(2030, 1, 1, tzinfo=UTC)
CREATED = AcceptedReason.RUN_CREATED


def generation(number: int, phase: str | None = "Succeeded", **fields: Any):
    return run(f"llama-g{number}", uid=f"uid-{number}", generation=number, phase=phase, **fields)


def names(runs: list[DynamoGraphDeploymentRun]) -> list[str]:
    return [each.key.name for each in runs]


def test_runs_are_ordered_by_generation_as_numbers():
    assert names(newest_first([generation(9), generation(10), generation(2)])) == [
        "llama-g10",
        "llama-g9",
        "llama-g2",
    ]


def test_a_label_that_is_no_number_counts_as_the_oldest():
    odd = generation(1)
    odd.metadata.labels["nvidia.com/dgdr-request-generation"] = "x"

    assert odd.request_generation == 0


def test_history_keeps_the_newest_that_ended():
    runs = [generation(n) for n in range(1, 6)]

    assert names(prunable(runs, 6, 2)) == ["llama-g3", "llama-g2", "llama-g1"]


def test_history_never_takes_the_current_generation_nor_what_still_runs():
    runs = [generation(1), generation(2, "Running"), generation(3), generation(4)]

    assert names(prunable(runs, 1, 1)) == ["llama-g3"]


def test_only_an_older_run_that_is_not_over_is_waited_for():
    runs = [generation(1, "Running"), generation(2, None), generation(3), generation(5, "Running")]

    older = unfinished_before(runs, 4)
    assert older is not None
    assert older.key.name == "llama-g2"
    assert unfinished_before(runs, 1) is None


def test_a_request_shows_its_generations_run_before_an_older_one():
    older, own = generation(1, "Running"), generation(2, "Pending")

    assert active_run([older, own], Acceptance(True, CREATED, run=own), 2) is own
    refused = Acceptance(False, AcceptedReason.INVALID_INPUT)
    assert active_run([older], refused, 2) is older
    assert active_run([generation(1)], refused, 2) is None


def test_recent_runs_are_bounded():
    runs = [generation(n) for n in range(1, RECENT_RUNS + 3)]
    status = desired_status(
        request(generation=13), runs, None, Acceptance(True, AcceptedReason.RUN_DELETED), now=NOW
    )

    assert [ref["generation"] for ref in status["recentRunRefs"]] == list(range(12, 2, -1))


def test_conditions_keep_their_times_while_their_statuses_stand():
    first = desired_status(
        request(), [], None, Acceptance(True, AcceptedReason.WAITING_FOR_ACTIVE_RUN), now=NOW
    )
    own = generation(1, "Pending")
    later = datetime(2030, 1, 2, tzinfo=UTC)
    second = desired_status(
        request(**first), [own], None, Acceptance(True, CREATED, run=own), now=later
    )

    times = [{c["lastTransitionTime"] for c in s["conditions"]} for s in (first, second)]
    assert times == [{"2030-01-01T00:00:00Z"}, {"2030-01-01T00:00:00Z"}]
    assert second["conditions"][0]["reason"] == "RunCreated"
