"""Records what a real cluster tells clients: `python -m tests.clients.recording [NAME ...]`.

Names are those of kubectl's transcripts and of programs; the program in Go is `go`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import get_args

from dynamo_operator.testing.cluster import Mode
from tests.clients.conftest import cluster_of, make_namespace
from tests.clients.running import (
    GO_TRACE,
    go_command,
    program_paths,
    python_command,
    run,
    trace_of,
)
from tests.clients.transcripts import TRANSCRIPTS, Kubectl, read, write


async def record(mode: Mode, names: list[str], into: Path | None) -> None:
    """Run clients on a fresh control plane and write down what they told, or into a directory."""

    def wanted(name: str) -> bool:
        return not names or name in names

    with tempfile.TemporaryDirectory() as home:
        async with cluster_of(mode, os.environ) as cluster:
            for path in sorted(TRANSCRIPTS.glob("*.txt")):
                if wanted(path.stem):
                    namespace = f"clients-{path.stem}"
                    await make_namespace(cluster, namespace)
                    kubectl = Kubectl(cluster.kubeconfig(), namespace, Path(home))
                    told = await kubectl.play(read(path))
                    write(into / path.name if into else path, told)
            commands: dict[Path, Callable[[], list[str]]] = {
                trace_of(path): partial(python_command, path) for path in program_paths()
            }
            commands[GO_TRACE] = go_command
            for trace, command in commands.items():
                name = trace.stem if trace != GO_TRACE else "go"
                if wanted(name):
                    namespace = f"clients-{name.replace('_', '-')}"
                    await make_namespace(cluster, namespace)
                    _, said = await run(cluster, namespace, command())
                    (into / f"{name}.txt" if into else trace).write_text(said, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--mode", default="real", choices=get_args(Mode))
    parser.add_argument("--into", type=Path)
    chosen = parser.parse_args()
    asyncio.run(record(chosen.mode, chosen.names, chosen.into))
