from typing import Any

import pytest

from dynamo_operator.apiserver import KubeletAddress, Response
from tests.dynamo_operator.apiserver.api import (
    CORE,
    CRDS,
    PODS,
    WIDGETS,
    Api,
    Json,
    pod,
    widget,
    widget_crd,
)

pytestmark = pytest.mark.virtual_time

PDBS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


def node(name: str, **status) -> Json:
    return {"metadata": {"name": name}, "status": status}


class FakeKubelet:
    def __init__(self, status: int = 200, body: bytes = b"hello\n") -> None:
        self.asked: list[Any] = []
        self._answer = Response(status, {"content-type": "text/plain"}, body)

    async def get(self, address, path, query):
        self.asked.append((address, path, list(query)))
        return self._answer


async def with_running_pod() -> Api:
    api = Api()
    await api.create(f"{CORE}/nodes", node("n1"))
    await api.merge(
        f"{CORE}/nodes/n1/status",
        {
            "status": {
                "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": 12345}},
            }
        },
    )
    await api.create(PODS, pod("p", node="n1"))
    return api


async def test_logs_come_from_the_pods_node():
    api = await with_running_pod()
    kubelet = api.server.kubelet = FakeKubelet()

    answer = await api.get(f"{PODS}/p/log", tailLines="5", follow="true")

    assert (answer.status, answer.body) == (200, b"hello\n")
    assert kubelet.asked == [
        (
            KubeletAddress("127.0.0.1", 12345),
            "/containerLogs/default/p/main",
            [("follow", "true"), ("tailLines", "5")],
        )
    ]


async def test_what_the_node_refuses_is_a_status():
    api = await with_running_pod()
    api.server.kubelet = FakeKubelet(404, b"no such container")

    answer = await api.get(f"{PODS}/p/log")

    assert (answer.status, answer.message) == (404, "no such container")


async def test_a_node_that_does_not_answer_is_an_internal_error():
    class DeadKubelet:
        async def get(self, address, path, query):
            raise ConnectionRefusedError("connection refused")

    api = await with_running_pod()
    api.server.kubelet = DeadKubelet()

    answer = await api.get(f"{PODS}/p/log")

    assert answer.status == 500
    assert "https://127.0.0.1:12345/containerLogs/default/p/main" in answer.message


async def test_logs_of_one_of_several_containers_must_name_it():
    api = Api()
    body = pod("p")
    body["spec"]["containers"].append({"name": "side", "image": "busybox"})
    await api.create(PODS, body)
    api.server.kubelet = FakeKubelet()

    unnamed = await api.get(f"{PODS}/p/log")
    wrong = await api.get(f"{PODS}/p/log", container="x")

    assert unnamed.message == (
        "a container name must be specified for pod p, choose one of: [main side]"
    )
    assert wrong.message == "container x is not valid for pod p"


async def test_without_a_way_to_nodes_logs_are_not_implemented():
    answer = await (await with_running_pod()).get(f"{PODS}/p/log")

    assert answer.status == 501


@pytest.mark.parametrize("subresource", ["exec", "attach", "portforward"])
async def test_what_is_missing_says_so(subresource):
    api = Api()
    await api.create(PODS, pod("p", node="n"))
    await api.create(PODS, pod("unscheduled"))

    answer = await api.ask("POST", f"{PODS}/unscheduled/{subresource}")
    assert answer.status == 400
    assert answer.message == "pod unscheduled does not have a host assigned"

    answer = await api.ask("POST", f"{PODS}/p/{subresource}")
    assert (answer.status, answer.body["reason"]) == (501, "NotImplemented")
    assert answer.message == f"the embedded API server does not implement pods/{subresource}"


async def test_binding_puts_a_pod_on_a_node_once():
    api = Api()
    await api.create(PODS, pod("p"))
    body = {"target": {"kind": "Node", "name": "n1"}}

    bound = await api.create(f"{PODS}/p/binding", body)
    again = await api.create(f"{PODS}/p/binding", body)

    answer = await api.get(f"{PODS}/p")
    assert bound.status == 201
    assert answer.body["spec"]["nodeName"] == "n1"
    scheduled = answer.body["status"]["conditions"][-1]
    assert (scheduled["type"], scheduled["status"]) == ("PodScheduled", "True")
    assert again.status == 409
    assert 'pod p is already assigned to node "n1"' in again.message


