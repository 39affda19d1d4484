"""Runs other programs, and says which Debian packages have those that are missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from hack.clusters.errors import ClusterError
from hack.go_programs import ROOT

_PACKAGES: Final = {
    "/usr/include/seccomp.h": "libseccomp-dev",
    "/usr/include/stdlib.h": "libc6-dev",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "bash": "bash",
    "buildah": "buildah",
    "debootstrap": "debootstrap",
    "gcc": "gcc",
    "ip": "iproute2",
    "nft": "nftables",
    "nsenter": "util-linux",
    "pkg-config": "pkg-config",
    "unshare": "util-linux",
}
_TAIL_BYTES = 4_000


def need(*files: str) -> None:
    """Make sure that programs and files are there; as root on Debian, install those that are not.

    Args:
        files: names of programs, and paths.

    Raises:
        ClusterError: they are missing and cannot be installed.
    """
    packages = sorted({_PACKAGES[file] for file in files if not _is_there(file)})
    if not packages:
        return
    command = ["apt-get", "install", "--yes", "--no-install-recommends", *packages]
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise ClusterError(f"missing: {', '.join(packages)}; as root: {' '.join(command)}")
    print(f"installing {', '.join(packages)}", file=sys.stderr)
    output("apt-get", "update")
    output(*command)


def _is_there(file: str) -> bool:
    return Path(file).exists() if file.startswith("/") else shutil.which(file) is not None


def output(*command: str, shows_errors: bool = False) -> str:
    """Run a program at the root of the checkout; return what it prints, less the last newline.

    Args:
        command: the program and its arguments.
        shows_errors: whether its standard error is shown as it comes: it takes minutes.

    Raises:
        ClusterError: it failed; shows the end of what it said.
    """
    ran = subprocess.run(
        command,
        check=False,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=None if shows_errors else subprocess.PIPE,
        text=True,
    )
    if ran.returncode:
        said = ((ran.stderr or "").strip() or ran.stdout.strip())[-_TAIL_BYTES:]
        raise ClusterError(f"{' '.join(command)}: exit code {ran.returncode}: {said}")
    return ran.stdout.removesuffix("\n")
