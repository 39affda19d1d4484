"""The operator's Namespace and Deployment: non-root, restricted, probed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dynamo_operator.generate.layout import IMAGE, MANAGER, NAME, NAMESPACE, SELECTOR, labels
from dynamo_operator.generate.webhooks import PORT_NAME
from dynamo_operator.settings import WebhookMode, WebhookSettings

HEALTH_PORT: Final = 8081
WEBHOOK_PORT: Final = WebhookSettings().port
METRICS_PORT: Final = 8443
METRICS_PORT_NAME: Final = "metrics"
USER_ID: Final = 65532
CONTAINER: Final = "manager"
OPERATOR_IMAGE_VARIABLE: Final = "DYNAMO_OPERATOR_OPERATOR_IMAGE"
WEBHOOKS_VARIABLE: Final = "DYNAMO_OPERATOR_WEBHOOKS"

_STOP_SECONDS: Final = 40
_LEAVING_SECONDS: Final = 5
"""A Pod that ends goes on serving webhooks until nobody is sent to it any more."""
"""Longer than the operator takes to drain (30 s)."""


def namespace() -> dict[str, Any]:
    """Return the operator's Namespace; it admits restricted Pods only."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": NAMESPACE,
            "labels": {
                **labels("namespace"),
                "pod-security.kubernetes.io/enforce": "restricted",
            },
        },
    }


def deployment() -> dict[str, Any]:
    """Return the operator's Deployment."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": MANAGER, "namespace": NAMESPACE, "labels": labels(CONTAINER)},
        "spec": {
            "replicas": 1,
            # A Pod that answers webhooks is there until the next one does; one of them leads.
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
            },
            "selector": {"matchLabels": dict(SELECTOR)},
            "template": {
                "metadata": {
                    "labels": labels(CONTAINER),
                    "annotations": {"kubectl.kubernetes.io/default-container": CONTAINER},
                },
                "spec": _pod_spec(),
            },
        },
    }


def deployment_patch(
    container: Mapping[str, Any] | None = None,
    *,
    pod: Mapping[str, Any] | None = None,
    replicas: int | None = None,
) -> dict[str, Any]:
    """Return a kustomize patch of the Deployment.

    Args:
        container: fields of the operator's container.
        pod: fields of its Pod.
        replicas: how many there are.
    """
    spec: dict[str, Any] = {} if replicas is None else {"replicas": replicas}
    if container or pod:
        containers = [{"name": CONTAINER, **(container or {})}]
        spec["template"] = {"spec": {"containers": containers, **(pod or {})}}
    metadata = {"name": MANAGER, "namespace": NAMESPACE}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def disruption_budget() -> dict[str, Any]:
    """Return the PodDisruptionBudget of several replicas: one stays."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": MANAGER, "namespace": NAMESPACE, "labels": labels(CONTAINER)},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": dict(SELECTOR)}},
    }


def image_replacement() -> dict[str, Any]:
    """Return the kustomize replacement that tells the operator its own image."""
    container = f"spec.template.spec.containers.[name={CONTAINER}]"
    return {
        "source": {"kind": "Deployment", "name": MANAGER, "fieldPath": f"{container}.image"},
        "targets": [
            {
                "select": {"kind": "Deployment", "name": MANAGER},
                "fieldPaths": [f"{container}.env.[name={OPERATOR_IMAGE_VARIABLE}].value"],
            }
        ],
    }


def _pod_spec() -> dict[str, Any]:
    return {
        "serviceAccountName": NAME,
        "terminationGracePeriodSeconds": _STOP_SECONDS,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": CONTAINER,
                "image": IMAGE,
                "command": ["/manager"],
                "args": [f"--server.health-probe.port={HEALTH_PORT}"],
                "env": [
                    {"name": OPERATOR_IMAGE_VARIABLE, "value": IMAGE},
                    {"name": WEBHOOKS_VARIABLE, "value": str(WebhookMode.AUTO)},
                ],
                "ports": [
                    {"name": "health", "containerPort": HEALTH_PORT},
                    {"name": PORT_NAME, "containerPort": WEBHOOK_PORT},
                ],
                "lifecycle": {"preStop": {"sleep": {"seconds": _LEAVING_SECONDS}}},
                "startupProbe": _probe("/healthz", period=2, failures=30),
                "livenessProbe": _probe("/healthz", period=20, failures=3),
                "readinessProbe": _probe("/readyz", period=10, failures=3),
                "resources": {
                    "requests": {"cpu": "100m", "memory": "128Mi", "ephemeral-storage": "16Mi"},
                    "limits": {"cpu": "1", "memory": "512Mi", "ephemeral-storage": "128Mi"},
                },
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                    "readOnlyRootFilesystem": True,
                },
                "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
            }
        ],
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}}],
        "affinity": _apart(),
    }


def _apart() -> dict[str, Any]:
    """Return what puts replicas on different nodes, where there are any."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": SELECTOR}}
    preferred = [{"weight": 100, "podAffinityTerm": term}]
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def _probe(path: str, *, period: int, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": "health"},
        "periodSeconds": period,
        "failureThreshold": failures,
    }