async def test_eviction_deletes_unless_a_budget_forbids():
    api = Api()
    await api.create(PODS, pod("a", labels={"app": "x"}))
    await api.create(PODS, pod("b", labels={"app": "y"}))
    selector = {"matchLabels": {"app": "x"}}
    await api.create(
        PDBS, {"metadata": {"name": "x"}, "spec": {"minAvailable": 1, "selector": selector}}
    )

    await api.merge(f"{PODS}/a/status", {"status": {"phase": "Running"}})
    refused = await api.create(f"{PODS}/a/eviction", {"metadata": {"name": "a"}})
    evicted = await api.create(f"{PODS}/b/eviction", {"metadata": {"name": "b"}})

    assert (refused.status, refused.body["reason"]) == (429, "TooManyRequests")
    assert evicted.status == 201
    assert (await api.get(PODS)).names == ["a"]


async def test_scale_reads_and_writes_only_the_replicas():
    api = Api()
    await api.create(CRDS, widget_crd())
    made = await api.create(WIDGETS, widget("w", 7))

    patched = await api.merge(f"{WIDGETS}/w/scale", {"spec": {"replicas": 3}})
    read = await api.get(f"{WIDGETS}/w/scale")
    stale = await api.replace(
        f"{WIDGETS}/w/scale",
        read.body | {"metadata": {"name": "w", "resourceVersion": made.version}},
    )

    assert patched.body["kind"] == read.body["kind"] == "Scale"
    assert read.body["spec"] == {"replicas": 3}
    assert (await api.get(f"{WIDGETS}/w")).body["spec"] == {"size": 7, "replicas": 3}
    assert stale.status == 409


async def test_a_negative_scale_is_invalid():
    api = Api()
    await api.create(CRDS, widget_crd())
    await api.create(WIDGETS, widget("w"))

    answer = await api.merge(f"{WIDGETS}/w/scale", {"spec": {"replicas": -1}})

    assert answer.status == 422
    assert "spec.replicas: Invalid value: -1" in answer.message


@pytest.mark.parametrize(
    ("path", "kind", "selector"),
    [
        ("/apis/apps/v1/namespaces/default/deployments", "Deployment", {"matchLabels": {"a": "b"}}),
        ("/api/v1/namespaces/default/replicationcontrollers", "ReplicationController", {"a": "b"}),
    ],
    ids=["Deployment", "ReplicationController"],
)
async def test_the_scale_of_a_workload_selects_as_it_does_before_anyone_counted(
    path, kind, selector
):
    api = Api()
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod("p")["spec"]}
    spec = {"replicas": 0, "selector": selector, "template": template}
    api_version = "apps/v1" if kind == "Deployment" else "v1"
    made = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "spec": spec}
    await api.create(path, made)

    scale = await api.get(f"{path}/x/scale")

    assert scale.body["status"] == {"replicas": 0, "selector": "a=b"}


async def test_both_versions_of_an_event_are_one_object():
    api = Api()
    event = {
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Tested",
        "action": "Testing",
        "note": "it works",
        "type": "Normal",
        "eventTime": "2030-01-01T00:00:00.000000Z",
        "reportingController": "lab.test/c",
        "reportingInstance": "c-0",
    }
    made = await api.create("/apis/events.k8s.io/v1/namespaces/default/events", event)

    core = await api.get(f"{CORE}/namespaces/default/events/e")
    listed = await api.get(
        f"{CORE}/namespaces/default/events", fieldSelector="involvedObject.name=p"
    )

    assert made.status == 201, made.body
    assert (core.body["message"], core.body["involvedObject"]["name"]) == ("it works", "p")
    assert core.body["reportingComponent"] == "lab.test/c"
    assert core.body["metadata"]["uid"] == made.body["metadata"]["uid"]
    assert listed.names == ["e"]
