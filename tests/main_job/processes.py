"""The processes of a Pod's containers, as this machine has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dynamo_operator.runtime.builtin_kinds import Pod


@dataclass(frozen=True, slots=True)
class Process:
    """A process; its start time tells it from a later one of the same number."""

    pid: int
    started: int
    parent: int = field(compare=False)  # another one when the parent dies first

    @property
    def is_alive(self) -> bool:
        """Whether it still runs."""
        return _read(Path("/proc") / str(self.pid)) == self


class ContainerProcesses:
    """Processes seen at one moment."""

    def __init__(self, processes: Sequence[Process]) -> None:
        self.processes = list(processes)

    def alive(self) -> list[Process]:
        """Those that still run."""
        return [process for process in self.processes if process.is_alive]


def processes_of(pod: Pod, container: str) -> list[Process]:
    """A running container's first process and all its descendants; none when it does not run."""
    first = _first_pid(pod, container)
    return [] if first is None else family_of(first)


def family_of(first: int) -> list[Process]:
    """A process and all its descendants, as they are now."""
    table = [process for entry in Path("/proc").glob("[0-9]*") if (process := _read(entry))]
    family = {first}
    found = [process for process in table if process.pid == first]
    while children := [p for p in table if p.parent in family and p.pid not in family]:
        family |= {process.pid for process in children}
        found += children
    return found


def command_of(pod: Pod, container: str) -> Process:
    """The process that the container's command is."""
    first, command, *_ = processes_of(pod, container)
    assert command.parent == first.pid
    return command


def _first_pid(pod: Pod, container: str) -> int | None:
    for status in pod.status.get("containerStatuses") or ():
        if status["name"] == container and "running" in status["state"]:
            return int(status["containerID"].removeprefix("local://").partition("-")[0])
    return None


def _read(entry: Path) -> Process | None:
    try:
        text = (entry / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    if fields[0] in "ZX":
        return None
    return Process(int(entry.name), started=int(fields[19]), parent=int(fields[1]))
