"""A tree of control groups that holds every process of a cluster."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")
_KILL_SECONDS = 20.0
_INTERVAL_SECONDS = 0.05


class ControlGroups:
    """The groups of one name: a single one with cgroup v2, with v1 one in each hierarchy.

    Args:
        name: of the topmost group.
        mount: where the hierarchies are mounted.
    """

    def __init__(self, name: str, mount: Path = MOUNT) -> None:
        self._name = name
        self._mount = mount

    def create(self) -> Path:
        """Make the tree, and return the `cgroup.procs` of the group for what is no Pod."""
        for top in self._tops:
            top.mkdir(exist_ok=True)
            for file in ("cpuset.cpus", "cpuset.mems"):  # v1 takes no process before
                if (top / file).exists() and not (top / file).read_text().strip():
                    (top / file).write_text((top.parent / file).read_text())
        self._leaf.mkdir(exist_ok=True)
        return self._leaf / "cgroup.procs"

    @property
    def exists(self) -> bool:
        """Whether anything of the tree is there."""
        return any(top.is_dir() for top in self._tops)

    def processes(self) -> list[int]:
        """Return the processes in the tree."""
        return [pid for top in self._tops for pid in _processes(top)]

    def processes_outside_pods(self) -> list[int]:
        """Return the processes that are no Pod's."""
        return [*_processes(self._leaf)]

    def remove(self) -> None:
        """Kill every process in the tree and remove it.

        Raises:
            TimeoutError: something does not end.
        """
        deadline = time.monotonic() + _KILL_SECONDS
        while processes := self.processes():
            for pid in processes:
                _kill(pid)
            _wait(deadline, f"processes {processes} do not end")
        while left := [group for top in self._tops for group in _groups(top)]:
            for group in left:
                try:
                    group.rmdir()
                except FileNotFoundError:
                    pass
                except OSError:  # its last process is not quite gone
                    break
            _wait(deadline, f"control group {left[0]} is in use")

    @property
    def _is_v2(self) -> bool:
        return (self._mount / "cgroup.controllers").exists()

    @property
    def _tops(self) -> list[Path]:
        if self._is_v2:
            return [self._mount / self._name]
        hierarchies = (path.parent for path in self._mount.glob("*/cgroup.procs"))
        return [hierarchy / self._name for hierarchy in hierarchies]

    @property
    def _leaf(self) -> Path:
        return (self._mount if self._is_v2 else self._mount / "pids") / self._name / "node"


def _groups(top: Path) -> Iterator[Path]:
    """Yield the groups of a tree, children first."""
    for directory, _, _ in os.walk(top, topdown=False):
        yield Path(directory)


def _processes(top: Path) -> Iterator[int]:
    for group in _groups(top):
        try:
            text = (group / "cgroup.procs").read_text()
        except OSError:  # removed meanwhile
            continue
        yield from (int(pid) for pid in text.split() if pid != "0")  # 0: not of our namespace


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _wait(deadline: float, problem: str) -> None:
    if time.monotonic() > deadline:
        raise TimeoutError(problem)
    time.sleep(_INTERVAL_SECONDS)
