"""The commands that people type, against a cluster of the test's own."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

BIN = Path(sys.executable).parent
KUBECTL = BIN / "kubectl"
_PATIENCE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended and what it wrote, standard error after standard output."""

    exit_code: int
    output: str


@dataclass(frozen=True, slots=True)
class Shell:
    """Runs our command and kubectl with one kubeconfig; `variables` are further ones."""

    home: Path
    kubeconfig: Path
    variables: Mapping[str, str] = field(default_factory=dict)

    async def __call__(self, command: str, *arguments: str) -> Outcome:
        """Run one command to its end."""
        process = await asyncio.create_subprocess_exec(
            str(BIN / command),
            *arguments,
            env={
                "HOME": str(self.home),
                "KUBECONFIG": str(self.kubeconfig),
                "PATH": os.environ["PATH"],
                **self.variables,
            },
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(_PATIENCE_SECONDS):
            output, errors = await process.communicate()
        assert process.returncode is not None
        return Outcome(process.returncode, (output + errors).decode())
