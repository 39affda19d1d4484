"""`dynamo-operator start --once`: one reconcile against the cluster of a kubeconfig."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import pytest
import pytest_asyncio

from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest, DynamoGraphDeploymentRun
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.runtime import LeaderElection
from dynamo_operator.runtime.builtin_kinds import Event, Lease, Namespace, Role
from dynamo_operator.settings import LEASE_NAME
from dynamo_operator.testing.cluster import Cluster
from dynamo_operator.testing.control_plane_binaries import ControlPlaneMissingError
from informers.objects import ObjectKey
from tests.dynamo_operator.cli.test_commands import command
from tests.reconcilers.search import SPEC

pytestmark = pytest.mark.asyncio(loop_scope="module")

MODES = ["http", pytest.param("real", marks=pytest.mark.real)]
on_the_embedded_one = pytest.mark.parametrize("cluster", ["http"], indirect=True)
NAMESPACES = (f"once-{number}" for number in count())


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=MODES)
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    try:
        async with Cluster.start(mode=request.param, crds=custom_resource_definitions()) as cluster:
            yield cluster
    except ControlPlaneMissingError as error:
        pytest.skip(f"no real control plane: {error}")


@pytest_asyncio.fixture(loop_scope="module")
async def key(cluster: Cluster) -> ObjectKey:
    """A Request in a namespace of its own."""
    key = ObjectKey(next(NAMESPACES), "llama")
    await cluster.client.create(Namespace.new(key.namespace))
    await cluster.client.create(
        DynamoGraphDeploymentRequest.new(key.name, namespace=key.namespace, spec=SPEC)
    )
    return key


async def once(cluster: Cluster, wanted: str, *words: str) -> tuple[int, str, str]:
    return await command(
        *("start", f"--kubeconfig={cluster.kubeconfig()}", "--operator-image=lab/op:1"),
        *("--webhooks=off", f"--once={wanted}", *words),
    )


async def versions(cluster: Cluster) -> dict[str, str]:
    """The version of every object that a reconcile and an election could touch."""
    kinds = (DynamoGraphDeploymentRequest, DynamoGraphDeploymentRun, Event, Lease, Role)
    return {
        f"{kind.__name__} {found.key}": found.resource_version
        for kind in kinds
        for found in await cluster.client.list(kind)
        if not found.key.namespace.startswith("kube-")
    }


async def test_a_dry_run_changes_nothing_on_the_server(cluster: Cluster, key: ObjectKey):
    before = await versions(cluster)
    code, output, errors = await once(cluster, f"dgdr/{key}", "--dry-run", "-o", "json")
    told: dict[str, Any] = json.loads(output)

    assert code == 0, errors
    assert await versions(cluster) == before
    assert told["dryRun"] is True
    assert told["outcome"] == "done"
    writes = [each for each in told["requests"] if each["verb"] not in ("get", "list")]
    assert {(each["verb"], each["resource"], each["status"]) for each in writes} == {
        ("create", "dynamographdeploymentruns", 201),
        ("apply", "dynamographdeploymentrequests/status", 200),
        ("create", "events", 201),
    }


async def test_one_object_is_reconciled_and_what_was_done_is_told(cluster: Cluster, key: ObjectKey):
    code, output, errors = await once(cluster, f"DynamoGraphDeploymentRequest/{key}")
    (run,) = await cluster.client.list(DynamoGraphDeploymentRun, namespace=key.namespace)
    lease = await cluster.client.get(Lease, ObjectKey("default", LEASE_NAME))

    lines = output.splitlines()
    assert code == 0, errors
    assert f"read     dynamographdeploymentrequests {key}: {key}" in lines
    assert f"read     dynamographdeploymentruns {run.key}: none" in lines
    assert f"wrote    create dynamographdeploymentruns {run.key} (201)" in lines
    assert f"wrote    apply dynamographdeploymentrequests/status {key} (200)" in lines
    assert any(f" RunCreated: created Run {run.key.name} for generation 1" in x for x in lines)
    assert lines[-1] == "decided  done, until something changes"
    assert run.status.job_ref is None, "the Run's own controller did nothing"
    assert lease.spec["holderIdentity"] == "", "it was released"

    again, told, _ = await once(cluster, f"DynamoGraphDeploymentRun/{run.key}")

    assert (again, told.splitlines()[-1]) == (3, "decided  again after 30 s")


@on_the_embedded_one
async def test_beside_another_operator_only_a_dry_run_is_made(cluster: Cluster, key: ObjectKey):
    election = LeaderElection(LEASE_NAME, "default", identity="deployed")
    async with cluster.manager(leader_election=election) as other:
        await other.wait_elected()
        refused = await once(cluster, f"dgdr/{key}")
        dry = await once(cluster, f"dgdr/{key}", "--dry-run")

    assert refused[0] == 1
    assert "held by deployed_" in refused[2]
    assert refused[2].endswith("stop that one, or give --dry-run\n")
    assert dry[0] == 0
    assert await cluster.client.list(DynamoGraphDeploymentRun, namespace=key.namespace) == []


@on_the_embedded_one
async def test_a_lease_that_cannot_be_had_is_named(cluster: Cluster, key: ObjectKey):
    code, output, errors = await once(cluster, f"dgdr/{key}", "--leader-election.namespace=nowhere")

    assert (code, output) == (1, "")
    assert errors.splitlines()[-1] == (
        f"dynamo-operator: lease nowhere/{LEASE_NAME}: namespace nowhere does not exist: create "
        "it, or name another one with --leader-election.namespace"
    )


@pytest.mark.parametrize(
    ("wanted", "code", "message"),
    [
        (
            "Pod/default/a",
            2,
            "--once: 'Pod': must be one of DynamoGraphDeploymentRequest, "
            "DynamoGraphDeploymentRun, DynamoPoolRelay",
        ),
        ("dpr/default/a", 1, "--once: there is no DynamoPoolRelay default/a"),
    ],
    ids=["kind", "object"],
)
@on_the_embedded_one
async def test_what_cannot_be_reconciled_is_named(cluster: Cluster, wanted, code, message):
    found, output, errors = await once(cluster, wanted)

    assert (found, output) == (code, "")
    assert errors.splitlines()[-1] == f"dynamo-operator: {message}"
