"""The generated files: what they hold, which are stale, and writing them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from dynamo_operator.aisimulate.document import dump_yaml
from dynamo_operator.generate.api_docs import api_reference
from dynamo_operator.generate.chart import CHART, chart_files
from dynamo_operator.generate.components import components
from dynamo_operator.generate.configuration_docs import configuration_reference
from dynamo_operator.generate.crds import crd_file, custom_resource_definitions
from dynamo_operator.generate.deployment import deployment, namespace
from dynamo_operator.generate.kustomizations import BASE, base, kustomization
from dynamo_operator.generate.layout import MANAGER
from dynamo_operator.generate.overlays import overlays
from dynamo_operator.generate.policy import publisher_policy, publisher_policy_binding
from dynamo_operator.generate.rbac import (
    gpu_discovery_role,
    leader_election_role,
    leader_election_role_binding,
    manager_role,
    role_binding,
    service_account,
    webhook_certificate_role_bindings,
    webhook_certificate_roles,
)
from dynamo_operator.generate.webhooks import webhook_configurations, webhook_service
from dynamo_operator.hardware.discovery import GPU_DISCOVERY_ROLE

_HEADER: Final = "# Made by hack/generate; do not edit.\n"
_MIXED: Final = ("manifests", CHART)
"""Folders in which there are other files, too."""


def generated_files() -> dict[str, str]:
    """Return the text of every generated file by its path in the repository."""
    files = {
        f"manifests/{folder}/{name}": _yaml(content)
        for folder, contents in _folders().items()
        for name, content in contents.items()
    }
    for folder in BASE:
        names = sorted(Path(path).name for path in files if path.startswith(f"manifests/{folder}/"))
        files[f"manifests/{folder}/kustomization.yaml"] = _yaml(kustomization(names))
    files["manifests/kustomization.yaml"] = _yaml(base())
    files |= {f"manifests/{path}": _yaml(content) for path, content in overlays().items()}
    files |= {f"manifests/{path}": _yaml(content) for path, content in components().items()}
    files |= {f"{CHART}/{path}": _text(path, content) for path, content in chart_files().items()}
    files["docs/api.md"] = api_reference()
    files["docs/configuration.md"] = configuration_reference()
    return files


def _folders() -> dict[str, dict[str, dict[str, Any]]]:
    """Return what the folders of the base hold, by name of the file."""
    mutating, validating = webhook_configurations()
    secret_role, configuration_role = webhook_certificate_roles()
    secret_binding, configuration_binding = webhook_certificate_role_bindings()
    return {
        "crd": {crd_file(crd): crd for crd in custom_resource_definitions()},
        "rbac": {
            "service_account.yaml": service_account(),
            "manager_role.yaml": manager_role(),
            "manager_role_binding.yaml": role_binding(MANAGER),
            "gpu_discovery_role.yaml": gpu_discovery_role(),
            "gpu_discovery_role_binding.yaml": role_binding(GPU_DISCOVERY_ROLE),
            "leader_election_role.yaml": leader_election_role(),
            "leader_election_role_binding.yaml": leader_election_role_binding(),
        },
        "policy": {
            "publisher_policy.yaml": publisher_policy(),
            "publisher_policy_binding.yaml": publisher_policy_binding(),
        },
        "webhook": {
            "service.yaml": webhook_service(),
            "mutating_configuration.yaml": mutating,
            "validating_configuration.yaml": validating,
        },
        "webhook_certificate": {
            "secret_role.yaml": secret_role,
            "secret_role_binding.yaml": secret_binding,
            "configuration_role.yaml": configuration_role,
            "configuration_role_binding.yaml": configuration_binding,
        },
        "manager": {"namespace.yaml": namespace(), "deployment.yaml": deployment()},
    }


def stale_files(root: Path, *, more: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """Return one line for every generated file that is missing, differs, or is a stranger.

    Args:
        root: of the repository.
        more: text of further files by their paths.
    """
    files = {**generated_files(), **more}
    lines = []
    for path, text in sorted(files.items()):
        target = root / path
        if not target.is_file():
            lines.append(f"{path} is missing")
        elif target.read_text(encoding="utf-8") != text:
            lines.append(f"{path} differs from what the code says")
    folders = {Path(path).parent for path in files if path.startswith("manifests/")}
    owned = [root / folder for folder in folders if folder.as_posix() not in _MIXED]
    present = [found for folder in owned for found in folder.glob("*") if found.is_file()]
    strangers = {found.relative_to(root).as_posix() for found in present} - files.keys()
    return [*lines, *(f"{path} is not generated: remove it" for path in sorted(strangers))]


def write_files(root: Path, *, more: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """Write what is missing or differs; return the paths written.

    Args:
        root: of the repository.
        more: text of further files by their paths.
    """
    written = []
    for path, text in sorted({**generated_files(), **more}.items()):
        target = root / path
        if target.is_file() and target.read_text(encoding="utf-8") == text:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        written.append(path)
    return written


def _text(path: str, content: Any) -> str:
    if path.endswith(".json"):  # has no comments
        return json.dumps(content, indent=2) + "\n"
    return _yaml(content)


def _yaml(value: Any) -> str:
    return _HEADER + dump_yaml(value)
