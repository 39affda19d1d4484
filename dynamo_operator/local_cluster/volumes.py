"""A Pod's volumes as host directories: written atomically and kept up to date."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from dynamo_operator.local_cluster import container_init
from dynamo_operator.local_cluster.container_environment import (
    ContainerConfigError,
    ReadData,
    pod_field,
    resource_field,
)
from dynamo_operator.local_cluster.quantities import parse_quantity
from informers.clock import Clock

_TOKEN_REFRESH = 0.8  # of a token's life
_DEFAULT_TOKEN_SECONDS = 3600


class VolumeError(Exception):
    """A volume cannot be set up (Event FailedMount); the text names it."""


@dataclass(frozen=True, slots=True)
class Token:
    """A ServiceAccount token of a Pod."""

    value: str
    expires: datetime


# Asks for a token bound to the Pod: audience ("" for the server's own), life in seconds.
RequestToken = Callable[[str, int], Awaitable[Token]]


@dataclass(frozen=True, slots=True)
class VolumeSources:
    """Where the contents of volumes come from.

    Args:
        read: data of a ConfigMap or Secret.
        request_token: makes tokens.
        allocatable: what the node has, for the downward API.
        claims: host directories that play PersistentVolumeClaims, by `namespace/name`.
    """

    read: ReadData
    request_token: RequestToken
    allocatable: Mapping[str, str]
    claims: Mapping[str, Path]


@dataclass(frozen=True, slots=True)
class VolumeFile:
    """One file of a written volume."""

    data: bytes
    mode: int


class PodVolumes:
    """The volumes of one Pod below one directory."""

    def __init__(self, directory: Path, sources: VolumeSources, clock: Clock) -> None:
        self._directory = directory
        self._sources = sources
        self._clock = clock
        self._tokens: dict[tuple[str, int], tuple[Token, datetime]] = {}

    def path(self, pod: Mapping[str, Any], name: str) -> Path:
        """Return the host path of a volume.

        Raises:
            VolumeError: the Pod has no such volume, or its claim is not played here.
        """
        volume = _volume(pod, name)
        if claim := volume.get("persistentVolumeClaim"):
            return self._claim(pod, claim["claimName"])
        if host_path := volume.get("hostPath"):
            return Path(host_path["path"])
        return self._directory / name

    def is_read_only(self, pod: Mapping[str, Any], name: str) -> bool:
        """Whether no container may write to a volume: one that mirrors objects, or says so.

        Raises:
            VolumeError: the Pod has no such volume.
        """
        volume = _volume(pod, name)
        claim = volume.get("persistentVolumeClaim") or {}
        return _is_written(volume) or bool(claim.get("readOnly"))

    def is_written(self, pod: Mapping[str, Any], name: str) -> bool:
        """Whether a volume's files come from the API server: of a ConfigMap, say.

        Raises:
            VolumeError: the Pod has no such volume.
        """
        return _is_written(_volume(pod, name))

    def is_scratch(self, pod: Mapping[str, Any], name: str) -> bool:
        """Whether a volume begins empty and goes with the Pod.

        Raises:
            VolumeError: the Pod has no such volume.
        """
        return "emptyDir" in _volume(pod, name)

    async def set_up(self, pod: Mapping[str, Any]) -> None:
        """Make every volume; safe to repeat.

        Raises:
            VolumeError: something that a volume needs is missing.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        for volume in pod["spec"].get("volumes") or ():
            try:
                await self._set_up(pod, volume)
            except (ContainerConfigError, OSError, ValueError) as error:
                raise VolumeError(f'volume "{volume["name"]}": {error}') from error

    async def refresh(self, pod: Mapping[str, Any]) -> None:
        """Bring the written volumes up to date, and renew tokens that are due.

        Raises:
            VolumeError: a source went away; what is there stays.
        """
        for volume in pod["spec"].get("volumes") or ():
            if _is_written(volume):
                try:
                    await self._write(pod, volume)
                except (ContainerConfigError, OSError, ValueError) as error:
                    raise VolumeError(f'volume "{volume["name"]}": {error}') from error

    def remove(self) -> None:
        """Remove everything, mounts first."""
        remove_tree(self._directory)

    async def _set_up(self, pod: Mapping[str, Any], volume: Mapping[str, Any]) -> None:
        target = self._directory / volume["name"]
        if _is_written(volume):
            target.mkdir(exist_ok=True)
            await self._write(pod, volume)
        elif (empty := volume.get("emptyDir")) is not None:
            _make_empty_dir(target, empty, _fs_group(pod))
        elif claim := volume.get("persistentVolumeClaim"):
            self._claim(pod, claim["claimName"])
        elif host_path := volume.get("hostPath"):
            _check_host_path(Path(host_path["path"]), host_path.get("type", ""))
        else:
            kinds = sorted(set(volume) - {"name"})
            raise VolumeError(f"volume type {', '.join(kinds)} is not supported by this node")

    def _claim(self, pod: Mapping[str, Any], claim: str) -> Path:
        key = f"{pod['metadata'].get('namespace', '')}/{claim}"
        path = self._sources.claims.get(key)
        if path is None:
            known = ", ".join(sorted(self._sources.claims)) or "none"
            raise VolumeError(
                f'persistentvolumeclaim "{claim}" is played by no directory here; known: {known}'
            )
        return path

    async def _write(self, pod: Mapping[str, Any], volume: Mapping[str, Any]) -> None:
        files = await self._files(pod, volume)
        write_atomically(self._directory / volume["name"], files, _fs_group(pod))

    async def _files(
        self, pod: Mapping[str, Any], volume: Mapping[str, Any]
    ) -> dict[str, VolumeFile]:
        if projected := volume.get("projected"):
            mode = projected.get("defaultMode", 0o644)
            files: dict[str, VolumeFile] = {}
            for source in projected.get("sources") or ():
                files |= await self._source_files(pod, source, mode)
            return files
        for name in ("configMap", "secret", "downwardAPI"):
            if (source := volume.get(name)) is not None:
                source = {**source, "name": source.get("secretName", source.get("name", ""))}
                return await self._source_files(
                    pod, {name: source}, source.get("defaultMode", 0o644)
                )
        return {}

    async def _source_files(
        self, pod: Mapping[str, Any], source: Mapping[str, Any], mode: int
    ) -> dict[str, VolumeFile]:
        if "serviceAccountToken" in source:
            wanted = source["serviceAccountToken"]
            token = await self._token(
                wanted.get("audience", ""),
                wanted.get("expirationSeconds", _DEFAULT_TOKEN_SECONDS),
            )
            return {wanted["path"]: VolumeFile(token.encode(), mode)}
        if "downwardAPI" in source:
            items = source["downwardAPI"].get("items") or ()
            return {
                item["path"]: VolumeFile(self._downward(pod, item).encode(), item.get("mode", mode))
                for item in items
            }
        for kind, name in (("ConfigMap", "configMap"), ("Secret", "secret")):
            if name in source:
                return await self._data_files(kind, source[name], mode)
        raise ContainerConfigError(f"projected source {sorted(source)} is not supported")

    def _downward(self, pod: Mapping[str, Any], item: Mapping[str, Any]) -> str:
        if "fieldRef" in item:
            return pod_field(pod, item["fieldRef"]["fieldPath"])
        return resource_field(pod, item["resourceFieldRef"], None, self._sources.allocatable)

    async def _data_files(
        self, kind: str, source: Mapping[str, Any], mode: int
    ) -> dict[str, VolumeFile]:
        optional = source.get("optional", False)
        data = await self._sources.read(kind, source["name"])
        if data is None:
            if optional:
                return {}
            raise ContainerConfigError(f'{kind.lower()} "{source["name"]}" not found')
        items = source.get("items")
        if not items:
            return {key: VolumeFile(value, mode) for key, value in data.items()}
        files = {}
        for item in items:
            if item["key"] in data:
                files[item["path"]] = VolumeFile(data[item["key"]], item.get("mode", mode))
            elif not optional:
                raise ContainerConfigError(
                    f"{kind.lower()} references non-existent key: {item['key']}"
                )
        return files

    async def _token(self, audience: str, seconds: int) -> str:
        now = self._clock.now()
        known = self._tokens.get((audience, seconds))
        if known is not None and now < known[1]:
            return known[0].value
        token = await self._sources.request_token(audience, seconds)
        lifetime = max((token.expires - now).total_seconds(), 0)
        due = now + timedelta(seconds=min(lifetime * _TOKEN_REFRESH, 24 * 3600))
        self._tokens[(audience, seconds)] = (token, due)
        return token.value


