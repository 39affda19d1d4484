"""The image that others are built on: of a registry, or of Debian packages where none answers."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from hack.clusters.buildah import Buildah
from hack.clusters.errors import ClusterError
from hack.clusters.programs import need, output
from hack.go_programs import ROOT

SUITE = "bookworm"
PACKAGES = ("ca-certificates", "python3", "python3-venv")
_DEBIAN = f"localhost/debian-python:{SUITE}"
_CONTAINERFILE = "FROM scratch\nCOPY system /\n"
_PULL_SECONDS = "60"


@dataclass(frozen=True, slots=True)
class BaseImage:
    """A reference; and whether a build on it cannot count on a network."""

    reference: str
    is_offline: bool


def base_image(buildah: Buildah, directory: Path, asked: str | None) -> BaseImage:
    """Return the base that was asked for, else the Dockerfile's, else one of Debian packages.

    Args:
        buildah: keeps it.
        directory: where Debian packages are unpacked.
        asked: a reference; None for the Dockerfile's.

    Raises:
        ClusterError: the base that was asked for cannot be had, or none.
    """
    if asked == _DEBIAN or buildah.has(_DEBIAN):
        _make_debian(buildah, directory)
        return BaseImage(_DEBIAN, is_offline=True)
    reference = asked or default_base()
    try:
        output("timeout", _PULL_SECONDS, *buildah.command, "pull", "--quiet", reference)
    except ClusterError:
        if asked:
            raise
        _make_debian(buildah, directory)
        return BaseImage(_DEBIAN, is_offline=True)
    return BaseImage(reference, is_offline=False)


def default_base() -> str:
    """Return what the Dockerfile says."""
    (reference,) = re.findall(r"^ARG BASE_IMAGE=(\S+)$", (ROOT / "Dockerfile").read_text(), re.M)
    return str(reference)


def _make_debian(buildah: Buildah, directory: Path) -> None:
    if buildah.has(_DEBIAN):
        return
    need("debootstrap")
    system = directory / "system"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    included = f"--include={','.join(PACKAGES)}"
    output("debootstrap", "--variant=minbase", included, SUITE, str(system), shows_errors=True)
    for useless in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale"):
        shutil.rmtree(system / useless, ignore_errors=True)
    containerfile = directory / "containerfile"
    containerfile.write_text(_CONTAINERFILE)
    buildah.make(directory, containerfile, name=_DEBIAN)
    shutil.rmtree(directory)
