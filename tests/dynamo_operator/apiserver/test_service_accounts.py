import pytest

from dynamo_operator.apiserver.service_accounts import TOKEN_DIRECTORY
from tests.dynamo_operator.apiserver.api import CORE, PODS, Api, Json, pod

pytestmark = pytest.mark.virtual_time

ACCOUNTS = f"{CORE}/namespaces/default/serviceaccounts"


async def with_account(**fields) -> Api:
    api = Api(service_accounts=True)
    await api.create(ACCOUNTS, {"metadata": {"name": "default"}, **fields})
    return api


def token_mounts(body: Json) -> list[str]:
    mounts = body["spec"]["containers"][0].get("volumeMounts", [])
    return [mount["name"] for mount in mounts if mount["mountPath"] == TOKEN_DIRECTORY]


async def test_a_pod_gets_its_namespaces_account_and_its_token():
    made = await (await with_account()).create(PODS, pod("p"))

    (volume,) = made.body["spec"]["volumes"]
    assert made.body["spec"]["serviceAccountName"] == "default"
    assert token_mounts(made.body) == [volume["name"]]
    sources = [next(iter(source)) for source in volume["projected"]["sources"]]
    assert sources == ["serviceAccountToken", "configMap", "downwardAPI"]


async def test_a_pod_of_a_missing_account_is_refused():
    answer = await Api(service_accounts=True).create(PODS, pod("p"))

    assert (answer.status, answer.message) == (
        403,
        'pods "p" is forbidden: error looking up service account default/default: serviceaccount '
        '"default" not found',
    )


@pytest.mark.parametrize("where", ["pod", "account"])
async def test_no_token_is_mounted_where_that_is_switched_off(where):
    off = {"automountServiceAccountToken": False}
    api = await with_account(**(off if where == "account" else {}))
    body = pod("p")
    body["spec"] |= off if where == "pod" else {}

    made = await api.create(PODS, body)

    assert token_mounts(made.body) == []


async def test_a_container_that_mounts_something_there_keeps_it():
    api = await with_account()
    body = pod("p")
    body["spec"]["volumes"] = [{"name": "own", "emptyDir": {}}]
    body["spec"]["containers"][0]["volumeMounts"] = [{"name": "own", "mountPath": TOKEN_DIRECTORY}]

    made = await api.create(PODS, body)

    assert token_mounts(made.body) == ["own"]
    assert [volume["name"] for volume in made.body["spec"]["volumes"]] == ["own"]


async def test_a_pod_inherits_its_accounts_pull_secrets():
    api = await with_account(imagePullSecrets=[{"name": "registry"}])

    made = await api.create(PODS, pod("p"))

    assert made.body["spec"]["imagePullSecrets"] == [{"name": "registry"}]
