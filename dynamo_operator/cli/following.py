"""A search as it goes on: looked at again and again until it is over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from dynamo_operator.api.conditions import AcceptedReason, ConditionType, find_condition
from dynamo_operator.api.labels import RUN_UID_LABEL
from dynamo_operator.api.v1beta2 import (
    DynamoGraphDeploymentCandidate,
    DynamoGraphDeploymentRequest,
    DynamoGraphDeploymentRun,
    RunPhase,
)
from dynamo_operator.cli.errors import CliError
from dynamo_operator.cli.searches import Search, current_run
from dynamo_operator.runtime.builtin_kinds import Pod
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.client.errors import ForbiddenError
from informers.objects import ObjectKey
from reconcilers.run.outcome import pod_problem


@dataclass(frozen=True, slots=True)
class SearchState:
    """What one look saw.

    Args:
        request: the Request, if the search is followed by it.
        run: its current Run, or the one that is followed.
        candidates: the Run's, best first.
        pods: the Run's.
        unseen: why the Pods could not be looked at, or "".
    """

    request: DynamoGraphDeploymentRequest | None
    run: DynamoGraphDeploymentRun | None
    candidates: tuple[DynamoGraphDeploymentCandidate, ...] = ()
    pods: tuple[Pod, ...] = ()
    unseen: str = ""

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes: the Run has ended, or there will be none."""
        return self.failure is not None or self._has_ended

    @property
    def failure(self) -> str | None:
        """Why there is no result and will be none."""
        if self.request is not None:
            accepted = find_condition(self.request.status.conditions, ConditionType.ACCEPTED)
            is_judged = (
                accepted is not None and accepted.observed_generation == self.request.generation
            )
            if accepted is not None and (
                accepted.status == "False"
                or (is_judged and accepted.reason == AcceptedReason.RUN_DELETED)
            ):
                return f"{accepted.reason}: {accepted.message}"
        if not self._has_ended or self.run is None or self.run.status.phase != RunPhase.FAILED:
            return None
        completed = find_condition(self.run.status.conditions, ConditionType.COMPLETED)
        why = f"{completed.reason}: {completed.message}" if completed else RunPhase.FAILED
        return f"Run {self.run.key.name}: {why}"

    @property
    def problems(self) -> list[str]:
        """What keeps the Pods from running, and what the Run waits for."""
        is_one = len(self.pods) == 1
        told = [
            why if is_one else f"Pod {pod.key.name}: {why}"
            for pod in self.pods
            if (why := pod_problem(pod))
        ]
        if self.unseen:
            told.append(self.unseen)
        message = self.run.status.execution_message if self.run else None
        if message and not (self.run and self.run.is_terminal):
            told.insert(0, message)
        return told

    @property
    def _has_ended(self) -> bool:
        """Whether the Run is over, and no newer one is to come."""
        if self.run is None or not self.run.is_terminal:
            return False
        return self.request is None or self.run.request_generation >= self.request.generation


async def follow(
    client: Client, search: Search, *, every_seconds: float
) -> AsyncGenerator[SearchState]:
    """Yield what each look sees, to the one after which the search is over.

    Args:
        client: looks.
        search: followed by its Request where there is one that has this Run, so that a newer Run is
            followed, too.
        every_seconds: how often.

    Raises:
        CliError: what is followed was deleted.
    """
    while True:
        state = await look(client, search)
        yield state
        if state.is_over:
            return
        await asyncio.sleep(every_seconds)


async def look(client: Client, search: Search) -> SearchState:
    """Return the present state of a search.

    Raises:
        CliError: it was deleted.
    """
    if search.request is None:
        assert search.run is not None, "a search has one of them"
        run = await client.find(DynamoGraphDeploymentRun, search.run.key)
        if run is None or run.uid != search.run.uid:
            raise _deleted("DynamoGraphDeploymentRun", search.run.key)
        return await _with_parts(client, None, run)
    request = await client.find(DynamoGraphDeploymentRequest, search.request.key)
    if request is None or request.uid != search.request.uid:
        raise _deleted("DynamoGraphDeploymentRequest", search.request.key)
    return await _with_parts(client, request, await current_run(client, request))


async def _with_parts(
    client: Client,
    request: DynamoGraphDeploymentRequest | None,
    run: DynamoGraphDeploymentRun | None,
) -> SearchState:
    if run is None:
        return SearchState(request, None)
    labels, namespace = {RUN_UID_LABEL: run.uid}, run.key.namespace
    found = await client.list(DynamoGraphDeploymentCandidate, namespace=namespace, labels=labels)
    by_name = {each.key.name: each for each in found}
    ranked = [by_name.get(reference.name) for reference in run.status.candidate_refs]
    pods: list[Pod] = []
    unseen = ""
    try:
        pods = await client.list(Pod, namespace=namespace, labels=labels)
    except ForbiddenError as error:
        unseen = f"Pods cannot be seen: {error.message}"
    candidates = tuple(each for each in ranked if each is not None)
    return SearchState(request, run, candidates, tuple(pods), unseen)


def _deleted(kind: str, key: ObjectKey) -> CliError:
    return CliError(f"{kind} {key} was deleted")
