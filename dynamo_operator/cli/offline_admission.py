"""Judges Requests as a cluster with our webhooks would, in this process."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from dynamo_operator.admission.webhook import RequestAdmission
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest
from dynamo_operator.apiserver.api_server import ApiServer
from dynamo_operator.cli.crds import wait_established
from dynamo_operator.generate.crds import custom_resource_definition
from dynamo_operator.generate.webhooks import webhook_configurations
from dynamo_operator.hardware.inventory import GpuInventory
from dynamo_operator.runtime.builtin_kinds import (
    CustomResourceDefinition,
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
)
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.client.errors import ApiError
from dynamo_operator.runtime.webhooks import Webhooks
from dynamo_operator.testing.in_process_transport import InProcessTransport
from dynamo_operator.testing.in_process_webhooks import InProcessWebhooks, NoCertificate

_TYPE = DynamoGraphDeploymentRequest.resource_type
_NAMESPACE = "default"
_CONFIGURATIONS = (MutatingWebhookConfiguration, ValidatingWebhookConfiguration)


@dataclass(frozen=True, slots=True)
class AssumedGpus:
    """GPUs that take the place of the cluster's.

    Args:
        sku: name in the catalogue.
        count: how many there are.
    """

    sku: str
    count: int

    async def discover(self, *, sku: str | None = None) -> GpuInventory:
        """Return them; what a Request names itself it gets."""
        return GpuInventory(sku or self.sku, sku or self.sku, self.count, self.count)


@dataclass(slots=True)
class Judgement:
    """What a cluster would answer.

    Args:
        completed: the Request as it would be stored; None when it is refused.
        refusal: why it is refused.
        warnings: what else a person should know.
    """

    completed: dict[str, Any] | None = None
    refusal: str = ""
    warnings: list[str] = field(default_factory=list)


class OfflineAdmission:
    """Made by `offline_admission`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def judge(self, manifest: Mapping[str, Any]) -> Judgement:
        """Return what a cluster where the Request is new would answer."""
        judgement = Judgement()
        client = self._client.with_warning_observer(judgement.warnings.append)
        metadata = {**manifest["metadata"], "namespace": _NAMESPACE}
        try:
            judgement.completed = await client.create(
                {**manifest, "metadata": metadata}, kind=_TYPE, dry_run=True
            )
        except ApiError as error:
            judgement.refusal = " ".join(error.message.split())
        return judgement


@asynccontextmanager
async def offline_admission(gpus: AssumedGpus) -> AsyncGenerator[OfflineAdmission]:
    """Start an API server in this process that has our CRD and webhooks; nothing listens.

    Args:
        gpus: what it discovers.
    """
    server = ApiServer()
    client = Client.over(InProcessTransport(server))
    try:
        definition = custom_resource_definition(DynamoGraphDeploymentRequest)
        await client.create(CustomResourceDefinition.model_validate(definition))
        await wait_established(client, definition["metadata"]["name"])
        calls = InProcessWebhooks()
        server.webhooks.client = calls
        webhook = RequestAdmission(gpus).webhook()
        endpoint = calls.add(Webhooks([webhook], certificate=NoCertificate()))
        for kind, configuration in zip(
            _CONFIGURATIONS, webhook_configurations(endpoint), strict=True
        ):
            await client.create(kind.model_validate(configuration))
        yield OfflineAdmission(client)
    finally:
        server.close()
        await client.close()
