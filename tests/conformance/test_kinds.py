"""Our CustomResourceDefinitions, as a cluster takes them."""

import pytest

from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.runtime.builtin_kinds import CustomResourceDefinition
from informers.objects import ObjectKey

pytestmark = pytest.mark.asyncio(loop_scope="session")

NAMES = [crd["metadata"]["name"] for crd in custom_resource_definitions()]


@pytest.mark.parametrize("name", NAMES)
async def test_a_definition_is_structural_and_served(cluster, name):
    crd = await cluster.client.get(CustomResourceDefinition, ObjectKey("", name))

    conditions = {each["type"]: each["status"] for each in crd.status["conditions"]}
    assert conditions["Established"] == "True"
    assert conditions["NamesAccepted"] == "True"
    assert conditions.get("NonStructuralSchema", "False") == "False"
    (version,) = crd.spec["versions"]
    assert crd.status["storedVersions"] == [version["name"]]


@pytest.mark.parametrize("name", NAMES)
async def test_a_definition_is_stored_as_it_was_sent(cluster, name):
    (sent,) = [crd for crd in custom_resource_definitions() if crd["metadata"]["name"] == name]

    stored = await cluster.client.get(CustomResourceDefinition, ObjectKey("", name))

    assert stored.spec["versions"][0]["schema"] == sent["spec"]["versions"][0]["schema"]
