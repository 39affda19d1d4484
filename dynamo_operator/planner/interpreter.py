"""Python interpreters: which can run AISimulate, and making one usable by every user."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

SUPPORTED: Final = ((3, 11), (3, 12), (3, 13))

_PROBE: Final = """
import json, sys, sysconfig
executable = getattr(sys, "_base_executable", sys.executable)
print(json.dumps([executable, sys.base_prefix, sysconfig.get_path("stdlib"), sys.version_info[:3]]))
"""
# What a copied interpreter does without.
_LEFT_OUT: Final = ("site-packages", "dist-packages", "test", "idlelib", "turtledemo", "config-*")


class InterpreterError(ValueError):
    """The interpreter cannot be used; one line says why."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python that AISimulate supports: its executable, prefix and standard library."""

    executable: Path
    prefix: Path
    stdlib: Path
    version: str

    @classmethod
    def find(cls, python: str | None = None) -> Self:
        """Return the interpreter of that name or path, or the one that runs this.

        Raises:
            InterpreterError: there is none, or AISimulate does not support its version.
        """
        asked = python or sys.executable
        path = shutil.which(asked)
        if path is None:
            raise InterpreterError(f"--python {asked}: no such interpreter")
        try:
            answer = subprocess.run(
                [path, "-I", "-c", _PROBE], capture_output=True, text=True, check=True, timeout=60
            ).stdout
            executable, prefix, stdlib, version = json.loads(answer)
        except (OSError, ValueError, subprocess.SubprocessError):
            raise InterpreterError(f"--python {asked}: not a Python interpreter") from None
        if tuple(version[:2]) not in SUPPORTED:
            supported = ", ".join(f"{major}.{minor}" for major, minor in SUPPORTED)
            found = ".".join(map(str, version))
            raise InterpreterError(
                f"--python {asked}: Python {found}; AISimulate needs one of {supported}"
            )
        return cls(
            Path(executable).resolve(), Path(prefix), Path(stdlib), ".".join(map(str, version))
        )

    @property
    def minor_version(self) -> str:
        """E.g. `3.11`."""
        return ".".join(self.version.split(".")[:2])

    @property
    def library_directory(self) -> Path:
        """Where a shared libpython would be."""
        return self.prefix / "lib"

    @property
    def is_shared(self) -> bool:
        """Whether every user may run it."""
        return all(_is_open_to_all(path) for path in (self.executable, self.stdlib))

    def copy_in(self, root: Path) -> Self:
        """Return the copy of this interpreter under a directory, whether it exists or not."""
        digest = hashlib.sha256(str(self.prefix).encode()).hexdigest()[:8]
        prefix = root / f"python-{self.version}-{digest}"
        name = f"python{self.minor_version}"
        return type(self)(prefix / "bin" / name, prefix, prefix / "lib" / name, self.version)

    def copy_to(self, prefix: Path) -> None:
        """Copy executable and standard library; a copy needs `library_variables` to run."""
        name = f"python{self.minor_version}"
        (prefix / "bin").mkdir()
        shutil.copy2(self.executable, prefix / "bin" / name)
        ignored = shutil.ignore_patterns(*_LEFT_OUT)
        shutil.copytree(self.stdlib, prefix / "lib" / name, symlinks=True, ignore=ignored)
        for file in self.library_directory.glob("libpython*.so*"):
            shutil.copy2(file, prefix / "lib" / file.name, follow_symlinks=False)

    def library_variables(self) -> dict[str, str]:
        """Return what a process of a copy needs: its build's library path is not this one."""
        return {"LD_LIBRARY_PATH": str(self.library_directory)}


def _is_open_to_all(path: Path) -> bool:
    """Whether any user may reach and read the path."""
    for part in (path, *path.parents):
        mode = part.stat().st_mode
        needed = stat.S_IROTH | stat.S_IXOTH if part == path else stat.S_IXOTH
        if mode & needed != needed:
            return False
    return True


def must_be_shared() -> bool:
    """Whether processes of other users may have to run what this one installs."""
    return os.geteuid() == 0
