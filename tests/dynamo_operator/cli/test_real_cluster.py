"""What the commands make of a real API server's answers: tables, reviews, definitions."""

from __future__ import annotations

import os

import pytest

from dynamo_operator.cli.local import grant_operator
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.testing.cluster import Cluster
from tests.dynamo_operator.cli.calls import call_to
from tests.dynamo_operator.cli.installed import deploy
from tests.dynamo_operator.cli.planted import end_run, plant_candidates, plant_search

pytestmark = pytest.mark.real


async def test_searches_are_shown_and_an_installation_is_examined_on_a_real_server():
    crds = custom_resource_definitions()
    async with Cluster.start(mode="real", crds=crds, environ=os.environ) as cluster:
        run = await plant_search(cluster.client)
        await plant_candidates(cluster.client, run, (5.0, 4, 10.0), (3.0, 2, 20.0))
        await end_run(cluster.client, run)
        await grant_operator(cluster.client)
        await deploy(cluster.client)

        requests = await call_to(cluster, "request", "get", "-A", "-o", "wide")
        listed = await call_to(cluster, "run", "list", "llama")
        watched = await call_to(cluster, "run", "watch", "llama")
        explained = await call_to(cluster, "request", "explain", "llama")
        examined = await call_to(cluster, "doctor", "--only=server,kinds,operator,rights,policy")

    assert requests.output.split()[:2] == ["NAMESPACE", "NAME"]
    assert listed.output.splitlines()[1].split()[:3] == [run.key.name, "Succeeded", "True"]
    assert watched.code == 0
    assert watched.output.splitlines()[-1].startswith("   2  000000000002")
    assert "operator" in explained.output
    assert examined.code == 0, examined
    assert {line.split()[0] for line in examined.output.splitlines()[:-1]} == {"ok"}
