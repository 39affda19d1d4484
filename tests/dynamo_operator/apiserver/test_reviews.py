import pytest

from tests.dynamo_operator.apiserver.api import Api
from tests.dynamo_operator.apiserver.test_rbac import granted, rule

pytestmark = pytest.mark.virtual_time

AUTHORIZATION = "/apis/authorization.k8s.io/v1"
LIST_PODS = {"verb": "list", "resource": "pods", "namespace": "default"}
BY_ROLE = 'RBAC: allowed by RoleBinding "u/default" of Role "u" to User "u"'


async def test_a_user_asks_what_he_may_do_himself():
    _, user = await granted("u", rule("list", "pods"))
    path = f"{AUTHORIZATION}/selfsubjectaccessreviews"

    yes = await user.create(path, {"spec": {"resourceAttributes": LIST_PODS}})
    no = await user.create(path, {"spec": {"resourceAttributes": LIST_PODS | {"verb": "get"}}})

    assert (yes.status, yes.body["status"]) == (201, {"allowed": True, "reason": BY_ROLE})
    assert no.body["status"] == {"allowed": False}


async def test_an_administrator_asks_about_another():
    admin, _ = await granted("u", rule("list", "pods"))
    path = f"{AUTHORIZATION}/subjectaccessreviews"

    answer = await admin.create(path, {"spec": {"user": "u", "resourceAttributes": LIST_PODS}})
    paths = await admin.create(
        path,
        {
            "spec": {
                "user": "u",
                "groups": ["system:unauthenticated"],
                "nonResourceAttributes": {"verb": "get", "path": "/healthz"},
            }
        },
    )

    assert answer.body["status"] == {"allowed": True, "reason": BY_ROLE}
    assert paths.body["status"]["allowed"]


async def test_a_review_of_nobody_or_of_nothing_is_invalid():
    admin = Api()
    path = f"{AUTHORIZATION}/subjectaccessreviews"

    nobody = await admin.create(path, {"spec": {"resourceAttributes": LIST_PODS}})
    nothing = await admin.create(path, {"spec": {"user": "u"}})

    assert (nobody.status, nothing.status) == (422, 422)


async def test_a_user_lists_his_rules():
    _, user = await granted("u", rule("list", "pods"))

    answer = await user.create(
        f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}
    )

    status = answer.body["status"]
    assert {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]} in status["resourceRules"]
    assert status["incomplete"] is False


async def test_a_review_is_not_stored():
    answer = await Api().get(f"{AUTHORIZATION}/subjectaccessreviews")

    assert answer.status == 405
