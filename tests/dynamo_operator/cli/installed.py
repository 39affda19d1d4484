"""An operator as it is installed, with everything in its place, for tests to break."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from dynamo_operator.admission.webhook import RequestAdmission
from dynamo_operator.certificates import CertificateAuthority
from dynamo_operator.cli.graph_crds import GRAPH_CRDS
from dynamo_operator.cli.local import grant_operator
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.generate.deployment import deployment
from dynamo_operator.generate.layout import NAMESPACE
from dynamo_operator.generate.webhooks import webhook_configurations, webhook_service
from dynamo_operator.local_cluster.node_agent import gpu_labels
from dynamo_operator.runtime.builtin_kinds import (
    Deployment,
    EndpointSlice,
    MutatingWebhookConfiguration,
    Node,
    Secret,
    Service,
    ValidatingWebhookConfiguration,
)
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.serving_certificate import ServingCertificate
from dynamo_operator.runtime.webhooks import Webhooks
from dynamo_operator.settings import WEBHOOK_SECRET, WEBHOOK_SERVICE
from dynamo_operator.testing.cluster import Cluster
from informers.objects import ObjectKey

GRAPH_CRD = GRAPH_CRDS[0]
HOST = f"{WEBHOOK_SERVICE}.{NAMESPACE}.svc"
SECRET_KEY = ObjectKey(NAMESPACE, WEBHOOK_SECRET)
SERVICE_KEY = ObjectKey(NAMESPACE, WEBHOOK_SERVICE)
CONFIGURATIONS = (MutatingWebhookConfiguration, ValidatingWebhookConfiguration)


@asynccontextmanager
async def installed(directory: Path) -> AsyncIterator[Cluster]:
    """A cluster with a well operator, whose webhooks are really called."""
    authority = CertificateAuthority.create(datetime.now(UTC))
    certificate = authority.issue(HOST, datetime.now(UTC), hosts=[HOST])
    (directory / "tls.crt").write_bytes(certificate.certificate)
    (directory / "tls.key").write_bytes(certificate.key)
    serving = ServingCertificate(directory / "tls.crt", directory / "tls.key")
    webhooks = Webhooks([RequestAdmission().webhook()], certificate=serving, address="127.0.0.1:0")
    async with (
        Cluster.start(mode="http", crds=[*custom_resource_definitions(), GRAPH_CRD]) as cluster,
        webhooks,
    ):
        client = cluster.client
        await grant_operator(client)
        await client.create(Service.model_validate(webhook_service()))
        await client.create(endpoints())
        await put_secret(client, certificate.certificate)
        for kind, configuration in zip(
            CONFIGURATIONS, webhook_configurations(ca_bundle=authority.pem), strict=True
        ):
            await client.create(kind.model_validate(configuration))
        await client.create(Node.new("gpu-a", labels=gpu_labels("NVIDIA-H200", 8, 143771)))
        await deploy(client)
        service = f"{NAMESPACE}/{WEBHOOK_SERVICE}"
        cluster.server.webhooks.services[service] = f"https://127.0.0.1:{webhooks.port}"
        yield cluster


async def deploy(client: Client, *arguments: str, **pod_spec: Any) -> None:
    """Create or replace the operator's Deployment, one Pod of which is available."""
    manifest = deployment()
    spec = manifest["spec"]["template"]["spec"]
    spec["containers"][0]["args"] += arguments
    spec.update(pod_spec)
    model = Deployment.model_validate(manifest)
    await client.apply(model, force=True)
    await client.patch(
        Deployment,
        model.key,
        {"status": {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1}},
        subresource="status",
    )


async def put_secret(client: Client, certificate: bytes) -> None:
    """Create or replace the certificate that the webhooks are said to serve with."""
    data = {"tls.crt": base64.b64encode(certificate).decode()}
    secret = Secret.new(SECRET_KEY.name, namespace=SECRET_KEY.namespace, data=data)
    await client.apply(secret, force=True)


def endpoints(*, ready: bool = True) -> EndpointSlice:
    """The endpoints of the webhooks' Service."""
    return EndpointSlice.new(
        f"{SERVICE_KEY.name}-a",
        namespace=SERVICE_KEY.namespace,
        labels={"kubernetes.io/service-name": SERVICE_KEY.name},
        address_type="IPv4",
        endpoints=[{"addresses": ["10.0.0.7"], "conditions": {"ready": ready}}],
        ports=[{"name": "https", "port": 9443, "protocol": "TCP"}],
    )


def expired() -> bytes:
    """A certificate of another authority that ended yesterday."""
    then = datetime.now(UTC) - timedelta(days=366)
    return CertificateAuthority.create(then).issue(HOST, then, hosts=[HOST]).certificate