def write_atomically(
    directory: Path, files: Mapping[str, VolumeFile], group: int | None = None
) -> bool:
    """Make a volume directory hold exactly these files; readers see all old or all new ones.

    The files lie in a dated directory to which `..data` points; what readers open are links through
    it. Returns whether anything changed.

    Args:
        directory: the volume.
        files: its contents by relative path.
        group: who may read every file whatever its mode, and owns it; None for no group.

    Raises:
        ValueError: a path leaves the volume.
    """
    for path in files:
        if path.startswith(("/", "..")) or ".." in Path(path).parts:
            raise ValueError(f"path {path!r} must stay inside the volume")
    if group is not None:
        files = {path: VolumeFile(file.data, file.mode | 0o440) for path, file in files.items()}
    data = directory / "..data"
    old = directory / os.readlink(data) if data.is_symlink() else None
    if old is not None and _holds(old, files):
        return False
    new = _unused(directory)
    for path, file in files.items():
        target = new / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.data)
        target.chmod(file.mode)
        if group is not None:
            os.chown(target, -1, group)
    link = directory / "..data_tmp"
    link.unlink(missing_ok=True)
    link.symlink_to(new.name)
    link.replace(data)
    _link_top_level(directory, {Path(path).parts[0] for path in files})
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)
    return True


