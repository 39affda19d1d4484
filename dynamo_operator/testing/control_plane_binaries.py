"""Where the binaries of a real control plane are, and how to get them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

KUBERNETES_VERSION: Final = "v1.37.2"
SYSTEM_CACHE: Final = Path("/var/cache")
_SERVERS: Final = ("etcd", "kube-apiserver")
_CONTROLLERS: Final = ("kube-controller-manager", "kube-scheduler")
_HOW: Final = "run hack/control_plane/build (it needs Go and its module proxy), or set"


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
            raise ControlPlaneMissingError(
                f"no {name} in {self.directory}: {_HOW} KUBEBUILDER_ASSETS to a directory with it"
            )
        return path

    @classmethod
    def find(
        cls, environ: Mapping[str, str], *, with_controllers: bool = False
    ) -> ControlPlaneBinaries:
        """Find them: in $KUBEBUILDER_ASSETS when it is set, else where hack/control_plane builds.

        Args:
            environ: the environment.
            with_controllers: whether kube-controller-manager and kube-scheduler must be there, too.

        Raises:
            ControlPlaneMissingError: they are not there.
        """
        names = (*_SERVERS, *_CONTROLLERS) if with_controllers else _SERVERS
        assets = environ.get("KUBEBUILDER_ASSETS")
        places = [Path(assets)] if assets else list(_built_in(environ))
        for place in places:
            if all((place / name).is_file() for name in names):
                return cls(place)
        wanted = f"{', '.join(names[:-1])} and {names[-1]}"
        raise ControlPlaneMissingError(
            f"no {wanted} in {' or '.join(map(str, places))}: {_HOW} KUBEBUILDER_ASSETS to a"
            " directory with them"
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
