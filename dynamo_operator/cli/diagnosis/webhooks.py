"""Whether the API server can call the webhooks, and trusts their certificate."""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Final

from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest
from dynamo_operator.cli.diagnosis.findings import Finding, Severity, Subject
from dynamo_operator.cli.diagnosis.installation import Installation
from dynamo_operator.runtime.builtin_kinds import (
    EndpointSlice,
    MutatingWebhookConfiguration,
    Secret,
    Service,
    ValidatingWebhookConfiguration,
)
from dynamo_operator.runtime.client.errors import ApiError, InvalidError, ServerError
from dynamo_operator.runtime.webhooks.key_material import CERTIFICATE
from dynamo_operator.settings import WebhookMode
from informers.objects import ObjectKey

_CHECK: Final = "webhooks"
_CERTIFICATE: Final = "certificate"
_ADMISSION: Final = "admission"
_SOON: Final = timedelta(days=14)
_KINDS: Final = (MutatingWebhookConfiguration, ValidatingWebhookConfiguration)
_SERVICE_LABEL: Final = "kubernetes.io/service-name"
_INSTALL: Final = "helm upgrade, or kubectl apply --server-side -k manifests, brings it"
_SAMPLE: Final = {
    "model": {"name": "meta-llama/Meta-Llama-3.1-8B"},
    "hardware": {"gpu": {"sku": "h200_sxm", "budget": 8}},
}


async def check_webhooks(subject: Subject) -> AsyncIterator[Finding]:
    """Configurations, Service and endpoints."""
    installation = _with_webhooks(subject)
    if subject.installation is None or subject.installation.settings is None:
        return
    if installation is None:
        told = "off: the Request controller completes and judges Requests by itself"
        yield Finding(_CHECK, Severity.OK, told)
        return
    assert installation.settings is not None, "it has webhooks"
    webhook = installation.settings.server.webhook
    problems = 0
    for kind in _KINDS:
        name = webhook.configuration_name
        if await subject.client.find(kind, ObjectKey("", name)) is None:
            problems += 1
            told = f"{kind.resource_type.kind} {name} is missing: Requests are not judged by it"
            yield Finding(_CHECK, Severity.PROBLEM, told, _INSTALL)
    service = ObjectKey(installation.webhook_namespace, webhook.service_name)
    if await subject.client.find(Service, service) is None:
        problems += 1
        yield Finding(_CHECK, Severity.PROBLEM, f"Service {service} is missing", _INSTALL)
    elif not await _has_endpoints(subject, service):
        problems += 1
        yield Finding(
            _CHECK,
            Severity.PROBLEM,
            f"Service {service} has no ready endpoint: no Request can be created or changed",
            f"kubectl -n {service.namespace} get pods: one of the operator has to be ready",
        )
    if not problems:
        yield Finding(_CHECK, Severity.OK, f"both configurations call Service {service}")


async def check_certificate(subject: Subject) -> AsyncIterator[Finding]:
    """The certificate of the webhooks: valid, for the Service, and trusted by configurations."""
    installation = _with_webhooks(subject)
    if installation is None or installation.settings is None:
        return
    try:
        from dynamo_operator.cli.diagnosis.certificates import WebhookCertificate
    except ModuleNotFoundError:
        told = "cannot be read: pip install 'dynamo-operator[webhooks]'"
        yield Finding(_CERTIFICATE, Severity.UNKNOWN, told)
        return
    webhook = installation.settings.server.webhook
    key = ObjectKey(installation.webhook_namespace, installation.certificate_secret)
    if not key.name:
        yield Finding(_CERTIFICATE, Severity.UNKNOWN, f"is in files of {webhook.cert_dir}")
        return
    mend = _mend(installation, key)
    secret = await subject.client.find(Secret, key)
    if secret is None:
        yield Finding(_CERTIFICATE, Severity.PROBLEM, f"Secret {key} is missing", mend)
        return
    try:
        certificate = WebhookCertificate.read(_decoded(secret.data.get(CERTIFICATE, "")))
    except ValueError as error:
        told = f"Secret {key}: {CERTIFICATE}: {error}"
        yield Finding(_CERTIFICATE, Severity.PROBLEM, told, mend)
        return
    now, end = subject.clock.now(), f"{certificate.not_after:%Y-%m-%d %H:%M} UTC"
    host = f"{webhook.service_name}.{installation.webhook_namespace}.svc"
    problems = []
    if certificate.not_after <= now:
        problems.append(f"expired at {end}")
    if certificate.not_before > now:
        problems.append(f"is not valid before {certificate.not_before:%Y-%m-%d %H:%M} UTC")
    if host not in certificate.hosts:
        problems.append(f"is for {', '.join(certificate.hosts) or 'no host'}, not for {host}")
    for problem in problems:
        yield Finding(_CERTIFICATE, Severity.PROBLEM, f"of Secret {key} {problem}", mend)
    async for finding in _trust(subject, webhook.configuration_name, certificate.is_trusted_by):
        problems.append(finding.told)
        yield Finding(_CERTIFICATE, Severity.PROBLEM, finding.told, mend)
    if not problems:
        is_soon = certificate.not_after - now < _SOON
        severity = Severity.WARNING if is_soon else Severity.OK
        told = f"of Secret {key} is trusted, and valid until {end}"
        yield Finding(_CERTIFICATE, severity, told, mend if is_soon else "")


