"""Keeps a Pod's status at the API server equal to what is known here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from dynamo_operator.runtime.builtin_kinds import Pod
from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.errors import (
    ClientError,
    ConflictError,
    NotFoundError,
)
from informers.resource_versions import is_at_least

_RETRY_SECONDS = 1.0
_ATTEMPTS = 5

_log = structlog.get_logger(__name__)


class StatusWriter:
    """Writes a Pod's status when it changed, against the version that it was computed from.

    Args:
        pod: the Pod as first seen.
        compute: the status that a version of the Pod should have.
        client: writes it.
    """

    def __init__(self, pod: Pod, compute: Callable[[Pod], dict[str, Any]], client: Client) -> None:
        self._compute = compute
        self._client = client
        self._pod = pod
        self._dirty = asyncio.Event()
        self._clean = asyncio.Event()
        self._clean.set()
        self._written: dict[str, Any] | None = None
        self._gone = False

    def changed(self) -> None:
        """Ask for a write."""
        self._clean.clear()
        self._dirty.set()

    def observe(self, pod: Pod) -> None:
        """Take note of a version, unless an own write made a newer one."""
        if is_at_least(pod.resource_version, self._pod.resource_version):
            self._pod = pod

    async def flush(self) -> None:
        """Wait until the present status is written, or cannot be any more."""
        self.changed()
        await self._clean.wait()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            try:
                await self._write()
            except NotFoundError:
                self._gone = True
            except ClientError as error:
                _log.warning("pod status not written", pod=str(self._pod.key), error=str(error))
                self._dirty.set()
                await asyncio.sleep(_RETRY_SECONDS)
            if not self._dirty.is_set():
                self._clean.set()

    async def _write(self) -> None:
        for attempt in range(_ATTEMPTS):
            status = self._compute(self._pod)
            if self._gone or status == self._written:
                return
            try:
                self._pod = await self._patch(self._pod, status)
            except ConflictError:
                if attempt == _ATTEMPTS - 1:
                    raise
                await self._read_again()
            else:
                self._written = status
                return

    async def _read_again(self) -> None:
        current = await self._client.get(Pod, self._pod.key)
        if current.uid == self._pod.uid:
            self._pod = current
        else:
            self._gone = True

    async def _patch(self, pod: Pod, status: Mapping[str, Any]) -> Pod:
        body = {"metadata": {"resourceVersion": pod.resource_version}, "status": status}
        return await self._client.patch(Pod, pod.key, body, subresource="status")
