"""A cluster of its own for a module whose tests do a controller's or a kubelet's part."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dynamo_operator.testing import Cluster
from dynamo_operator.testing.cluster import ControllerName, Mode
from dynamo_operator.testing.control_plane_binaries import (
    ControlPlaneMissingError,
    uses_existing_cluster,
)

OWN_MODES = [
    pytest.param("in_process", id="in_process"),
    pytest.param("real", id="real", marks=pytest.mark.real),
]


@asynccontextmanager
async def own_cluster(
    mode: Mode, *controllers: ControllerName, crds: Iterable[Mapping[str, Any]] = ()
) -> AsyncIterator[Cluster]:
    """Start a cluster with these controllers; skip where it is missing, or not the test's own."""
    if mode == "real" and uses_existing_cluster(os.environ):
        pytest.skip("nodes and kubelets of a cluster that was there before would interfere")
    try:
        async with Cluster.start(
            mode=mode, controllers=controllers, crds=crds, environ=os.environ
        ) as cluster:
            yield cluster
    except ControlPlaneMissingError as error:
        pytest.skip(f"no real control plane: {error}")
