"""The generated files: what they hold, which are stale, and writing them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from dynamo_operator.aisimulate.document import dump_yaml
from dynamo_operator.generate.api_docs import api_reference
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.generate.deployment import deployment, image_replacement, namespace
from dynamo_operator.generate.layout import MANAGER
from dynamo_operator.generate.rbac import (
    gpu_discovery_role,
    leader_election_role,
    leader_election_role_binding,
    manager_role,
    role_binding,
    service_account,
    webhook_certificate_role,
    webhook_certificate_role_binding,
)
from dynamo_operator.generate.webhooks import webhook_configurations, webhook_service
from dynamo_operator.hardware.discovery import GPU_DISCOVERY_ROLE

_HEADER: Final = "# Made by hack/generate; do not edit.\n"
_OWNED: Final = ("manifests/crd", "manifests/rbac", "manifests/webhook", "manifests/manager")
"""Folders in which nothing else may be."""


def generated_files() -> dict[str, str]:
    """Return the text of every generated file by its path in the repository."""
    files = {f"manifests/crd/{_crd_file(crd)}": _yaml(crd) for crd in custom_resource_definitions()}
    mutating, validating = webhook_configurations()
    files |= {
        "manifests/rbac/service_account.yaml": _yaml(service_account()),
        "manifests/rbac/manager_role.yaml": _yaml(manager_role()),
        "manifests/rbac/manager_role_binding.yaml": _yaml(role_binding(MANAGER)),
        "manifests/rbac/gpu_discovery_role.yaml": _yaml(gpu_discovery_role()),
        "manifests/rbac/gpu_discovery_role_binding.yaml": _yaml(role_binding(GPU_DISCOVERY_ROLE)),
        "manifests/rbac/leader_election_role.yaml": _yaml(leader_election_role()),
        "manifests/rbac/leader_election_role_binding.yaml": _yaml(leader_election_role_binding()),
        "manifests/rbac/webhook_certificate_role.yaml": _yaml(webhook_certificate_role()),
        "manifests/rbac/webhook_certificate_role_binding.yaml": _yaml(
            webhook_certificate_role_binding()
        ),
        "manifests/webhook/service.yaml": _yaml(webhook_service()),
        "manifests/webhook/mutating_configuration.yaml": _yaml(mutating),
        "manifests/webhook/validating_configuration.yaml": _yaml(validating),
        "manifests/manager/namespace.yaml": _yaml(namespace()),
        "manifests/manager/deployment.yaml": _yaml(deployment()),
    }
    for folder in _OWNED:
        names = sorted(Path(path).name for path in files if path.startswith(f"{folder}/"))
        files[f"{folder}/kustomization.yaml"] = _yaml(_kustomization(names))
    folders = [folder.removeprefix("manifests/") for folder in _OWNED]
    files["manifests/kustomization.yaml"] = _yaml(
        _kustomization(folders, replacements=[image_replacement()])
    )
    files["docs/api.md"] = api_reference()
    return files


def stale_files(root: Path) -> list[str]:
    """Return one line for every generated file that is missing, differs, or is a stranger."""
    files = generated_files()
    lines = []
    for path, text in sorted(files.items()):
        present = root / path
        if not present.is_file():
            lines.append(f"{path} is missing")
        elif present.read_text(encoding="utf-8") != text:
            lines.append(f"{path} differs from what the code says")
    present_files = (found for folder in _OWNED for found in sorted((root / folder).glob("*")))
    strangers = {found.relative_to(root).as_posix() for found in present_files} - files.keys()
    return [*lines, *(f"{path} is not generated: remove it" for path in sorted(strangers))]


def write_files(root: Path) -> list[str]:
    """Write what is missing or differs; return the paths written."""
    written = []
    for path, text in sorted(generated_files().items()):
        target = root / path
        if target.is_file() and target.read_text(encoding="utf-8") == text:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        written.append(path)
    return written


def _crd_file(definition: Mapping[str, Any]) -> str:
    return f"{definition['spec']['group']}_{definition['spec']['names']['plural']}.yaml"


def _kustomization(resources: list[str], **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": resources,
        **more,
    }


def _yaml(value: Any) -> str:
    return _HEADER + dump_yaml(value)
