"""Names and labels that the generated manifests share."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

from dynamo_operator.api.labels import COMPONENT_LABEL, PART_OF_LABEL

NAME: Final = "dynamo-operator"
MANAGER: Final = "dynamo-operator-manager"
LEADER_ELECTION: Final = "dynamo-operator-leader-election"
WEBHOOK_CERTIFICATE: Final = "dynamo-operator-webhook-certificate"
METRICS: Final = "dynamo-operator-metrics"
POLICY: Final = "dynamo-operator-publisher"
NAMESPACE: Final = "dynamo-operator-system"
IMAGE: Final = f"dynamo-operator:{version('dynamo-operator')}"
SELECTOR: Final = {"app.kubernetes.io/name": NAME, COMPONENT_LABEL: "manager"}
"""Labels of the operator's own Pods."""


def labels(component: str) -> dict[str, str]:
    """Return the labels of an object of that component."""
    return {
        "app.kubernetes.io/name": NAME,
        COMPONENT_LABEL: component,
        PART_OF_LABEL: NAME,
    }
