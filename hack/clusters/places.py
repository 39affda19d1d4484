"""Where a cluster's files are, and the addresses that it has."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hack.go_programs import cache_directory

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


def state() -> Path:
    """Return the directory of everything that the cluster writes."""
    return cache_directory("cluster")
