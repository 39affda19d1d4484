"""The kustomize base, and what kustomizations are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dynamo_operator.generate.deployment import image_replacement

BASE: Final = ("crd", "rbac", "policy", "webhook", "webhook_certificate", "manager")
"""Folders that the base is made of; an overlay names its own, since it lies inside the base's."""


def kustomization(resources: Sequence[str], **more: Any) -> dict[str, Any]:
    """Return a kustomization of these files or folders."""
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(resources),
        **more,
    }


def component(resources: Sequence[str], **more: Any) -> dict[str, Any]:
    """Return a part that a kustomization of users names under `components`."""
    return {
        **kustomization(resources, **more),
        "apiVersion": "kustomize.config.k8s.io/v1alpha1",
        "kind": "Component",
    }


def base() -> dict[str, Any]:
    """Return the kustomization of everything."""
    return kustomization(BASE, replacements=[image_replacement()])


def folder(path: str, files: Mapping[str, Any]) -> dict[str, Any]:
    """Return the files of a folder by their whole path."""
    return {f"{path}/{name}": content for name, content in files.items()}
