"""Sequences of requests that nobody thought of are answered alike by both API servers."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from dynamo_operator.testing.control_plane_binaries import ControlPlaneMissingError
from tests.conformance.generating import LENGTH, Generator, play, shortest, two_servers
from tests.conformance.playing import Player
from tests.conformance.requests import Case

SEEDS = int(os.environ.get("GENERATED_SEEDS", "60"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def players() -> AsyncIterator[tuple[Player, Player]]:
    try:
        async with two_servers() as started:
            yield started
    except ControlPlaneMissingError as error:
        pytest.skip(f"no real control plane: {error}")


@pytest.mark.real
@pytest.mark.asyncio(loop_scope="module")
async def test_generated_requests_are_answered_alike(players: tuple[Player, Player]):
    found = [each async for each in play(range(SEEDS), players)]

    assert not found, "\n\n".join(found)
    assert all(player.played == SEEDS * LENGTH for player in players)


def test_a_seed_always_draws_the_same():
    assert Generator(7).case() == Generator(7).case()
    assert Generator(7).case() != Generator(8).case()


async def test_a_difference_is_told_with_the_fewest_requests():
    case = Generator(1).case()
    guilty = {case.requests[2].line, case.requests[5].line}

    async def compare(tried: Case) -> list[str]:
        return ["differs"] if guilty <= {each.line for each in tried.requests} else []

    least, found = await shortest(case, compare)

    assert {each.line for each in least.requests} == guilty
    assert found == ["differs"]
