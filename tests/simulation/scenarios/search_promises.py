"""What holds in every life of a search, whatever happens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dynamo_operator.api.conditions import AcceptedReason, ConditionType
from dynamo_operator.api.labels import (
    GROUP,
    REQUEST_GENERATION_LABEL,
    REQUEST_UID_LABEL,
    RUN_UID_LABEL,
)
from dynamo_operator.apiserver.resources import Object
from dynamo_operator.simulation import Mask
from dynamo_operator.simulation.history import Call, Commit, History
from dynamo_operator.simulation.invariants import (
    STANDARD,
    AtMostOne,
    CleanStop,
    Converges,
    ErrorsSurface,
    Justified,
    NoForeignTouch,
    NoLeak,
    Observed,
    Permitted,
    StatusForward,
    StatusTrue,
    WriteMinimal,
)
from dynamo_operator.simulation.invariants.invariant import conditions_of, controller_uid, status_of
from dynamo_operator.simulation.world import World
from informers.objects import ObjectKey

REQUESTS = (GROUP, "dynamographdeploymentrequests")
RUNS = (GROUP, "dynamographdeploymentruns")
CANDIDATES = (GROUP, "dynamographdeploymentcandidates")
JOBS = ("batch", "jobs")
PODS = ("", "pods")

RUN_PHASES = {
    "": ("Pending", "Running", "Succeeded", "Failed"),
    "Pending": ("Running", "Succeeded", "Failed"),
    "Running": ("Succeeded", "Failed"),
    "Succeeded": (),
    "Failed": (),
}
_OVER = ("Succeeded", "Failed")
_LONGEST_LAG_SECONDS = 120.0
"""By which what a process sees may be late."""
MASK = Mask(
    resources=Mask().resources | {PODS},  # how many a Job has is not the operator's doing
    texts=(
        r"(?<=-g\d-)[0-9a-f]{6}",  # of a Run's name
        r"\br[0-9a-f]{6}\b",  # of a graph's name
    ),
)


def _job_of_no_living_run(commit: Commit, history: History) -> str:
    owner = controller_uid(commit.object)
    run = history.living(owner)
    if run is None:
        return f"its Run {owner} is gone" if _was_gone(commit, owner, history) else ""
    phase = status_of(run).get("phase")
    return f"its Run is {phase}" if phase in _OVER else ""


def _was_gone(commit: Commit, uid: str, history: History) -> bool:
    """Whether the owner was gone when the operator looked for the last time before it wrote."""
    looked = _looked(commit, history)
    return any(
        c.verb == "delete" and c.uid == uid and c.seconds < looked
        for c in reversed(history.commits)
    )


def _looked(commit: Commit, history: History) -> float:
    """Return when the reconcile asked for the owner that a commit is for; else when it wrote."""
    call = commit.call
    if call is None:
        return commit.seconds
    for each in reversed(history.calls):
        is_look = each.verb == "get" and each.code == 200 and each.resource in (REQUESTS, RUNS)
        if is_look and each.reconcile == call.reconcile and each.number < call.number:
            return each.sent_seconds
    return call.sent_seconds


def _run_of_no_living_generation(commit: Commit, history: History) -> str:
    run = commit.object
    owner = controller_uid(run)
    request = history.living(owner)
    if request is None:
        return f"its Request {owner} is gone" if _was_gone(commit, owner, history) else ""
    for key, other in history.objects(RUNS).items():
        if (
            key != commit.key
            and controller_uid(other) == owner
            and status_of(other).get("phase") not in _OVER
            and "deletionTimestamp" not in other["metadata"]
        ):
            return f"Run {key.name} goes on"
    wanted = int(_generation_of(run))
    looked = _looked(commit, history)
    for each in reversed(history.commits):
        if each.seconds < looked and each.uid == owner and each.after is not None:
            generation = each.after["metadata"]["generation"]
            return f"generation {generation} is asked for" if generation > wanted else ""
    return ""


def _ended_untruly(run: Object, history: History) -> str:
    phase, uid = status_of(run).get("phase"), run["metadata"]["uid"]
    if phase not in _OVER:
        return ""
    for key, job in history.objects(JOBS).items():
        if controller_uid(job) == uid and not _is_finished(job):
            return f"it is {phase}, and its Job {key.name} goes on"
    for key, pod in history.objects(PODS).items():
        is_its = (pod["metadata"].get("labels") or {}).get(RUN_UID_LABEL) == uid
        if is_its and status_of(pod).get("phase") not in _OVER:
            return f"it is {phase}, and its Pod {key.name} goes on"
    if phase == "Succeeded" and not _had_complete_job(uid, history):
        return "it succeeded, and its Job was never complete"
    return ""


def _had_complete_job(uid: str, history: History) -> bool:
    return any(
        commit.resource == JOBS
        and commit.after is not None
        and controller_uid(commit.after) == uid
        and conditions_of(commit.after).get("Complete", {}).get("status") == "True"
        for commit in reversed(history.commits)
    )


def _is_finished(job: Object) -> bool:
    conditions = conditions_of(job)
    return any(conditions.get(kind, {}).get("status") == "True" for kind in ("Complete", "Failed"))


def _names_anothers_run(request: Object, history: History) -> str:
    uid, namespace = request["metadata"]["uid"], request["metadata"]["namespace"]
    active = status_of(request).get("activeRunRef") or {}
    recent = status_of(request).get("recentRunRefs") or ()
    for name in {active.get("name"), *(ref["name"] for ref in recent)} - {None}:
        run = history.objects(RUNS).get(ObjectKey(namespace, name))
        if run is not None and controller_uid(run) != uid and _is_known(run, history):
            return f"it names Run {name} of another Request"
    return ""


def _was_never_named(deletion: Commit, history: History) -> bool:
    """Whether the Request of a Run had not recorded it yet: nobody knows that it ever was."""
    owner, name = controller_uid(deletion.object), deletion.key.name
    return not any(
        (status_of(commit.after).get("activeRunRef") or {}).get("name") == name
        for commit in history.commits
        if commit.uid == owner and commit.after is not None
    )


def _is_known(obj: Object, history: History) -> bool:
    """Whether an object is there for so long that every cache has it."""
    until = history.commits[-1].seconds - _LONGEST_LAG_SECONDS
    return any(
        commit.verb == "create" and commit.uid == obj["metadata"]["uid"]
        for commit in history.commits
        if commit.seconds < until
    )


def _job_deleted_without_reason(commit: Commit, history: History) -> str:
    assert commit.before is not None
    run = history.living(controller_uid(commit.before))
    if run is None or "deletionTimestamp" in run["metadata"]:
        return ""
    reason = conditions_of(run).get("Completed", {}).get("reason")
    return f"its Run is {reason}" if reason in (None, "Pending", "Running", "Succeeded") else ""


def _generation_of(run: Object) -> str:
    return str(run["metadata"]["labels"][REQUEST_GENERATION_LABEL])


def _is_recorded_job(obj: Object, history: History) -> bool:
    uid = obj["metadata"]["uid"]
    return any(
        (status_of(run).get("jobRef") or {}).get("uid") == uid
        for run in history.objects(RUNS).values()
    )


def _asked_in_time(call: Call) -> bool:
    # Nobody may bind a Role that somebody has just widened: it is mended first, then bound.
    return call.code == 403 and call.resource[1] == "rolebindings"


SEARCH_INVARIANTS = (
    *STANDARD,
    CleanStop(within_seconds=27.0),
    AtMostOne(JOBS),
    AtMostOne(
        RUNS,
        per=lambda run: f"{controller_uid(run)} generation {_generation_of(run)}",
        again=_was_never_named,
    ),
    Justified(JOBS, "a Job is made only for a Run that goes on", _job_of_no_living_run),
    Justified(RUNS, "a Run is made only for what is asked for", _run_of_no_living_generation),
    Justified(
        JOBS,
        "a Job is deleted only when its Run ends",
        _job_deleted_without_reason,
        verb="delete",
    ),
    NoForeignTouch(REQUESTS, RUNS, is_own=_is_recorded_job),
    NoLeak(REQUESTS, RUNS, labels=[RUN_UID_LABEL, REQUEST_UID_LABEL]),
    StatusForward(
        RUNS,
        phases=RUN_PHASES,
        once=("jobRef.uid", "startTime", "completionTime", "executionSnapshot.uid"),
        frozen=("jobRef", "executionSnapshot", "conditions", "completionTime"),
    ),
    StatusForward(REQUESTS),
    StatusTrue(RUNS, "a Run is over when its Job is", _ended_untruly),
    StatusTrue(REQUESTS, "a Request names its own Runs", _names_anothers_run),
    Observed(REQUESTS, within_seconds=90.0),
    ErrorsSurface(REQUESTS, RUNS),
    Permitted(may=_asked_in_time),
    Converges(MASK),
    WriteMinimal(),
)


async def settled(world: World) -> str:
    """Say what is not over, or what does not tell the truth."""
    runs = {key.name: run for key, run in world.history.objects(RUNS).items()}
    for name, run in runs.items():
        if status_of(run).get("phase") not in _OVER:
            return f"Run {name} is {status_of(run)}"
        if "deletionTimestamp" in run["metadata"]:
            return f"Run {name} is being deleted"
    for request in world.history.objects(REQUESTS).values():
        if why := _unsettled(request, runs):
            return why
    return ""


def _unsettled(request: Object, runs: Mapping[str, Any]) -> str:
    name, generation = request["metadata"]["name"], request["metadata"]["generation"]
    accepted = conditions_of(request).get(ConditionType.ACCEPTED)
    if "deletionTimestamp" in request["metadata"]:
        return f"Request {name} is being deleted"
    if accepted is None or accepted.get("observedGeneration") != generation:
        return f"Request {name} does not speak of generation {generation}"
    if accepted["reason"] in (AcceptedReason.INVALID_INPUT, AcceptedReason.RUN_DELETED):
        return ""
    if accepted["reason"] != AcceptedReason.RUN_CREATED:
        return f"Request {name} is {accepted['reason']}: {accepted.get('message')}"
    active = str((status_of(request).get("activeRunRef") or {}).get("name"))
    run = runs.get(active)
    if run is None or run["metadata"]["labels"][REQUEST_GENERATION_LABEL] != str(generation):
        return f"Request {name} names {active}, not its Run"
    mirrored = conditions_of(request).get(ConditionType.COMPLETED, {}).get("reason")
    completed = conditions_of(run).get(ConditionType.COMPLETED, {}).get("reason")
    if mirrored != completed:
        return f"Request {name} says {mirrored}, its Run {completed}"
    return ""
