"""What a built image has to hold, looked at in its files and by running it."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from hack.clusters.buildah import Buildah
from hack.clusters.errors import ClusterError

# Its own processes and mounts, a root that cannot be written, nothing else but /dev and /proc.
_READ_ONLY = """
set -e
mount --rbind "$1" "$1"
mount --bind /dev "$1/dev"
mount -t proc proc "$1/proc"
mount -o remount,bind,ro "$1"
cd "$1"
shift
exec setpriv --no-new-privs --inh-caps=-all env -i "$@"
"""
_APART = ("unshare", "--mount", "--pid", "--fork", "sh", "-c")
_CHROOT = "/usr/sbin/chroot"  # PATH is the image's by then
_RUN_SECONDS = 60


def check_user(buildah: Buildah, name: str, user: str) -> None:
    """Require that its processes are of a certain user."""
    found = buildah.inspect(name)["config"].get("User")
    if found != user:
        raise ClusterError(f"{name}: its user is {found}, not {user}")


def check_size(buildah: Buildah, name: str, base: str, megabytes: int) -> int:
    """Require that its layers beyond the base's are small; returns their bytes."""
    with buildah.mounted(name) as whole, buildah.mounted(base) as below:
        size = _size(whole) - _size(below)
    if size > megabytes * 1_000_000:
        raise ClusterError(
            f"{name}: its own layers have {size:,} bytes; {megabytes} MB are allowed"
        )
    return size


def check_command(buildah: Buildah, name: str, command: Sequence[str]) -> str:
    """Require that a command works with a read-only root; returns what it prints."""
    configuration = buildah.inspect(name)["config"]
    changing = (_CHROOT, "--userspec", configuration["User"], "--groups", "", ".")
    with buildah.mounted(name) as root:
        ran = subprocess.run(
            [*_APART, _READ_ONLY, "sh", str(root), *configuration["Env"], *changing, *command],
            check=False,
            capture_output=True,
            text=True,
            timeout=_RUN_SECONDS,
        )
    if ran.returncode:
        said = (ran.stderr.strip() or ran.stdout.strip())[-2_000:]
        raise ClusterError(f"{name}: {' '.join(command)}: exit code {ran.returncode}: {said}")
    return ran.stdout


def _size(directory: Path) -> int:
    return sum(path.lstat().st_size for path in directory.rglob("*"))
