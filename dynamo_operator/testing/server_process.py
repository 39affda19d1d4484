"""A server that runs as a process of its own for as long as a test needs it."""

from __future__ import annotations

import asyncio
import signal  # noqa: TID251 # sends them to the server, handles none
import subprocess
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from dynamo_operator.child_processes import dying_with_this_process

_INTERVAL_SECONDS = 0.05
_TAIL_BYTES = 2_000


class ServerProcessError(OSError):
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
        environ: its environment; it inherits none.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        log_directory: Path,
        is_ready: Callable[[], Awaitable[bool]] | None = None,
        ready_seconds: float = 60.0,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log = log_directory / f"{name}.log"
        self._command = [str(part) for part in command]
        self._is_ready = is_ready
        self._ready_seconds = ready_seconds
        self._environ = dict(environ or {})
        self._process: Process | None = None

    @property
    def pid(self) -> int:
        """Of the running process."""
        return self._running.pid

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.returncode is None

    @property
    def _running(self) -> Process:
        if self._process is None:
            raise RuntimeError(f"{self.name} is not running")
        return self._process

    async def start(self) -> None:
        """Start it and wait until it is ready.

        Raises:
            ServerProcessError: it ended, or was not ready in time.
        """
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *dying_with_this_process(self._command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environ,
                start_new_session=True,
            )
        try:
            await self._wait_ready(self._process)
        except BaseException:
            await self.kill()
            raise

    async def stop(self, *, grace_seconds: float = 10.0) -> int | None:
        """Ask it to end, and kill it when it does not within the grace period.

        Returns:
            Its exit code, negative for a signal's number; None when it did not run.
        """
        if self._process is None:
            return None
        if self._process.returncode is None:
            self._process.terminate()
        try:
            async with asyncio.timeout(grace_seconds):
                await self._process.wait()
        except TimeoutError:
            pass
        return await self.kill()

    async def kill(self) -> int | None:
        """End it at once, also when it is paused; returns what `stop` does."""
        process, self._process = self._process, None
        if process is None:
            return None
        if process.returncode is None:
            process.kill()
        return await process.wait()

    async def wait(self) -> int:
        """Wait until it ends by itself, and return its exit code."""
        return await self._running.wait()

    def pause(self) -> None:
        """Have it do nothing, not even notice, until `resume`."""
        self._running.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Have it go on after `pause`."""
        self._running.send_signal(signal.SIGCONT)

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
