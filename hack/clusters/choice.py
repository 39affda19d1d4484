"""Which kind of cluster this machine can have."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Protocol

from hack.clusters.errors import ClusterError
from hack.clusters.kind_cluster import KindCluster
from hack.clusters.own_cluster import OwnCluster


class Cluster(Protocol):
    """A Kubernetes cluster of one node on this machine. All may be repeated."""

    @property
    def kubeconfig(self) -> Path:
        """For its administrator; there while it is up."""

    def up(self) -> None:
        """Start it."""

    def load(self, archive: Path) -> None:
        """Give it an image of an OCI archive."""

    def down(self) -> None:
        """Remove it and everything of it."""


def cluster() -> Cluster:
    """Return the cluster that this machine can have: kind's where Docker is, else our own.

    Raises:
        ClusterError: it can have neither; says what would be needed.
    """
    if _docker_answers() and shutil.which("kind"):
        return KindCluster()
    lacking = [
        what
        for what, is_there in (
            ("Linux", sys.platform == "linux"),
            ("root", os.geteuid() == 0),
            ("Go", shutil.which("go") is not None),
        )
        if not is_there
    ]
    if lacking:
        raise ClusterError(
            f"a cluster needs Docker and kind, or Linux, root and Go; not here: Docker with kind,"
            f" {', '.join(lacking)}"
        )
    return OwnCluster()


def _docker_answers() -> bool:
    if shutil.which("docker") is None:
        return False
    asked = ["docker", "version", "--format", "{{.Server.Version}}"]
    try:
        return subprocess.run(asked, check=False, capture_output=True, timeout=20).returncode == 0
    except subprocess.TimeoutExpired:
        return False
