"""The kustomize folders: the base with everything, and ways to do without parts of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from dynamo_operator.generate.deployment import (
    CONTAINER,
    WEBHOOKS_VARIABLE,
    image_replacement,
)
from dynamo_operator.generate.layout import MANAGER, NAMESPACE, labels
from dynamo_operator.settings import (
    WEBHOOK_CONFIGURATION,
    WEBHOOK_SECRET,
    WEBHOOK_SERVICE,
    WebhookMode,
)

BASE: Final = ("crd", "rbac", "policy", "webhook", "webhook_certificate", "manager")
"""Folders that the base is made of; an overlay names its own, since it lies inside the base's."""

WITHOUT_WEBHOOKS: Final = "without_webhooks"
CERT_MANAGER: Final = "cert_manager"

_CERTIFICATE_DIRECTORY: Final = "/var/run/dynamo-operator/webhook-certificate"
_VOLUME: Final = "webhook-certificate"
_ISSUER: Final = "dynamo-operator-self-signed"


def kustomization(resources: Sequence[str], **more: Any) -> dict[str, Any]:
    """Return a kustomization of these files or folders."""
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(resources),
        **more,
    }


def base() -> dict[str, Any]:
    """Return the kustomization of everything."""
    return kustomization(BASE, replacements=[image_replacement()])


def overlays() -> dict[str, dict[str, Any]]:
    """Return the files of the overlays, by path below `manifests/overlays`."""
    return {
        **_folder(WITHOUT_WEBHOOKS, _without_webhooks()),
        **_folder(CERT_MANAGER, _cert_manager()),
    }


def _folder(name: str, files: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {f"{name}/{file}": content for file, content in files.items()}


def _without_webhooks() -> dict[str, dict[str, Any]]:
    """The Request controller alone completes and judges Requests."""
    return {
        "kustomization.yaml": _overlay(
            without=("webhook", "webhook_certificate"), patches=["deployment_patch.yaml"]
        ),
        "deployment_patch.yaml": _deployment({"env": [_mode(WebhookMode.OFF)]}, {}),
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
        "deployment_patch.yaml": _deployment(container, {"volumes": [volume]}),
        "mutating_patch.yaml": _injected("MutatingWebhookConfiguration"),
        "validating_patch.yaml": _injected("ValidatingWebhookConfiguration"),
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
    *, without: Sequence[str], patches: Sequence[str], own: Sequence[str] = ()
) -> dict[str, Any]:
    folders = [f"../../{folder}" for folder in BASE if folder not in without]
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


def _deployment(container: dict[str, Any], pod: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": MANAGER, "namespace": NAMESPACE},
        "spec": {"template": {"spec": {"containers": [{"name": CONTAINER, **container}], **pod}}},
    }
