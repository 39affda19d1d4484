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
from tests.conformance.comparing import differences, unexplained
from tests.conformance.known_differences import known_differences
from tests.conformance.playing import Player, transport_of
from tests.conformance.recording import recorded

pytestmark = pytest.mark.asyncio(loop_scope="module")


# Over HTTPS the embedded server has everything that a client sees, headers and nodes included.
MODES = [
    pytest.param("http", id="http"),
    pytest.param("real", id="real", marks=pytest.mark.real),
]

PLAYS = 3


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
    assert {case.name for case in cases} == set(known), "record the domain anew"
    reasons = known_differences().get(domain, {}) if player.on_embedded else {}
    problems = ""
    # A real server's answer may depend on the order of a Go map, on the clock or on its caches:
    # what it answers as recorded in one of some plays is no other answer.
    for _ in range(1 if player.on_embedded else PLAYS):
        told = await player.play(cases, at_once=at_once(domain))
        found = [one for case in cases for one in differences(case, told[case.name], known)]
        problems = "\n".join(unexplained(found, reasons))
        cases = tuple(case for case in cases if differences(case, told[case.name], known))
        if not problems:
            break
    assert not problems, f"answers differ from the recorded ones:\n{problems}"


async def test_how_many_requests_are_compared(capsys: pytest.CaptureFixture[str]):
    differing = sum(
        len(numbers) for cases in known_differences().values() for numbers in cases.values()
    )
    text = f"{count_requests()} requests in {len(DOMAINS)} domains, {differing} known to differ"
    with capsys.disabled():
        print(f"\n{text}")  # noqa: T201 - the numbers are to be seen

    assert count_requests() >= 2000
    reasons = [
        reason
        for cases in known_differences().values()
        for numbers in cases.values()
        for reason in numbers.values()
    ]
    assert all(len(reason) > 10 and "not yet" not in reason for reason in reasons)