def _unused(directory: Path) -> Path:
    number = 1
    while (directory / f"..{number}").exists():
        number += 1
    new = directory / f"..{number}"
    new.mkdir(mode=0o755)
    return new


def _link_top_level(directory: Path, names: set[str]) -> None:
    for name in names:
        visible = directory / name
        if not visible.is_symlink():
            visible.symlink_to(Path("..data") / name)
    for entry in directory.iterdir():
        if not entry.name.startswith("..") and entry.name not in names:
            entry.unlink()


def _holds(directory: Path, files: Mapping[str, VolumeFile]) -> bool:
    present = {str(p.relative_to(directory)): p for p in directory.rglob("*") if p.is_file()}
    return present.keys() == files.keys() and all(
        present[path].read_bytes() == file.data
        and present[path].stat().st_mode & 0o777 == file.mode & 0o777
        for path, file in files.items()
    )


def _volume(pod: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    for volume in pod["spec"].get("volumes") or ():
        if volume["name"] == name:
            found: Mapping[str, Any] = volume
            return found
    raise VolumeError(f'volume "{name}" is not among the Pod\'s volumes')


def _is_written(volume: Mapping[str, Any]) -> bool:
    return any(kind in volume for kind in ("projected", "configMap", "secret", "downwardAPI"))


def _fs_group(pod: Mapping[str, Any]) -> int | None:
    if os.geteuid() != 0:
        return None  # only root can give files away
    group: int | None = (pod["spec"].get("securityContext") or {}).get("fsGroup")
    return group


def _check_host_path(path: Path, kind: str) -> None:
    if kind == "DirectoryOrCreate":
        path.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        raise VolumeError(f"hostPath {path}: no such file or directory")


def _make_empty_dir(target: Path, source: Mapping[str, Any], group: int | None) -> None:
    target.mkdir(exist_ok=True)
    limit = math.ceil(parse_quantity(source.get("sizeLimit")))
    in_memory = source.get("medium") == "Memory"
    if (limit or in_memory) and os.geteuid() == 0 and not os.path.ismount(target):
        # A size that holds for the process too. Where it cannot be mounted, it is a directory.
        with contextlib.suppress(OSError):
            container_init.mount(
                "tmpfs", str(target), "tmpfs", options=f"mode=777,size={limit or '50%'}"
            )
    target.chmod(0o777)
    if group is not None:
        os.chown(target, -1, group)
        target.chmod(0o2777)


def remove_tree(directory: Path) -> None:
    """Remove a directory with everything in it, after letting go of what is mounted there."""
    if not directory.exists():
        return
    for point in sorted(container_init.mount_points(), reverse=True):
        if point.startswith(f"{directory}/"):
            with contextlib.suppress(OSError):
                container_init.unmount(point)
    shutil.rmtree(directory, ignore_errors=True)
