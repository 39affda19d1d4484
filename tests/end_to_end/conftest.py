"""The cluster that the tests of this folder share."""

from __future__ import annotations

import pytest

from hack.clusters.choice import cluster as cluster_of_this_machine
from hack.clusters.errors import ClusterError


@pytest.fixture(scope="session")
def machine_cluster():
    """The cluster that this machine can have, down at first and in the end."""
    try:
        cluster = cluster_of_this_machine()
    except ClusterError as error:
        pytest.skip(str(error))
    cluster.down()
    yield cluster
    cluster.down()
