"""How two servers' answers differ: `python -m tests.conformance.comparing [DOMAIN ...]` says it.

It plays the domains' cases (of all without one) on an embedded server and prints each field that is
not as recorded.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.testing import Cluster
from tests.conformance.cases import DOMAINS, at_once, cases_of
from tests.conformance.playing import Player, transport_of
from tests.conformance.recording import Answers, recorded
from tests.conformance.requests import Case


async def compare(domains: Sequence[str]) -> None:
    """Print how an embedded server's answers differ from the recorded ones."""
    async with Cluster.start(crds=custom_resource_definitions()) as cluster:
        player = Player(transport_of(cluster.client))
        for domain in domains:
            told = await player.play(cases_of(domain), at_once=at_once(domain))
            known = recorded(domain)
            lines = [
                line
                for case in cases_of(domain)
                for line in differences(case, told[case.name], known)
            ]
            print(*lines, f"{domain}: {len(lines)} differences", sep="\n")  # noqa: T201 - a program


def differences(case: Case, told: list[Any], known: Answers) -> Iterator[str]:
    """Yield a line for each field of the case's answers that differs."""
    expected = known.get(case.name)
    if expected is None:
        yield f"{case.name}: is not recorded"
        return
    for number, (request, got) in enumerate(zip(case.requests, told, strict=True)):
        want = expected[number] if number < len(expected) else None
        for path, wanted, given in differing(want, got):
            yield (
                f"{case.name}: {number + 1}. {request.line}: {path}:\n"
                f"    the real server: {wanted}\n    this server:     {given}"
            )


def differing(want: Any, got: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield each path at which two values differ, and both."""
    if isinstance(want, dict) and isinstance(got, dict):
        for key in sorted({*want, *got}):
            yield from differing(
                want.get(key, "(absent)"), got.get(key, "(absent)"), f"{path}.{key}"
            )
    elif isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        for number, (each, other) in enumerate(zip(want, got, strict=True)):
            yield from differing(each, other, f"{path}[{number}]")
    elif want != got or isinstance(want, bool) != isinstance(got, bool):
        yield path or ".", want, got


if __name__ == "__main__":
    asyncio.run(compare(sys.argv[1:] or DOMAINS))
