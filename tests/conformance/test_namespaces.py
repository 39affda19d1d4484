"""What a namespace says while it is being deleted."""

import pytest

from dynamo_operator.runtime.builtin_kinds import ConfigMap, Namespace, Secret
from informers.objects import ObjectKey
from tests.dynamo_operator.local_cluster.workloads import status_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

WELL = {
    "NamespaceDeletionDiscoveryFailure": (
        "False",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "False",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "False",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
}


async def test_a_namespace_that_cannot_go_says_what_holds_it(cluster):
    name = "conformance-held"
    made = await cluster.client.create(Namespace.new(name))
    await cluster.client.create(Secret.new("s", namespace=name))
    held = await cluster.client.create(ConfigMap.new("held", namespace=name))
    finalizers = {"metadata": {"finalizers": ["lab.test/hold"]}}
    await cluster.client.patch(ConfigMap, held.key, finalizers)

    await cluster.client.delete(Namespace, made.key)
    found = await cluster.eventually(
        lambda: cluster.client.get(Namespace, made.key),
        lambda n: (status_of(n, "NamespaceContentRemaining") or {}).get("status") == "True",
        timeout=30,
    )

    said = {c["type"]: (c["status"], c["reason"], c["message"]) for c in found.status["conditions"]}
    assert said == {
        **WELL,
        "NamespaceContentRemaining": (
            "True",
            "SomeResourcesRemain",
            "Some resources are remaining: configmaps. has 1 resource instances",
        ),
        "NamespaceFinalizersRemaining": (
            "True",
            "SomeFinalizersRemain",
            "Some content in the namespace has finalizers remaining: "
            "lab.test/hold in 1 resource instances",
        ),
    }
    assert found.status["phase"] == "Terminating"
    assert await cluster.client.find(Secret, ObjectKey(name, "s")) is None
    await cluster.client.patch(ConfigMap, held.key, {"metadata": {"finalizers": None}})
