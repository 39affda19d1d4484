"""Starts a container's processes through `container_init` and waits for their end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path

from dynamo_operator.local_cluster import container_init
from dynamo_operator.local_cluster.logs import LogFile
from informers.clock import Clock

CONTAINER_VARIABLE = (
    "NODE_AGENT_CONTAINER"  # by it processes are known where no namespace holds them
)

_INIT_PROGRAM = container_init.__file__
_KILL_PATIENCE_SECONDS = 10.0
_DRAIN_SECONDS = 5.0
_CHUNK = 64 * 1024


class Isolation(StrEnum):
    """How far a container's processes are kept apart from the machine's."""

    PRIVILEGED = "privileged"  # own mount and PID namespace, any user; needs root
    USER_NAMESPACE = "user_namespace"  # the same inside a user namespace: one user, shown as any
    NONE = "none"  # plain processes; mount paths are rewritten


@dataclass(frozen=True, slots=True)
class Mount:
    """A host file or directory shown inside the container.

    Args:
        source: on the host.
        target: in the container.
        read_only: whether the container may only read it.
        is_scratch: whether it begins empty and goes with the Pod, so that mount points may be made
            in it: what the image reads below `target` stays in sight.
    """

    source: str
    target: str
    read_only: bool = False
    is_scratch: bool = False


@dataclass(frozen=True, slots=True)
class RootView:
    """What a container sees of the machine's file system.

    Args:
        scratch: a directory to build it on.
        hidden: directories shown empty, but for what `readable` names in them.
        readable: paths shown wherever they are, unless a mount that is not scratch covers them.
        read_only: whether everything but the mounts is read-only.
        mounts: the volumes.
    """

    scratch: str
    hidden: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    read_only: bool = False
    mounts: tuple[Mount, ...] = ()


@dataclass(frozen=True, slots=True)
class Launch:
    """Everything a container's processes are started from."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    isolation: Isolation
    root: RootView
    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    directory: str = "/"
    hostname: str = ""
    no_new_privileges: bool = True
    drop_all_capabilities: bool = False
    enter: int = 0  # the init of a running container, to run one more command inside it

    def to_json(self) -> bytes:
        """The specification that `container_init` reads."""
        return json.dumps({**asdict(self), "agent_pid": os.getpid()}).encode()


class StartError(Exception):
    """The container's command could not be started; the text says why."""


class ContainerProcess:
    """A running container."""

    def __init__(self, process: asyncio.subprocess.Process, init_pid: int) -> None:
        self._process = process
        self.init_pid = init_pid

    @property
    def has_ended(self) -> bool:
        """Whether the command's end was seen."""
        return self._process.returncode is not None

    def terminate(self) -> None:
        """Send SIGTERM to the command."""
        self._signal(container_init.STOP_SIGNAL)

    def kill(self) -> None:
        """Kill every process of the container."""
        self._signal(container_init.KILL_SIGNAL)

    async def wait(self) -> int:
        """Wait for the command's exit status."""
        return await self._process.wait()

    async def stop(self, grace_seconds: float) -> None:
        """Terminate, and kill after the grace period; returns once nothing is left."""
        if grace_seconds > 0:
            self.terminate()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.wait(), grace_seconds)
                return
        self.kill()
        try:
            await asyncio.wait_for(self.wait(), _KILL_PATIENCE_SECONDS)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self.wait()

    def _signal(self, number: int) -> None:
        if not self.has_ended:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)


async def run_container(
    launch: Launch, log: LogFile, started: Callable[[ContainerProcess], None]
) -> int:
    """Run a container to its end and return its exit status (128 + n when a signal ended it).

    Cancelling kills it. The log is complete, and closed, when this returns.

    Args:
        launch: what to run.
        log: where its output goes.
        started: told once the command runs.

    Raises:
        StartError: the command could not be started.
    """
    try:
        process, init_pid = await _spawn(launch)
        container = ContainerProcess(process, init_pid)
        try:
            started(container)
            async with asyncio.TaskGroup() as tasks:
                pumps = [
                    tasks.create_task(_pump(reader, stream, log))
                    for reader, stream in ((process.stdout, "stdout"), (process.stderr, "stderr"))
                    if reader is not None
                ]
                status = await container.wait()
                # Without a PID namespace a process that left the container may hold the pipes.
                await asyncio.wait(pumps, timeout=_DRAIN_SECONDS)
                for pump in pumps:
                    pump.cancel()
            return status
        finally:
            if not container.has_ended:
                await container.stop(0)
    finally:
        log.close()


