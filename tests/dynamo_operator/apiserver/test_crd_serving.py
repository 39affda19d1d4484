import pytest

from tests.dynamo_operator.apiserver.api import CRDS, WIDGETS, Api, widget, widget_crd

pytestmark = pytest.mark.virtual_time


async def with_widgets(**spec) -> Api:
    api = Api()
    answer = await api.create(CRDS, widget_crd(**spec))
    assert answer.status == 201, answer.body
    return api


async def test_a_definition_is_established_by_a_change_of_its_own():
    api = Api()
    events = await api.watch(CRDS)

    made = await api.create(CRDS, widget_crd())

    created, established = await events.next(), await events.next()
    assert made.body["status"]["conditions"] is None
    assert (created["type"], established["type"]) == ("ADDED", "MODIFIED")
    status = established["object"]["status"]
    assert {c["type"]: c["status"] for c in status["conditions"]} == {
        "NamesAccepted": "True",
        "Established": "True",
    }
    assert status["acceptedNames"]["kind"] == "Widget"
    assert status["storedVersions"] == ["v1"]
    await events.close()


async def test_a_kind_is_served_from_its_creation_to_its_deletion():
    api = Api()
    before = await api.get(WIDGETS)
    await api.create(CRDS, widget_crd())
    during = await api.create(WIDGETS, widget("w"))
    await api.delete(f"{CRDS}/widgets.lab.test")
    after = await api.get(WIDGETS)

    assert (before.status, during.status, after.status) == (404, 201, 404)


async def test_deleting_a_definition_deletes_its_objects_first():
    api = await with_widgets()
    await api.create(WIDGETS, widget("w"))
    events = await api.watch(WIDGETS)
    await events.take(1)

    await api.delete(f"{CRDS}/widgets.lab.test")

    assert await events.take(1) == [("DELETED", "w")]
    await events.close()


async def test_a_definition_waits_for_the_finalizers_of_its_objects():
    api = await with_widgets()
    await api.create(WIDGETS, widget("w", finalizers=["lab.test/x"]))

    marked = await api.delete(f"{CRDS}/widgets.lab.test")
    waiting = await api.get(f"{WIDGETS}/w")
    await api.merge(f"{WIDGETS}/w", {"metadata": {"finalizers": None}})

    finalizer = "customresourcecleanup.apiextensions.k8s.io"
    assert marked.body["metadata"]["finalizers"] == [finalizer]
    assert waiting.body["metadata"]["deletionTimestamp"]
    assert (await api.get(f"{CRDS}/widgets.lab.test")).status == 404


async def test_every_served_version_shows_the_same_objects():
    crd = widget_crd()
    (v1,) = crd["spec"]["versions"]
    versions = [v1, {**v1, "name": "v1beta1", "storage": False}]
    api = await with_widgets(versions=versions)
    beta = WIDGETS.replace("/v1/", "/v1beta1/")
    body = widget("w", 4) | {"apiVersion": "lab.test/v1beta1"}
    events = await api.watch(beta)
    made = await api.create(beta, body)

    stored = await api.get(f"{WIDGETS}/w")
    listed = await api.get(beta)

    assert (made.body["apiVersion"], stored.body["apiVersion"]) == (
        "lab.test/v1beta1",
        "lab.test/v1",
    )
    assert stored.body["spec"] == {"size": 4}
    assert listed.body["items"][0]["apiVersion"] == "lab.test/v1beta1"
    assert (await events.next())["object"]["apiVersion"] == "lab.test/v1beta1"
    await events.close()


async def test_a_changed_schema_counts_from_the_next_write():
    api = await with_widgets()
    await api.create(WIDGETS, widget("w", 5))
    crd = (await api.get(f"{CRDS}/widgets.lab.test")).body
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["size"]["maximum"] = 3
    await api.replace(f"{CRDS}/widgets.lab.test", crd)

    refused = await api.create(WIDGETS, widget("x", 4))
    unchanged = await api.merge(f"{WIDGETS}/w", {"metadata": {"labels": {"a": "b"}}})

    assert refused.status == 422
    assert "spec.size: Invalid value: 4" in refused.message
    assert unchanged.status == 200


async def test_selectable_fields_select():
    api = await with_widgets()
    await api.create(WIDGETS, widget("a", 1))
    await api.create(WIDGETS, widget("b", 2))

    answer = await api.get(WIDGETS, fieldSelector="spec.size=2")

    assert answer.names == ["b"]


async def test_a_deprecated_version_warns():
    crd = widget_crd()
    crd["spec"]["versions"][0] |= {"deprecated": True}
    api = await with_widgets(versions=crd["spec"]["versions"])

    answer = await api.get(WIDGETS)

    assert answer.headers["warning"] == '299 - "lab.test/v1 Widget is deprecated"'


async def test_a_changed_definition_ends_the_watches_of_its_kind_and_no_others():
    api = await with_widgets()
    widgets, crds = await api.watch(WIDGETS), await api.watch(CRDS)
    await crds.take(1)

    await api.merge(f"{CRDS}/widgets.lab.test", {"metadata": {"labels": {"a": "b"}}})
    await api.create(WIDGETS, widget("w"))
    assert await widgets.take(1) == [("ADDED", "w")]
    await api.merge(f"{CRDS}/widgets.lab.test", {"spec": {"names": {"shortNames": ["x"]}}})

    assert await widgets.rest() == []
    assert (await crds.take(1))[0][0] == "MODIFIED"
    await crds.close()


async def test_what_is_written_through_another_version_keeps_what_the_stored_one_has():
    """As kube-apiserver does without a conversion webhook, too: each version has its schema."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    other = {"name": "v0", "served": True, "storage": False}
    (stored,) = widget_crd()["spec"]["versions"]
    api = await with_widgets(versions=[stored, {**other, "schema": {"openAPIV3Schema": anything}}])
    body = {**widget("a"), "apiVersion": "lab.test/v0", "spec": {"size": 1, "color": "red"}}

    made = await api.create(WIDGETS.replace("/v1/", "/v0/"), body)

    assert made.body["apiVersion"] == "lab.test/v0"
    assert made.body["spec"] == {"size": 1}
