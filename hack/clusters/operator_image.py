"""The operator image, by the Dockerfile."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

from hack.clusters import image_checks
from hack.clusters.base_image import BaseImage
from hack.clusters.buildah import Buildah
from hack.clusters.programs import output
from hack.go_programs import ROOT

LAYER_MEGABYTES = 120
USER = "65532:65532"
_EXTRAS = ("webhooks", "uvloop")
_WHEELS = "/wheels"


def build(buildah: Buildah, base: BaseImage, name: str, directory: Path) -> None:
    """Build it; on a base without a network from packages that are downloaded here.

    Raises:
        ClusterError: it could not be built.
    """
    arguments = {"BASE_IMAGE": base.reference, "REVISION": output("git", "rev-parse", "HEAD")}
    volumes = {}
    if base.is_offline:
        wheels = directory / "wheels"
        _download(wheels, _python_of(buildah, base))
        arguments |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": _WHEELS}
        volumes[wheels] = _WHEELS
    buildah.make(ROOT, ROOT / "Dockerfile", name=name, arguments=arguments, volumes=volumes)


def check(buildah: Buildah, base: BaseImage, name: str) -> str:
    """Check size, user, and that both programs start with a read-only root; returns a line.

    Raises:
        ClusterError: something of it does not hold.
    """
    image_checks.check_user(buildah, name, USER)
    size = image_checks.check_size(buildah, name, base.reference, LAYER_MEGABYTES)
    for program in ("/manager", "/dgdr-run-publisher"):
        image_checks.check_command(buildah, name, [program, "--help"])
    return f"{size / 1e6:.0f} MB beyond its base"


def _python_of(buildah: Buildah, base: BaseImage) -> str:
    with buildah.mounted(base.reference) as root:
        return Path(root, "usr/bin/python3").resolve().name.removeprefix("python")


def _download(wheels: Path, version: str) -> None:
    """Download what the Dockerfile installs, and what builds our own package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    for extra in _EXTRAS:
        wanted += project["project"]["optional-dependencies"][extra]
    output(
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
        *("--only-binary=:all:", f"--python-version={version}", f"--dest={wheels}"),
        *("--constraint=hack/constraints.txt", *wanted),
        shows_errors=True,
    )
