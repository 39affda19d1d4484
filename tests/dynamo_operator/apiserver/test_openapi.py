import pytest

from tests.dynamo_operator.apiserver.api import CRDS, Api, widget_crd

pytestmark = pytest.mark.virtual_time

PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


async def test_a_new_definition_is_in_the_documents_at_once():
    api = Api()
    before = await api.get("/openapi/v3")
    await api.create(CRDS, widget_crd())

    after = await api.get("/openapi/v3")
    document = await api.get("/openapi/v3/apis/lab.test/v1")
    swagger = await api.get("/openapi/v2")

    assert "apis/lab.test/v1" not in before.body["paths"]
    assert after.body["paths"]["apis/lab.test/v1"]["serverRelativeURL"].startswith(
        "/openapi/v3/apis/lab.test/v1?hash="
    )
    schema = document.body["components"]["schemas"]["test.lab.v1.Widget"]
    assert schema["properties"]["spec"]["properties"]["size"]["description"] == "How large."
    assert schema["x-kubernetes-group-version-kind"] == [
        {"group": "lab.test", "kind": "Widget", "version": "v1"}
    ]
    assert "test.lab.v1.Widget" in swagger.body["definitions"]


async def test_the_documents_hash_changes_with_the_document():
    api = Api()
    await api.create(CRDS, widget_crd())
    before = (await api.get("/openapi/v3")).body["paths"]
    await api.merge(f"{CRDS}/widgets.lab.test", {"spec": {"names": {"shortNames": ["w"]}}})
    same = (await api.get("/openapi/v3")).body["paths"]
    crd = (await api.get(f"{CRDS}/widgets.lab.test")).body
    properties = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    properties["spec"]["properties"]["colour"] = {"type": "string"}
    await api.replace(f"{CRDS}/widgets.lab.test", crd)
    after = (await api.get("/openapi/v3")).body["paths"]

    assert before == same
    assert before["apis/lab.test/v1"] != after["apis/lab.test/v1"]
    assert before["api/v1"] == after["api/v1"]


async def test_writes_are_documented_to_take_field_validation():
    document = await Api().get("/openapi/v3/api/v1")

    patch = document.body["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert {"fieldValidation", "dryRun"} <= {p["name"] for p in patch["parameters"]}
    assert patch["x-kubernetes-group-version-kind"] == {
        "group": "",
        "version": "v1",
        "kind": "Pod",
    }


async def test_the_old_document_comes_in_protobuf_where_that_is_asked_for():
    answer = await Api().get("/openapi/v2", accept=PROTOBUF)

    assert answer.status == 200
    assert answer.headers["content-type"] == PROTOBUF.replace("@", ".")
    assert answer.body.startswith(b"\x0a\x032.0")


@pytest.mark.parametrize("path", ["/openapi/v2", "/openapi/v3"])
async def test_another_form_is_not_acceptable(path):
    answer = await Api().get(path, accept="application/x-unknown")

    assert (answer.status, answer.body["kind"]) == (406, "Status")


async def test_a_group_that_is_not_served_has_no_document():
    assert (await Api().get("/openapi/v3/apis/nosuch/v1")).status == 404
