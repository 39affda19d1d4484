"""Gets the other frameworks, once for each version, and says where they are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TWINS = ROOT / "hack/benchmarks/twins"
KOPF = "kopf==1.45.2"


def go_twin() -> Path:
    """Build the controller on controller-runtime and return its executable.

    Raises:
        FileNotFoundError: there is no Go.
        subprocess.CalledProcessError: it does not build.
    """
    executable = _cache() / "go-twin"
    executable.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["go", "build", "-trimpath", "-o", str(executable), "."],
        cwd=TWINS / "go",
        env={**os.environ, "CGO_ENABLED": "0"},
        check=True,
    )
    return executable


def kopf_python() -> Path:
    """Install kopf into an environment of its own and return its interpreter."""
    environment = _cache() / KOPF.replace("==", "-")
    python = environment / "bin/python"
    if not (environment / ".complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(environment)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", KOPF, "uvloop", "ruamel.yaml"]
        subprocess.run(install, check=True)
        (environment / ".complete").touch()
    return python


def _cache() -> Path:
    if parent := os.environ.get("XDG_CACHE_HOME"):
        return Path(parent) / "dynamo-operator/bench"
    if os.geteuid() == 0:
        return Path("/var/cache/dynamo-operator/bench")
    return Path.home() / ".cache/dynamo-operator/bench"
