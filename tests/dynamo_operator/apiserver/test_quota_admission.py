"""ResourceQuotas hold new objects of their namespace to what they leave room for."""

from __future__ import annotations

import pytest

from tests.dynamo_operator.apiserver.api import CONFIG_MAPS, PODS, Api, config_map, pod

QUOTAS = "/api/v1/namespaces/default/resourcequotas"


async def with_quota(**hard):
    api = Api()
    await api.create(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    return api


def asking(name, cpu):
    made = pod(name)
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return made


@pytest.mark.parametrize("counted", ["configmaps", "count/configmaps"])
async def test_one_object_more_than_the_quota_has_is_forbidden(counted):
    api = await with_quota(**{counted: "1"})
    first = await api.create(CONFIG_MAPS, config_map("a"))

    refused = await api.create(CONFIG_MAPS, config_map("b"))

    assert (first.status, refused.status) == (201, 403)
    assert refused.message == (
        f'configmaps "b" is forbidden: exceeded quota: q, requested: {counted}=1, '
        f"used: {counted}=1, limited: {counted}=1"
    )


async def test_what_is_deleted_makes_room():
    api = await with_quota(configmaps="1")
    await api.create(CONFIG_MAPS, config_map("a"))
    await api.delete(f"{CONFIG_MAPS}/a")

    assert (await api.create(CONFIG_MAPS, config_map("b"))).status == 201


async def test_what_pods_request_is_summed():
    api = await with_quota(**{"requests.cpu": "1"})
    await api.create(PODS, asking("a", "700m"))

    refused = await api.create(PODS, asking("b", "500m"))
    fitting = await api.create(PODS, asking("c", "300m"))

    assert (refused.status, fitting.status) == (403, 201)
    assert refused.message.endswith(
        "requested: requests.cpu=500m, used: requests.cpu=700m, limited: requests.cpu=1"
    )


async def test_a_pod_that_has_ended_takes_no_room():
    api = await with_quota(pods="1")
    await api.create(PODS, pod("a"))
    await api.merge(f"{PODS}/a/status", {"status": {"phase": "Succeeded"}})

    assert (await api.create(PODS, pod("b"))).status == 201


async def test_a_pod_says_what_a_quota_limits():
    api = await with_quota(**{"limits.memory": "1Gi"})

    refused = await api.create(PODS, pod("a"))

    assert refused.message.endswith("failed quota: q: must specify limits.memory for: main")


async def test_scopes_are_not_implemented_and_say_so():
    spec = {"hard": {"pods": "1"}, "scopes": ["BestEffort"]}

    refused = await Api().create(QUOTAS, {"metadata": {"name": "q"}, "spec": spec})

    assert refused.status == 501
    assert "scopes of ResourceQuotas" in refused.message
