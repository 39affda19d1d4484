"""The operator as a process of its own, to be killed, paused and started again."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from dynamo_operator.generate.layout import IMAGE as OPERATOR_IMAGE
from dynamo_operator.runtime.client import TransportError
from dynamo_operator.runtime.client.transport import fetch_text
from dynamo_operator.testing.real_control_plane import free_ports
from dynamo_operator.testing.server_process import ServerProcess

HOST = "127.0.0.1"


class OperatorProcess(ServerProcess):
    """`dynamo-operator start`; it has started when its caches are filled.

    Args:
        kubeconfig: who it is, and to whom it speaks.
        log_directory: where its log is.
        namespaces: where it works; none for everywhere.
        flags: further ones.
        name: of the log file, to tell several apart.
    """

    def __init__(
        self,
        kubeconfig: Path,
        *,
        log_directory: Path,
        namespaces: Iterable[str] = (),
        flags: Iterable[str] = (),
        name: str = "operator",
    ) -> None:
        (port,) = free_ports(1)
        self._ready_url = f"http://{HOST}:{port}/readyz"
        watched = ",".join(namespaces)
        super().__init__(
            name,
            [
                sys.executable,
                "-m",
                "dynamo_operator.cli",
                "start",
                f"--kubeconfig={kubeconfig}",
                f"--operator-image={OPERATOR_IMAGE}",
                f"--server.health-probe.bind-address={HOST}",
                f"--server.health-probe.port={port}",
                *([f"--watch-namespaces={watched}"] if watched else []),
                *flags,
            ],
            log_directory=log_directory,
            is_ready=self.is_ready,
            ready_seconds=20.0,
        )

    async def is_ready(self) -> bool:
        """Whether it says that it is ready."""
        try:
            await fetch_text(self._ready_url, timeout_seconds=1.0)
        except TransportError:
            return False
        return True
