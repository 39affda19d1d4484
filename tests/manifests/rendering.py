"""What helm and kustomize make of the manifests."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from hack.go_programs import ProgramMissingError
from hack.manifest_tools import helm

Objects = dict[tuple[str, str], dict[str, Any]]
"""Objects by kind and name; of those in several namespaces the last one."""

MANIFESTS = Path(__file__).parents[2] / "manifests"
CHART = MANIFESTS / "chart"
RELEASE = "dynamo-operator"
NAMESPACE = "dynamo-operator-system"
KUBECTL = Path(sys.executable).parent / "kubectl"


def require_helm() -> Path:
    """The helm that was built; without one the test is skipped."""
    try:
        return helm(build=False)
    except ProgramMissingError as missing:
        pytest.skip(f"{missing}: run hack/install_manifest_tools")


def templated(
    values: dict[str, Any], *flags: str, release: str = RELEASE
) -> subprocess.CompletedProcess[str]:
    """Render the chart without a cluster."""
    command = [str(require_helm()), "template", release, str(CHART), "--namespace", NAMESPACE]
    return subprocess.run(
        [*command, "--values", "-", *flags],
        input=json.dumps(values),
        capture_output=True,
        text=True,
        check=False,
    )


def objects_of(values: dict[str, Any], *flags: str, release: str = RELEASE) -> list[dict[str, Any]]:
    """The objects of the chart with these values; none may be there twice."""
    done = templated(values, *flags, release=release)
    assert done.returncode == 0, done.stderr
    objects = parsed(done.stdout)
    places = [(*_key(obj), obj["metadata"].get("namespace")) for obj in objects]
    assert len(set(places)) == len(places), "the same object twice"
    return objects


def rendered(values: dict[str, Any], *flags: str) -> Objects:
    """The objects of the chart with these values, by name."""
    return {_key(obj): obj for obj in objects_of(values, *flags)}


def refusal(values: dict[str, Any], *flags: str) -> str:
    """What helm says of values that it does not take."""
    done = templated(values, *flags)
    assert done.returncode != 0, "it was rendered"
    return done.stderr.strip()


def parsed(text: str) -> list[dict[str, Any]]:
    """The objects of a YAML text of helm or kustomize."""
    return [obj for document in f"\n{text}".split("\n---\n") if (obj := _parsed(document))]


def _key(obj: dict[str, Any]) -> tuple[str, str]:
    return obj["kind"], obj["metadata"]["name"]


@cache  # most documents are in every rendering
def _parsed(document: str) -> dict[str, Any] | None:
    parsed: dict[str, Any] | None = YAML(typ="safe", pure=True).load(document)
    return parsed
