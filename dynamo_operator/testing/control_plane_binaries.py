"""Where the binaries of a real control plane are, and how to get them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

KUBERNETES_VERSION: Final = "v1.37.2"
SYSTEM_CACHE: Final = Path("/var/cache")
_REQUIRED: Final = ("etcd", "kube-apiserver")
_HOW: Final = (
    "run hack/control_plane/build (it needs Go and its module proxy), or set KUBEBUILDER_ASSETS to"
    " a directory with etcd and kube-apiserver, or USE_EXISTING_CLUSTER=true with a kubeconfig"
)


class ControlPlaneMissingError(Exception):
    """There is no real control plane to start; one line says how to get it."""


@dataclass(frozen=True, slots=True)
class ControlPlaneBinaries:
    """A directory with at least etcd and kube-apiserver."""

    directory: Path

    @property
    def etcd(self) -> Path:
        """The store."""
        return self.directory / "etcd"

    @property
    def kube_apiserver(self) -> Path:
        """The API server."""
        return self.directory / "kube-apiserver"

    def optional(self, name: str) -> Path:
        """Return another program of the control plane.

        Raises:
            ControlPlaneMissingError: the directory does not have it.
        """
        path = self.directory / name
        if not path.is_file():
            raise ControlPlaneMissingError(f"no {name} in {self.directory}: {_HOW}")
        return path

    @classmethod
    def find(cls, environ: Mapping[str, str]) -> ControlPlaneBinaries:
        """Find them: in $KUBEBUILDER_ASSETS when it is set, else where hack/control_plane builds.

        Raises:
            ControlPlaneMissingError: they are not there.
        """
        assets = environ.get("KUBEBUILDER_ASSETS")
        places = [Path(assets)] if assets else list(_built_in(environ))
        for place in places:
            if all((place / name).is_file() for name in _REQUIRED):
                return cls(place)
        raise ControlPlaneMissingError(
            f"no etcd and kube-apiserver in {' or '.join(map(str, places))}: {_HOW}"
        )


def uses_existing_cluster(environ: Mapping[str, str]) -> bool:
    """Whether tests run on the cluster that the kubeconfig names, instead of one of their own."""
    return environ.get("USE_EXISTING_CLUSTER", "").lower() == "true"


def _built_in(environ: Mapping[str, str]) -> Iterator[Path]:
    caches = [SYSTEM_CACHE]
    if environ.get("XDG_CACHE_HOME"):
        caches.insert(0, Path(environ["XDG_CACHE_HOME"]))
    elif environ.get("HOME"):
        caches.append(Path(environ["HOME"], ".cache"))
    for cache in caches:
        yield cache / "dynamo-operator" / "control-plane" / KUBERNETES_VERSION