async def run_inside(
    container: ContainerProcess, launch: Launch, command: Sequence[str], timeout: float
) -> int | None:
    """Run one more command inside a container; returns its status, None when time ran out."""
    inside = replace(launch, command=tuple(command), enter=container.init_pid)
    try:
        process, _ = await _spawn(inside, output=asyncio.subprocess.DEVNULL)
    except StartError:
        return 126
    other = ContainerProcess(process, 0)
    try:
        return await asyncio.wait_for(other.wait(), timeout)
    except TimeoutError:
        return None
    finally:
        await other.stop(0)


async def _spawn(
    launch: Launch, *, output: int = asyncio.subprocess.PIPE
) -> tuple[asyncio.subprocess.Process, int]:
    read_fd, write_fd = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-S",
            _INIT_PROGRAM,
            str(write_fd),
            stdin=asyncio.subprocess.PIPE,
            stdout=output,
            stderr=output,
            pass_fds=(write_fd,),
            env={"PATH": os.defpath},
            cwd="/",
            start_new_session=True,
        )
    except BaseException:
        os.close(read_fd)
        raise
    finally:
        os.close(write_fd)
    try:
        assert process.stdin is not None  # asked for above
        with contextlib.suppress(ConnectionError):  # it may have ended before reading all
            process.stdin.write(launch.to_json())
            await process.stdin.drain()
        process.stdin.close()
        report = await _read_to_end(read_fd)
    except BaseException:
        process.kill()
        await process.wait()
        raise
    init_pid, error = _parse_report(report)
    if error or (not report and not launch.enter):
        await process.wait()
        raise StartError(error or "the container's first process ended before it could start")
    return process, init_pid


async def _read_to_end(fd: int) -> bytes:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(fd, "rb")
    )
    try:
        return await reader.read()
    finally:
        transport.close()


def _parse_report(report: bytes) -> tuple[int, str]:
    init_pid, error = 0, ""
    for line in report.splitlines():
        message = json.loads(line)
        init_pid = message.get("pid", init_pid)
        error = message.get("error", error)
    return init_pid, error


async def _pump(reader: asyncio.StreamReader, stream: str, log: LogFile) -> None:
    while data := await reader.read(_CHUNK):
        log.write(stream, data)


def end_leftovers(directory: Path) -> int:
    """Kill what containers below `directory` left running; returns how many processes.

    They are known by CONTAINER_VARIABLE in their environment, which plain processes are given.
    """
    mark = f"{CONTAINER_VARIABLE}={directory}/".encode()
    killed = 0
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and _has_variable(entry, mark):
                os.kill(int(entry.name), container_init.KILL_NOW)
                killed += 1
    return killed


def _has_variable(process: Path, mark: bytes) -> bool:
    variables = (process / "environ").read_bytes().split(b"\0")
    return any(variable.startswith(mark) for variable in variables)


async def probe_isolation(directory: Path, clock: Clock) -> Isolation:
    """Find the strongest isolation that works here, by trying.

    Args:
        directory: an existing directory to try it on.
        clock: times the trial's log.
    """
    candidates = (Isolation.PRIVILEGED,) if os.geteuid() == 0 else (Isolation.USER_NAMESPACE,)
    for isolation in candidates:
        launch = Launch(
            command=("/bin/sh", "-c", "exit 0"),
            environment={"PATH": os.defpath},
            isolation=isolation,
            root=RootView(scratch=str(directory / "probe")),
            uid=os.geteuid(),
            gid=os.getegid(),
        )
        log = LogFile(directory / "probe.log", clock)
        with contextlib.suppress(StartError, OSError):
            if await run_container(launch, log, lambda _: None) == 0:
                return isolation
    return Isolation.NONE
