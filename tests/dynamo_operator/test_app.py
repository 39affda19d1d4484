from __future__ import annotations

import asyncio
from contextlib import suppress

import aiohttp
import pytest

from dynamo_operator.api.v1alpha1 import DynamoPoolRelay
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest
from dynamo_operator.app import build_manager, permissions
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.runtime import ShutdownTimeoutError
from dynamo_operator.runtime.builtin_kinds import (
    ClusterRole,
    ClusterRoleBinding,
    Namespace,
    ServiceAccount,
)
from dynamo_operator.runtime.client import Client
from dynamo_operator.settings import FeatureGates, OperatorSettings, WebhookMode
from dynamo_operator.testing.cluster import Cluster
from dynamo_operator.testing.in_process_transport import InProcessTransport

OPERATOR_IMAGE = "operator:1"
HOST = "127.0.0.1"
RELAY = DynamoPoolRelay.resource_type
SEARCH_KINDS = ("dynamographdeploymentr", "dynamographdeploymentc")


class HangingTransport(InProcessTransport):
    """Never answers a write."""

    async def send(self, request, *, timeout_seconds):
        if request.method != "GET":
            await asyncio.sleep(3600)
        return await super().send(request, timeout_seconds=timeout_seconds)


@pytest.mark.virtual_time
async def test_a_stop_takes_less_than_half_a_minute_though_the_api_server_hangs():
    async with Cluster.start(crds=custom_resource_definitions()) as cluster:
        hanging = HangingTransport(cluster.server)
        client = Client.over(hanging, host="hanging", clock=cluster.clock, random=cluster.random)
        manager = build_manager(
            client,
            OperatorSettings(operator_image=OPERATOR_IMAGE),
            clock=cluster.clock,
            random=cluster.random,
        )
        async with asyncio.TaskGroup() as group:
            running = group.create_task(_stopped(manager))
            await manager.wait_synced()
            spec = {"model": {"name": "m"}, "hardware": {"gpu": {"sku": "h200_sxm", "budget": 8}}}
            await cluster.client.create(
                DynamoGraphDeploymentRequest.new("a", namespace="default", spec=spec)
            )
            await asyncio.sleep(1)
            before = asyncio.get_running_loop().time()
            running.cancel()
        await client.close()

        assert 20 < asyncio.get_running_loop().time() - before < 30


async def _stopped(manager):
    with suppress(asyncio.CancelledError, ShutdownTimeoutError):
        await manager.run()


@pytest.mark.virtual_time
async def test_without_the_gate_only_pool_relays_are_run_and_nothing_else_need_be_there():
    relays = [
        crd for crd in custom_resource_definitions() if crd["spec"]["names"]["kind"] == RELAY.kind
    ]
    settings = OperatorSettings(
        operator_image=OPERATOR_IMAGE,
        webhooks=WebhookMode.AUTO,
        feature_gates=FeatureGates(dgdr_v1_beta2=False),
    )
    async with Cluster.start(crds=relays) as cluster:
        manager = build_manager(
            cluster.client, settings, clock=cluster.clock, random=cluster.random
        )
        async with manager.running():
            assert set(manager.controllers) == {"pool-relay"}
            assert manager.addresses == {}
            resources = {cache.scope.resource_type.kind for cache in manager.cache}

    assert RELAY.kind in resources
    assert not any("DynamoGraphDeploymentR" in kind for kind in resources)


def test_without_the_gate_the_operator_needs_no_right_to_requests():
    def resources(*, dgdr_v1_beta2: bool = True) -> set[str]:
        declared = permissions(dgdr_v1_beta2=dgdr_v1_beta2)
        return {name for each in declared for name in each.resources}

    assert "dynamographdeploymentruns" in resources()
    assert not any(name.startswith(SEARCH_KINDS) for name in resources(dgdr_v1_beta2=False))
    assert "dynamopoolrelays" in resources(dgdr_v1_beta2=False)


@pytest.mark.virtual_time
async def test_an_operator_of_some_namespaces_asks_for_nothing_of_the_whole_cluster():
    settings = OperatorSettings(
        operator_image=OPERATOR_IMAGE, watch_namespaces=("lab",), fallback_gpus_per_node=8
    )
    spec = {"model": {"name": "m"}}
    async with Cluster.start(crds=custom_resource_definitions()) as cluster:
        client = cluster.client_of("operator", ["system:masters"])
        manager = build_manager(client, settings, clock=cluster.clock, random=cluster.random)
        await cluster.client.create(Namespace.new("lab"))
        async with manager.running():
            made = await cluster.client.create(
                DynamoGraphDeploymentRequest.new("a", namespace="lab", spec=spec)
            )
            accepted = await cluster.eventually(
                lambda: cluster.client.get(DynamoGraphDeploymentRequest, made.key),
                lambda request: request.status.conditions,
            )
        asked = [entry for entry in cluster.audit.entries if entry.user.name == "operator"]

    of_the_cluster = {f"{each.verb} {each.resource}" for each in asked if not each.namespace}
    assert {each.namespace for each in asked} == {"lab", ""}
    assert of_the_cluster == {"get "}, "discovery only"
    assert "gpu.discoveryEnabled is off" in accepted.status.conditions[0].message


async def test_metrics_are_for_those_whom_the_cluster_allows_them():
    settings = OperatorSettings.model_validate(
        {
            "operator_image": OPERATOR_IMAGE,
            "server": {"metrics": {"port": 0, "bind_address": HOST}},
        }
    )
    async with Cluster.start(mode="http", crds=custom_resource_definitions()) as cluster:
        tokens = [await token_of(cluster, name) for name in ("prometheus", "nosy")]
        await allow_metrics(cluster, "prometheus")
        manager = build_manager(cluster.client, settings)
        async with manager.running():
            port = manager.addresses[f"{HOST}:0"]
            answers = [await metrics_of(port, token) for token in ("", *tokens)]

    assert [status for status, _ in answers] == [401, 200, 403]
    assert "controller_runtime_max_concurrent_reconciles" in answers[1][1]
    assert "nosy may not GET /metrics" in answers[2][1]


async def token_of(cluster: Cluster, name: str) -> str:
    account = await cluster.client.create(ServiceAccount.new(name))
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    made = await cluster.client.create_subresource(ServiceAccount, account.key, "token", request)
    return str(made["status"]["token"])


async def allow_metrics(cluster: Cluster, account: str) -> None:
    rule = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
    await cluster.client.create(ClusterRole.new("scraper", rules=[rule]))
    binding = ClusterRoleBinding.new(
        "scraper",
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "scraper"},
        subjects=[{"kind": "ServiceAccount", "name": account, "namespace": "default"}],
    )
    await cluster.client.create(binding)


async def metrics_of(port: int, token: str) -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"https://{HOST}:{port}/metrics", headers=headers, ssl=False) as answer,
    ):
        return answer.status, await answer.text()
