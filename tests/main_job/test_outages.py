"""The API server goes away in the middle of a search, and comes back, with its history or without.

Only a real one can be stopped for all its clients at once: operator, publisher, node, controllers.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs

import pytest
import pytest_asyncio

from dynamo_operator.cli.local import grant_operator
from dynamo_operator.testing.fault_proxy import FaultProxy
from dynamo_operator.testing.faults import ProxiedRequest
from dynamo_operator.testing.polling import eventually
from dynamo_operator.testing.real_control_plane import RealControlPlane
from tests.control_planes import CONTROL_PLANES
from tests.main_job import scripted_planner
from tests.main_job.operator_process import OperatorProcess
from tests.main_job.processes import command_of
from tests.main_job.stage import Stage, completed_with

pytestmark = [
    pytest.mark.node,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(300),
    pytest.mark.parametrize("scripted_cluster", CONTROL_PLANES[1:], indirect=True, scope="module"),
]

OUTAGE_SECONDS = 20.0
PATIENCE_SECONDS = 150.0  # the real controllers look for their API server twice a minute
MOST_REQUESTS = 20  # of a kind and verb: one a second
MOST_WATCHES = 9  # of a kind; with delays that double from 0.8 seconds, the outage sees 6


@dataclass(frozen=True, slots=True)
class Operation:
    """The operator at work, and what it asks of the API server."""

    process: OperatorProcess
    proxy: FaultProxy


@pytest_asyncio.fixture(loop_scope="module")
async def operation(unoperated: Stage, tmp_path: Path) -> AsyncIterator[Operation]:
    """An operator on its own, so that it need not end with its Lease."""
    cluster = unoperated.cluster
    kubeconfig = tmp_path / "operator.kubeconfig"
    cluster.kubeconfig(await grant_operator(cluster.client), groups=(), path=kubeconfig)
    async with FaultProxy(kubeconfig, directory=tmp_path) as proxy:
        flags = ["--leader-election.enabled=false"]
        process = OperatorProcess(proxy.kubeconfig, log_directory=tmp_path, flags=flags)
        await process.start()
        try:
            yield Operation(process, proxy)
        finally:
            await process.kill()


def control_plane_of(stage: Stage) -> RealControlPlane:
    """The processes to stop and start."""
    control_plane = stage.cluster.control_plane
    assert isinstance(control_plane, RealControlPlane)
    return control_plane


async def restart(control_plane: RealControlPlane, go: Callable[[], None]) -> None:
    """Kill it, start it, and have the search go on."""
    await control_plane.api_server.kill()
    await control_plane.api_server.start()
    go()


async def restart_without_history(control_plane: RealControlPlane, go: Callable[[], None]) -> None:
    """The same with a compacted etcd: no watch can go on where it was."""
    await control_plane.forget_history()
    go()


async def be_away(control_plane: RealControlPlane, go: Callable[[], None]) -> None:
    """Be away while the search ends."""
    await control_plane.api_server.kill()
    go()
    await asyncio.sleep(OUTAGE_SECONDS)
    await control_plane.api_server.start()


@pytest.mark.parametrize("outage", [restart, restart_without_history, be_away])
async def test_a_search_survives_when_the_api_server_has_to(
    unoperated: Stage,
    operation: Operation,
    outage: Callable[[RealControlPlane, Callable[[], None]], Awaitable[None]],
):
    stage = unoperated
    await stage.submit("waits-halfway")
    _, pod = await stage.searching()
    before = len(operation.proxy.requests)

    def go() -> None:
        os.kill(command_of(pod, "planner").pid, scripted_planner.GO_SIGNAL)

    await outage(control_plane_of(stage), go)

    await eventually(stage.request, completed_with("Succeeded"), timeout=PATIENCE_SECONDS)
    (run,) = await stage.runs()
    assert len(run.status.candidate_refs) == len(scripted_planner.ORDER)
    assert len(stage.cluster.audit.created("jobs", namespace=stage.namespace)) == 1
    requests = operation.proxy.requests[before:]
    relists = Counter(informer_of(each) for each in requests if is_relist(each))
    assert max(relists.values(), default=0) <= 1, relists
    assert relists or outage is not restart_without_history
    asked = Counter((each.method, each.route.verb, *informer_of(each)) for each in requests)
    assert max(asked.values()) <= MOST_REQUESTS, asked
    watched = Counter(informer_of(each) for each in requests if each.route.verb == "watch")
    assert max(watched.values()) <= MOST_WATCHES, watched


def informer_of(request: ProxiedRequest) -> tuple[str, ...]:
    """The kind and the selectors that make an informer."""
    query = parse_qs(request.query)
    selectors = (query.get(name, [""])[0] for name in ("labelSelector", "fieldSelector"))
    return (request.route.plural, *selectors)


def is_relist(request: ProxiedRequest) -> bool:
    """Whether all objects of a kind were fetched, not those of one namespace to look twice."""
    if request.status != 200 or request.route.namespace:
        return False
    return request.route.verb == "list" or "sendInitialEvents=true" in request.query
