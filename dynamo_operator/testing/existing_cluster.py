"""A cluster that was there before the test, used as the users that the test asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dynamo_operator.apiserver.kubeconfig import write_private
from dynamo_operator.runtime.client import kubeconfig as kubeconfig_files
from dynamo_operator.runtime.client.errors import ConfigError
from dynamo_operator.runtime.client.kubeconfig import Entry

_PATHS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")


class ExistingCluster:
    """The cluster of the current context; other users are impersonated. Nothing is cleaned up.

    Args:
        environ: names the kubeconfig (KUBECONFIG, else HOME).
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        paths = kubeconfig_files.paths_in(environ)
        self._selection = kubeconfig_files.select(
            paths or [Path(environ.get("HOME", "/"), ".kube", "config")], None
        )
        if self._selection.user is None:
            raise ConfigError(f"context {self._selection.context!r} names no user")
        self._user = self._selection.user

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None

    @property
    def url(self) -> str:
        """Where the API server listens."""
        return self._selection.cluster.text("server")

    def write_kubeconfig(self, path: Path, *, user: str, groups: Sequence[str]) -> None:
        """Write a kubeconfig that acts on behalf of a user."""
        acting = {**_standing_alone(self._user), "as": user, "as-groups": list(groups)}
        context = {"cluster": "existing", "user": user, "namespace": "default"}
        cluster = _standing_alone(self._selection.cluster)
        kubeconfig = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "existing", "cluster": cluster}],
            "users": [{"name": user, "user": acting}],
            "contexts": [{"name": "existing", "context": context}],
            "current-context": "existing",
        }
        write_private(path, kubeconfig)


def _standing_alone(entry: Entry) -> dict[str, Any]:
    """Return the entry's fields with paths that hold from anywhere."""
    absolute = {name: str(path.absolute()) for name in _PATHS if (path := entry.path(name))}
    return {**entry.fields, **absolute}
