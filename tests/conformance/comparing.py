"""How two servers' answers differ: `python -m tests.conformance.comparing [DOMAIN ...]` says it.

It plays the domains' cases (of all without one) on an embedded server and prints each field that is
not as recorded.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.testing import Cluster
from tests.conformance.cases import DOMAINS, at_once, cases_of
from tests.conformance.known_differences import Reasons
from tests.conformance.playing import Player, transport_of
from tests.conformance.recording import Answers, recorded
from tests.conformance.requests import Case


async def compare(domains: Sequence[str]) -> None:
    """Print how an embedded server's answers differ from the recorded ones, the known ones too."""
    async with Cluster.start(mode="http", crds=custom_resource_definitions()) as cluster:
        player = Player(transport_of(cluster.client))
        for domain in domains:
            told = await player.play(cases_of(domain), at_once=at_once(domain))
            known = recorded(domain)
            found = [
                one
                for case in cases_of(domain)
                for one in differences(case, told[case.name], known)
            ]
            for one in found:
                print(one)  # noqa: T201 - a program
            print(f"{domain}: {len(found)} requests are answered otherwise")  # noqa: T201


@dataclass(frozen=True, slots=True)
class Difference:
    """One request that is not answered as it was recorded; `fields` are path, wanted and got."""

    case: str
    number: int
    line: str
    fields: tuple[tuple[str, Any, Any], ...]

    def __str__(self) -> str:
        lines = [f"{self.case}: {self.number}. {self.line}"]
        for path, wanted, got in self.fields:
            lines += [f"  {path}", f"    the real server: {wanted}", f"    this server:     {got}"]
        return "\n".join(lines)


def differences(case: Case, told: list[Any], known: Answers) -> Iterator[Difference]:
    """Yield each request of a case whose answer differs from the recorded one."""
    expected = known.get(case.name, [])
    for number, (request, got) in enumerate(zip(case.requests, told, strict=True)):
        want = expected[number] if number < len(expected) else "(not recorded)"
        fields = tuple(differing(want, got))
        if fields:
            yield Difference(case.name, number + 1, request.line, fields)


def unexplained(found: Iterable[Difference], reasons: Reasons) -> Iterator[str]:
    """Yield what differs and is not known to, and what is known to differ and does not."""
    left = {(case, number) for case, numbers in reasons.items() for number in numbers}
    for one in found:
        key = (one.case, str(one.number))
        if key in left:
            left.discard(key)
        else:
            yield str(one)
    for case, number in sorted(left):
        yield f"{case}: {number}. is answered as it should be: take it off known_differences.json"


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
