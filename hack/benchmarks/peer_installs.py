"""Installs other frameworks and clients as their users would, once for each version.

Ours gets an environment of its own, too, with no more in it than it needs: the linters and test
tools of a checkout change what is imported, and its byte code may not be compiled yet.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tomllib
from pathlib import Path

from hack.go_programs import ROOT, ProgramMissingError, cache_directory, go_program

TWINS = ROOT / "hack/benchmarks/twins"
GO_CLIENT = ROOT / "tests/clients/go"
KOPF = "kopf==1.45.2"
CLIENTS = (
    KOPF,
    "kr8s==0.20.15",
    "kubernetes==37.0.2",
    "kubernetes-asyncio==36.1.0",
    "lightkube==1.0.1",
    "lightkube-models==1.37.0.8",
)
SOURCES = ("informers", "dynamo_operator", "hack/benchmarks")


def go_twin() -> Path:
    """Build the controller on controller-runtime and return its executable.

    Raises:
        ProgramMissingError: there is no Go, or the modules cannot be had.
    """
    return _go_program(TWINS / "go", "go-twin", "controller-runtime")


def go_client(*, build: bool = True) -> Path:
    """Build the program on client-go that tries the API server and return its executable.

    Args:
        build: False to only look for one that was built before.

    Raises:
        ProgramMissingError: there is no Go, the modules cannot be had, or it is not built.
    """
    return _go_program(GO_CLIENT, "go-client", "client-go", build=build)


def clients_python(*, install: bool = True) -> Path:
    """Install others' Kubernetes clients into one environment and return its interpreter.

    Args:
        install: False to only look for what was installed before.

    Raises:
        ProgramMissingError: the packages cannot be had, or are not installed.
    """
    version = hashlib.sha256(repr(CLIENTS).encode()).hexdigest()[:12]
    if not install and not (_cache() / f"clients-{version}/.complete").exists():
        raise ProgramMissingError("the other clients are not installed")
    return _environment(f"clients-{version}", list(CLIENTS))


def our_python() -> tuple[Path, dict[str, str]]:
    """Return an interpreter with what our package needs, and the variables to run our code in it.

    Raises:
        ProgramMissingError: the packages cannot be had.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["uvloop"]]
    constraints = ROOT / "hack/constraints.txt"
    version = hashlib.sha256(repr(wanted).encode() + constraints.read_bytes()).hexdigest()[:12]
    python = _environment(f"ours-{version}", ["--constraint", str(constraints), *wanted])
    variables = {
        "PYTHONPATH": str(ROOT),
        "PYTHONPYCACHEPREFIX": str(_cache() / "byte-code"),
        "PYTHONDONTWRITEBYTECODE": "",
    }
    compiling = [str(python), "-m", "compileall", "-q", *SOURCES]
    subprocess.run(compiling, cwd=ROOT, env={**os.environ, **variables}, check=True)
    return python, variables


def kopf_python() -> Path:
    """Install kopf into an environment of its own and return its interpreter.

    Raises:
        ProgramMissingError: the packages cannot be had.
    """
    return _environment(KOPF.replace("==", "-"), [KOPF, "uvloop", "ruamel.yaml"])


def _go_program(source: Path, name: str, library: str, *, build: bool = True) -> Path:
    return go_program(source, name, cache=_cache(), library=library, build=build)


def _environment(name: str, packages: list[str]) -> Path:
    environment = _cache() / name
    python = environment / "bin/python"
    if (environment / ".complete").exists():
        return python
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(environment)], check=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--compile", *packages]
    if subprocess.run(install, check=False).returncode:
        raise ProgramMissingError(f"pip cannot install {' '.join(packages)}")
    (environment / ".complete").touch()
    return python


def _cache() -> Path:
    return cache_directory("bench")
