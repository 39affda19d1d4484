"""What has API servers call the operator's webhooks: a Service and two configurations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from dynamo_operator.admission.webhook import RequestAdmission
from dynamo_operator.generate.layout import NAMESPACE, SELECTOR, labels
from dynamo_operator.runtime.webhooks import (
    ServiceEndpoint,
    UrlEndpoint,
    mutating_configuration,
    validating_configuration,
)
from dynamo_operator.settings import WEBHOOK_CONFIGURATION, WEBHOOK_SERVICE

SERVED_PORT: Final = 443
PORT_NAME: Final = "webhook"


def webhook_service() -> dict[str, Any]:
    """Return the Service by which API servers reach the webhooks."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": WEBHOOK_SERVICE,
            "namespace": NAMESPACE,
            "labels": labels("webhook"),
        },
        "spec": {
            "selector": dict(SELECTOR),
            "ports": [{"name": "https", "port": SERVED_PORT, "targetPort": PORT_NAME}],
        },
    }


def webhook_configurations(
    endpoint: ServiceEndpoint | UrlEndpoint | None = None,
    *,
    ca_bundle: bytes = b"",
    namespaces: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Return the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration.

    Args:
        endpoint: where the webhooks are served; default the shipped Service.
        ca_bundle: PEM of the authorities to trust; the operator patches it in with --webhooks=auto.
        namespaces: whose Requests are judged; empty for all.
    """
    webhooks = [RequestAdmission().webhook(namespaces=namespaces)]
    return [
        configuration(
            WEBHOOK_CONFIGURATION,
            webhooks,
            endpoint or ServiceEndpoint(WEBHOOK_SERVICE, NAMESPACE, SERVED_PORT),
            ca_bundle=ca_bundle,
            labels=labels("webhook"),
        )
        for configuration in (mutating_configuration, validating_configuration)
    ]
