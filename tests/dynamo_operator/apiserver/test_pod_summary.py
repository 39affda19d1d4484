from datetime import UTC, datetime

import pytest

from dynamo_operator.apiserver.kinds import pod_summary

NOW = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
RUNNING = {"running": {"startedAt": "2030-01-01T11:00:00Z"}}
GATED = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
STARTED = {"ready": True, "started": True}


def ended(reason="", code=0, **more):
    return {"terminated": {"exitCode": code, **({"reason": reason} if reason else {}), **more}}


def waiting(reason):
    return {"waiting": {"reason": reason}}


def pod(*main, init=(), sidecars=(), phase="Running", conditions=(), deleted=False, **status):
    """A Pod whose containers are given as state, or as state and more of their status."""

    def statuses(prefix, entries):
        pairs = [entry if isinstance(entry, tuple) else (entry, {}) for entry in entries]
        return [{"name": f"{prefix}{i}", "state": s, **m} for i, (s, m) in enumerate(pairs)]

    inits = statuses("i", init)
    return {
        "metadata": {"name": "p", **({"deletionTimestamp": "x"} if deleted else {})},
        "spec": {
            "containers": [{"name": f"c{i}"} for i in range(len(main))],
            "initContainers": [
                {"name": s["name"], **({"restartPolicy": "Always"} if i in sidecars else {})}
                for i, s in enumerate(inits)
            ],
        },
        "status": {
            "phase": phase,
            "containerStatuses": statuses("c", main),
            "initContainerStatuses": inits,
            "conditions": [{"type": c, "status": "True"} for c in conditions],
            **status,
        },
    }


CASES = {
    "nothing yet": (pod({}, phase="Pending"), "0/1", "Pending"),
    "running": (pod((RUNNING, STARTED)), "1/1", "Running"),
    "creating": (pod(waiting("ContainerCreating"), phase="Pending"), "0/1", "ContainerCreating"),
    "crashing": (pod(waiting("CrashLoopBackOff")), "0/1", "CrashLoopBackOff"),
    "no image": (pod(waiting("ImagePullBackOff"), phase="Pending"), "0/1", "ImagePullBackOff"),
    "completed": (pod(ended("Completed"), phase="Succeeded"), "0/1", "Completed"),
    "failed beside a completed one": (
        pod(ended("Error", 3), ended("Completed"), phase="Failed"),
        "0/2",
        "Error",
    ),
    "completed before a failed one": (
        pod(ended("Completed"), ended("Error", 3), phase="Failed"),
        "0/2",
        "Completed",
    ),
    "out of memory": (pod(ended("OOMKilled", 137), (RUNNING, STARTED)), "1/2", "OOMKilled"),
    "a signal": (pod(ended(code=139, signal=11)), "0/1", "Signal:11"),
    "an exit code": (pod(ended(code=7)), "0/1", "ExitCode:7"),
    "one completed, one serves": (
        pod(ended("Completed"), (RUNNING, STARTED), conditions=["Ready"]),
        "1/2",
        "Running",
    ),
    "one completed, one runs": (pod(ended("Completed"), (RUNNING, STARTED)), "1/2", "NotReady"),
    "failed as a whole": (
        pod((RUNNING, {}), phase="Failed", reason="DeadlineExceeded"),
        "0/1",
        "DeadlineExceeded",
    ),
    "gated": (
        pod({}, phase="Pending") | {"status": {"phase": "Pending", "conditions": [GATED]}},
        "0/1",
        "SchedulingGated",
    ),
    "initializing": (
        pod(
            waiting("PodInitializing"),
            init=[ended("Completed"), RUNNING],
            phase="Pending",
        ),
        "0/1",
        "Init:1/2",
    ),
    "an init container waits its turn": (
        pod(waiting("PodInitializing"), init=[waiting("PodInitializing")], phase="Pending"),
        "0/1",
        "Init:0/1",
    ),
    "an init container failed": (
        pod(waiting("PodInitializing"), init=[ended("Error", 1)], phase="Failed"),
        "0/1",
        "Init:Error",
    ),
    "an init container ended by a signal": (
        pod(waiting("PodInitializing"), init=[ended(code=137, signal=9)], phase="Failed"),
        "0/1",
        "Init:Signal:9",
    ),
    "an init container crashes": (
        pod(waiting("PodInitializing"), init=[waiting("CrashLoopBackOff")], phase="Pending"),
        "0/1",
        "Init:CrashLoopBackOff",
    ),
    "a sidecar counts": (
        pod((RUNNING, STARTED), init=[(RUNNING, STARTED)], sidecars=[0]),
        "2/2",
        "Running",
    ),
    "a sidecar restarts while the containers run": (
        pod(
            (RUNNING, STARTED),
            init=[(RUNNING, {"started": False})],
            sidecars=[0],
            conditions=["Initialized"],
        ),
        "1/2",
        "Init:0/1",
    ),
    "deleted while it runs": (pod((RUNNING, STARTED), deleted=True), "1/1", "Terminating"),
    "deleted when it was over": (
        pod(ended("Completed"), phase="Succeeded", deleted=True),
        "0/1",
        "Completed",
    ),
    "deleted on a lost node": (
        pod((RUNNING, STARTED), deleted=True, reason="NodeLost"),
        "1/1",
        "Unknown",
    ),
}


@pytest.mark.parametrize(("shown", "ready", "state"), CASES.values(), ids=CASES)
def test_a_pod_is_shown_as_a_cluster_shows_it(shown, ready, state):
    assert (pod_summary.ready(shown), pod_summary.state(shown)) == (ready, state)


def restarted(count, finished):
    last = ended("Error", 1, finishedAt=finished)
    return (RUNNING, {"restartCount": count, "lastState": last, **STARTED})


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (pod((RUNNING, STARTED)), "0"),
        (pod((RUNNING, {"restartCount": 2})), "2"),
        (
            pod(restarted(2, "2030-01-01T11:30:00Z"), restarted(1, "2030-01-01T11:58:00Z")),
            "3 (2m ago)",
        ),
        (pod({}, init=[(RUNNING, {"restartCount": 4})], phase="Pending"), "4"),
        (
            pod((RUNNING, STARTED), init=[(ended("Completed"), {"restartCount": 4})]),
            "0",
        ),
    ],
    ids=["never", "unknown when", "the last of several", "of init", "init is over"],
)
def test_restarts_say_how_many_and_when_last(shown, text):
    assert pod_summary.restarts(shown, NOW) == text
