"""`run list, watch, logs, cancel`: in process, on an embedded cluster over HTTPS."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence

import pytest

from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest, DynamoGraphDeploymentRun
from dynamo_operator.apiserver.kubelet import KubeletAddress
from dynamo_operator.apiserver.messages import Response
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.runtime.builtin_kinds import ClusterRole, ClusterRoleBinding, Node, Pod
from dynamo_operator.testing.cluster import Cluster
from informers.objects import ObjectKey
from tests.dynamo_operator.cli.calls import Answer, call, call_to
from tests.dynamo_operator.cli.planted import (
    end_run,
    plant_candidates,
    plant_pod,
    plant_search,
    read_run,
)

RUN = "dynamographdeploymentrun.nvidia.com"


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster.start(mode="http", crds=custom_resource_definitions()) as started:
        yield started


async def test_the_runs_of_a_request_are_listed(cluster: Cluster):
    of_llama = await plant_search(cluster.client, "llama")
    other = await plant_search(cluster.client, "qwen")

    everything = await call_to(cluster, "run", "list", "-o", "name")
    one = await call_to(cluster, "run", "list", "llama", "-o", "name")
    table = await call_to(cluster, "run", "list", "llama")
    nobody = await call_to(cluster, "run", "list", "nobody")

    assert everything.output == f"{RUN}/{of_llama.key.name}\n{RUN}/{other.key.name}\n"
    assert one.output == f"{RUN}/{of_llama.key.name}\n"
    assert table.output.split()[:2] == ["NAME", "PHASE"]
    assert nobody.code == 1
    assert "DynamoGraphDeploymentRequest nobody: is not there" in nobody.errors


async def watched(cluster: Cluster, *words: str) -> Answer:
    return await call_to(cluster, "run", "watch", *words, "--interval", "0.01")


async def looks(cluster: Cluster) -> int:
    """How often the Pods of a search were listed."""
    entries = cluster.server.audit.entries
    return sum((each.resource, each.verb) == ("pods", "list") for each in entries)


async def test_a_search_is_followed_to_its_end_in_plain_lines(cluster: Cluster):
    run = await plant_search(cluster.client)

    async with asyncio.TaskGroup() as group:
        watch = group.create_task(watched(cluster, "llama"))
        await cluster.eventually(lambda: looks(cluster))
        await plant_candidates(cluster.client, run, (3497.8, 8, 43.7), (2000.5, 4, 50.0))
        await end_run(cluster.client, run)
    answer = watch.result()
    first, *_, last = [line for line in answer.output.splitlines() if line.startswith(("R", "S"))]

    assert answer.code == 0
    assert first == "Running, round 2, 6 evaluated, 0 published"
    assert "Succeeded, round 3, 12 evaluated, 2 published, best score 3497.8" in answer.output
    assert last.startswith("RANK")
    assert answer.output.splitlines()[-2].split()[:2] == ["1", "000000000001"]


async def test_a_failed_search_ends_the_watch_with_its_reason(cluster: Cluster):
    run = await plant_search(cluster.client)
    await end_run(cluster.client, run, "NoFeasibleCandidate")

    answer = await watched(cluster, run.key.name)

    assert answer.code == 1
    assert answer.output.splitlines()[-1] == (
        f"Run {run.key.name}: NoFeasibleCandidate: because of NoFeasibleCandidate"
    )


async def test_each_state_is_a_line_of_json(cluster: Cluster):
    run = await plant_search(cluster.client)
    await plant_candidates(cluster.client, run, (3497.8, 8, 43.7))
    await end_run(cluster.client, run)

    answer = await watched(cluster, "llama", "-o", "json")

    (state,) = map(json.loads, answer.output.splitlines())
    assert (state["phase"], state["evaluated"], state["failure"]) == ("Succeeded", 12, None)
    assert state["best"]["score"] == 3497.8


async def test_what_keeps_a_pod_from_running_is_told(cluster: Cluster):
    run = await plant_search(cluster.client)
    waiting = {"reason": "ImagePullBackOff", "message": "not found"}
    await plant_pod(
        cluster.client,
        run,
        phase="Pending",
        containerStatuses=[
            {
                "name": "planner",
                "image": "i:1",
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": {"waiting": waiting},
            }
        ],
    )
    await end_run(cluster.client, run)

    answer = await watched(cluster, "llama")

    assert "container planner: ImagePullBackOff: not found" in answer.output


async def test_who_may_not_see_pods_still_follows_the_search(cluster: Cluster):
    run = await plant_search(cluster.client)
    await end_run(cluster.client, run)
    rule = {"apiGroups": ["nvidia.com"], "resources": ["*"], "verbs": ["get", "list"]}
    role = await cluster.client.create(ClusterRole.new("viewer", rules=[rule]))
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "viewer"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}
    await cluster.client.create(
        ClusterRoleBinding.new(role.key.name, role_ref=reference, subjects=[subject])
    )

    kubeconfig = str(cluster.kubeconfig("ann", ()))
    answer = await call("run", "watch", "llama", "--kubeconfig", kubeconfig)

    assert answer.code == 0
    assert 'Pods cannot be seen: pods is forbidden: User "ann"' in answer.output


async def test_a_run_that_is_deleted_ends_the_watch(cluster: Cluster):
    run = await plant_search(cluster.client)

    async with asyncio.TaskGroup() as group:
        watch = group.create_task(watched(cluster, run.key.name))
        await cluster.eventually(lambda: looks(cluster))
        await cluster.client.delete(DynamoGraphDeploymentRun, run.key)

    assert watch.result().code == 1
    assert watch.result().errors == (
        f"dynamo-operator: DynamoGraphDeploymentRun default/{run.key.name} was deleted\n"
    )


async def test_a_request_that_is_not_accepted_ends_the_watch(cluster: Cluster):
    await plant_search(cluster.client)
    accepted = {
        "type": "Accepted",
        "status": "False",
        "reason": "InvalidInput",
        "message": "spec: is wrong",
        "lastTransitionTime": "2026-11-30T12:00:00Z",
    }
    await cluster.client.patch(
        DynamoGraphDeploymentRequest,
        ObjectKey("default", "llama"),
        {"status": {"conditions": [accepted], "activeRunRef": None}},
        subresource="status",
    )

    answer = await watched(cluster, "llama")

    assert answer.code == 1
    assert answer.output.splitlines()[-1] == "InvalidInput: spec: is wrong"


class Kubelet:
    """A node that has written something."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Sequence[tuple[str, str]]]] = []

    async def get(
        self, address: KubeletAddress, path: str, query: Sequence[tuple[str, str]]
    ) -> Response:
        self.asked.append((path, query))
        return Response(200, {"content-type": "text/plain"}, "searching, 10 µs\n".encode())


