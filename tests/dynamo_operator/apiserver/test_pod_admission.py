"""What a new Pod gets that its author did not write, and does not own."""

from __future__ import annotations

import pytest

from tests.dynamo_operator.apiserver.api import PODS, Api, pod

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def with_spec(**fields):
    made = pod("a")
    return {**made, "spec": {**made["spec"], **fields}}


async def test_a_class_gives_its_value_and_policy():
    api = Api()
    body = {"metadata": {"name": "high"}, "value": 7, "preemptionPolicy": "Never"}
    await api.ask("POST", CLASSES, body)

    spec = (await api.ask("POST", PODS, with_spec(priorityClassName="high"))).body["spec"]

    assert (spec["priority"], spec["preemptionPolicy"]) == (7, "Never")


async def test_the_default_class_is_for_pods_without_one():
    api = Api()
    await api.ask("POST", CLASSES, {"metadata": {"name": "c"}, "value": 3, "globalDefault": True})

    spec = (await api.ask("POST", PODS, pod("a"))).body["spec"]

    assert (spec["priority"], spec["priorityClassName"]) == (3, "c")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"priorityClassName": "none"}, "no PriorityClass with name none was found"),
        ({"priority": 5}, "the integer value of priority (5) must not be provided"),
        ({"preemptionPolicy": "Never"}, "PreemptionPolicy (Never) must not be provided"),
    ],
)
async def test_what_no_class_says_is_forbidden(fields, words):
    answer = await Api().ask("POST", PODS, with_spec(**fields))

    assert answer.status == 403
    assert words in answer.message


async def test_the_author_owns_neither_priority_nor_tolerations():
    made = (await Api().ask("POST", PODS, pod("a"))).body

    owned = made["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]
    assert not {"f:priority", "f:tolerations", "f:preemptionPolicy"} & set(owned)
    assert len(made["spec"]["tolerations"]) == 2
