"""Records kubectl's transcripts: `python -m tests.clients.recording [--mode MODE] [NAME ...]`."""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from pathlib import Path
from typing import get_args

from dynamo_operator.testing.cluster import Mode
from tests.clients.conftest import cluster_of, make_namespace
from tests.clients.transcripts import TRANSCRIPTS, Kubectl, read, write


async def record(mode: Mode, names: list[str], into: Path) -> None:
    """Play transcripts on a fresh control plane and write down what it told."""
    with tempfile.TemporaryDirectory() as home:
        async with cluster_of(mode, os.environ) as cluster:
            for path in sorted(TRANSCRIPTS.glob("*.txt")):
                if names and path.stem not in names:
                    continue
                await make_namespace(cluster, f"clients-{path.stem}")
                kubectl = Kubectl(cluster.kubeconfig(), f"clients-{path.stem}", Path(home))
                write(into / path.name, await kubectl.play(read(path)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--mode", default="real", choices=get_args(Mode))
    parser.add_argument("--into", type=Path, default=TRANSCRIPTS)
    chosen = parser.parse_args()
    chosen.into.mkdir(exist_ok=True, parents=True)
    asyncio.run(record(chosen.mode, chosen.names, chosen.into))
