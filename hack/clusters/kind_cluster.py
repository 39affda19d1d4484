"""A cluster that kind runs in Docker."""

from __future__ import annotations

from pathlib import Path

from hack.clusters import places
from hack.clusters.programs import output


class KindCluster:
    """Needs a Docker daemon, and kind on PATH."""

    def __init__(self) -> None:
        self._state = places.state()

    @property
    def kubeconfig(self) -> Path:
        """For its administrator."""
        return self._state / "kubeconfig"

    def up(self) -> None:
        """Start it, unless it is there."""
        self._state.mkdir(parents=True, exist_ok=True, mode=0o700)
        given = ("--name", places.NAME, "--kubeconfig", str(self.kubeconfig))
        if places.NAME in output("kind", "get", "clusters").splitlines():
            output("kind", "export", "kubeconfig", *given)
        else:
            output("kind", "create", "cluster", *given, "--wait", "5m", shows_errors=True)

    def load(self, archive: Path) -> None:
        """Give it an image of an OCI archive."""
        output("kind", "load", "image-archive", str(archive), "--name", places.NAME)

    def down(self) -> None:
        """Remove it and everything of it."""
        output("kind", "delete", "cluster", "--name", places.NAME)
        self.kubeconfig.unlink(missing_ok=True)
