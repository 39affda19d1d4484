"""A server that runs as a process of its own for as long as a test needs it."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

_INTERVAL_SECONDS = 0.05
_TAIL_BYTES = 2_000


class ServerProcessError(Exception):
    """A server ended, or did not become ready; shows the end of its log."""


class ServerProcess:
    """Starts a server, waits until it is ready, and stops it; again as often as wanted.

    Everything that it prints goes to a file. Where the system can, it dies with the process that
    started it, however that ends.

    Args:
        name: for errors, and of the log file.
        command: the program and its arguments.
        log_directory: where the log file is.
        is_ready: looks whether the server can be used.
        ready_seconds: how long that may take.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        log_directory: Path,
        is_ready: Callable[[], Awaitable[bool]] | None = None,
        ready_seconds: float = 60.0,
    ) -> None:
        self.name = name
        self.log = log_directory / f"{name}.log"
        self._command = [str(part) for part in command]
        self._is_ready = is_ready
        self._ready_seconds = ready_seconds
        self._process: Process | None = None

    @property
    def pid(self) -> int:
        """Of the running process."""
        if self._process is None:
            raise RuntimeError(f"{self.name} is not running")
        return self._process.pid

    async def start(self) -> None:
        """Start it and wait until it is ready.

        Raises:
            ServerProcessError: it ended, or was not ready in time.
        """
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *_dies_with_us(),
                *self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={},
                start_new_session=True,
            )
        try:
            await self._wait_ready(self._process)
        except BaseException:
            await self.kill()
            raise

    async def stop(self, *, grace_seconds: float = 10.0) -> None:
        """Ask it to end, and kill it when it does not within the grace period."""
        if self._process is None:
            return
        if self._process.returncode is None:
            self._process.terminate()
        try:
            async with asyncio.timeout(grace_seconds):
                await self._process.wait()
        except TimeoutError:
            pass
        await self.kill()

    async def kill(self) -> None:
        """End it at once."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            process.kill()
        await process.wait()

    def log_tail(self) -> str:
        """Return the end of what it printed."""
        return self.log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace")

    async def _wait_ready(self, process: Process) -> None:
        try:
            async with asyncio.timeout(self._ready_seconds):
                while self._is_ready is not None and not await self._is_ready():
                    if process.returncode is not None:
                        raise ServerProcessError(
                            f"{self.name} ended with code {process.returncode}: {self.log_tail()}"
                        )
                    await asyncio.sleep(_INTERVAL_SECONDS)
        except TimeoutError:
            raise ServerProcessError(
                f"{self.name} was not ready within {self._ready_seconds:g} s: {self.log_tail()}"
            ) from None


def _dies_with_us() -> list[str]:
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []
