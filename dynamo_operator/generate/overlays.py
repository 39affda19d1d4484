"""The kustomize overlays: the base without parts of it, or otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from dynamo_operator.generate.deployment import (
    WEBHOOKS_VARIABLE,
    deployment_patch,
    disruption_budget,
    image_replacement,
)
from dynamo_operator.generate.kustomizations import BASE, folder, kustomization
from dynamo_operator.generate.layout import NAMESPACE, labels
from dynamo_operator.generate.rbac import namespaced_manager_role, namespaced_manager_role_binding
from dynamo_operator.settings import (
    WEBHOOK_CONFIGURATION,
    WEBHOOK_SECRET,
    WEBHOOK_SERVICE,
    WebhookMode,
)

_CERTIFICATE_DIRECTORY: Final = "/var/run/dynamo-operator/webhook-certificate"
_VOLUME: Final = "webhook-certificate"
_ISSUER: Final = "dynamo-operator-self-signed"
_CLUSTER_SCOPED: Final = "ClusterRole|ClusterRoleBinding|Namespace"


def overlays() -> dict[str, dict[str, Any]]:
    """Return the files of the overlays, by path below `manifests`."""
    return {
        **folder("overlays/without_webhooks", _without_webhooks()),
        **folder("overlays/cert_manager", _cert_manager()),
        **folder("overlays/high_availability", _high_availability()),
        **folder("overlays/namespaced", _namespaced()),
    }


def _without_webhooks() -> dict[str, dict[str, Any]]:
    """The Request controller alone completes and judges Requests."""
    return {
        "kustomization.yaml": _overlay(
            without=("webhook", "webhook_certificate"), patches=["deployment_patch.yaml"]
        ),
        "deployment_patch.yaml": deployment_patch({"env": [_mode(WebhookMode.OFF)]}),
    }


def _cert_manager() -> dict[str, dict[str, Any]]:
    """The webhooks' certificate is cert-manager's."""
    directory = {
        "name": "DYNAMO_OPERATOR_SERVER__WEBHOOK__CERT_DIR",
        "value": _CERTIFICATE_DIRECTORY,
    }
    mount = {"name": _VOLUME, "mountPath": _CERTIFICATE_DIRECTORY, "readOnly": True}
    container = {"env": [_mode(WebhookMode.MANUAL), directory], "volumeMounts": [mount]}
    volume = {"name": _VOLUME, "secret": {"secretName": WEBHOOK_SECRET}}
    return {
        "kustomization.yaml": _overlay(
            without=("webhook_certificate",),
            own=("issuer.yaml", "certificate.yaml"),
            patches=["deployment_patch.yaml", "mutating_patch.yaml", "validating_patch.yaml"],
        ),
        "issuer.yaml": _issuer(),
        "certificate.yaml": _certificate(),
        "deployment_patch.yaml": deployment_patch(container, pod={"volumes": [volume]}),
        "mutating_patch.yaml": _injected("MutatingWebhookConfiguration"),
        "validating_patch.yaml": _injected("ValidatingWebhookConfiguration"),
    }


def _high_availability() -> dict[str, dict[str, Any]]:
    """Two replicas: one works, both answer webhooks, and a drain leaves one of them."""
    return {
        "kustomization.yaml": _overlay(
            own=("disruption_budget.yaml",), patches=["deployment_patch.yaml"]
        ),
        "disruption_budget.yaml": disruption_budget(),
        "deployment_patch.yaml": deployment_patch(replicas=2),
    }


def _namespaced() -> dict[str, dict[str, Any]]:
    """The operator works in its own namespace, by a Role: nothing of it is cluster-scoped.

    The CRDs and the policy are left to an administrator of the cluster.
    """
    own = {"fieldRef": {"fieldPath": "metadata.namespace"}}
    watched = {"name": "DYNAMO_OPERATOR_WATCH_NAMESPACES", "valueFrom": own}
    overlay = _overlay(
        without=("crd", "policy", "webhook", "webhook_certificate"),
        own=("manager_role.yaml", "manager_role_binding.yaml"),
        patches=["deployment_patch.yaml"],
    )
    removed = "$patch: delete\nkind: any\nmetadata:\n  name: any\n"
    overlay["patches"].append({"target": {"kind": _CLUSTER_SCOPED}, "patch": removed})
    return {
        "kustomization.yaml": overlay,
        "manager_role.yaml": namespaced_manager_role(),
        "manager_role_binding.yaml": namespaced_manager_role_binding(),
        "deployment_patch.yaml": deployment_patch({"env": [_mode(WebhookMode.OFF), watched]}),
    }


def _issuer() -> dict[str, Any]:
    """Return cert-manager's Issuer of self-signed certificates."""
    return {
        "apiVersion": "cert-manager.io/v1",
        "kind": "Issuer",
        "metadata": {"name": _ISSUER, "namespace": NAMESPACE, "labels": labels("webhook")},
        "spec": {"selfSigned": {}},
    }


def _certificate() -> dict[str, Any]:
    """Return cert-manager's Certificate for the webhooks' Service."""
    return {
        "apiVersion": "cert-manager.io/v1",
        "kind": "Certificate",
        "metadata": {"name": WEBHOOK_SECRET, "namespace": NAMESPACE, "labels": labels("webhook")},
        "spec": {
            "dnsNames": [f"{WEBHOOK_SERVICE}.{NAMESPACE}.svc"],
            "issuerRef": {"kind": "Issuer", "name": _ISSUER},
            "secretName": WEBHOOK_SECRET,
        },
    }


def _overlay(
    *, patches: Sequence[str], without: Sequence[str] = (), own: Sequence[str] = ()
) -> dict[str, Any]:
    folders = [f"../../{name}" for name in BASE if name not in without]
    return kustomization(
        [*folders, *own],
        replacements=[image_replacement()],
        patches=[{"path": patch} for patch in patches],
    )


def _injected(kind: str) -> dict[str, Any]:
    """Return the patch by which cert-manager has a configuration trust its certificate."""
    source = {"cert-manager.io/inject-ca-from": f"{NAMESPACE}/{WEBHOOK_SECRET}"}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": WEBHOOK_CONFIGURATION, "annotations": source},
    }


def _mode(mode: WebhookMode) -> dict[str, str]:
    return {"name": WEBHOOKS_VARIABLE, "value": str(mode)}
