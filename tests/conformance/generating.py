"""Requests that nobody thought of: seeded sequences, played on two API servers at once.

`python -m tests.conformance.generating FIRST_SEED COUNT` plays some on the embedded and on a real
server, and prints the shortest sequence of each difference as a case to be added.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random

from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.testing import Cluster
from tests.conformance.comparing import differing
from tests.conformance.playing import Player, transport_of
from tests.conformance.requests import Case, request

LENGTH = 12

_NAMES = ("a", "b")
_MANAGERS = ("one", "two", "three")
_MODEL = "model: {name: Org/M-8B}"
_TEMPLATE = (
    "selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}},"
    " spec: {containers: [{name: c, image: 'i:1'}]}}"
)

Compare = Callable[[Case], Awaitable[list[str]]]


class Generator:
    """Draws requests about a few objects; the same seed draws the same."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def case(self, length: int = LENGTH) -> Case:
        """Return a case of so many requests."""
        lines = [self._request() for _ in range(length)]
        return Case("generated", tuple(request(line) for line in lines))

    def _request(self) -> str:
        draw = self._random
        plural = draw.choice(("configmaps", "configmaps", "deployments", "dgdrs"))
        target = f"{plural}/{draw.choice(_NAMES)}"
        manager = f"fieldManager={draw.choice(_MANAGERS)}"
        content = self._content(plural)
        create = f"POST {plural}?{manager} {{metadata: {{name: {target[-1]}, {self._metadata()}}}"
        return draw.choice(
            (
                f"{create}, {self._whole(plural)}}}",
                f"{create}, {self._whole(plural)}}}",
                f"APPLY {target}?{manager} {{metadata: {{{self._metadata()}}}, {content}}}",
                f"APPLY {target}?{manager}&force=true {{{content}}}",
                f"MERGE {target}?{manager} {{metadata: {{{self._metadata()}}}, {content}}}",
                f"MERGE {target}?{manager} {{metadata: {{{self._metadata(gone=True)}}}}}",
                f"JSONPATCH {target}?{manager} [{self._operation()}, {self._operation()}]",
                f"PUT {target}?{manager} +{{metadata: {{name: {target[-1]}, {self._metadata()}}}}}",
                f"GET {target}",
                f"GET {plural}?labelSelector={draw.choice(('x', 'x%3D1', '!x', 'x!%3D1'))}",
                f"DELETE {target} {draw.choice(('', '{propagationPolicy: Foreground}'))}".strip(),
                f"DELETE {target}?dryRun=All",
            )
        )

    def _metadata(self, *, gone: bool = False) -> str:
        draw = self._random
        if gone:
            return draw.choice(("labels: null", "finalizers: null", "annotations: {n: null}"))
        return draw.choice(
            (
                f"labels: {{x: '{draw.randrange(3)}'}}",
                f"labels: {{x: '1', y: '{draw.randrange(3)}'}}",
                f"annotations: {{n: '{draw.randrange(3)}'}}",
                f"finalizers: [lab.example/{draw.choice('fg')}]",
            )
        )

    def _operation(self) -> str:
        draw = self._random
        path = draw.choice(("/metadata/labels", "/metadata/annotations", "/metadata/finalizers"))
        return draw.choice(
            (
                f"{{op: test, path: {path}/x, value: '1'}}",
                f"{{op: remove, path: {path}}}",
                f"{{op: replace, path: {path}/x, value: '{draw.randrange(3)}'}}",
                f"{{op: add, path: /metadata/labels, value: {{x: '{draw.randrange(3)}'}}}}",
            )
        )

    def _content(self, plural: str) -> str:
        draw = self._random
        if plural == "configmaps":
            keys = draw.sample("klm", draw.randrange(1, 3))
            return f"data: {{{', '.join(f'{k}: v{draw.randrange(3)}' for k in keys)}}}"
        if plural == "deployments":
            return draw.choice(
                (f"spec: {{{_TEMPLATE}}}", f"spec: {{replicas: {draw.randrange(3)}, {_TEMPLATE}}}")
            )
        return draw.choice(
            (f"spec: {{{_MODEL}}}", f"spec: {{{_MODEL}, backends: [vllm]}}", "spec: {rerun: '1'}")
        )

    def _whole(self, plural: str) -> str:
        if plural == "configmaps":
            return self._content(plural)
        return f"spec: {{{_TEMPLATE if plural == 'deployments' else _MODEL}}}"


async def shortest(case: Case, compare: Compare) -> tuple[Case, list[str]]:
    """Return the fewest of a case's requests that still make a difference, and the difference."""
    found = await compare(case)
    position = len(case.requests) - 1
    while found and position >= 0:
        fewer = Case(
            case.name, (*case.requests[:position], *case.requests[position + 1 :]), case.labels
        )
        remaining = await compare(fewer)
        if remaining:
            case, found = fewer, remaining
        position -= 1
    return case, found


async def differences_of(case: Case, players: tuple[Player, Player]) -> list[str]:
    """Return how a real and another server's answers to a case differ, a line for each field."""
    real, other = [await player.play_one(case) for player in players]
    return [
        f"{number + 1}. {path}: the real server: {wanted}; this server: {given}"
        for number, (want, got) in enumerate(zip(real, other, strict=True))
        for path, wanted, given in differing(want, got)
    ]


def report(seed: int, case: Case, found: list[str]) -> str:
    """Return a difference as the case that shows it."""
    lines = "\n".join(f"  {each.line}" for each in case.requests)
    return f"generated by seed {seed}\n{lines}\n" + "\n".join(f"  # {each}" for each in found)


async def play(seeds: range, players: tuple[Player, Player]) -> AsyncIterator[str]:
    """Yield a report for each seed whose sequence is answered differently."""

    async def compare(case: Case) -> list[str]:
        return await differences_of(case, players)

    for seed in seeds:
        case, found = await shortest(Generator(seed).case(), compare)
        if found:
            yield report(seed, case, found)


@asynccontextmanager
async def two_servers() -> AsyncIterator[tuple[Player, Player]]:
    """Start a real and an embedded API server with our kinds."""
    crds = custom_resource_definitions()
    async with (
        Cluster.start(mode="real", crds=crds, environ=os.environ) as real,
        Cluster.start(mode="http", crds=crds) as embedded,
    ):
        yield Player(transport_of(real.client)), Player(transport_of(embedded.client))


async def main(first: int, count: int) -> None:
    """Print every difference that so many seeds find."""
    async with two_servers() as players:
        async for each in play(range(first, first + count), players):
            print(each)  # noqa: T201 - a program


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
