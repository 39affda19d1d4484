from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentCandidate as Candidate
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRun as Run
from dynamo_operator.publisher.apply import Publication, RunGoneError
from dynamo_operator.publisher.plan import ForeignObjectError
from dynamo_operator.runtime.builtin_kinds import Namespace
from dynamo_operator.runtime.client import Client, ConflictError, TransportError
from dynamo_operator.testing import Cluster
from informers.clock import SystemClock
from informers.objects import ObjectKey
from tests.builders import COMPLETED_SPEC
from tests.dynamo_operator.publisher.reports import report

CRDS = Path(__file__).parents[3] / "manifests" / "crd"
KEY = ObjectKey("default", "llama-g1")


class Desk:
    """A Run in an embedded cluster, its publication, and what is asked of the server."""

    def __init__(self, client: Client, run: Run) -> None:
        self.client = client
        self.run = run
        self.publication = Publication(client, run.key, run.uid, SystemClock())

    async def candidates(self) -> dict[str, Candidate]:
        found = await self.client.list(Candidate, namespace="default")
        return {candidate.key.name.removeprefix("llama-g1-"): candidate for candidate in found}

    async def status(self) -> Mapping[str, Any]:
        return (await self.client.get(Run, KEY)).status.to_dict()


@pytest.fixture
async def desk() -> AsyncGenerator[Desk]:
    crds = [YAML(typ="safe", pure=True).load(path) for path in sorted(CRDS.glob("nvidia*.yaml"))]
    async with Cluster.start(crds=crds) as cluster:
        if await cluster.client.find(Namespace, ObjectKey("", "default")) is None:
            await cluster.client.create(Namespace.new("default"))
        run = await cluster.client.create(
            Run.new("llama-g1", namespace="default", spec=COMPLETED_SPEC)
        )
        client = cluster.client.with_field_manager("dgdr-run-publisher")
        yield Desk(client, run)


async def test_a_report_becomes_candidates_and_progress(desk: Desk) -> None:
    await desk.publication.publish(report("b", "a", evaluated=7, message="7 of 9"))

    candidates = await desk.candidates()
    assert sorted(candidates) == ["a", "b"]
    assert candidates["a"].spec == {"components": [], "parameters": {"tp": 4}}
    assert candidates["a"].status.metrics == {"score": 3.5, "usedGpus": 8}
    (condition,) = candidates["a"].status.conditions
    assert (condition.type, condition.status, condition.reason) == (
        "Evaluated",
        "True",
        "Evaluated",
    )
    status = await desk.status()
    assert status["candidateRefs"] == [{"name": "llama-g1-b"}, {"name": "llama-g1-a"}]
    assert status["progress"] == {"round": 1, "evaluated": 7, "published": 2}
    assert status["message"] == "7 of 9"
    assert status["lastProgressTime"]


async def test_an_obsolete_candidate_goes_last(desk: Desk) -> None:
    client = MeddlingClient(desk.client)
    publication = meddled(desk, client)
    await publication.publish(report("a", "b"))
    client.calls.clear()

    await publication.publish(report("b", "c", evaluated=2))

    assert client.calls == ["find", "create", "replace", "apply_status", "delete"]
    assert sorted(await desk.candidates()) == ["b", "c"]
    assert (await desk.status())["candidateRefs"] == [
        {"name": "llama-g1-b"},
        {"name": "llama-g1-c"},
    ]


async def test_the_other_writers_part_of_the_status_stays(desk: Desk) -> None:
    controller = desk.client.with_field_manager("run-controller")
    await controller.apply_status(desk.run, {"phase": "Running", "executionMessage": "runs"})

    await desk.publication.publish(report("a"))
    await controller.apply_status(desk.run, {"phase": "Succeeded"})
    await desk.publication.publish(report("a", evaluated=2))

    status = await desk.status()
    assert (status["phase"], status["progress"]["evaluated"]) == ("Succeeded", 2)
    assert "executionMessage" not in status


async def test_a_second_publication_takes_over_where_the_first_died(desk: Desk) -> None:
    """Created without status, and one that nobody wants any more: both as a crash leaves them."""
    await desk.publication.publish(report("a", "b"))
    created = (await desk.candidates())["a"]
    await desk.client.replace(
        Candidate.model_validate({**created.to_dict(), "status": {}}), subresource="status"
    )

    second = Publication(desk.client, desk.run.key, desk.run.uid, SystemClock())
    await second.publish(report("a"))

    (candidate,) = (await desk.candidates()).values()
    assert candidate.uid == created.uid
    assert candidate.status.metrics == {"score": 3.5, "usedGpus": 8}


