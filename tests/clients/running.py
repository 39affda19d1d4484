"""This module runs the programs on others' clients, each in a process of its own."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from dynamo_operator.testing import Cluster
from hack.benchmarks.peer_installs import clients_python, go_client
from hack.go_programs import ProgramMissingError

PROGRAMS = Path(__file__).with_name("programs")
GO_TRACE = Path(__file__).with_name("go") / "expected.txt"
TOYS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "toys.clients.example.com"},
    "spec": {
        "group": "clients.example.com",
        "scope": "Namespaced",
        "names": {"kind": "Toy", "plural": "toys"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {"size": {"type": "integer"}},
                            },
                            "status": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                            },
                        },
                    }
                },
            }
        ],
    },
}
_SECONDS = 60.0


def program_paths() -> list[Path]:
    """The programs in Python."""
    return sorted(path for path in PROGRAMS.glob("*.py") if path.stem != "__init__")


def trace_of(path: Path) -> Path:
    """Where it stands what a program says."""
    return path.with_suffix(".txt")


def python_command(path: Path) -> list[str]:
    """How to run a program in Python; without its libraries the test is skipped."""
    try:
        return [str(clients_python(install=False)), str(path)]
    except ProgramMissingError as error:
        pytest.skip(f"{error}: run hack/install_clients")


def go_command() -> list[str]:
    """How to run the program in Go; where it cannot be built the test is skipped."""
    try:
        return [str(go_client(build=False))]
    except ProgramMissingError as error:
        pytest.skip(f"{error}: run hack/install_clients")


async def run(cluster: Cluster, namespace: str, command: list[str]) -> tuple[int | None, str]:
    """Run a program against a cluster; returns its exit code and what it said, then its errors."""
    process = await asyncio.create_subprocess_exec(
        *command,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(cluster.kubeconfig().parent),
            "KUBECONFIG": str(cluster.kubeconfig()),
            "NAMESPACE": namespace,
            "PYTHONUNBUFFERED": "1",
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_SECONDS):
            said, errors = await process.communicate()
    except TimeoutError:
        process.kill()
        said, errors = await process.communicate()
    said_text = said.decode().replace(namespace, "NAMESPACE")
    if process.returncode:
        return process.returncode, said_text + errors.decode()
    return 0, said_text
