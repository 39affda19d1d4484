from __future__ import annotations

from pathlib import Path

import pytest

from dynamo_operator.cli.errors import role_that_is_missing
from dynamo_operator.testing.cluster import Cluster
from tests.dynamo_operator.cli.calls import call

FORBIDDEN = 'x is forbidden: User "ann" cannot '


@pytest.mark.parametrize(
    ("message", "role"),
    [
        (
            f'{FORBIDDEN}get resource "runs/status" in API group "nvidia.com" in the namespace "a"',
            "a Role in namespace a with verb get on runs.nvidia.com/status has to be bound to that"
            " user",
        ),
        (
            f'{FORBIDDEN}list resource "nodes" in API group "" at the cluster scope',
            "a ClusterRole with verb list on nodes has to be bound to that user",
        ),
        ("exceeded quota: pods", ""),
    ],
    ids=["namespaced", "cluster", "no right"],
)
def test_what_is_forbidden_names_the_role_that_would_grant_it(message: str, role: str):
    assert role_that_is_missing(message) == role


@pytest.mark.parametrize(
    ("words", "right"),
    [
        (["run", "list"], "verb list on dynamographdeploymentruns.nvidia.com"),
        (["run", "watch", "a"], "verb get on dynamographdeploymentruns.nvidia.com"),
        (["candidate", "show", "a"], "verb get on dynamographdeploymentcandidates.nvidia.com"),
        (["crds", "apply"], "verb get on customresourcedefinitions.apiextensions.k8s.io"),
    ],
    ids=["list", "watch", "show", "apply"],
)
async def test_who_may_not_is_told_verb_resource_and_role_in_one_line(words: list[str], right: str):
    async with Cluster.start(mode="http") as cluster:
        kubeconfig: Path = cluster.kubeconfig("ann", ())
        answer = await call(*words, "--kubeconfig", str(kubeconfig))

    assert answer.code == 1
    assert right in answer.errors
    assert len(answer.errors.splitlines()) == 1
