"""helm and kubeconform, built from the Go modules that go.mod pins."""

from __future__ import annotations

import re
from pathlib import Path

from hack.go_programs import cache_directory, go_program

_SOURCE = Path(__file__).parent
_HELM = "helm.sh/helm/v3"
_KUBERNETES = "k8s.io/client-go"


def helm(*, build: bool = True) -> Path:
    """Return helm, which renders for the Kubernetes that its modules are of.

    Args:
        build: False to only look for one that was built before.

    Raises:
        ProgramMissingError: there is no Go, the modules cannot be had, or it is not built.
    """
    minor = _version(_KUBERNETES).split(".")[1]
    variables = {f"{_HELM}/internal/version.version": _version(_HELM)}
    for package in ("chartutil", "lint/rules"):
        variables[f"{_HELM}/pkg/{package}.k8sVersionMajor"] = "1"
        variables[f"{_HELM}/pkg/{package}.k8sVersionMinor"] = minor
    linked = " ".join(["-s -w", *(f"-X {name}={value}" for name, value in variables.items())])
    return _tool(f"{_HELM}/cmd/helm", linked=linked, build=build)


def kubeconform(*, build: bool = True) -> Path:
    """Return kubeconform; arguments and errors are those of `helm`."""
    return _tool("github.com/yannh/kubeconform/cmd/kubeconform", linked="-s -w", build=build)


def _tool(package: str, *, linked: str, build: bool) -> Path:
    name = package.rpartition("/")[2]
    return go_program(
        _SOURCE,
        name,
        cache=cache_directory("manifest-tools"),
        library=name,
        package=package,
        linked=linked,
        build=build,
    )


def _version(module: str) -> str:
    required = (_SOURCE / "go.mod").read_text()
    found = re.search(rf"^\t{re.escape(module)} (v\S+)", required, re.MULTILINE)
    assert found is not None, f"go.mod requires {module}"
    return found[1]
