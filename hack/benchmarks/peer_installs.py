"""Installs the three frameworks as their users would, once for each version.

Ours gets an environment of its own, too, with no more in it than it needs: the linters and test
tools of a checkout change what is imported, and its byte code may not be compiled yet.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
TWINS = ROOT / "hack/benchmarks/twins"
KOPF = "kopf==1.45.2"
SOURCES = ("informers", "dynamo_operator", "hack/benchmarks")


class PeerMissingError(Exception):
    """A framework to compare with cannot be had here; one line says what is missing."""


def go_twin() -> Path:
    """Build the controller on controller-runtime and return its executable.

    Raises:
        PeerMissingError: there is no Go, or the modules cannot be had.
    """
    if shutil.which("go") is None:
        raise PeerMissingError("there is no Go on PATH (go.dev/dl)")
    executable = _cache() / "go-twin"
    executable.parent.mkdir(parents=True, exist_ok=True)
    built = subprocess.run(
        ["go", "build", "-trimpath", "-o", str(executable), "."],
        cwd=TWINS / "go",
        env={**os.environ, "CGO_ENABLED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode:
        reason = (built.stderr.strip() or "go build failed").splitlines()[-1]
        raise PeerMissingError(f"controller-runtime does not build: {reason}")
    return executable


def our_python() -> tuple[Path, dict[str, str]]:
    """Return an interpreter with what our package needs, and the variables to run our code in it.

    Raises:
        PeerMissingError: the packages cannot be had.
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
        PeerMissingError: the packages cannot be had.
    """
    return _environment(KOPF.replace("==", "-"), [KOPF, "uvloop", "ruamel.yaml"])


def _environment(name: str, packages: list[str]) -> Path:
    environment = _cache() / name
    python = environment / "bin/python"
    if (environment / ".complete").exists():
        return python
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(environment)], check=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--compile", *packages]
    if subprocess.run(install, check=False).returncode:
        raise PeerMissingError(f"pip cannot install {' '.join(packages)}")
    (environment / ".complete").touch()
    return python


def _cache() -> Path:
    if parent := os.environ.get("XDG_CACHE_HOME"):
        return Path(parent) / "dynamo-operator/bench"
    if os.geteuid() == 0:
        return Path("/var/cache/dynamo-operator/bench")
    return Path.home() / ".cache/dynamo-operator/bench"
