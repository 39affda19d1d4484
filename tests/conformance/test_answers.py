"""Every API server answers as the real one did when its answers were recorded.

`python -m tests.conformance.recording` records them anew.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.testing import Cluster
from dynamo_operator.testing.control_plane_binaries import ControlPlaneMissingError
from tests.conformance.cases import DOMAINS, at_once, cases_of, count_requests
from tests.conformance.comparing import differences
from tests.conformance.conftest import MODES
from tests.conformance.playing import Player, transport_of
from tests.conformance.recording import recorded

BEING_MENDED = {"our_kinds", "ownership", "pod_security", "rules", "status_writers"}

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=MODES)
async def player(request: pytest.FixtureRequest) -> AsyncIterator[Player]:
    """On a cluster of its own, where no controller changes what was asked for."""
    try:
        async with Cluster.start(
            mode=request.param, crds=custom_resource_definitions(), environ=os.environ
        ) as cluster:
            player = Player(transport_of(cluster.client), on_embedded=request.param != "real")
            yield player
            if not cluster.has_own_server:
                await player.clean()
    except ControlPlaneMissingError as error:
        pytest.skip(f"no real control plane: {error}")


@pytest.mark.parametrize("domain", DOMAINS)
async def test_the_answers_are_the_real_ones(player: Player, domain: str):
    cases = cases_of(domain)
    known = recorded(domain)
    if domain in BEING_MENDED and player.on_embedded:
        pytest.xfail("differs in ways that are being mended")

    told = await player.play(cases, at_once=at_once(domain))

    differing = "\n".join(
        line for case in cases for line in differences(case, told[case.name], known)
    )
    assert not differing, f"answers differ from the recorded ones:\n{differing}"
    assert set(told) == set(known), "record the domain anew: cases were taken away"


async def test_how_many_requests_are_compared(capsys: pytest.CaptureFixture[str]):
    with capsys.disabled():
        print(f"\n{count_requests()} requests in {len(DOMAINS)} domains are compared")  # noqa: T201 - the number is to be seen

    assert all(cases_of(domain) for domain in DOMAINS)
