from __future__ import annotations

from typing import Any

import pytest

from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentCandidate
from dynamo_operator.publisher.plan import (
    ForeignObjectError,
    candidate_status,
    desired_candidate,
    plan,
)
from tests.builders import run
from tests.dynamo_operator.publisher.reports import report

NOW = "2026-11-30T12:00:00Z"


def existing(
    id_: str, *, is_complete: bool = True, **changes: Any
) -> DynamoGraphDeploymentCandidate:
    """A Candidate as this publisher leaves it."""
    (result,) = report(id_).results
    body = desired_candidate(result, run()).to_dict()
    if is_complete:
        body["status"] = candidate_status(result, now=NOW)
    body["metadata"] |= {"uid": f"uid-{id_}", **changes}
    return DynamoGraphDeploymentCandidate.model_validate(body)


def test_what_is_missing_is_created_and_completed_best_first() -> None:
    steps = plan(report("b", "a"), run(), [], now=NOW)

    assert [candidate.key.name for candidate in steps.create] == [
        "llama-g1-4f1c2a-b",
        "llama-g1-4f1c2a-a",
    ]
    assert [result.id for _, result in steps.complete] == ["b", "a"]
    assert steps.status is not None
    assert steps.status["candidateRefs"] == [
        {"name": "llama-g1-4f1c2a-b"},
        {"name": "llama-g1-4f1c2a-a"},
    ]


def test_a_candidate_is_labelled_and_controlled_without_blocking_its_owner() -> None:
    (candidate,) = plan(report("a"), run(), [], now=NOW).create

    assert candidate.to_dict() == {
        "apiVersion": "nvidia.com/v1beta2",
        "kind": "DynamoGraphDeploymentCandidate",
        "metadata": {
            "name": "llama-g1-4f1c2a-a",
            "namespace": "default",
            "labels": {
                "nvidia.com/dgdr-run-uid": "5ad3b100-0000-4000-8000-000000000002",
                "nvidia.com/dgdr-candidate-id": "a",
            },
            "ownerReferences": [
                {
                    "apiVersion": "nvidia.com/v1beta2",
                    "kind": "DynamoGraphDeploymentRun",
                    "name": "llama-g1-4f1c2a",
                    "uid": "5ad3b100-0000-4000-8000-000000000002",
                    "controller": True,
                    "blockOwnerDeletion": False,
                }
            ],
        },
        "spec": {"components": [], "parameters": {"tp": 4}},
    }


def test_what_is_there_is_left_alone_what_is_incomplete_is_completed_what_is_not_said_goes() -> (
    None
):
    there = [existing("a"), existing("b", is_complete=False), existing("c")]

    steps = plan(report("a", "b"), run(), there, now=NOW)

    assert steps.create == ()
    assert [result.id for _, result in steps.complete] == ["b"]
    assert [candidate.uid for candidate in steps.delete] == ["uid-c"]


def test_a_candidate_that_is_going_is_not_deleted_again() -> None:
    going = existing("c", deletionTimestamp=NOW)

    assert plan(report(), run(), [going], now=NOW).delete == ()


@pytest.mark.parametrize(
    "change",
    [
        {"ownerReferences": []},
        {
            "ownerReferences": [
                {
                    "apiVersion": "nvidia.com/v1beta2",
                    "kind": "DynamoGraphDeploymentRun",
                    "name": "llama-g1-4f1c2a",
                    "uid": "another",
                    "controller": True,
                }
            ]
        },
        {"labels": {}},
    ],
    ids=["ownerless", "another run's", "unlabelled"],
)
def test_a_foreign_object_of_a_needed_name_is_an_error(change: dict[str, Any]) -> None:
    with pytest.raises(ForeignObjectError, match="default/llama-g1-4f1c2a-a exists"):
        plan(report("a"), run(), [existing("a", **change)], now=NOW)


def test_a_foreign_object_of_our_labels_is_not_deleted() -> None:
    foreign = existing("c", ownerReferences=[])

    assert plan(report(), run(), [foreign], now=NOW).delete == ()


def test_an_unchanged_status_is_not_written() -> None:
    first = plan(report("a", message="m"), run(), [], now=NOW)
    assert first.status is not None
    published = run(**first.status)

    again = plan(report("a", message="m"), published, [existing("a")], now="2026-12-01T00:00:00Z")

    assert (again.create, again.complete, again.status, again.delete) == ((), (), None, ())


def test_the_time_of_progress_is_that_of_its_last_change() -> None:
    first = plan(report("a"), run(), [], now=NOW)
    assert first.status is not None
    later = "2026-12-01T00:00:00Z"

    message = plan(report("a", message="m"), run(**first.status), [existing("a")], now=later)
    progress = plan(report("a", evaluated=2), run(**first.status), [existing("a")], now=later)

    assert message.status == {**first.status, "message": "m"}
    assert progress.status is not None
    assert progress.status["lastProgressTime"] == later
    assert progress.status["progress"] == {"round": 1, "evaluated": 2, "published": 1}


def test_a_long_run_name_gives_a_name_that_fits() -> None:
    (candidate,) = plan(report("a"), run("n" * 253), [], now=NOW).create

    assert len(candidate.key.name) <= 253
    assert candidate.key.name.endswith("-a")
