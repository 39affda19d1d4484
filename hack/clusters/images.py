"""The images of this project: built, checked, and put into archives."""

from __future__ import annotations

import os
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hack.clusters import operator_image, planner_image
from hack.clusters.base_image import base_image
from hack.clusters.buildah import Buildah
from hack.clusters.errors import ClusterError
from hack.go_programs import ROOT, cache_directory

ImageName = Literal["operator", "planner"]
_REPOSITORIES = {"operator": "dynamo-operator", "planner": "dynamo-operator-planner"}


@dataclass(frozen=True, slots=True)
class Image:
    """One that was built: its reference, its archive, and what was found of it."""

    reference: str
    archive: Path
    note: str


def make_image(
    image: ImageName,
    *,
    base: str | None = None,
    tag: str | None = None,
    offline: bool = True,
) -> Image:
    """Build an image, check it, and put it into an archive of the cache.

    Args:
        image: which.
        base: the image to build on instead of the Dockerfile's.
        tag: default: the version of this project.
        offline: of the planner: whether it does without the Hugging Face hub.

    Raises:
        ClusterError: it could not be built, or does not hold what it has to.
        PlannerError: the planner environment could not be made.
    """
    if sys.platform != "linux" or os.geteuid() != 0:
        raise ClusterError("building an image needs Linux and root")
    directory = cache_directory("images")
    directory.mkdir(parents=True, exist_ok=True)
    buildah = Buildah(directory / "store")
    below = base_image(buildah, directory / "base", base)
    reference = f"docker.io/library/{_REPOSITORIES[image]}:{tag or _version()}"
    if image == "operator":
        operator_image.build(buildah, below, reference, directory)
        note = operator_image.check(buildah, below, reference)
    else:
        planner_image.build(buildah, below, reference, offline=offline)
        note = planner_image.check(buildah, reference)
    archive = directory / f"{image}.tar"
    buildah.save(reference, archive)
    return Image(reference, archive, f"{reference}: {note}, on {below.reference}")


def _version() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return str(project["version"])
