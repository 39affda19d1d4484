"""Sibling images and the Dynamo version that an image reference tells.

Standard library only: the output adapter uses it inside the planner image.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

PLANNER_REPOSITORY: Final = "dynamo-planner"
BACKEND_REPOSITORIES: Final = {
    "vllm": "vllm-runtime",
    "sglang": "sglang-runtime",
    "trtllm": "tensorrtllm-runtime",
}

BUNDLED_DYNAMO_VERSION: Final = "1.6.0"
"""The Dynamo release that this operator is tested with."""

PUBLIC_PLANNER_IMAGE: Final = (
    f"nvcr.io/nvidia/ai-dynamo/{PLANNER_REPOSITORY}:{BUNDLED_DYNAMO_VERSION}"
)

_NUMBER: Final = r"(?:0|[1-9][0-9]{0,3})"
_RELEASE: Final = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}")
_IDENTIFIERS: Final = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_TAG: Final = re.compile(
    rf"[vV]?(?P<release>{_RELEASE.pattern})(?:-{_IDENTIFIERS})?(?:\+{_IDENTIFIERS})?"
)


@dataclass(frozen=True, slots=True)
class ImageReference:
    """An image reference in its parts; a registry's port is never taken for a tag.

    Args:
        registry_path: everything up to and including the last slash; may be empty.
        repository: the last component's name.
        tag: empty when none is written.
        digest: with its algorithm; empty when none is written.
    """

    registry_path: str
    repository: str
    tag: str = ""
    digest: str = ""

    @classmethod
    def parse(cls, reference: str) -> ImageReference:
        """Take a reference apart.

        Raises:
            ValueError: it names no image.
        """
        undigested, _, digest = reference.partition("@")
        head, slash, last = undigested.rpartition("/")
        repository, _, tag = last.partition(":")
        if not repository or reference != reference.strip() or " " in reference:
            raise ValueError(f"{reference!r} is no image reference, e.g. {PUBLIC_PLANNER_IMAGE}")
        return cls(head + slash, repository, tag, digest)

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.registry_path}{self.repository}{tag}{digest}"


def sibling_image(reference: str, backend: str) -> str:
    """Return the runtime image of a backend beside a given image: same registry path, same tag.

    A digest belongs to one repository, so it is kept only when the repository stays the same.

    Raises:
        ValueError: an unknown backend, or a reference that has only a digest to go by.
    """
    repository = BACKEND_REPOSITORIES.get(backend)
    if repository is None:
        accepted = ", ".join(BACKEND_REPOSITORIES)
        raise ValueError(f"backend {backend!r} has no runtime image: use one of {accepted}")
    source = ImageReference.parse(reference)
    if source.repository == repository:
        return reference
    if source.digest and not source.tag:
        raise ValueError(
            f"{reference}: a digest says nothing about {repository}: add the release's tag"
        )
    return str(ImageReference(source.registry_path, repository, source.tag))


def tagged_version(reference: str) -> str | None:
    """Return the MAJOR.MINOR.PATCH that an image's tag tells, or None for an opaque tag or none.

    Example:
        >>> tagged_version("r.lab:443/dynamo-planner:v1.4.0-rc1")
        '1.4.0'
    """
    match = _TAG.fullmatch(ImageReference.parse(reference).tag)
    return match["release"] if match else None


def checked_version(text: str) -> str:
    """Return a configured version without surrounding blanks.

    Raises:
        ValueError: it is not MAJOR.MINOR.PATCH.
    """
    if not _RELEASE.fullmatch(text.strip()):
        raise ValueError(f"{text!r} must be a Dynamo version MAJOR.MINOR.PATCH, e.g. 1.6.0")
    return text.strip()


@dataclass(frozen=True, slots=True)
class ImageSettings:
    """The images and the version of one operator; frozen together into every Run."""

    planner_image: str
    runtime_image_source: str
    dynamo_version: str


def resolve_image_settings(
    planner_image: str, *, runtime_image_source: str = "", dynamo_version: str = ""
) -> ImageSettings:
    """Complete the settings that an administrator gave.

    Args:
        planner_image: `--dgdr-default-image`.
        runtime_image_source: `--runtime-image-source`; default the planner image when its tag is a
            Dynamo release, else the public planner image of the bundled release.
        dynamo_version: `--dynamo-version`; default what the source's tag tells, or the bundled
            release when the source has no tag.

    Raises:
        ValueError: a value is malformed, or an opaque tag leaves the version open.
    """
    ImageReference.parse(planner_image)
    source = runtime_image_source or (
        planner_image if tagged_version(planner_image) else PUBLIC_PLANNER_IMAGE
    )
    if dynamo_version:
        version = checked_version(dynamo_version)
    else:
        version = tagged_version(source) or _untagged_version(source)
    sibling_image(source, "vllm")
    return ImageSettings(planner_image, source, version)


def _untagged_version(source: str) -> str:
    reference = ImageReference.parse(source)
    if reference.tag:
        raise ValueError(
            f"--runtime-image-source {source}: the tag {reference.tag!r} is no Dynamo release: "
            "set --dynamo-version"
        )
    return BUNDLED_DYNAMO_VERSION
