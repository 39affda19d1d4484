"""`dynamo-operator start --webhooks=...`: a process whose webhooks an API server calls."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest
from dynamo_operator.certificates import CertificateAuthority
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.generate.layout import NAMESPACE
from dynamo_operator.generate.webhooks import webhook_configurations
from dynamo_operator.runtime.builtin_kinds import (
    MutatingWebhookConfiguration,
    Namespace,
    Secret,
    ValidatingWebhookConfiguration,
)
from dynamo_operator.runtime.webhooks import UrlEndpoint
from dynamo_operator.settings import WEBHOOK_SECRET
from dynamo_operator.testing.cluster import Cluster
from dynamo_operator.testing.polling import eventually
from informers.clock import SystemClock
from informers.objects import ObjectKey
from tests.dynamo_operator.cli.test_commands import command, free_port, started, status_of
from tests.reconcilers.search import SPEC

HOST = "127.0.0.1"


def write_pair(directory: Path, authority: CertificateAuthority) -> None:
    """Write a new pair where a Secret would be mounted."""
    made = authority.issue(HOST, SystemClock().now(), hosts=[HOST])
    (directory / "tls.key").write_bytes(made.key)
    (directory / "tls.crt").write_bytes(made.certificate)


@asynccontextmanager
async def serving(cluster: Cluster, *words: str, ca_bundle: bytes = b"") -> AsyncIterator[int]:
    """Start the operator, with the API server calling its webhooks; yields their port."""
    port, health_port = free_port(), free_port()
    mutating, validating = webhook_configurations(
        UrlEndpoint(f"https://{HOST}:{port}"), ca_bundle=ca_bundle
    )
    await cluster.client.create(MutatingWebhookConfiguration.model_validate(mutating))
    await cluster.client.create(ValidatingWebhookConfiguration.model_validate(validating))
    async with started(
        f"--kubeconfig={cluster.kubeconfig()}",
        "--operator-image=registry.lab/dynamo-operator:1",
        f"--server.health-probe.bind-address={HOST}",
        f"--server.health-probe.port={health_port}",
        f"--server.webhook.host={HOST}",
        f"--server.webhook.port={port}",
        "--server.webhook.check-seconds=0.1",
        *words,
    ):
        await eventually(
            lambda: status_of(f"http://{HOST}:{health_port}/readyz/webhooks"),
            lambda status: status == 200,
            timeout=30,
        )
        yield port


async def completed(cluster: Cluster) -> DynamoGraphDeploymentRequest:
    """What the webhooks make of a Request."""
    request = DynamoGraphDeploymentRequest.new("llama", namespace="default", spec=SPEC)
    return await cluster.client.create(request, dry_run=True)


async def test_webhooks_auto_have_a_certificate_of_their_own_in_a_secret():
    async with Cluster.start(mode="http", crds=custom_resource_definitions()) as cluster:
        await cluster.client.create(Namespace.new(NAMESPACE))
        async with serving(cluster, "--webhooks=auto", f"--server.webhook.hosts={HOST}"):
            made = await completed(cluster)

        secret = await cluster.client.get(Secret, ObjectKey(NAMESPACE, WEBHOOK_SECRET))
    assert made.spec.backends == ["vllm"]
    assert set(secret.data) == {"ca.crt", "ca.key", "tls.crt", "tls.key"}


async def test_webhooks_manual_serve_files_and_take_up_new_ones(tmp_path: Path):
    authority = CertificateAuthority.create(SystemClock().now())
    write_pair(tmp_path, authority)
    async with (
        Cluster.start(mode="http", crds=custom_resource_definitions()) as cluster,
        serving(
            cluster,
            "--webhooks=manual",
            f"--server.webhook.cert-dir={tmp_path}",
            ca_bundle=authority.pem,
        ) as port,
    ):
        before = await asyncio.to_thread(ssl.get_server_certificate, (HOST, port))
        await completed(cluster)
        write_pair(tmp_path, authority)
        await eventually(
            lambda: asyncio.to_thread(ssl.get_server_certificate, (HOST, port)),
            lambda served: served != before,
        )
        made = await completed(cluster)
        secrets = await cluster.client.list(Secret)

    assert made.spec.backends == ["vllm"]
    assert secrets == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--webhooks=manual"],
            "settings: webhooks is manual: server.webhook.certDir must name the directory of "
            "tls.crt and tls.key",
        ),
        (
            ["--webhooks=auto", "--watch-namespaces=a,b"],
            "settings: webhooks is auto, which writes configurations of the whole cluster: must be "
            "manual or off beside watchNamespaces",
        ),
        (
            ["--webhooks=maybe"],
            "--webhooks: must be 'off', 'auto' or 'manual', not 'maybe'",
        ),
        (
            ["--validate-effective-input=maybe"],
            "--validate-effective-input: must be 'off', 'warn' or 'deny', not 'maybe'",
        ),
    ],
    ids=["no directory", "some namespaces", "no such mode", "no such policy"],
)
async def test_settings_that_cannot_be_are_refused_in_a_line(words: list[str], message: str):
    code, _, errors = await command("start", "--operator-image=lab/op:1", *words)

    assert code == 2
    assert errors.splitlines()[-1] == f"dynamo-operator: {message}"


async def test_a_certificate_that_is_not_there_ends_the_start_with_a_line(tmp_path: Path):
    async with Cluster.start(mode="http", crds=custom_resource_definitions()) as cluster:
        code, _, errors = await command(
            "start",
            f"--kubeconfig={cluster.kubeconfig()}",
            "--operator-image=lab/op:1",
            "--webhooks=manual",
            f"--server.webhook.cert-dir={tmp_path}",
            f"--server.webhook.host={HOST}",
            "--server.webhook.port=0",
        )

    assert code == 1
    assert errors.splitlines()[-1] == (
        f"dynamo-operator: {tmp_path}/tls.crt: No such file or directory"
    )
