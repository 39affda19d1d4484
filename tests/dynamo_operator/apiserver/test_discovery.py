import pytest

from tests.dynamo_operator.apiserver.api import CRDS, Api, widget_crd

pytestmark = pytest.mark.virtual_time

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


async def test_the_old_documents_list_groups_and_resources():
    api = Api()
    await api.create(CRDS, widget_crd())

    groups = await api.get("/apis")
    group = await api.get("/apis/lab.test")
    resources = await api.get("/apis/lab.test/v1")
    core = await api.get("/api")

    assert "lab.test" in [g["name"] for g in groups.body["groups"]]
    assert group.body["preferredVersion"] == {"groupVersion": "lab.test/v1", "version": "v1"}
    assert [r["name"] for r in resources.body["resources"]] == [
        "widgets",
        "widgets/status",
        "widgets/scale",
    ]
    assert core.body["versions"] == ["v1"]


async def test_the_aggregated_document_says_it_all_at_once():
    api = Api()
    await api.create(CRDS, widget_crd())

    answer = await api.get("/apis", accept=f"{AGGREGATED},application/json")

    assert answer.headers["content-type"] == AGGREGATED
    (group,) = [g for g in answer.body["items"] if g["metadata"]["name"] == "lab.test"]
    (resource,) = group["versions"][0]["resources"]
    assert resource["responseKind"] == {"group": "lab.test", "version": "v1", "kind": "Widget"}
    assert (resource["scope"], resource["shortNames"]) == ("Namespaced", ["wd"])
    assert [s["subresource"] for s in resource["subresources"]] == ["status", "scale"]


async def test_versions_are_listed_most_preferred_first():
    api = Api()
    crd = widget_crd()
    (version,) = crd["spec"]["versions"]
    names = ("v1alpha1", "v2beta1", "v1", "v1beta1")
    crd["spec"]["versions"] = [{**version, "name": n, "storage": n == "v1"} for n in names]
    await api.create(CRDS, crd)

    answer = await api.get("/apis/lab.test")

    assert [v["version"] for v in answer.body["versions"]] == [
        "v1",
        "v2beta1",
        "v1beta1",
        "v1alpha1",
    ]


async def test_a_group_that_is_not_served_is_not_found():
    assert (await Api().get("/apis/nosuch")).status == 404
    assert (await Api().get("/apis/nosuch/v1")).status == 404


async def test_the_version_is_one_that_clients_understand():
    answer = await Api().get("/version")

    assert (answer.body["major"], answer.body["minor"]) == ("1", "37")
    assert answer.body["gitVersion"].startswith("v1.37.")
