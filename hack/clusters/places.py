"""Where a cluster's files are, and the addresses that it has."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
NAME: Final = "dynamo-operator"
"""Of the node, its control groups, and of the cluster that kind makes."""

HOST_LINK: Final = "dynamo-operator"
HOST_ADDRESS: Final = "198.18.255.253"
NODE_ADDRESS: Final = "198.18.255.254"
LINK_PREFIX: Final = 30
"""Between this machine and the node: of the range that RFC 2544 keeps for tests."""

API_PORT: Final = 6443
POD_RANGE: Final = "10.244.0.0/24"
POD_GATEWAY: Final = "10.244.0.1"


def cache(environ: Mapping[str, str]) -> Path:
    """Return the directory in which hack/control_plane/build, too, keeps what it made."""
    if environ.get("XDG_CACHE_HOME"):
        base = Path(environ["XDG_CACHE_HOME"])
    elif os.geteuid() == 0:
        base = Path("/var/cache")
    else:
        base = Path(environ["HOME"], ".cache")
    return base / "dynamo-operator"


def state(environ: Mapping[str, str]) -> Path:
    """Return the directory of everything that the cluster writes."""
    return cache(environ) / "cluster"
