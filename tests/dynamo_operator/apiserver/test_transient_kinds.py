import pytest

from dynamo_operator.apiserver.status import StatusError
from dynamo_operator.apiserver.transient_kinds import decode
from tests.dynamo_operator.apiserver.api import (
    CORE,
    CRDS,
    PODS,
    WIDGETS,
    Api,
    pod,
    widget,
    widget_crd,
)

AUTHORIZATION = "/apis/authorization.k8s.io/v1"
AUTHENTICATION = "/apis/authentication.k8s.io/v1"


def test_unknown_fields_and_nulls_are_dropped():
    options = decode("DeleteOptions", {"gracePeriodSeconds": None, "colour": "red", "dryRun": []})

    assert options == {"metadata": {}, "dryRun": []}


@pytest.mark.parametrize(
    "value",
    [[], "x", {"kind": "Pod"}, {"preconditions": []}, {"gracePeriodSeconds": "1"}],
    ids=["list", "text", "other-kind", "list-for-object", "text-for-number"],
)
def test_what_does_not_fit_is_a_bad_request(value):
    with pytest.raises(StatusError) as refused:
        decode("DeleteOptions", value)

    assert refused.value.code == 400


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
