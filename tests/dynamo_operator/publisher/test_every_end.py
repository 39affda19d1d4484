"""Planner states x snapshot states x faults of the API x points of a crash, on an API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

import pytest

from dynamo_operator.aisimulate.snapshot import load_documents, parse_snapshot
from dynamo_operator.api.labels import RUN_UID_LABEL
from dynamo_operator.api.publisher_contract import PUBLISHER_FIELD_MANAGER, TerminationMessage
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentCandidate as Candidate
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRun as Run
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.publisher import observe
from dynamo_operator.publisher.apply import Publication
from dynamo_operator.publisher.follow import Stop, follow
from dynamo_operator.runtime.client import TransportError
from dynamo_operator.testing import Answer, Cluster, Cut, HalfAnswer, Interceptor, Point
from dynamo_operator.testing.faults import Fault
from tests.builders import COMPLETED_SPEC
from tests.dynamo_operator.publisher.reports import snapshot
from tests.dynamo_operator.publisher.scripted import ScriptedSearch

pytestmark = pytest.mark.virtual_time

WRITES = ("POST", "PUT", "PATCH", "DELETE")
"""A Candidate is made, given its status, named by the Run, deleted."""

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

SEEN_AGAIN = {"gone": "none", "going back": "started"}
"""What a state is for who sees nothing but its last snapshot."""

FAULTS: dict[str, tuple[Point, Fault] | None] = {
    "none": None,
    "conflict": (Point("PATCH"), Answer(409, "Conflict")),
    "create 500": (Point("POST"), Answer(500, "InternalError")),
    "status 503": (Point("PUT"), Answer(503, "ServiceUnavailable")),
    "throttled": (Point("PATCH"), Answer(429, "TooManyRequests", retry_after_seconds=2)),
    "delete reset": (Point("DELETE"), Cut()),
    "created, answer lost": (Point("POST", when="after"), Cut()),
    "applied, answer lost": (Point("PATCH", when="after"), HalfAnswer(9)),
    "right comes late": (Point("POST"), Answer(403, "Forbidden")),
    "refused for good": (Point("POST", repeats=True), Answer(422, "Invalid")),
    "forbidden": (Point("POST", repeats=True), Answer(403, "Forbidden")),
    "outage": (Point(repeats=True), Cut()),
}
LASTING = ("refused for good", "forbidden", "outage")


@dataclass(frozen=True)
class Case:
    """One search: how it ends, what goes wrong, and where its publisher dies, if it does."""

    planner: str
    state: str
    fault: str
    crash: tuple[str, str] | None = None

    @property
    def expected_exit(self) -> int:
        """What the last publisher ends with."""
        state = SEEN_AGAIN.get(self.state, self.state) if self.crash else self.state
        code = _exit_without_faults(self.planner, state)
        if self.fault not in LASTING:
            return code
        ends_before_it_matters = code == 3 and self.fault != "refused for good"
        needs_nothing = state == "none" or (state == "infeasible" and self.fault == "forbidden")
        return code if ends_before_it_matters or needs_nothing else 1

    @property
    def expected_objects(self) -> list[str] | None:
        """The Candidates that the Run names, best first; None where a part may be missing."""
        if self.fault in LASTING:
            return []
        # A violation ends it at once, also before a pass that broke off could be tried again.
        is_cut_short = self.expected_exit == 3 or SEEN_AGAIN.get(self.state) == "none"
        is_disturbed = self.crash is not None or self.fault != "none"
        is_missed = self.crash is not None and is_cut_short
        if is_missed or (is_disturbed and self.expected_exit == 3):
            return None
        return LEFT[self.state]


def _exit_without_faults(planner: str, state: str) -> int:
    if state in ("garbage", "gone", "going back"):
        return 3
    if state in ("infeasible", "failed"):
        return 4
    if state == "succeeded":
        return 0
    return {"exited 0": 3, "exited 1": 0}.get(planner, 1)  # 1: told to stop


class Story:
    """A case as it is played: a Run, and a client that is between fault and crash."""

    def __init__(self, cluster: Cluster, run: Run, case: Case) -> None:
        self._cluster = cluster
        self._run = run
        self._case = case
        self._faults = Interceptor(cluster.clock)
        if (fault := FAULTS[case.fault]) is not None:
            self._faults.inject(*fault)
        self.server = Interceptor(cluster.clock)
        """What comes through to the server."""

    async def play(self) -> list[str]:
        """Follow the search to its end; return what is wrong with it."""
        wrong = []
        if self._case.crash is None:
            message = await self._publish(is_again=False)
        else:
            await self._crash(*self._case.crash)
            named, there, _ = await self._shown()
            if not set(named) <= set(there):
                wrong.append(f"{named} named of {there} after the crash")
            self.server.heal()
            message = await self._publish(is_again=True)
        if message.outcome.exit_code != self._case.expected_exit:
            wrong.append(f"{message}, not {self._case.expected_exit}")
        named, there, is_complete = await self._shown()
        expected = self._case.expected_objects
        if expected is None:
            is_right = set(named) <= set(there) <= {"a", "b", "old"}
        else:
            is_right = (named, there, is_complete) == (expected, sorted(expected), True)
        return wrong if is_right else [*wrong, f"{named} named of {there}, not {expected}"]

    async def _crash(self, method: str, when: Any) -> None:
        publishing = asyncio.create_task(self._publish(is_again=False))

        async def die() -> None:
            publishing.cancel()

        self.server.inject(Point(method, when=when), Cut(die))
        await asyncio.wait([publishing])
        assert publishing.cancelled(), f"{self._case}: no {method}, so no crash"

    async def _publish(self, *, is_again: bool) -> TerminationMessage:
        before, last = SNAPSHOTS[self._case.state]
        steps = [(None, before), (PLANNERS[self._case.planner], last)]
        publisher = self._cluster.client.with_field_manager(PUBLISHER_FIELD_MANAGER)
        client = self._faults.around(self.server.around(publisher))
        stop = Stop()
        timer = asyncio.get_running_loop().call_later(STOP_AFTER, stop.set)
        try:
            return await follow(
                ScriptedSearch([], steps[1:] if is_again else steps),
                Publication(client, self._run.key, self._run.uid, self._cluster.clock),
                poll_seconds=50,
                stop=stop,
                log=lambda _: None,
            )
        finally:
            timer.cancel()

    async def _shown(self) -> tuple[list[str], list[str], bool]:
        """What the Run names, what Candidates there are, and whether all have their status."""
        key = self._run.key
        fresh = await self._cluster.client.get(Run, key)
        named = [ref.name.removeprefix(f"{key.name}-") for ref in fresh.status.candidate_refs]
        found = await self._cluster.client.list(
            Candidate, namespace=key.namespace, labels={RUN_UID_LABEL: self._run.uid}
        )
        there = [candidate.key.name.removeprefix(f"{key.name}-") for candidate in found]
        return named, sorted(there), all(candidate.status.metrics for candidate in found)


class Stage:
    """Runs with nothing published yet, one after the other, on one API server."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._runs = 0

    async def play(self, case: Case) -> tuple[list[str], set[str]]:
        """Play a case; return what is wrong, and the methods of what was written."""
        self._runs += 1
        run = Run.new(f"run-{self._runs}", namespace="default", spec=COMPLETED_SPEC)
        story = Story(self._cluster, await self._cluster.client.create(run), case)
        wrong = [f"{case}: {each}" for each in await story.play()]
        return wrong, {request.method for request in story.server.requests} & {*WRITES}


@pytest.fixture
async def stage(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    # The few snapshots are read once: reading YAML a thousand times is not what this is about.
    for read in (parse_snapshot, load_documents):
        monkeypatch.setattr(observe, read.__name__, cache(read))
    async with Cluster.start(crds=custom_resource_definitions()) as cluster:
        yield Stage(cluster)


@pytest.mark.parametrize("fault", FAULTS)
async def test_every_end_has_its_exit_code_and_its_objects(stage: Stage, fault: str) -> None:
    """Each write that a search makes is a crash point, before the server has it and after."""
    problems = []
    for planner, state in product(PLANNERS, SNAPSHOTS):
        case = Case(planner, state, fault)
        wrong, written = await stage.play(case)
        problems += wrong
        if fault == "none" and case.expected_exit != 3 and state != "none":
            assert written == {*WRITES}, case
        for crash in product(sorted(written), ("before", "after")):
            problems += (await stage.play(replace(case, crash=crash)))[0]

    assert problems == []
