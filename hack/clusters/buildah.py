"""Builds images by buildah, in a store of its own, into OCI archives."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hack.clusters.errors import ClusterError
from hack.clusters.programs import need, output

_ID = "{{.FromImageID}}"


class Buildah:
    """Without a daemon, and without a registry where the base image is at hand.

    Args:
        store: directory of its layers, which builds share.
    """

    def __init__(self, store: Path) -> None:
        need("buildah")
        self.command = (
            *("buildah", "--root", str(store / "layers"), "--runroot", str(store / "running")),
            *("--storage-driver", "overlay"),
        )

    def make(
        self,
        context: Path,
        containerfile: Path,
        *,
        name: str,
        arguments: Mapping[str, str] | None = None,
        volumes: Mapping[Path, str] | None = None,
    ) -> None:
        """Build an image.

        Args:
            context: directory of what it copies.
            containerfile: what it is made by.
            name: what it is called, with registry and tag.
            arguments: build arguments.
            volumes: directories that builders see, and where.

        Raises:
            ClusterError: it could not be built.
        """
        given = [f"--build-arg={key}={value}" for key, value in (arguments or {}).items()]
        given += [f"--volume={path}:{where}:ro" for path, where in (volumes or {}).items()]
        self._run(
            *("build", "--isolation", "chroot", "--layers", "--format", "oci", "--tag", name),
            *("--pull-never", "--quiet", "--file", str(containerfile), *given, str(context)),
            shows_errors=True,
        )

    def save(self, name: str, archive: Path) -> None:
        """Write an image into an archive, whole or not at all, unless it is the one in there."""
        archive.parent.mkdir(parents=True, exist_ok=True)
        mark = archive.with_suffix(".id")
        identity = f"{name} {self._run('inspect', '--type', 'image', '--format', _ID, name)}"
        if archive.exists() and mark.exists() and mark.read_text() == identity:
            return
        mark.unlink(missing_ok=True)
        part = archive.with_name(f".{archive.name}.part")
        part.unlink(missing_ok=True)  # an archive that exists is added to
        self._run("push", "--quiet", name, f"oci-archive:{part}:{name}")
        part.replace(archive)
        mark.write_text(identity)

    def has(self, name: str) -> bool:
        """Whether an image is in the store."""
        asked = [*self.command, "images", "--quiet", name]
        return subprocess.run(asked, check=False, capture_output=True).returncode == 0

    def inspect(self, name: str) -> dict[str, Any]:
        """Return what the image says of itself, as OCI writes it."""
        document = json.loads(self._run("inspect", "--type", "image", name))
        return dict(document["OCIv1"])

    @contextmanager
    def mounted(self, name: str) -> Iterator[Path]:
        """Have the files of an image in a directory."""
        container = self._run("from", "--pull-never", name)
        try:
            yield Path(self._run("mount", container))
        finally:
            self._run("rm", container)

    def _run(self, *arguments: str, shows_errors: bool = False) -> str:
        try:
            return output(*self.command, *arguments, shows_errors=shows_errors)
        except ClusterError as error:
            raise ClusterError(str(error).replace(" ".join(self.command), "buildah")) from None
