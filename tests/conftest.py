"""Loops for tests: real time, or virtual time for tests marked `virtual_time`."""

import asyncio
import signal
from collections.abc import Callable, Mapping

import pytest

from dynamo_operator.testing.virtual_time import VirtualTimeLoop

# A shell's background job ignores SIGINT, and so would every command that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.get_closest_marker("virtual_time") is not None:
        return {"virtual": VirtualTimeLoop}
    return {"real": asyncio.new_event_loop}