async def test_a_candidate_that_somebody_deleted_is_made_again_by_a_live_pass(desk: Desk) -> None:
    await desk.publication.publish(report("a"))
    await desk.client.delete(Candidate, ObjectKey("default", "llama-g1-a"))

    await desk.publication.publish(report("a"), live=True)

    assert sorted(await desk.candidates()) == ["a"]


async def test_a_foreign_candidate_is_untouched_and_an_error(desk: Desk) -> None:
    foreign = await desk.client.create(
        Candidate.new("llama-g1-a", namespace="default", spec={"components": []})
    )

    with pytest.raises(ForeignObjectError, match="default/llama-g1-a exists"):
        await desk.publication.publish(report("a"))

    assert await desk.client.get(Candidate, foreign.key) == foreign


@pytest.mark.parametrize("is_there", [True, False], ids=["another of its name", "none"])
async def test_another_runs_status_is_never_written(desk: Desk, is_there: bool) -> None:
    await desk.client.delete(Run, KEY, propagation="Background")
    if is_there:
        await desk.client.create(Run.new("llama-g1", namespace="default", spec=COMPLETED_SPEC))

    with pytest.raises(RunGoneError, match="run default/llama-g1"):
        await desk.publication.publish(report("a"))

    assert await desk.candidates() == {}


class MeddlingClient:
    """A client whose calls are the real one's, but for what a test does in between."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._client, name)

        async def noted(*args: Any, **options: Any) -> Any:
            self.calls.append(name)
            await self.before(name)
            return await call(*args, **options)

        return noted

    async def before(self, name: str) -> None:
        """What happens before the call."""


def meddled(desk: Desk, client: MeddlingClient) -> Publication:
    return Publication(client, desk.run.key, desk.run.uid, SystemClock())  # type: ignore[arg-type] # acts as one


async def test_a_run_that_changed_since_it_was_checked_is_read_and_checked_again(
    desk: Desk,
) -> None:
    class Race(MeddlingClient):
        async def before(self, name: str) -> None:
            if name == "apply_status" and self.calls.count(name) < 3:
                controller = desk.client.with_field_manager("run-controller")
                message = {"executionMessage": f"change {len(self.calls)}"}
                await controller.apply_status(desk.run, message)

    client = Race(desk.client)
    await meddled(desk, client).publish(report("a"))

    assert client.calls.count("apply_status") == 3
    status = await desk.status()
    assert status["candidateRefs"] == [{"name": "llama-g1-a"}]
    assert status["executionMessage"].startswith("change")


async def test_a_run_that_never_rests_is_given_up(desk: Desk) -> None:
    class Race(MeddlingClient):
        async def before(self, name: str) -> None:
            if name == "apply_status":
                raise ConflictError(409, "Conflict", "the object has been modified")

    with pytest.raises(ConflictError, match="modified"):
        await meddled(desk, Race(desk.client)).publish(report("a"))


@pytest.mark.parametrize("step", ["create", "replace", "apply_status", "delete"])
async def test_a_pass_that_broke_off_anywhere_is_completed_by_the_next(
    desk: Desk, step: str
) -> None:
    class Break(MeddlingClient):
        is_broken = True

        async def before(self, name: str) -> None:
            if name == step and self.is_broken:
                self.is_broken = False
                raise TransportError("connection lost")

    await desk.publication.publish(report("old"))
    publication = meddled(desk, Break(desk.client))
    wanted = report("a", "b", evaluated=2)

    with pytest.raises(TransportError):
        await publication.publish(wanted)
    await publication.publish(wanted)

    candidates = await desk.candidates()
    assert sorted(candidates) == ["a", "b"]
    assert all(candidate.status.metrics for candidate in candidates.values())
    assert (await desk.status())["progress"]["published"] == 2


async def test_a_pass_in_which_nothing_changed_only_reads_the_run(desk: Desk) -> None:
    client = MeddlingClient(desk.client)
    publication = meddled(desk, client)
    await publication.publish(report("a"))
    client.calls.clear()

    await publication.publish(report("a"))

    assert client.calls == ["find"]
