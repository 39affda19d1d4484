from datetime import UTC, datetime, timedelta

import pytest

from dynamo_operator.local_cluster.replica_set_plan import (
    first_to_go,
    next_availability,
    replica_set_status,
)
from dynamo_operator.runtime.builtin_kinds import Pod, ReplicaSet

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def text(seconds_ago):
    return (NOW - timedelta(seconds=seconds_ago)).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod(
    name, *, node="n", phase="Running", ready=600.0, age=600.0, cost=None, restarts=0, sidecar=0
):
    status = {
        "phase": phase,
        "containerStatuses": [{"name": "main", "restartCount": restarts}],
        "initContainerStatuses": [{"name": "beside", "restartCount": sidecar}],
    }
    if ready is not None:
        status["conditions"] = [
            {"type": "Ready", "status": "True", "lastTransitionTime": text(ready)}
        ]
    spec = {"initContainers": [{"name": "beside", "restartPolicy": "Always"}]}
    if node:
        spec["nodeName"] = node
    annotations = {} if cost is None else {"controller.kubernetes.io/pod-deletion-cost": cost}
    made = Pod.new(name, namespace="default", annotations=annotations, spec=spec, status=status)
    made.metadata.uid = name
    made.metadata.creation_timestamp = text(age)
    return made


def replica_set(**spec):
    spec = {"replicas": 3, "template": {"metadata": {"labels": {"app": "web"}}}, **spec}
    made = ReplicaSet.new("r", namespace="default", spec=spec)
    made.metadata.generation = 4
    return made


# Each pair: what goes first, what stays, for the reason that names it.
RANKING = {
    "on no node": (pod("a", node="", ready=None), pod("b", phase="Pending", ready=None)),
    "pending": (pod("a", phase="Pending", ready=None), pod("b", ready=None)),
    "not ready": (pod("a", ready=None, cost="9"), pod("b")),
    "cheaper to delete": (pod("a", cost="-1"), pod("b")),
    "cheaper, though ready for long": (pod("a", cost="1", ready=9000), pod("b", cost="2", ready=1)),
    "a cost that is no number is none": (pod("a", cost="few", ready=1), pod("b")),
    "ready for a short time": (pod("a", ready=1), pod("b", ready=600)),
    "restarted more often": (pod("a", restarts=2), pod("b", restarts=1)),
    "its sidecar restarted more often": (pod("a", sidecar=1), pod("b")),
    "younger": (pod("a", ready=None, age=1), pod("b", ready=None, age=600)),
    "of the same age on a logarithmic scale: by UID": (pod("a", ready=599), pod("b", ready=600)),
}


@pytest.mark.parametrize("reason", RANKING)
@pytest.mark.parametrize("turned", [False, True])
def test_pods_that_are_missed_least_go_first(reason, turned):
    first, last = RANKING[reason]
    pods = [last, first] if turned else [first, last]

    assert first_to_go(pods, 1, related=pods, now=NOW) == [first]


def test_pods_that_crowd_on_a_node_go_before_lonely_ones():
    crowded, lonely = pod("a", node="full", ready=9000), pod("b", node="empty", ready=1)
    others = [pod(f"o{i}", node="full") for i in range(3)]

    gone = first_to_go([lonely, crowded], 1, related=[crowded, lonely, *others], now=NOW)

    assert gone == [crowded]


def test_no_order_is_asked_for_where_all_go():
    pods = [pod("a"), pod("b")]

    assert first_to_go(pods, 2, related=(), now=NOW) == pods


def test_the_status_counts_what_is_ready_available_and_terminating():
    labelled, bare = pod("a", ready=30), pod("b", ready=5)
    labelled.metadata.labels = {"app": "web", "more": "x"}
    unready = pod("c", ready=None)

    status = replica_set_status(
        replica_set(minReadySeconds=10), [labelled, bare, unready], [pod("d")], NOW
    )

    assert status == {
        "replicas": 3,
        "fullyLabeledReplicas": 1,
        "readyReplicas": 2,
        "availableReplicas": 1,
        "terminatingReplicas": 1,
        "observedGeneration": 4,
    }


def test_the_next_look_is_when_a_ready_pod_becomes_available():
    pods = [pod("a", ready=2), pod("b", ready=4), pod("c", ready=None), pod("d", ready=99)]

    assert next_availability(replica_set(minReadySeconds=10), pods, NOW) == 6
    assert next_availability(replica_set(), pods, NOW) is None


def test_a_failure_keeps_its_time_while_it_lasts_and_goes_with_it():
    failing = replica_set()
    first = replica_set_status(failing, [], [], NOW, failure="no room")
    failing.status = first
    again = replica_set_status(failing, [], [], NOW + timedelta(hours=1), failure="still no room")
    over = replica_set_status(failing, [], [], NOW + timedelta(hours=2))

    assert first["conditions"][0]["reason"] == "FailedCreate"
    assert again["conditions"] == first["conditions"]
    assert "conditions" not in over
