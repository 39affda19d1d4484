"""A cluster that this machine runs by itself: from outside, where it is used."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hack.clusters import places
from hack.clusters.buildah import Buildah
from hack.clusters.control_groups import ControlGroups
from hack.clusters.errors import ClusterError
from hack.clusters.node_configuration import SANDBOX_IMAGE
from hack.clusters.programs import need, output
from hack.go_programs import ROOT, cache_directory

_READY_SECONDS = 300.0
_INTERVAL_SECONDS = 0.2
_TAIL_BYTES = 4_000
_NEEDED = (
    *("bash", "buildah", "gcc", "ip", "nft", "nsenter", "pkg-config", "unshare"),
    *("/usr/include/seccomp.h", "/usr/include/stdlib.h", "/usr/lib/cni/bridge"),
)
_PAUSE = Path(__file__).with_name("pause.containerfile")
# The first process of a process namespace has to take in the children that others leave.
_FIRST_PROCESS = ("bash", "-c", '"$@" & wait $!', "bash")
_NAMESPACES = ("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")


class OwnCluster:
    """Needs root, Linux and, to build its programs once, Go."""

    def __init__(self) -> None:
        self._state = places.state()
        self._groups = ControlGroups(places.NAME)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def kubeconfig(self) -> Path:
        """For its administrator."""
        return self._state / "kubeconfig"

    def up(self) -> None:
        """Start it, unless it is there.

        Raises:
            ClusterError: it cannot be started; nothing is left of it.
        """
        with self._locked():
            if self.kubeconfig.exists() and self._groups.processes():
                return
            self._remove()
            need(*_NEEDED)
            directories = [*map(_built, ("control_plane", "node", "container_runtime"))]
            self._state.mkdir(parents=True, mode=0o700)
            self._make_pause_image(Path(directories[-1]))
            try:
                self._start(directories)
            except BaseException:
                self._remove()
                raise

    def load(self, archive: Path) -> None:
        """Give it an image of an OCI archive.

        Raises:
            ClusterError: it does not run, or does not take the image.
        """
        runtime = _built("container_runtime")
        inside = ("nsenter", f"--target={self._inside()}", "--mount", "--pid", "--net")
        output(
            *inside,
            *(f"{runtime}/ctr", "--namespace=k8s.io", "images", "import", "--local"),
            *("--snapshotter", self._snapshotter, str(archive.resolve())),
        )

    def down(self) -> None:
        """Remove it and everything of it, also of one that was killed.

        Raises:
            ClusterError: something of it stays.
        """
        with self._locked():
            self._remove()

    @property
    def _snapshotter(self) -> str:
        return (self._state / "node" / "snapshotter").read_text()

    def _start(self, directories: list[str]) -> None:
        log = self._state / "node.log"
        with log.open("wb") as file, Path("/proc/self/ns/net").open("rb") as namespace:
            descriptor = namespace.fileno()
            program = [sys.executable, "-m", "hack.clusters.node", str(self._state)]
            program += [*directories, str(descriptor)]
            # In its group before it does anything, so that `down` finds whatever it starts.
            entering = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self._groups.create())]
            process = self._process = subprocess.Popen(
                [*entering, *_NAMESPACES, *_FIRST_PROCESS, *program],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                pass_fds=[descriptor],
                start_new_session=True,
            )
        deadline = time.monotonic() + _READY_SECONDS
        while not self.kubeconfig.exists():
            ended = process.poll() is not None
            if ended or time.monotonic() > deadline:
                tail = log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace").strip()
                what = "ended" if ended else f"was not ready within {_READY_SECONDS:g} s"
                raise ClusterError(f"the node {what}:\n{tail}")
            time.sleep(_INTERVAL_SECONDS)

    def _make_pause_image(self, programs: Path) -> None:
        """Make the image of the container that holds each Pod's namespaces."""
        context = self._state / "pause"
        context.mkdir()
        shutil.copy2(programs / "pause", context)
        buildah = Buildah(cache_directory("images") / "store")
        buildah.make(context, _PAUSE, name=SANDBOX_IMAGE)
        buildah.save(SANDBOX_IMAGE, self._state / "pause.tar")

    def _inside(self) -> int:
        """Return a process in the cluster's namespaces, and not in a Pod's."""
        ours = os.readlink("/proc/self/ns/mnt")
        for pid in self._groups.processes_outside_pods():
            try:
                if os.readlink(f"/proc/{pid}/ns/mnt") != ours:
                    return pid
            except OSError:
                continue
        raise ClusterError("no cluster is running; run hack/cluster up")

    def _remove(self) -> None:
        try:
            self._groups.remove()
        except TimeoutError as error:
            raise ClusterError(str(error)) from None
        if self._process is not None:
            self._process.wait()
        # The kernel takes it away, too, but keeps a network for as long as its last connections
        # try to say goodbye.
        subprocess.run(["ip", "link", "delete", places.HOST_LINK], check=False, capture_output=True)
        if Path("/sys/class/net", places.HOST_LINK).exists():
            raise ClusterError(f"network link {places.HOST_LINK} cannot be deleted")
        if self._state.exists():
            shutil.rmtree(self._state)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep another `up` or `down` waiting."""
        self._state.parent.mkdir(parents=True, exist_ok=True)
        with self._state.with_name(".cluster.lock").open("w", encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _built(part: str) -> str:
    """Return the directory of programs, which are built the first time."""
    return output("hack/control_plane/build", part, shows_errors=True)