async def check_admission(subject: Subject) -> AsyncIterator[Finding]:
    """A Request, by a dry run: what a user would be answered."""
    if not subject.searches:
        return
    kind = DynamoGraphDeploymentRequest.resource_type
    body = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "spec": _SAMPLE,
        "metadata": {"generateName": "doctor-", "namespace": subject.namespace},
    }
    try:
        await subject.client.create(body, kind=kind, dry_run=True)
    except (InvalidError, ServerError) as error:
        yield Finding(
            _ADMISSION,
            Severity.PROBLEM,
            f"a Request is refused (dry run): {error.message}",
            "see what is told of kinds, webhooks and certificate",
        )
    except ApiError as error:  # of rights and namespaces
        yield Finding(_ADMISSION, Severity.UNKNOWN, f"cannot be tried: {error.message}")
    else:
        told = f"a Request is accepted in namespace {subject.namespace} (dry run)"
        yield Finding(_ADMISSION, Severity.OK, told)


def _with_webhooks(subject: Subject) -> Installation | None:
    installation = subject.installation
    settings = installation.settings if installation else None
    if settings is None or settings.webhooks is WebhookMode.OFF or not subject.searches:
        return None
    return installation


async def _has_endpoints(subject: Subject, service: ObjectKey) -> bool:
    slices = await subject.client.list(
        EndpointSlice, namespace=service.namespace, labels={_SERVICE_LABEL: service.name}
    )
    return any(
        (endpoint.get("conditions") or {}).get("ready", True) and endpoint.get("addresses")
        for each in slices
        for endpoint in each.endpoints
    )


async def _trust(
    subject: Subject, name: str, is_trusted_by: Callable[[bytes], bool]
) -> AsyncIterator[Finding]:
    """Yield what is wrong with each caBundle."""
    for kind in _KINDS:
        configuration = await subject.client.find(kind.resource_type, ObjectKey("", name))
        for webhook in (configuration or {}).get("webhooks") or []:
            bundle = _decoded((webhook.get("clientConfig") or {}).get("caBundle", ""))
            where = f"{kind.resource_type.kind} {name}: caBundle of {webhook['name']}"
            if not bundle:
                yield Finding(_CERTIFICATE, Severity.PROBLEM, f"{where} is empty")
            elif not is_trusted_by(bundle):
                told = f"{where} does not trust the certificate that is served"
                yield Finding(_CERTIFICATE, Severity.PROBLEM, told)


def _mend(installation: Installation, secret: ObjectKey) -> str:
    assert installation.settings is not None, "it has webhooks"
    if installation.settings.webhooks is WebhookMode.AUTO:
        seconds = installation.settings.server.webhook.check_seconds
        return f"a ready operator mends it within {seconds:g} s: see what is told of the operator"
    return (
        f"have cert-manager (kubectl -n {secret.namespace} describe certificates) or whoever makes"
        f" Secret {secret.name} renew it, and its authority be put into caBundle"
    )


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except binascii.Error:
        return b""