async def test_the_log_of_the_newest_pod_is_printed(cluster: Cluster):
    run = await plant_search(cluster.client)
    pod = await plant_pod(cluster.client, run, phase="Running")
    node = await cluster.client.create(Node.new("node-a"))
    addresses = [{"type": "InternalIP", "address": "127.0.0.1"}]
    await cluster.client.patch(
        Node, node.key, {"status": {"addresses": addresses}}, subresource="status"
    )
    await cluster.client.create_subresource(
        Pod,
        pod.key,
        "binding",
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.key.name},
            "target": {"kind": "Node", "name": node.key.name},
        },
    )
    cluster.server.kubelet = kubelet = Kubelet()

    planner = await call_to(cluster, "run", "logs", "llama", "--tail", "20")
    publisher = await call_to(cluster, "run", "logs", run.key.name, "-c", "publisher", "-f")

    assert planner == publisher == (0, "searching, 10 µs\n", "")
    assert kubelet.asked == [
        (f"/containerLogs/default/{pod.key.name}/planner", [("tailLines", "20")]),
        (f"/containerLogs/default/{pod.key.name}/publisher", [("follow", "true")]),
    ]


async def test_a_run_without_a_pod_has_no_log(cluster: Cluster):
    run = await plant_search(cluster.client)

    answer = await call_to(cluster, "run", "logs", "llama")

    assert answer.code == 1
    assert answer.errors == (
        f"dynamo-operator: DynamoGraphDeploymentRun {run.key.name}: has no Pod: Running\n"
    )


async def test_a_search_is_cancelled_by_deleting_its_run(cluster: Cluster):
    run = await plant_search(cluster.client)

    rehearsed = await call_to(cluster, "run", "cancel", "llama", "--dry-run")
    still = await read_run(cluster.client, run)
    done = await call_to(cluster, "run", "cancel", "llama")

    assert rehearsed.output == f"{RUN}/{run.key.name} cancelled (dry run)\n"
    assert still.uid == run.uid
    assert done == (0, f"{RUN}/{run.key.name} cancelled\n", "")
    assert await cluster.client.find(DynamoGraphDeploymentRun, run.key) is None


async def test_a_search_that_is_over_is_not_cancelled(cluster: Cluster):
    run = await plant_search(cluster.client)
    await end_run(cluster.client, run)

    answer = await call_to(cluster, "run", "cancel", "llama")

    assert answer.code == 1
    assert f"{run.key.name}: is over (Succeeded), nothing to cancel" in answer.errors
    assert await cluster.client.find(DynamoGraphDeploymentRun, run.key) is not None


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["watch", "a", "--interval", "0"], "'0' must be a number of seconds above zero"),
        (["logs", "a", "--tail", "-1"], "'-1' must be a whole number of at least 1"),
        (["logs", "a", "-c", "web"], "invalid choice: 'web'"),
    ],
    ids=["interval", "tail", "container"],
)
async def test_a_wrong_value_of_a_flag_is_told_with_what_would_be_right(
    words: list[str], told: str
):
    answer = await call("run", *words)

    assert answer.code == 2
    assert told in answer.errors
