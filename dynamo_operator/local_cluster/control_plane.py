"""What a local cluster needs of its control plane."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self, Unpack

from dynamo_operator.apiserver.audit import AuditEntry, Which
from dynamo_operator.certificates import Certificate

HOST: Final = "127.0.0.1"
MASTERS: Final = ("system:masters",)


class PortInUseError(OSError):
    """Another program listens on the port that the API server was to have."""

    def __init__(self, port: int) -> None:
        super().__init__(f"port {port} of {HOST} is in use; name another")


class Audit(Protocol):
    """Every request that was answered."""

    @property
    def entries(self) -> list[AuditEntry]:
        """Every request so far."""

    def writes(self, **which: Unpack[Which]) -> list[AuditEntry]:
        """Return the writes of that kind, whether they succeeded or not."""

    def created(self, resource: str, **which: Unpack[Which]) -> list[AuditEntry]:
        """Return the writes that made a new object of a resource, e.g. `created("jobs")`."""


class ControlPlane(Protocol):
    """An API server and the controllers of a cluster, on this machine; `async with` runs it.

    The controllers start with `start_controllers`: those of a real cluster learn of kinds that come
    later only after a while.
    """

    async def __aenter__(self) -> Self:
        """Start the API server."""

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop everything."""

    @property
    def url(self) -> str:
        """Where the API server listens."""

    @property
    def ca_certificate(self) -> bytes:
        """The PEM certificate of the authority that the API server and its nodes believe."""

    @property
    def audit(self) -> Audit:
        """Every request so far."""

    def issue_certificate(
        self, common_name: str, *, organizations: Sequence[str] = (), hosts: Sequence[str] = ()
    ) -> Certificate:
        """Sign a certificate: for a server (a node's) when it names hosts, else for a user."""

    def write_kubeconfig(
        self, path: Path, *, user: str, groups: Sequence[str], namespace: str = "default"
    ) -> None:
        """Write a kubeconfig that only its owner can read."""

    async def start_controllers(self) -> None:
        """Start what makes Pods of Jobs, binds them to nodes, and clears up."""
