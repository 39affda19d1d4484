"""Carries a report into the API: one pass is observe, plan, act; every step is safe to repeat."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from dynamo_operator.api.labels import CANDIDATE_ID_LABEL, RUN_UID_LABEL
from dynamo_operator.publisher.observe import Report, Result
from dynamo_operator.publisher.plan import (
    Candidate,
    Plan,
    Run,
    candidate_status,
    check_ours,
    desired_status,
    is_complete,
    plan,
)
from dynamo_operator.runtime.client import (
    AlreadyExistsError,
    Client,
    ConflictError,
    NotFoundError,
)
from informers.clock import Clock
from informers.objects import ObjectKey

_STATUS_TRIES = 5


class RunGoneError(Exception):
    """The Run that this publisher works for is not there any more."""


class Publication:
    """The Candidates and the progress of one Run, as this publisher wrote them."""

    def __init__(self, client: Client, key: ObjectKey, uid: str, clock: Clock) -> None:
        self._client = client
        self._key = key
        self._uid = uid
        self._clock = clock
        self._known: dict[str, Candidate] | None = None

    async def publish(self, report: Report, *, live: bool = False) -> None:
        """Make the API show the report.

        Args:
            report: what the search reports.
            live: list what exists, instead of trusting what the last pass left.

        Raises:
            ForeignObjectError: an object of a needed name is not this Run's.
            RunGoneError: the Run is gone, or another of its name is there.
            ClientError: the API server refused or did not answer.
        """
        known, self._known = self._known, None  # until the pass has succeeded
        run = await self._run()
        if live or known is None:
            known = await self._existing()
        steps = plan(report, run, known.values(), now=self._now())
        await self._create_and_complete(steps, run, known)
        await self._set_status(steps.status, report, run)
        await self._delete(steps, known)
        self._known = known

    async def _run(self) -> Run:
        run = await self._client.find(Run, self._key)
        if run is None or run.uid != self._uid:
            raise RunGoneError(f"run {self._key} ({self._uid}) is gone")
        return run

    async def _existing(self) -> dict[str, Candidate]:
        candidates = await self._client.list(
            Candidate, namespace=self._key.namespace, labels={RUN_UID_LABEL: self._uid}
        )
        return {candidate.key.name: candidate for candidate in candidates}

    async def _create_and_complete(
        self, steps: Plan, run: Run, known: dict[str, Candidate]
    ) -> None:
        for candidate in steps.create:
            known[candidate.key.name] = await self._create(candidate, run)
        for candidate, result in steps.complete:
            current = known[candidate.key.name]
            if not is_complete(current):
                known[current.key.name] = await self._complete(current, result)

    async def _create(self, candidate: Candidate, run: Run) -> Candidate:
        try:
            return await self._client.create(candidate)
        except AlreadyExistsError:
            existing = await self._client.get(Candidate, candidate.key)
            check_ours(existing, run, candidate.labels[CANDIDATE_ID_LABEL])
            return existing

    async def _complete(self, candidate: Candidate, result: Result) -> Candidate:
        status = candidate_status(result, now=self._now())
        body = Candidate.model_validate({**candidate.to_dict(), "status": status})
        return await self._client.replace(body, subresource="status")

    async def _set_status(self, status: Mapping[str, Any] | None, report: Report, run: Run) -> None:
        """Apply the status to the very Run that was checked; recompute after a conflict."""
        for _ in range(_STATUS_TRIES):
            if status is None:
                return
            try:
                await self._client.apply_status(run, status, resource_version=run.resource_version)
            except ConflictError as error:
                conflict = error
                run = await self._run()
                names = [ref["name"] for ref in status["candidateRefs"]]
                status = desired_status(report, run, names, now=self._now())
            else:
                return
        raise conflict

    async def _delete(self, steps: Plan, known: dict[str, Candidate]) -> None:
        for candidate in steps.delete:
            with suppress(NotFoundError):
                await self._client.delete(Candidate, candidate.key, uid=candidate.uid)
            known.pop(candidate.key.name, None)

    def _now(self) -> str:
        return self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
