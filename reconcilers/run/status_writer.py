"""Writes the controller's part of one Run's status during one pass."""

from __future__ import annotations

from typing import Any

from dynamo_operator.api.conditions import CompletedReason
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRun
from dynamo_operator.runtime.builtin_kinds import ConfigMap, Job
from dynamo_operator.runtime.client import Client
from informers.clock import Clock
from reconcilers.run.status import ended, ending, owned_status, reference_to, waiting
from reconcilers.statuses import write_status


class StatusWriter:
    """Holds the newest copy of a Run, so that each write of a pass builds on the one before.

    A write carries the resource version of the copy that it was computed from: whoever changed the
    Run meanwhile makes it a ConflictError, and the pass starts anew. Nothing is sent when nothing
    differs.
    """

    def __init__(self, run: DynamoGraphDeploymentRun, client: Client, clock: Clock) -> None:
        self.run = run
        self._client = client
        self._clock = clock

    async def waiting(
        self, reason: CompletedReason, message: str, *, start_time: str | None = None
    ) -> None:
        """The Run goes on, or waits for what `message` says."""
        status = waiting(self.run, reason, message, now=self._clock.now())
        if start_time:
            status.setdefault("startTime", start_time)
        await self._write(status)

    async def ending(self, reason: CompletedReason, message: str) -> None:
        """The Run will end so once its Job is gone."""
        await self._write(ending(self.run, reason, message, now=self._clock.now()))

    async def ended(self, reason: CompletedReason, message: str, job: Job | None) -> None:
        """The Run is over."""
        await self._write(ended(self.run, reason, message, job, now=self._clock.now()))

    async def frozen(self, config_map: ConfigMap, sha256: str, document: dict[str, Any]) -> None:
        """The Run's execution is frozen in that ConfigMap; `document` is its input."""
        snapshot = {"name": config_map.key.name, "uid": config_map.uid, "sha256": sha256}
        status = waiting(self.run, CompletedReason.PENDING, "", now=self._clock.now())
        await self._write(
            {**status, "executionSnapshot": snapshot, "aisimulate": {"input": document}}
        )

    async def job_created(self, job: Job) -> None:
        """The Run's one Job is that one."""
        status = waiting(self.run, CompletedReason.PENDING, "", now=self._clock.now())
        await self._write({**status, "jobRef": reference_to(job)})

    async def _write(self, status: dict[str, Any]) -> None:
        if status != owned_status(self.run):
            self.run = await write_status(self._client, self.run, status)
