"""Planner states x snapshot states x faults of the API x points of a crash, on an API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from itertools import product
from typing import Any

import pytest

from dynamo_operator.api.publisher_contract import TerminationMessage
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentCandidate as Candidate
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRun as Run
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.publisher.apply import Publication
from dynamo_operator.publisher.follow import Stop, follow
from dynamo_operator.runtime.client import (
    Client,
    ConflictError,
    ForbiddenError,
    InvalidError,
    ServerError,
    TransportError,
    UnknownOutcomeError,
)
from dynamo_operator.testing import Cluster
from tests.builders import COMPLETED_SPEC
from tests.dynamo_operator.publisher.reports import snapshot
from tests.dynamo_operator.publisher.scripted import ScriptedSearch, Step

pytestmark = pytest.mark.virtual_time

Error = Callable[[], Exception]

WRITES = ("create", "replace", "apply_status", "delete")
STOP_AFTER = 1000.0
"""Seconds after which a search without an end is told to stop; longer than any outage lasts."""

FIRST = snapshot("a", "old", evaluated=1)
PLANNERS: dict[str, Any] = {
    "runs": None,
    "exited 0": 0,
    "exited 1": 1,
    "unreadable": TransportError("no answer"),
}
SNAPSHOTS: dict[str, tuple[bytes | None, bytes | None]] = {
    "none": (None, None),
    "running": (FIRST, snapshot("a", "b", evaluated=2)),
    "succeeded": (FIRST, snapshot("b", "a", evaluated=2, phase="Succeeded")),
    "infeasible": (FIRST, snapshot(phase="Failed", reason="NoFeasibleCandidate", message="none")),
    "failed": (FIRST, snapshot("a", evaluated=2, phase="Failed", error="no perf data")),
    "garbage": (FIRST, b"\xff{not: [yaml"),
    "gone": (FIRST, None),
    "going back": (snapshot("a", "old", evaluated=9), FIRST),
}
LEFT = {
    "none": [],
    "running": ["a", "b"],
    "succeeded": ["b", "a"],
    "infeasible": [],
    "failed": ["a"],
    "garbage": ["a", "old"],
    "gone": ["a", "old"],
    "going back": ["a", "old"],
}
"""What is published when the publisher ends and no fault lasts; best first."""

PASSING: dict[str, tuple[str, bool, Error]] = {
    "conflict": ("apply_status", False, lambda: ConflictError(409, "Conflict", "changed")),
    "create 500": ("create", False, lambda: ServerError(500, "InternalError", "etcd")),
    "replace 503": ("replace", False, lambda: ServerError(503, "ServiceUnavailable", "away")),
    "delete reset": ("delete", False, lambda: TransportError("connection reset")),
    "created, answer lost": ("create", True, lambda: UnknownOutcomeError("no answer")),
    "applied, answer lost": ("apply_status", True, lambda: UnknownOutcomeError("no answer")),
    "right comes late": ("create", False, lambda: ForbiddenError(403, "Forbidden", "no right")),
}
LASTING: dict[str, tuple[str, Error]] = {
    "refused for good": ("create", lambda: InvalidError(422, "Invalid", "spec: no")),
    "forbidden": ("create", lambda: ForbiddenError(403, "Forbidden", "no right")),
    "outage": ("find", lambda: TransportError("no route")),
}


class CrashError(Exception):
    """Stands for the publisher's death; nothing of ours catches it."""


class FaultyClient:
    """The real client, but for one call that fails: before it is sent, or after it was done."""

    def __init__(
        self, client: Client, call: str, error: Error, *, after: bool = False, lasts: bool = False
    ) -> None:
        self._client = client
        self._call = call
        self._error = error
        self._after = after
        self._left = 10**6 if lasts else 1

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._client, name)
        if name != self._call:
            return call

        async def failing(*args: Any, **options: Any) -> Any:
            fails = self._left > 0
            self._left -= fails
            if fails and not self._after:
                raise self._error()
            answer = await call(*args, **options)
            if fails:
                raise self._error()
            return answer

        return failing


