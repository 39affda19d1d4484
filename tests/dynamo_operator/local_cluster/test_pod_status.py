from datetime import UTC, datetime

import pytest

from dynamo_operator.local_cluster.pod_status import (
    ContainerStatus,
    PodFailure,
    Running,
    Terminated,
    Waiting,
    compute_phase,
    compute_status,
    state_from,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def container(state=None, *, last=None, ready=False, name="main", sidecar=False, started=False):
    status = ContainerStatus(name, "image", is_sidecar=sidecar, last_state=last)
    if state is not None:
        status.state = state
    status.ready = ready
    status.started = started
    return status


RUNNING = Running(NOW)
OK = Terminated(0, "Completed")
BAD = Terminated(1, "Error")
CRASHING = Waiting("CrashLoopBackOff")


def pod(policy="Never", conditions=()):
    return {"spec": {"restartPolicy": policy}, "status": {"conditions": list(conditions)}}


@pytest.mark.parametrize(
    ("policy", "main", "phase"),
    [
        ("Never", [container()], "Pending"),
        ("Never", [container(RUNNING)], "Running"),
        ("Never", [container(RUNNING), container()], "Pending"),
        ("Never", [container(RUNNING), container(OK)], "Running"),
        ("Never", [container(OK), container(OK)], "Succeeded"),
        ("Never", [container(OK), container(BAD)], "Failed"),
        ("OnFailure", [container(BAD)], "Running"),
        ("OnFailure", [container(OK)], "Succeeded"),
        ("Always", [container(OK)], "Running"),
        ("Always", [container(CRASHING, last=BAD)], "Running"),
    ],
)
def test_the_phase_follows_from_states_and_policy(policy, main, phase):
    assert compute_phase(pod(policy), [], main) == phase


@pytest.mark.parametrize(
    ("policy", "state", "phase"),
    [("Always", OK, "Succeeded"), ("Always", BAD, "Failed"), ("OnFailure", BAD, "Failed")],
)
def test_a_stopped_pod_has_an_outcome_whatever_its_policy(policy, state, phase):
    assert compute_phase(pod(policy), [], [container(state)], is_stopped=True) == phase


def test_a_failed_init_container_fails_a_pod_that_never_restarts():
    assert compute_phase(pod(), [container(BAD)], [container()]) == "Failed"
    assert compute_phase(pod("OnFailure"), [container(BAD)], [container()]) == "Pending"


def test_a_running_sidecar_lets_the_containers_start():
    sidecar = container(RUNNING, sidecar=True, started=True)

    assert compute_phase(pod(), [sidecar], [container(RUNNING)]) == "Running"


def test_conditions_of_others_stay_and_transition_times_change_with_the_status():
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "long ago"}
    unready = {"type": "Ready", "status": "False", "lastTransitionTime": "before"}
    initialized = {"type": "Initialized", "status": "True", "lastTransitionTime": "before"}

    status = compute_status(
        pod(conditions=[scheduled, unready, initialized]),
        [],
        [container(RUNNING, ready=True)],
        start_time=NOW,
        now=NOW,
    )

    times = {c["type"]: (c["status"], c["lastTransitionTime"]) for c in status["conditions"]}
    assert times == {
        "PodScheduled": ("True", "long ago"),
        "Ready": ("True", "2030-01-01T00:00:00Z"),
        "Initialized": ("True", "before"),
        "PodReadyToStartContainers": ("True", "2030-01-01T00:00:00Z"),
        "ContainersReady": ("True", "2030-01-01T00:00:00Z"),
    }


def test_an_unready_container_is_named():
    status = compute_status(pod(), [], [container(RUNNING, name="slow")], start_time=NOW, now=NOW)

    ready = next(c for c in status["conditions"] if c["type"] == "Ready")
    assert ready["message"] == "containers with unready status: [slow]"


def test_container_statuses_are_listed_by_name():
    main = [container(OK, name="publisher"), container(BAD, name="planner")]

    status = compute_status(pod(), [], main, start_time=NOW, now=NOW)

    assert [s["name"] for s in status["containerStatuses"]] == ["planner", "publisher"]


def test_a_pod_that_failed_as_a_whole_says_why():
    failure = PodFailure("DeadlineExceeded", "too long")

    status = compute_status(pod(), [], [container(OK)], start_time=NOW, now=NOW, failure=failure)

    assert (status["phase"], status["reason"], status["message"]) == (
        "Failed",
        "DeadlineExceeded",
        "too long",
    )


def test_a_terminated_state_survives_the_wire():
    state = Terminated(3, "Error", "boom", NOW, NOW, "local://1")

    assert state_from({"state": state.to_dict()}) == state
    assert state_from({"state": RUNNING.to_dict()}) is None
