"""Records what a real control plane answers: `python -m tests.conformance.recording`."""

from __future__ import annotations

import asyncio
import os

from dynamo_operator.cli.crds import apply_crds
from dynamo_operator.runtime.builtin_kinds import Namespace
from dynamo_operator.testing import Cluster
from tests.conformance.answers import play_all, write_down
from tests.conformance.cases import GROUPS, cases_of


async def record() -> None:
    """Play every case on a fresh real control plane and write the answers down."""
    answers = {}
    async with Cluster.start(mode="real", environ=os.environ) as cluster:
        await apply_crds(cluster.client)
        for number, group in enumerate(GROUPS):
            namespace = f"recording-{number}"
            await cluster.client.create(Namespace.new(namespace))
            answers[group] = await play_all(cluster.client, namespace, cases_of(group))
    write_down(answers)


if __name__ == "__main__":
    asyncio.run(record())
