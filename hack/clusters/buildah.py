"""Builds images by buildah, in a store of its own, into OCI archives."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hack.clusters.programs import need, output


class Buildah:
    """Without a daemon, and without a registry where the base image is at hand.

    Args:
        store: directory of its layers, which builds share.
    """

    def __init__(self, store: Path) -> None:
        need("buildah")
        self._command = (
            *("buildah", "--root", str(store / "layers"), "--runroot", str(store / "running")),
            *("--storage-driver", "overlay"),
        )

    def build(
        self,
        context: Path,
        containerfile: Path,
        archive: Path,
        *,
        name: str,
        arguments: Mapping[str, str] | None = None,
    ) -> None:
        """Build an image into an archive, whole or not at all.

        Args:
            context: directory of what it copies.
            containerfile: what it is made by.
            archive: where it goes.
            name: what it is called, with registry and tag.
            arguments: build arguments.

        Raises:
            ClusterError: it could not be built.
        """
        given = [f"--build-arg={key}={value}" for key, value in (arguments or {}).items()]
        self.run(
            *("build", "--isolation", "chroot", "--layers", "--format", "oci", "--tag", name),
            *("--file", str(containerfile), *given, str(context)),
            shows_errors=True,
        )
        self.save(name, archive)

    def save(self, name: str, archive: Path) -> None:
        """Write an image of the store into an archive, whole or not at all."""
        archive.parent.mkdir(parents=True, exist_ok=True)
        part = archive.with_name(f".{archive.name}.part")
        part.unlink(missing_ok=True)  # an archive that exists is added to
        self.run("push", name, f"oci-archive:{part}:{name}")
        part.replace(archive)

    def run(self, *arguments: str, shows_errors: bool = False) -> str:
        """Run one of its commands and return what it prints."""
        return output(*self._command, *arguments, shows_errors=shows_errors)
