"""A `cluster` fixture for pytest, on the clusters that a suite wants to be held to."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import pytest
import pytest_asyncio

from dynamo_operator.testing.cluster import Cluster, ControllerName, Mode
from dynamo_operator.testing.control_plane_binaries import ControlPlaneMissingError

Scope = Literal["session", "package", "module", "class", "function"]


def cluster_fixture(
    *,
    modes: Sequence[Mode] = ("in_process",),
    crds: Iterable[Mapping[str, Any]] | Callable[[], Iterable[Mapping[str, Any]]] = (),
    controllers: Iterable[ControllerName] = (),
    scope: Scope = "function",
) -> Callable[..., AsyncIterator[Cluster]]:
    """Return a fixture that starts a cluster; its name is the one that it is given.

    With several modes every test runs once in each. What runs in mode real has the marker `real`,
    and is skipped, with the line that says how to get one, where there is no real control plane:
    KUBEBUILDER_ASSETS and USE_EXISTING_CLUSTER count.

    Args:
        modes: where tests run; see `Cluster.start`.
        crds: CustomResourceDefinitions to install first, or what makes them when it is time to.
        controllers: what of a real cluster runs beside the API server.
        scope: for how long a cluster is shared. What is not "function" runs on that scope's event
            loop, and so must its tests: `pytestmark = pytest.mark.asyncio(loop_scope="session")`.

    Example:
        >>> cluster = cluster_fixture(controllers=["gc"], modes=["in_process", "real"])
    """
    marks = {"real": pytest.mark.real}
    params = [pytest.param(mode, id=mode, marks=marks.get(mode, ())) for mode in modes]
    controllers = tuple(controllers)

    async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
        try:
            starting = Cluster.start(
                mode=request.param,
                crds=crds() if callable(crds) else crds,
                controllers=controllers,
                environ=os.environ,
            )
            async with starting as started:
                yield started
        except ControlPlaneMissingError as error:
            pytest.skip(f"no real control plane: {error}")

    fixture = pytest_asyncio.fixture(scope=scope, loop_scope=scope, params=params)
    made: Callable[..., AsyncIterator[Cluster]] = fixture(cluster)
    return made
