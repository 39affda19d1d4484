"""The objects that have an API server call our webhooks, made from their declarations. Pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dynamo_operator.runtime.webhooks.server import CONVERT_PATH
from dynamo_operator.runtime.webhooks.webhook import CREATE, UPDATE, Webhook

Json = dict[str, Any]


@dataclass(frozen=True)
class ServiceEndpoint:
    """Webhooks behind a Service of the cluster."""

    name: str
    namespace: str
    port: int = 443

    def client_config(self, path: str) -> Json:
        """Return how to call that path."""
        service = {"name": self.name, "namespace": self.namespace, "path": path, "port": self.port}
        return {"service": service}


@dataclass(frozen=True)
class UrlEndpoint:
    """Webhooks at a URL, e.g. `https://127.0.0.1:9443`: for tests and local work."""

    url: str

    def client_config(self, path: str) -> Json:
        """Return how to call that path."""
        return {"url": self.url.rstrip("/") + path}


Endpoint = ServiceEndpoint | UrlEndpoint


def mutating_configuration(
    name: str,
    webhooks: Sequence[Webhook[Any]],
    endpoint: Endpoint,
    *,
    ca_bundle: bytes = b"",
    labels: Mapping[str, str] | None = None,
) -> Json:
    """Return the MutatingWebhookConfiguration of the webhooks that default something.

    Args:
        name: of the configuration.
        webhooks: the declarations; those that only validate are left out.
        endpoint: where they are served.
        ca_bundle: PEM of the authorities to trust; empty where it is patched in later.
        labels: of the configuration.
    """
    entries = [
        {
            **_entry(
                "default", webhook, (CREATE, UPDATE), endpoint, webhook.mutate_path, ca_bundle
            ),
            "reinvocationPolicy": webhook.reinvocation_policy,
        }
        for webhook in webhooks
        if webhook.defaults
    ]
    return _configuration("MutatingWebhookConfiguration", name, entries, labels)


def validating_configuration(
    name: str,
    webhooks: Sequence[Webhook[Any]],
    endpoint: Endpoint,
    *,
    ca_bundle: bytes = b"",
    labels: Mapping[str, str] | None = None,
) -> Json:
    """Return the ValidatingWebhookConfiguration of the webhooks that validate something.

    Arguments are those of `mutating_configuration`.
    """
    entries = [
        _entry(
            "validate",
            webhook,
            webhook.validated_operations,
            endpoint,
            webhook.validate_path,
            ca_bundle,
        )
        for webhook in webhooks
        if webhook.validated_operations
    ]
    return _configuration("ValidatingWebhookConfiguration", name, entries, labels)


def conversion_strategy(endpoint: Endpoint, *, ca_bundle: bytes = b"") -> Json:
    """Return `spec.conversion` of a CRD whose versions we convert."""
    webhook = {
        "conversionReviewVersions": ["v1"],
        "clientConfig": _client_config(endpoint, CONVERT_PATH, ca_bundle),
    }
    return {"strategy": "Webhook", "webhook": webhook}


def _configuration(
    kind: str, name: str, entries: Sequence[Json], labels: Mapping[str, str] | None
) -> Json:
    metadata: Json = {"name": name}
    if labels:
        metadata["labels"] = dict(labels)
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": metadata,
        "webhooks": list(entries),
    }


def _entry(
    verb: str,
    webhook: Webhook[Any],
    operations: Sequence[str],
    endpoint: Endpoint,
    path: str,
    ca_bundle: bytes,
) -> Json:
    mine = webhook.resource_type
    resource = f"{mine.plural}/{webhook.subresource}" if webhook.subresource else mine.plural
    name = ".".join(filter(None, (verb, webhook.subresource, mine.version, mine.plural)))
    entry: Json = {
        "name": f"{name}.{mine.group or 'core'}",
        "admissionReviewVersions": ["v1"],
        "clientConfig": _client_config(endpoint, path, ca_bundle),
        "rules": [
            {
                "apiGroups": [mine.group],
                "apiVersions": [mine.version],
                "resources": [resource],
                "operations": list(operations),
                "scope": "Namespaced" if mine.namespaced else "Cluster",
            }
        ],
        "failurePolicy": webhook.failure_policy,
        "matchPolicy": webhook.match_policy,
        "sideEffects": "None",
        "timeoutSeconds": webhook.timeout_seconds,
    }
    if webhook.namespace_selector:
        entry["namespaceSelector"] = dict(webhook.namespace_selector)
    if webhook.object_selector:
        entry["objectSelector"] = dict(webhook.object_selector)
    if webhook.match_conditions:
        entry["matchConditions"] = [
            {"name": condition, "expression": expression}
            for condition, expression in webhook.match_conditions.items()
        ]
    return entry


def _client_config(endpoint: Endpoint, path: str, ca_bundle: bytes) -> Json:
    config = endpoint.client_config(path)
    if ca_bundle:
        config["caBundle"] = base64.b64encode(ca_bundle).decode()
    return config
