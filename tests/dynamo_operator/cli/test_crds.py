"""`crds delete`: ours and unused ones only, all or none."""

from __future__ import annotations

from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.runtime.builtin_kinds import CustomResourceDefinition
from dynamo_operator.testing.cluster import Cluster
from tests.dynamo_operator.cli.calls import call_to
from tests.dynamo_operator.cli.test_commands import requests_crd
from tests.reconcilers.search import SPEC

CRD = "customresourcedefinition.apiextensions.k8s.io"
REQUESTS = "dynamographdeploymentrequests.nvidia.com"


async def names(cluster: Cluster) -> list[str]:
    return [each.key.name for each in await cluster.client.list(CustomResourceDefinition)]


async def test_our_kinds_are_deleted_once_and_then_there_are_none():
    async with Cluster.start(mode="http", crds=custom_resource_definitions()) as cluster:
        first = await call_to(cluster, "crds", "delete")
        left = await names(cluster)
        again = await call_to(cluster, "crds", "delete")

    assert first.code == 0
    assert sorted(first.output.splitlines()) == [
        f"{CRD}/{name} deleted"
        for name in sorted(each["metadata"]["name"] for each in custom_resource_definitions())
    ]
    assert left == []
    assert again == (0, "none of our CRDs is there\n", "")


async def test_nothing_is_deleted_while_there_are_objects_unless_it_is_said():
    async with Cluster.start(mode="http", crds=custom_resource_definitions()) as cluster:
        await cluster.client.create(DynamoGraphDeploymentRequest.new("llama", spec=SPEC))
        refused = await call_to(cluster, "crds", "delete")
        left = await names(cluster)
        done = await call_to(cluster, "crds", "delete", "--with-objects")

    assert refused.code == 1
    assert f"CRD {REQUESTS} has objects, e.g. default/llama, which would be lost" in refused.errors
    assert refused.errors.rstrip().endswith("or do it with --with-objects")
    assert len(left) == len(custom_resource_definitions())
    assert done.code == 0


async def test_a_definition_of_others_stays():
    async with Cluster.start(mode="http", crds=[requests_crd("v1beta1", "v1beta2")]) as cluster:
        answer = await call_to(cluster, "crds", "delete", "--with-objects")
        left = await names(cluster)

    assert answer == (0, f"{CRD}/{REQUESTS} left as it is: it has versions of others\n", "")
    assert left == [REQUESTS]
