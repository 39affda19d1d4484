"""CRDs of others whose objects our manifests hold, from the Go modules that ship them."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from hack.go_programs import ProgramMissingError, cache_directory


@dataclass(frozen=True, slots=True)
class _Module:
    """A Go module, of which only files are wanted.

    Args:
        version: path@version.
        checksum: of its content, as Go writes it; the checksum database is asked, too.
        files: paths in it.
    """

    version: str
    checksum: str
    files: tuple[str, ...]


_MODULES = (
    _Module(
        "github.com/cert-manager/cert-manager@v1.19.1",
        "h1:Txh8L/nLWTDcb7ZnXuXbTe15BxQnLbLirXmbNk0fGgY=",
        (
            "deploy/crds/cert-manager.io_certificates.yaml",
            "deploy/crds/cert-manager.io_issuers.yaml",
        ),
    ),
    _Module(
        "github.com/prometheus-operator/prometheus-operator@v0.83.0",
        "h1:qAKbm+45fqNGcn9sGTa1Ae2TM3KZuYA/uyoD2QKi9+o=",
        ("example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",),
    ),
)


def foreign_crds(*, download: bool = True) -> list[Path]:
    """Return the files of the CRDs.

    Args:
        download: False to only look for those that were downloaded before.

    Raises:
        ProgramMissingError: there is no Go, a module cannot be had, or it was not downloaded.
    """
    return [path for module in _MODULES for path in _files(module, download=download)]


def _files(module: _Module, *, download: bool) -> list[Path]:
    name = module.version.rpartition("/")[2]
    directory = cache_directory("manifest-tools") / name
    paths = [directory / Path(file).name for file in module.files]
    if all(path.exists() for path in paths):
        return paths
    if not download:
        raise ProgramMissingError(f"{name} is not downloaded")
    source = _downloaded(module)
    directory.mkdir(parents=True, exist_ok=True)
    for file, path in zip(module.files, paths, strict=True):
        part = path.with_suffix(".part")
        shutil.copyfile(source / file, part)
        part.rename(path)
    return paths


def _downloaded(module: _Module) -> Path:
    if shutil.which("go") is None:
        raise ProgramMissingError("there is no Go on PATH (go.dev/dl)")
    with TemporaryDirectory() as outside:  # of any module
        answer = subprocess.run(
            ["go", "mod", "download", "-json", module.version],
            cwd=outside,
            capture_output=True,
            text=True,
            check=False,
        )
    told = json.loads(answer.stdout or "{}")
    if answer.returncode or "Dir" not in told:
        reason = told.get("Error") or answer.stderr.strip() or "go mod download failed"
        raise ProgramMissingError(f"{module.version} cannot be had: {reason.splitlines()[0]}")
    if told["Sum"] != module.checksum:
        raise ProgramMissingError(f"{module.version} is not what was pinned: {told['Sum']}")
    return Path(told["Dir"])