class Stage:
    """Runs with nothing published yet, one after the other, on one API server."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.client = cluster.client.with_field_manager("dgdr-run-publisher")
        self._runs = 0

    async def new_run(self) -> Run:
        self._runs += 1
        return await self.client.create(
            Run.new(f"run-{self._runs}", namespace="default", spec=COMPLETED_SPEC)
        )

    async def publish(
        self, run: Run, planner: str, state: str, client: Any = None, *, again: bool = False
    ) -> TerminationMessage:
        """Follow one search to its end; `again` sees only what the first one saw last."""
        before, last = SNAPSHOTS[state]
        steps: list[Step] = [(None, before), (PLANNERS[planner], last)]
        stop = Stop()
        timer = asyncio.get_running_loop().call_later(STOP_AFTER, stop.set)
        try:
            return await follow(
                ScriptedSearch([], steps[1:] if again else steps),
                Publication(client or self.client, run.key, run.uid, self.cluster.clock),
                poll_seconds=50,
                stop=stop,
                log=lambda _: None,
            )
        finally:
            timer.cancel()

    async def shown(self, run: Run) -> tuple[list[str], list[str], bool]:
        """What the Run names, what Candidates there are, and whether all have their status."""
        fresh = await self.client.get(Run, run.key)
        named = [ref.name.removeprefix(f"{run.key.name}-") for ref in fresh.status.candidate_refs]
        found = [
            candidate
            for candidate in await self.client.list(Candidate, namespace="default")
            if candidate.key.name.startswith(f"{run.key.name}-")
        ]
        there = [candidate.key.name.removeprefix(f"{run.key.name}-") for candidate in found]
        return named, sorted(there), all(candidate.status.metrics for candidate in found)


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with Cluster.start(crds=custom_resource_definitions()) as cluster:
        yield Stage(cluster)


def expected_exit(planner: str, state: str) -> int:
    """What a search that publishes without a lasting fault ends with."""
    if state in ("garbage", "gone", "going back"):
        return 3
    if state in ("infeasible", "failed"):
        return 4
    if state == "succeeded":
        return 0
    return {"exited 0": 3, "exited 1": 0}.get(planner, 1)  # 1: told to stop


@pytest.mark.parametrize("fault", [None, *PASSING])
async def test_every_end_has_its_exit_code_and_its_objects(stage: Stage, fault: str | None) -> None:
    wrong = []
    for planner, state in product(PLANNERS, SNAPSHOTS):
        run = await stage.new_run()
        client: Any = stage.client
        if fault is not None:
            call, after, error = PASSING[fault]
            client = FaultyClient(stage.client, call, error, after=after)
        message = await stage.publish(run, planner, state, client)
        shown = await stage.shown(run)
        left = LEFT[state]
        if message.outcome.exit_code != expected_exit(planner, state):
            wrong.append(f"planner {planner}, snapshot {state}: {message}")
        # A violation ends it at once, also before a failed pass could be tried again.
        if shown != (left, sorted(left), True) and not (
            fault and expected_exit(planner, state) == 3
        ):
            wrong.append(f"planner {planner}, snapshot {state}: {shown}")

    assert wrong == []


@pytest.mark.parametrize("fault", LASTING)
async def test_a_fault_that_lasts_is_the_end_of_what_had_to_be_published(
    stage: Stage, fault: str
) -> None:
    call, error = LASTING[fault]
    wrong = []
    for planner, state in product(PLANNERS, SNAPSHOTS):
        run = await stage.new_run()
        client = FaultyClient(stage.client, call, error, lasts=True)
        message = await stage.publish(run, planner, state, client)

        expected = 1
        is_violation = expected_exit(planner, state) == 3 and fault != "refused for good"
        needs_nothing = state == "none" or (state == "infeasible" and fault == "forbidden")
        if is_violation or needs_nothing:
            expected = expected_exit(planner, state)
        named, there, _ = await stage.shown(run)
        if message.outcome.exit_code != expected or there or named:
            wrong.append(f"planner {planner}, snapshot {state}: {message}, {named}, {there}")

    assert wrong == []


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("call", WRITES)
async def test_a_crash_leaves_nothing_half_said_and_is_made_good(
    stage: Stage, call: str, after: bool
) -> None:
    wrong = []
    for planner, state in product(PLANNERS, ("running", "succeeded", "infeasible", "failed")):
        run = await stage.new_run()
        client = FaultyClient(stage.client, call, CrashError, after=after)
        try:
            await stage.publish(run, planner, state, client)
        except CrashError:
            pass
        else:
            wrong.append(f"planner {planner}, snapshot {state}: no {call}, so no crash")
        named, there, _ = await stage.shown(run)
        if not set(named) <= set(there):
            wrong.append(f"planner {planner}, snapshot {state}: {named} named of {there}")

        message = await stage.publish(run, planner, state, again=True)
        shown = await stage.shown(run)
        if message.outcome.exit_code != expected_exit(planner, state):
            wrong.append(f"planner {planner}, snapshot {state}: then {message}")
        if shown != (LEFT[state], sorted(LEFT[state]), True) and message.outcome.exit_code != 3:
            wrong.append(f"planner {planner}, snapshot {state}: then {shown}")

    assert wrong == []
