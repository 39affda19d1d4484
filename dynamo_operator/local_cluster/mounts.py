"""From a Pod's container to what its processes are started from: user, mounts, words, variables."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dynamo_operator.local_cluster.container_environment import ContainerConfigError, expand
from dynamo_operator.local_cluster.container_process import (
    CONTAINER_VARIABLE,
    Isolation,
    Launch,
    Mount,
    RootView,
)
from dynamo_operator.local_cluster.images import ImageEnvironment
from dynamo_operator.local_cluster.volumes import PodVolumes

_POD_IP = "127.0.0.1"
_DEFAULT_TERMINATION_LOG = "/dev/termination-log"


class UntruePathError(ContainerConfigError):
    """A file tells a container of a mount path, and mount paths are not true on this machine."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What containers are kept apart from.

    Args:
        isolation: how.
        state_directory: the agent's own; no container sees it.
    """

    isolation: Isolation
    state_directory: Path

    def hidden(self, readable: Iterable[str], uid: int) -> tuple[str, ...]:
        """Directories that a container must see empty.

        The agent's state, its user's home, and whatever bars the container's user from a path that
        its environment needs (an interpreter below a home of mode 700).
        """
        home = pwd.getpwuid(os.geteuid()).pw_dir if _has_account() else ""
        hidden = {str(self.state_directory)}
        if len(Path(home).parts) > 1 and Path(home).is_dir():
            hidden.add(str(Path(home).resolve()))
        if uid != os.geteuid():
            for path in readable:
                hidden.update(_barred_parents(Path(path)))
        outermost = [h for h in hidden if not any(h.startswith(f"{o}/") for o in hidden)]
        return tuple(sorted(outermost))


def _has_account() -> bool:
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return True


def _barred_parents(path: Path) -> list[str]:
    barred = (p for p in path.parents if p.exists() and not p.stat().st_mode & 0o001)
    return [str(p) for p in barred]


def plan_launch(
    pod: Mapping[str, Any],
    container: Mapping[str, Any],
    *,
    image: ImageEnvironment,
    variables: Mapping[str, str],
    volumes: PodVolumes,
    directory: Path,
    machine: Machine,
) -> Launch:
    """Decide how a container is started.

    Args:
        pod: the Pod.
        container: one of its containers.
        image: what plays the container's image.
        variables: the container's environment.
        volumes: the Pod's volumes, set up.
        directory: the container's own directory on the host.
        machine: what it is kept apart from.

    Raises:
        ContainerConfigError: the container's settings contradict each other.
        UntruePathError: without namespaces, a mounted file names a mount path.
        VolumeError: a mount names no volume.
    """
    context = _security_context(pod, container)
    uid, gid, groups = _identity(pod, context, image)
    mounts = _mounts(pod, container, variables, volumes, directory)
    if machine.isolation is not Isolation.NONE:
        mounts = (_hosts_file(pod, directory), *mounts)
    try:
        words = image.command_line(
            [expand(word, variables) for word in container.get("command") or ()],
            [expand(word, variables) for word in container.get("args") or ()],
        )
    except ValueError as error:
        raise ContainerConfigError(str(error)) from error
    working_directory = container.get("workingDir") or image.working_directory
    environment = dict(variables)
    if machine.isolation is Isolation.NONE:
        rewrite = PathRewriter(mounts)
        _check_files(pod, container, mounts, volumes, rewrite)
        words = tuple(rewrite(word) for word in words)
        environment = {name: rewrite(value) for name, value in environment.items()}
        working_directory = rewrite(working_directory)
        environment[CONTAINER_VARIABLE] = str(directory)
    capabilities = context.get("capabilities") or {}
    return Launch(
        command=words,
        environment=environment,
        isolation=machine.isolation,
        root=RootView(
            scratch=str(directory / "root"),
            hidden=machine.hidden(image.readable, uid),
            readable=image.readable,
            read_only=bool(context.get("readOnlyRootFilesystem")),
            mounts=mounts,
        ),
        uid=uid,
        gid=gid,
        groups=groups,
        directory=working_directory,
        hostname=pod["spec"].get("hostname") or pod["metadata"]["name"],
        no_new_privileges=context.get("allowPrivilegeEscalation") is False or uid != 0,
        drop_all_capabilities="ALL" in (capabilities.get("drop") or ()),
    )


def _security_context(pod: Mapping[str, Any], container: Mapping[str, Any]) -> dict[str, Any]:
    """The container's security context over the Pod's."""
    return {
        **(pod["spec"].get("securityContext") or {}),
        **(container.get("securityContext") or {}),
    }


def _identity(
    pod: Mapping[str, Any], context: Mapping[str, Any], image: ImageEnvironment
) -> tuple[int, int, tuple[int, ...]]:
    own = os.geteuid()
    uid = context.get("runAsUser", image.user if image.user is not None else own)
    if context.get("runAsNonRoot") and uid == 0:
        raise ContainerConfigError("container has runAsNonRoot and image will run as root")
    gid = context.get("runAsGroup", 0 if own == 0 else os.getegid())
    pod_context = pod["spec"].get("securityContext") or {}
    groups = [*(pod_context.get("supplementalGroups") or ())]
    if "fsGroup" in pod_context:
        groups.append(pod_context["fsGroup"])
    return uid, gid, tuple(dict.fromkeys(groups))


def _mounts(
    pod: Mapping[str, Any],
    container: Mapping[str, Any],
    variables: Mapping[str, str],
    volumes: PodVolumes,
    directory: Path,
) -> tuple[Mount, ...]:
    mounts = [
        Mount(
            str(termination_log(directory)),
            container.get("terminationMessagePath") or _DEFAULT_TERMINATION_LOG,
        )
    ]
    for entry in container.get("volumeMounts") or ():
        source = volumes.path(pod, entry["name"])
        inner = entry.get("subPath") or expand(entry.get("subPathExpr", ""), variables)
        if inner:
            source = _sub_path(source, inner)
        read_only = bool(entry.get("readOnly")) or volumes.is_read_only(pod, entry["name"])
        target = entry["mountPath"].rstrip("/")
        is_scratch = volumes.is_scratch(pod, entry["name"])
        mounts.append(Mount(str(source), target, read_only, is_scratch))
    return tuple(sorted(mounts, key=lambda mount: mount.target.count("/")))


def _hosts_file(pod: Mapping[str, Any], directory: Path) -> Mount:
    """Make the container's /etc/hosts: the machine's, and the Pod's own names."""
    lines = [Path("/etc/hosts").read_text(encoding="utf-8").rstrip("\n")]
    lines.append(f"{_POD_IP}\t{pod['spec'].get('hostname') or pod['metadata']['name']}")
    lines += [
        f"{alias['ip']}\t{' '.join(alias.get('hostnames') or ())}"
        for alias in pod["spec"].get("hostAliases") or ()
    ]
    path = directory / "hosts"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    path.chmod(0o644)
    return Mount(str(path), "/etc/hosts")


