"""Records what a real control plane answers: `python -m tests.conformance.recording [DOMAIN ...]`.

Without a domain, of all.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dynamo_operator.cli.crds import apply_crds
from dynamo_operator.testing import Cluster
from tests.conformance.cases import DOMAINS, at_once, cases_of
from tests.conformance.playing import Player, transport_of

Answers = dict[str, list[Any]]
_DIRECTORY = Path(__file__).with_name("recorded")


def recorded(domain: str) -> Answers:
    """Return the recorded answers of a domain's cases by their names."""
    path = _DIRECTORY / f"{domain}.json"
    answers: Answers = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return answers


def write_down(domain: str, answers: Answers) -> None:
    """Record a domain's answers, one line each."""
    cases = [
        f"{json.dumps(name)}: [\n"
        + ",\n".join(f" {json.dumps(each, sort_keys=True)}" for each in answers[name])
        + "\n]"
        for name in answers
    ]
    text = "{\n" + ",\n".join(cases) + "\n}\n"
    (_DIRECTORY / f"{domain}.json").write_text(text, encoding="utf-8")


async def record(domains: Sequence[str]) -> None:
    """Play the domains' cases on a fresh real control plane and write the answers down."""
    async with Cluster.start(mode="real", environ=os.environ) as cluster:
        await apply_crds(cluster.client)
        player = Player(transport_of(cluster.client), on_embedded=False)
        for domain in domains:
            answers = await player.play(cases_of(domain), at_once=at_once(domain))
            write_down(domain, answers)
            for case in cases_of(domain):
                for asked, answer in zip(case.requests, answers[case.name], strict=True):
                    assert asked.until in (0, answer["status"]), f"{asked.line}: {answer}"


if __name__ == "__main__":
    asyncio.run(record(sys.argv[1:] or DOMAINS))
