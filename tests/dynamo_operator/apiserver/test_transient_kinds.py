import pytest

from tests.dynamo_operator.apiserver.api import (
    CONFIG_MAPS,
    CORE,
    CRDS,
    PODS,
    WIDGETS,
    Api,
    config_map,
    pod,
    widget,
    widget_crd,
)

AUTHORIZATION = "/apis/authorization.k8s.io/v1"
AUTHENTICATION = "/apis/authentication.k8s.io/v1"


@pytest.mark.virtual_time
async def test_unknown_fields_and_nulls_of_a_deletion_are_dropped():
    api = Api()
    await api.create(CONFIG_MAPS, config_map("a"))

    answer = await api.delete(
        f"{CONFIG_MAPS}/a", {"gracePeriodSeconds": None, "colour": "red", "dryRun": []}
    )

    assert (answer.status, answer.body["status"]) == (200, "Success")


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    "value",
    [[1], "x", {"kind": "Pod"}, {"preconditions": []}, {"gracePeriodSeconds": "1"}],
    ids=["list", "text", "other-kind", "list-for-object", "text-for-number"],
)
async def test_options_that_do_not_fit_are_a_bad_request_and_delete_nothing(value):
    api = Api()
    await api.create(CONFIG_MAPS, config_map("a"))

    answer = await api.delete(f"{CONFIG_MAPS}/a", value)

    assert (answer.status, answer.body["reason"]) == (400, "BadRequest")
    assert (await api.get(f"{CONFIG_MAPS}/a")).status == 200


@pytest.mark.virtual_time
async def test_what_a_review_does_not_have_is_warned_about_and_left_out():
    attributes = {"verb": "get", "resource": "pods"}

    answer = await Api().create(
        f"{AUTHORIZATION}/selfsubjectaccessreviews",
        {"spec": {"user": "x", "resourceAttributes": attributes}},
    )

    assert answer.body["spec"] == {"resourceAttributes": attributes}
    assert answer.headers["warning"] == '299 - "unknown field \\"spec.user\\""'


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("DELETE", f"{PODS}/p", {"preconditions": {"uid": 1}}),
        ("POST", f"{PODS}/p/binding", {"target": "n1"}),
        ("POST", f"{PODS}/p/eviction", {"deleteOptions": [1]}),
        ("POST", f"{CORE}/namespaces/default/serviceaccounts/default/token", {"spec": 5}),
        ("PUT", f"{WIDGETS}/w/scale", {"spec": {"replicas": "3"}}),
        ("PUT", f"{CORE}/namespaces/default/finalize", {"spec": {"finalizers": 1.5}}),
        ("POST", f"{AUTHORIZATION}/subjectaccessreviews", {"spec": {"extra": []}}),
        ("POST", f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": "x"}),
        ("POST", f"{AUTHENTICATION}/tokenreviews", {"spec": {"token": {}}}),
    ],
)
async def test_every_request_that_is_not_stored_is_checked_for_types(method, path, body):
    api = Api()
    await api.create(CRDS, widget_crd())
    await api.create(WIDGETS, widget("w"))
    await api.create(PODS, pod("p"))
    accounts = f"{CORE}/namespaces/default/serviceaccounts"
    await api.create(accounts, {"metadata": {"name": "default"}})

    answer = await api.ask(method, path, body)

    assert (answer.status, answer.body["reason"]) == (400, "BadRequest")
