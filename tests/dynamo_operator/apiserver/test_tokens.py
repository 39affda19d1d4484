import asyncio
from typing import Any

import pytest

from dynamo_operator.apiserver import UserInfo
from tests.dynamo_operator.apiserver.api import CORE, PODS, Answer, Api, Json, pod

pytestmark = pytest.mark.virtual_time

ACCOUNTS = f"{CORE}/namespaces/default/serviceaccounts"
TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


async def with_account() -> Api:
    api = Api()
    answer = await api.create(ACCOUNTS, {"metadata": {"name": "sa"}})
    assert answer.status == 201, answer.body
    return api


async def request_token(api: Api, **spec: Any) -> Answer:
    return await api.create(f"{ACCOUNTS}/sa/token", {"spec": spec})


async def who_am_i(api: Api, token: str) -> Answer:
    nobody = Api(None, api.server)
    return await nobody.ask("POST", SELF, {}, headers={"authorization": f"Bearer {token}"})


async def review(api: Api, token: str, **spec: Any) -> Json:
    answer = await api.create(TOKEN_REVIEWS, {"spec": {"token": token, **spec}})
    status: Json = answer.body["status"]
    return status


async def test_a_token_is_its_service_account():
    api = await with_account()
    issued = await request_token(api)

    answer = await who_am_i(api, issued.body["status"]["token"])

    user = answer.body["status"]["userInfo"]
    assert issued.status == 201
    assert issued.body["status"]["expirationTimestamp"] == "2030-01-01T01:00:00Z"
    assert user["username"] == "system:serviceaccount:default:sa"
    assert user["groups"] == [
        "system:serviceaccounts",
        "system:serviceaccounts:default",
        "system:authenticated",
    ]


async def test_a_token_expires():
    api = await with_account()
    issued = await request_token(api, expirationSeconds=600)

    await asyncio.sleep(599)
    before = await who_am_i(api, issued.body["status"]["token"])
    await asyncio.sleep(1)
    after = await who_am_i(api, issued.body["status"]["token"])

    assert (before.status, after.status) == (201, 401)
    assert after.body["reason"] == "Unauthorized"


async def test_a_token_dies_with_its_account():
    api = await with_account()
    issued = await request_token(api)
    await api.delete(f"{ACCOUNTS}/sa")
    await api.create(ACCOUNTS, {"metadata": {"name": "sa"}})

    assert (await who_am_i(api, issued.body["status"]["token"])).status == 401


async def test_a_bound_token_names_its_pod_and_dies_with_it():
    api = await with_account()
    body = pod("p")
    body["spec"]["serviceAccountName"] = "sa"
    made = await api.create(PODS, body)
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "p"}
    reference["uid"] = made.body["metadata"]["uid"]
    token = (await request_token(api, boundObjectRef=reference)).body["status"]["token"]

    alive = await who_am_i(api, token)
    await api.delete(f"{PODS}/p")
    dead = await who_am_i(api, token)

    extra = alive.body["status"]["userInfo"]["extra"]
    assert extra["authentication.kubernetes.io/pod-name"] == ["p"]
    assert extra["authentication.kubernetes.io/pod-uid"] == [reference["uid"]]
    assert dead.status == 401


async def test_a_token_is_not_bound_to_another_incarnation_or_anothers_pod():
    api = await with_account()
    await api.create(PODS, pod("p"))
    other = {"apiVersion": "v1", "kind": "Pod", "name": "p"}

    stale = await request_token(api, boundObjectRef={**other, "uid": "old"})
    foreign = await request_token(api, boundObjectRef=other)

    assert stale.status == 409
    assert foreign.status == 400


async def test_a_short_lifetime_is_refused():
    answer = await request_token(await with_account(), expirationSeconds=60)

    assert answer.status == 422
    assert "may not specify a duration less than 10 minutes" in answer.message


async def test_a_token_for_another_audience_is_worth_nothing_here_and_reviewed_there():
    api = await with_account()
    token = (await request_token(api, audiences=["vault"])).body["status"]["token"]

    here = await who_am_i(api, token)
    there = await review(api, token, audiences=["vault", "other"])
    elsewhere = await review(api, token, audiences=["other"])

    assert here.status == 401
    assert (there["authenticated"], there["audiences"]) == (True, ["vault"])
    assert "authenticated" not in elsewhere


async def test_a_review_of_a_good_token_says_whose_it_is_and_of_a_bad_one_that_it_is_bad():
    api = await with_account()
    token = (await request_token(api)).body["status"]["token"]

    good = await review(api, token)
    forged = await review(api, token[:-2] + ("AA" if token[-2:] != "AA" else "BB"))
    garbage = await review(api, "x")

    assert good["user"]["username"] == "system:serviceaccount:default:sa"
    assert "authenticated" not in forged
    assert "authenticated" not in garbage


@pytest.mark.parametrize("value", ["Bearer nonsense", "Bearer", "Basic YTpi"])
async def test_credentials_that_are_no_good_are_unauthorized(value):
    answer = await Api(None).get(PODS, headers={"authorization": value})

    assert (answer.status, answer.body["reason"]) == (401, "Unauthorized")


async def test_a_static_token_is_whose_it_is_said_to_be():
    user = UserInfo("robot", groups=("system:masters",))
    api = Api(None, static_tokens={"secret": user})

    answer = await api.get(PODS, headers={"authorization": "Bearer secret"})

    assert answer.status == 200
    assert api.server.audit.entries[-1].user == user
