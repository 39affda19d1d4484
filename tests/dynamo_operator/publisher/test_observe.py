from __future__ import annotations

from typing import Any

import pytest

from dynamo_operator.aisimulate.snapshot import Phase
from dynamo_operator.publisher.observe import Follower, ProtocolViolationError, planner_exit
from tests.builders import exited, pod
from tests.dynamo_operator.publisher.reports import MANIFEST, candidate, snapshot


def test_a_look_before_the_first_snapshot_shows_nothing() -> None:
    look = Follower().look(None, None)

    assert (look.report, look.is_new, look.is_last) == (None, False, False)


def test_a_snapshot_is_new_once() -> None:
    follower = Follower()

    first = follower.look(None, snapshot("a"))
    again = follower.look(None, snapshot("a"))
    rewritten = follower.look(None, snapshot("a", timestamp="2026-01-02T03:04:06Z"))
    more = follower.look(None, snapshot("a", "b", evaluated=2))

    assert [look.is_new for look in (first, again, rewritten, more)] == [True, False, False, True]


def test_a_result_is_the_manifests_spec_with_the_parameters() -> None:
    look = Follower().look(None, snapshot("a"))

    assert look.report is not None
    (result,) = look.report.results
    assert result.spec == {
        "backendFramework": "vllm",
        "components": [
            {"name": "Frontend", "type": "frontend", "replicas": 1},
            {"name": "worker", "type": "worker", "replicas": 2},
        ],
        "parameters": {"tp": 4},
    }
    assert result.metrics == {"score": 3.5, "usedGpus": 8, "performance": {"power_w": None}}


def test_candidates_without_a_manifest_are_not_published() -> None:
    failed = candidate("b", outcome="materialization_failed", manifest=None, error="no")

    look = Follower().look(None, snapshot("a", failed, "c"))

    assert look.report is not None
    assert [result.id for result in look.report.results] == ["a", "c"]


@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        ("a: [", "candidate a: manifest: not YAML: line 1, column 5"),
        (MANIFEST + "---\n" + MANIFEST, "must be one document; has 2"),
        ("- a\n", "must be one document"),
        ("# nothing\n", "must be one document; has 0"),
        (MANIFEST.replace("v1beta1", "v1alpha1"), "is nvidia.com/v1alpha1 DynamoGraphDeployment"),
        (MANIFEST.replace("DynamoGraphDeployment", "Secret"), "is nvidia.com/v1beta1 Secret"),
        (MANIFEST.replace("components", "services"), r"spec\.components: Field required"),
        (MANIFEST.replace("replicas: 2", "replicas: two"), r"spec\.components\.1\.replicas"),
        (MANIFEST.replace("type: worker", "type: engine"), r"spec\.components\.1\.type"),
        (MANIFEST + "  parameters: {}\n", "without parameters"),
    ],
)
def test_a_manifest_that_is_no_deployment_is_a_violation(manifest: str, problem: str) -> None:
    with pytest.raises(ProtocolViolationError, match=problem):
        Follower().look(None, snapshot(candidate("a", manifest=manifest)))


def test_an_empty_document_beside_the_manifest_is_ignored() -> None:
    look = Follower().look(None, snapshot(candidate("a", manifest="---\n" + MANIFEST + "---\n")))

    assert look.report is not None
    assert len(look.report.results) == 1


@pytest.mark.parametrize(
    ("later", "problem"),
    [
        (snapshot("a", round_=2, evaluated=9), r"progress\.round went back from 3 to 2"),
        (snapshot("a", round_=3, evaluated=4), r"evaluated went back from 5 to 4 in round 3"),
        (
            snapshot("a", phase="Failed", round_=2, evaluated=9),
            r"progress\.round went back from 3 to 2",
        ),
        (b"a: [", "not YAML"),
        (None, "was there and is gone"),
    ],
)
def test_going_back_is_a_violation(later: bytes | None, problem: str) -> None:
    follower = Follower()
    follower.look(None, snapshot("a", round_=3, evaluated=5))

    with pytest.raises(ProtocolViolationError, match=problem):
        follower.look(None, later)


def test_the_final_count_may_be_smaller_than_an_interim_one() -> None:
    follower = Follower()
    follower.look(None, snapshot("a", round_=3, evaluated=5))

    look = follower.look(None, snapshot("a", phase="Succeeded", round_=3, evaluated=4))

    assert look.is_last
    assert look.report is not None
    assert look.report.phase is Phase.SUCCEEDED


def test_more_rounds_may_have_fewer_evaluated() -> None:
    follower = Follower()
    follower.look(None, snapshot("a", round_=3, evaluated=5))

    assert follower.look(None, snapshot("a", round_=4, evaluated=1)).is_new


def test_a_search_does_not_change_after_its_end() -> None:
    follower = Follower()
    follower.look(None, snapshot("a", phase="Succeeded"))

    with pytest.raises(ProtocolViolationError, match="changed after phase Succeeded"):
        follower.look(None, snapshot("b", phase="Succeeded"))


@pytest.mark.parametrize("data", [None, snapshot("a")], ids=["no snapshot", "phase Running"])
def test_a_planner_that_exits_with_0_has_ended_the_search(
    data: bytes | None, request: pytest.FixtureRequest
) -> None:
    expected = request.node.callspec.id

    with pytest.raises(ProtocolViolationError, match=f"exited with 0 and left {expected}"):
        Follower().look(0, data)


def test_a_planner_that_fails_makes_the_look_the_last() -> None:
    follower = Follower()
    assert not follower.look(None, snapshot("a")).is_last

    look = follower.look(137, snapshot("a"))

    assert (look.is_last, look.planner_exit) == (True, 137)


def test_too_many_results_are_a_violation() -> None:
    with pytest.raises(ProtocolViolationError, match="101 materialized candidates; at most 100"):
        Follower().look(None, snapshot(*(f"c{number}" for number in range(101))))


def test_the_planner_is_read_at_every_third_look_until_something_has_ended() -> None:
    follower = Follower()
    wanted = []

    for _ in range(7):
        wanted.append(follower.wants_planner)
        follower.look(None, snapshot("a"))
    follower.look(None, snapshot("a", phase="Succeeded"))
    wanted += [follower.wants_planner]

    assert wanted == [True, False, False, True, False, False, True, True]


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (pod().status, None),
        (pod(planner=exited(0)).status, 0),
        (pod(planner=exited(137)).status, 137),
        (pod(publisher=exited(1)).status, None),
        ({}, None),
        ({"containerStatuses": None}, None),
        ({"containerStatuses": [{"name": "planner"}]}, None),
    ],
)
def test_the_planners_exit_is_read_from_its_container(
    status: dict[str, Any], code: int | None
) -> None:
    assert planner_exit(status, "planner") == code