def _sub_path(source: Path, inner: str) -> Path:
    if inner.startswith("/") or ".." in Path(inner).parts:
        raise ContainerConfigError(f"subPath {inner!r} must stay inside the volume")
    path = source / inner
    if not path.resolve().is_relative_to(source.resolve()):
        raise ContainerConfigError(f"subPath {inner!r} leads out of the volume")
    if not path.exists():
        path.mkdir(parents=True)
        path.chmod(source.stat().st_mode & 0o7777)
    return path.resolve()


def _check_files(
    pod: Mapping[str, Any],
    container: Mapping[str, Any],
    mounts: Sequence[Mount],
    volumes: PodVolumes,
    rewrite: PathRewriter,
) -> None:
    """Refuse files of ConfigMaps and their like that name a mount path: they cannot be rewritten.

    They are shared by containers that mount the same volumes elsewhere.
    """
    written = {
        entry["mountPath"].rstrip("/")
        for entry in container.get("volumeMounts") or ()
        if volumes.is_written(pod, entry["name"])
    }
    for mount in mounts:
        if mount.target not in written:
            continue
        for name, path in _visible_files(Path(mount.source)):
            if named := rewrite.first_named(path.read_text(encoding="utf-8", errors="replace")):
                raise UntruePathError(
                    f"container {container['name']}: file {mount.target}{name} names the mount path"
                    f" {named}, which exists only in a mount namespace; this node has none: that"
                    " takes root or unprivileged user namespaces"
                )


def _visible_files(source: Path) -> Iterator[tuple[str, Path]]:
    """What lies in a written volume or at a path in it, by the name after the mount path."""
    data = source / "..data"
    root = data.resolve() if data.exists() else source
    if root.is_file():
        yield "", root
    for path in sorted(root.rglob("*")):
        if path.is_file():
            yield f"/{path.relative_to(root)}", path


def termination_log(directory: Path) -> Path:
    """The file behind a container's terminationMessagePath."""
    return directory / "termination-log"


class PathRewriter:
    """Replaces mount paths by host paths in texts, where they cannot be mounted."""

    def __init__(self, mounts: Sequence[Mount]) -> None:
        self._sources = {mount.target: mount.source for mount in mounts}
        targets = sorted(map(re.escape, self._sources), key=len, reverse=True)
        # A path begins after anything that no path contains, and ends where a name ends.
        self._pattern = re.compile(rf"(?<![\w./-])({'|'.join(targets)})(?![\w.-])")

    def first_named(self, text: str) -> str:
        """Return the first mount path in the text; empty for none."""
        found = self._pattern.search(text)
        return found[1] if found else ""

    def __call__(self, text: str) -> str:
        """Return the text with every mount path replaced."""
        return self._pattern.sub(lambda match: self._sources[match[1]], text)
