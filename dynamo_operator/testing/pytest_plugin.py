"""What a suite of controllers' tests gets with `pytest_plugins = [this module]` in its conftest.py.

- the marker `virtual_time`: the test and its fixtures run on a loop whose time jumps to the next
  timer;
- the marker `real`: the test needs a real control plane (`pytest -m "not real"` leaves it out);
- the fixture `cluster`: an empty cluster in the test's own process. A conftest.py or module with
  kinds of its own has its own: `cluster = cluster_fixture(crds=[...])`.

Nothing of it is loaded by pytest on its own accord. It needs pytest-asyncio.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest

from dynamo_operator.testing.fixtures import cluster_fixture
from dynamo_operator.testing.virtual_time import VirtualTimeLoop

cluster = cluster_fixture()

_MARKERS = (
    "virtual_time: runs on a loop whose time jumps to the next timer",
    "real: needs a real control plane",
)


def pytest_configure(config: pytest.Config) -> None:
    """Make the markers known."""
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Choose the loop of a test."""
    if item.get_closest_marker("virtual_time") is not None:
        return {"virtual": VirtualTimeLoop}
    return {"real": asyncio.new_event_loop}
