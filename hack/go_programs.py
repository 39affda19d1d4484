"""Builds programs in Go, once for each version of their source, into a cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


class ProgramMissingError(Exception):
    """A program of others cannot be had here; one line says what is missing."""


def cache_directory(name: str) -> Path:
    """Return where what is built and installed for that purpose is kept."""
    if parent := os.environ.get("XDG_CACHE_HOME"):
        return Path(parent) / "dynamo-operator" / name
    if os.geteuid() == 0:
        return Path("/var/cache/dynamo-operator") / name
    return Path.home() / ".cache/dynamo-operator" / name


def go_program(
    source: Path,
    executable: str,
    *,
    cache: Path,
    library: str,
    package: str = ".",
    linked: str = "",
    build: bool = True,
) -> Path:
    """Build a program and return its executable.

    Args:
        source: directory of the Go module.
        executable: what it is called; its version is added.
        cache: directory that it is built into.
        library: what it is made of, for messages.
        package: of the module, or one that it requires.
        linked: flags of the linker.
        build: False to only look for what was built before.

    Raises:
        ProgramMissingError: there is no Go, the modules cannot be had, or it is not built.
    """
    sources = sorted([*source.glob("*.go"), *source.glob("go.*")])
    content = b"".join(path.read_bytes() for path in sources) + linked.encode()
    built = cache / f"{executable}-{hashlib.sha256(content).hexdigest()[:12]}"
    if built.exists():
        return built
    if not build:
        raise ProgramMissingError(f"{executable} is not built")
    if shutil.which("go") is None:
        raise ProgramMissingError("there is no Go on PATH (go.dev/dl)")
    cache.mkdir(parents=True, exist_ok=True)
    part = cache / f".{built.name}.{os.getpid()}"  # whole or not at all, also beside a test
    building = subprocess.run(
        ["go", "build", "-trimpath", "-ldflags", linked, "-o", str(part), package],
        cwd=source,
        env={**os.environ, "CGO_ENABLED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if building.returncode:
        reason = (building.stderr.strip() or "go build failed").splitlines()[-1]
        raise ProgramMissingError(f"{library} does not build: {reason}")
    part.rename(built)
    return built
