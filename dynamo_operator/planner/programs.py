"""Runs programs one after the other, until another thread ends that."""

from __future__ import annotations

import os
import signal  # noqa: TID251 # sends one to programs, handles none
import subprocess
import threading
from collections.abc import Mapping, Sequence

from dynamo_operator.child_processes import dying_with_this_process


class StoppedError(Exception):
    """Whoever runs the programs was told to stop."""


class Programs:
    """Runs programs and waits; `stop` ends what runs or waits, and whatever would come after it.

    A terminal's Ctrl-C does not reach them. Where the system can, each dies with the process that
    started it, however that ends.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._running: subprocess.Popen[str] | None = None

    def run(
        self, command: Sequence[str], environ: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end; the files that it makes can be read by everybody.

        Raises:
            StoppedError: it was stopped.
        """
        with self._lock:
            self._require_not_stopped()
            process = self._running = subprocess.Popen(
                dying_with_this_process(command),
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                umask=0o022,
                start_new_session=True,
            )
        try:
            with process:
                output, errors = process.communicate()
        except BaseException:
            self._kill()
            raise
        self._require_not_stopped()
        return subprocess.CompletedProcess(command, process.returncode, output, errors)

    def sleep(self, seconds: float) -> None:
        """Wait.

        Raises:
            StoppedError: it was stopped.
        """
        self._stopped.wait(seconds)
        self._require_not_stopped()

    def stop(self) -> None:
        """End what runs, and run nothing more."""
        self._stopped.set()
        with self._lock:
            self._kill()

    def _require_not_stopped(self) -> None:
        if self._stopped.is_set():
            raise StoppedError

    def _kill(self) -> None:
        if self._running is not None and self._running.poll() is None:
            os.killpg(self._running.pid, signal.SIGKILL)
