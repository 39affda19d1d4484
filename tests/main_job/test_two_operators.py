"""Two operators at once: one works, the other takes over when that one is gone."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest
from dynamo_operator.apiserver.audit import AuditEntry
from dynamo_operator.local_cluster.control_plane import Audit
from dynamo_operator.testing.fault_proxy import FaultProxy
from dynamo_operator.testing.faults import Pause, Point
from dynamo_operator.testing.polling import eventually
from tests.main_job import scripted_planner
from tests.main_job.operator_process import OperatorProcess
from tests.main_job.processes import command_of
from tests.main_job.stage import PATIENCE_SECONDS, Stage, completed_with

pytestmark = [pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]

LEASE_SECONDS = 6.0
FLAGS = (
    f"--leader-election.lease-seconds={LEASE_SECONDS}",
    "--leader-election.renew-deadline-seconds=4",
    "--leader-election.retry-seconds=1",
)
PAUSE_SECONDS = 30.0
CREATE_RUN = Point(
    "POST", "/apis/nvidia.com/v1beta2/namespaces/[^/]+/dynamographdeploymentruns", when="after"
)


@dataclass(frozen=True, slots=True)
class Replica:
    """One of the operators. They have the same rights; a group of its own tells what it wrote."""

    group: str
    process: OperatorProcess
    proxy: FaultProxy
    audit: Audit

    def writes(self) -> list[AuditEntry]:
        """What it wrote of objects, by the audit log."""
        return [entry for entry in self._all_writes() if entry.resource not in ("leases", "events")]

    def renewals(self) -> list[AuditEntry]:
        """When it took or renewed the Lease."""
        return [
            entry for entry in self._all_writes() if entry.resource == "leases" and entry.code < 300
        ]

    def everything_since(self, moment: datetime) -> list[str]:
        """Every write that it sent since then, Lease and Events included, whatever came of it."""
        return [str(entry) for entry in self._all_writes() if entry.received >= moment]

    def _all_writes(self) -> list[AuditEntry]:
        return [entry for entry in self.audit.writes() if self.group in entry.user.groups]


@pytest_asyncio.fixture(loop_scope="module")
async def replicas(unoperated: Stage, tmp_path: Path) -> AsyncIterator[tuple[Replica, Replica]]:
    """The one that leads and the one that stands by."""
    async with (
        replica(unoperated, tmp_path, "first-replica") as leader,
        replica(unoperated, tmp_path, "second-replica") as standby,
    ):
        await leader.process.start()
        await eventually(leader.renewals)
        await standby.process.start()
        yield leader, standby


@asynccontextmanager
async def replica(stage: Stage, directory: Path, name: str) -> AsyncGenerator[Replica]:
    """One of them, not started yet; gone after the block."""
    group = f"{name}-{stage.namespace}"  # the audit log spans several tests
    path = directory / f"{name}.kubeconfig"
    stage.cluster.kubeconfig(stage.operator_user, groups=(group,), path=path)
    async with FaultProxy(path, directory=directory) as proxy:
        process = OperatorProcess(proxy.kubeconfig, log_directory=directory, flags=FLAGS, name=name)
        try:
            yield Replica(group, process, proxy, stage.cluster.audit)
        finally:
            await process.kill()


async def test_when_the_leader_is_killed_the_other_goes_on(
    unoperated: Stage, replicas: tuple[Replica, Replica]
):
    stage, (leader, standby) = unoperated, replicas
    await stage.submit("waits-halfway")
    _, pod = await stage.searching()
    assert leader.writes()
    assert standby.writes() == []

    await leader.process.kill()
    os.kill(command_of(pod, "planner").pid, scripted_planner.GO_SIGNAL)

    await eventually(stage.request, completed_with("Succeeded"), timeout=PATIENCE_SECONDS)
    acted = standby.writes()[0].received
    last_renewal = leader.renewals()[-1].received
    assert acted - last_renewal < timedelta(seconds=LEASE_SECONDS + 2)
    assert_no_object_had_two_writers(leader, standby)
    assert len(stage.cluster.audit.created("jobs", namespace=stage.namespace)) == 1


async def test_when_the_leader_is_told_to_stop_the_other_goes_on_at_once(
    unoperated: Stage, replicas: tuple[Replica, Replica]
):
    stage, (leader, standby) = unoperated, replicas

    told = datetime.now().astimezone()
    code = await leader.process.stop()
    await stage.submit("succeeds")  # not before, or the leader might still begin with it

    await eventually(stage.request, completed_with("Succeeded"), timeout=PATIENCE_SECONDS)
    assert code == 0
    assert standby.renewals()[0].received - told < timedelta(seconds=2)
    assert standby.writes()[0].received - told < timedelta(seconds=2)
    assert_no_object_had_two_writers(leader, standby)
    assert len(stage.cluster.audit.created("jobs", namespace=stage.namespace)) == 1


@pytest.mark.timeout(180)
async def test_a_leader_that_was_paused_writes_nothing_when_it_wakes(
    unoperated: Stage, replicas: tuple[Replica, Replica]
):
    stage, (leader, standby) = unoperated, replicas

    async def pause() -> None:
        leader.process.pause()

    # In the middle of its work: it has the answer in hand when it wakes, and more to write.
    paused = leader.proxy.inject(CREATE_RUN, Pause(pause))
    await stage.submit("succeeds")
    await paused.reached()
    await asyncio.sleep(PAUSE_SECONDS)
    await stage.client.patch(
        DynamoGraphDeploymentRequest, stage.key, {"spec": {"model": {"name": "scripted/goes-on"}}}
    )
    woken = datetime.now().astimezone()
    leader.process.resume()

    assert await leader.process.wait() == 1
    await stage.run_that(lambda run: len(run.status.candidate_refs) == 2, index=1)
    assert leader.everything_since(woken) == []
    assert standby.writes()[0].received < woken
    assert_no_object_had_two_writers(leader, standby)
    assert "Traceback" not in leader.process.log_tail()


def assert_no_object_had_two_writers(before: Replica, after: Replica) -> None:
    """The earlier leader's last write is older than the later one's Lease."""
    took_over = after.renewals()[0].received
    assert [str(entry) for entry in before.writes() if entry.received >= took_over] == []
    assert [str(entry) for entry in after.writes() if entry.received < took_over] == []
