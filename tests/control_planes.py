"""The control planes that a local cluster is tested on."""

from __future__ import annotations

import os
from typing import Literal

import pytest

from dynamo_operator.local_cluster.control_plane import ControlPlane
from dynamo_operator.local_cluster.embedded_control_plane import EmbeddedControlPlane
from dynamo_operator.testing.control_plane_binaries import (
    ControlPlaneBinaries,
    ControlPlaneMissingError,
)
from dynamo_operator.testing.real_control_plane import RealControlPlane

ControlPlaneName = Literal["embedded", "real"]

CONTROL_PLANES = [
    pytest.param("embedded", id="embedded"),
    pytest.param("real", id="real", marks=pytest.mark.real),
]


def control_plane(name: ControlPlaneName, *, port: int = 0) -> ControlPlane:
    """A control plane of that name, not started yet; without its programs the test is skipped."""
    if name == "embedded":
        return EmbeddedControlPlane(port=port)
    return RealControlPlane.complete(require_control_plane(), port=port)


def require_control_plane() -> ControlPlaneBinaries:
    """The programs of a real control plane; without them the test is skipped."""
    try:
        return ControlPlaneBinaries.find(os.environ, with_controllers=True)
    except ControlPlaneMissingError as error:
        pytest.skip(f"no real control plane: {error}")
