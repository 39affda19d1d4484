from decimal import Decimal

import pytest

from dynamo_operator.local_cluster.node_fit import explain, pod_requests, unfit_reasons
from dynamo_operator.runtime.builtin_kinds import Node, Pod


def node(*, labels=None, taints=(), ready=True, unschedulable=False, **allocatable):
    resources = {"cpu": "4", "memory": "8Gi", "pods": "10", **allocatable}
    ready_condition = {"type": "Ready", "status": "True" if ready else "False"}
    return Node.new(
        "n1",
        labels=labels or {},
        spec={"taints": list(taints), "unschedulable": unschedulable},
        status={"allocatable": resources, "conditions": [ready_condition]},
    )


def pod(requests=None, **spec):
    containers = [{"name": "main", "resources": {"requests": requests or {}}}]
    return Pod.new("p", namespace="lab", spec={"containers": containers, **spec})


def affinity(*expressions):
    terms = [{"matchExpressions": list(expressions)}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"nodeAffinity": required}


TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("pod", "node", "reasons"),
    [
        (pod({"cpu": "4"}), node(), []),
        (pod({"cpu": "4001m"}), node(), ["Insufficient cpu"]),
        (pod({"nvidia.com/gpu": "1"}), node(), ["Insufficient nvidia.com/gpu"]),
        (pod({"nvidia.com/gpu": "1"}), node(**{"nvidia.com/gpu": "8"}), []),
        (pod({"ephemeral-storage": "1Gi"}), node(), ["Insufficient ephemeral-storage"]),
        (pod({"cpu": "9", "memory": "9Gi"}), node(), ["Insufficient cpu", "Insufficient memory"]),
        (pod(), node(pods="0"), ["Too many pods"]),
        (pod(), node(ready=False), ["node(s) were not ready"]),
        (pod(), node(unschedulable=True), ["node(s) were unschedulable"]),
        (
            pod(nodeSelector={"zone": "a"}),
            node(labels={"zone": "b"}),
            ["node(s) didn't match Pod's node affinity/selector"],
        ),
        (pod(nodeSelector={"zone": "a"}), node(labels={"zone": "a"}), []),
        (pod(), node(taints=[TAINT]), ["node(s) had untolerated taint {gpu: yes}"]),
        (pod(), node(taints=[{**TAINT, "effect": "PreferNoSchedule"}]), []),
        (pod(tolerations=[{"key": "gpu", "value": "yes"}]), node(taints=[TAINT]), []),
        (pod(tolerations=[{"key": "gpu", "operator": "Exists"}]), node(taints=[TAINT]), []),
        (pod(tolerations=[{"operator": "Exists"}]), node(taints=[TAINT]), []),
        (
            pod(tolerations=[{"key": "gpu", "value": "no"}]),
            node(taints=[TAINT]),
            ["node(s) had untolerated taint {gpu: yes}"],
        ),
    ],
)
def test_a_pod_fits_or_it_is_said_why_not(pod, node, reasons):
    assert unfit_reasons(pod, node, []) == reasons


@pytest.mark.parametrize(
    ("expression", "fits"),
    [
        ({"key": "zone", "operator": "In", "values": ["a", "b"]}, True),
        ({"key": "zone", "operator": "NotIn", "values": ["a"]}, False),
        ({"key": "zone", "operator": "Exists"}, True),
        ({"key": "zone", "operator": "DoesNotExist"}, False),
        ({"key": "size", "operator": "Gt", "values": ["4"]}, True),
        ({"key": "size", "operator": "Lt", "values": ["4"]}, False),
        ({"key": "size", "operator": "Gt", "values": ["9"]}, False),
    ],
)
def test_node_affinity_is_honoured(expression, fits):
    reasons = unfit_reasons(
        pod(affinity=affinity(expression)), node(labels={"zone": "a", "size": "8"}), []
    )

    assert (reasons == []) is fits


def test_what_others_use_is_not_free():
    used = [{"cpu": Decimal(3), "pods": Decimal(1)}]

    assert unfit_reasons(pod({"cpu": "1"}), node(), used) == []
    assert unfit_reasons(pod({"cpu": "2"}), node(), used) == ["Insufficient cpu"]


def test_a_pod_needs_its_containers_together_or_its_largest_init_container():
    def container(cpu, **more):
        return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}

    sums = Pod.new("p", spec={"containers": [container("1"), container("2")]})
    init = Pod.new("p", spec={"containers": [container("1")], "initContainers": [container("5")]})
    sidecar = Pod.new(
        "p",
        spec={
            "containers": [container("1")],
            "initContainers": [container("2", restartPolicy="Always")],
        },
    )
    limits = Pod.new(
        "p", spec={"containers": [{"name": "c", "resources": {"limits": {"cpu": "7"}}}]}
    )

    needs = [pod_requests(p)["cpu"] for p in (sums, init, sidecar, limits)]
    assert needs == [3, 5, 3, 7]


def test_reasons_are_counted_over_the_nodes():
    reasons = [["Insufficient cpu"], ["Insufficient cpu", "Insufficient memory"]]

    assert explain(reasons) == "0/2 nodes are available: 2 Insufficient cpu, 1 Insufficient memory."
    assert explain([]) == "no nodes available to schedule pods"
