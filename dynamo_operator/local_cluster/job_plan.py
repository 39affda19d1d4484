"""What a Job's Pods mean for it, and what is to be done next. Pure.

A finished Pod is counted exactly once, in three steps that may be interrupted anywhere: its UID
goes into `status.uncountedTerminatedPods`; then its tracking finalizer is removed; then, when no
Pod of that UID holds the finalizer any more, the UID leaves the list and the counter grows.

A Job ends in two steps: SuccessCriteriaMet or FailureTarget says how it will end, and Complete or
Failed says that nothing of it runs any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from dynamo_operator.local_cluster.pod_status import parse_time, timestamp
from dynamo_operator.runtime.builtin_kinds import Job, Pod
from informers.objects import controller_ref

TRACKING_FINALIZER = "batch.kubernetes.io/job-tracking"

_DEFAULT_BACKOFF_LIMIT = 6
_FIRST_BACKOFF_SECONDS = 10.0
_LONGEST_BACKOFF_SECONDS = 600.0
_TARGETS = {"SuccessCriteriaMet": "Complete", "FailureTarget": "Failed"}


@dataclass(frozen=True, slots=True)
class Removal:
    """A Pod to delete; `counts` when its end is to be counted as a failure."""

    pod: Pod
    counts: bool


@dataclass(frozen=True, slots=True)
class JobPlan:
    """What to do, in this order: write the status, release, remove, create.

    Args:
        status: the status that the Job should have.
        release: Pods whose tracking finalizer goes.
        remove: Pods to delete.
        create: how many Pods to create.
        expired: whether the Job's time to live is over and it is to be deleted.
        requeue_after: when to look again though nothing happens.
        events: type, reason, note of what is worth telling.
    """

    status: dict[str, Any]
    release: tuple[Pod, ...] = ()
    remove: tuple[Removal, ...] = ()
    create: int = 0
    expired: bool = False
    requeue_after: float | None = None
    events: tuple[tuple[str, str, str], ...] = ()


def plan_job(job: Job, pods: Sequence[Pod], now: datetime) -> JobPlan:
    """Decide what a Job needs.

    Args:
        job: the Job.
        pods: the Pods that it controls.
        now: the time.
    """
    if job.is_deleting:
        # The garbage collector deletes the Pods; nothing must hold them.
        return JobPlan(status=job.status, release=tuple(filter(is_tracked, pods)))
    if finished_condition(job.status) is not None:
        return _plan_finished(job, pods, now)
    return _Planner(job, pods, now).plan()


def finished_condition(status: dict[str, Any]) -> dict[str, Any] | None:
    """The Complete or Failed condition, when it is true."""
    return _true_condition(status, _TARGETS.values())


def is_tracked(pod: Pod) -> bool:
    """Whether the Pod's end is still to be counted."""
    return TRACKING_FINALIZER in pod.metadata.finalizers


def belongs_to(pod: Pod, job: Job) -> bool:
    """Whether the Job is the Pod's controller."""
    owner = controller_ref(pod)
    return owner is not None and owner.uid == job.uid


def _plan_finished(job: Job, pods: Sequence[Pod], now: datetime) -> JobPlan:
    plan = JobPlan(status=job.status, release=tuple(filter(is_tracked, pods)))
    condition = finished_condition(job.status)
    seconds = job.spec.get("ttlSecondsAfterFinished")
    if condition is None or seconds is None:
        return plan
    finished = parse_time(condition.get("lastTransitionTime")) or now
    left = (finished + timedelta(seconds=seconds) - now).total_seconds()
    return replace(plan, requeue_after=left) if left > 0 else replace(plan, expired=True)


class _Planner:
    """Works on one Job that has not finished."""

    def __init__(self, job: Job, pods: Sequence[Pod], now: datetime) -> None:
        self._job = job
        self._pods = pods
        self._now = now
        self._status: dict[str, Any] = deepcopy(job.status)
        self._events: list[tuple[str, str, str]] = []
        self._suspended = bool(job.spec.get("suspend"))
        self._waits_for_failed = job.spec.get("podReplacementPolicy") == "Failed"
        self._active = [p for p in pods if not _has_ended(p) and not p.is_deleting]
        self._terminating = [p for p in pods if not _has_ended(p) and p.is_deleting]
        self._requeue: list[float] = []

    def plan(self) -> JobPlan:
        self._count()
        self._start_or_suspend()
        if _true_condition(self._status, _TARGETS) is None:
            self._set_target()
        target = _true_condition(self._status, _TARGETS)
        remove: tuple[Removal, ...] = ()
        create = 0
        if target is not None:
            remove = tuple(Removal(pod, counts=True) for pod in self._active)
            self._finish(target)
        else:
            remove, create = self._balance()
        self._write_counts()
        uncounted = self._status["uncountedTerminatedPods"]
        counted = {uid for uids in uncounted.values() for uid in uids}
        return JobPlan(
            status=self._status,
            release=tuple(p for p in self._pods if p.uid in counted and is_tracked(p)),
            remove=remove,
            create=create,
            requeue_after=min(self._requeue, default=None),
            events=tuple(self._events),
        )

    # --- counting -------------------------------------------------------------------------------

    def _count(self) -> None:
        uncounted = self._status.get("uncountedTerminatedPods") or {}
        held = {pod.uid for pod in self._pods if is_tracked(pod)}
        lists: dict[str, list[str]] = {}
        for kind in ("succeeded", "failed"):
            known = uncounted.get(kind) or []
            lists[kind] = [uid for uid in known if uid in held]
            self._status[kind] = self._status.get(kind, 0) + len(known) - len(lists[kind])
        listed = {uid for uids in lists.values() for uid in uids}
        for pod in self._pods:
            if not is_tracked(pod) or pod.uid in listed:
                continue
            if _has_succeeded(pod):
                lists["succeeded"].append(pod.uid)
            elif _has_failed(pod) and (_has_ended(pod) or not self._waits_for_failed):
                lists["failed"].append(pod.uid)
        self._status["uncountedTerminatedPods"] = {k: uids for k, uids in lists.items() if uids}

    def _total(self, kind: str) -> int:
        uncounted = self._status["uncountedTerminatedPods"].get(kind, [])
        return int(self._status[kind]) + len(uncounted)

    # --- starting and suspending ----------------------------------------------------------------

    def _start_or_suspend(self) -> None:
        if self._suspended:
            if self._set("Suspended", "True", "JobSuspended", "Job suspended"):
                self._events.append(("Normal", "Suspended", "Job suspended"))
            self._status.pop("startTime", None)
            return
        if _true_condition(self._status, ("Suspended",)) is not None:
            self._set("Suspended", "False", "JobResumed", "Job resumed")
            self._events.append(("Normal", "Resumed", "Job resumed"))
        self._status.setdefault("startTime", timestamp(self._now))

    # --- ending ---------------------------------------------------------------------------------

    def _set_target(self) -> None:
        if failure := self._failure():
            self._set("FailureTarget", "True", *failure)
        elif self._has_succeeded():
            text = "Reached expected number of succeeded pods"
            self._set("SuccessCriteriaMet", "True", "CompletionsReached", text)

    def _failure(self) -> tuple[str, str] | None:
        limit = self._job.spec.get("backoffLimit", _DEFAULT_BACKOFF_LIMIT)
        if self._total("failed") > limit or self._restarted_too_often(limit):
            return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        seconds = self._job.spec.get("activeDeadlineSeconds")
        started = parse_time(self._status.get("startTime"))
        if seconds is None or started is None:
            return None
        left = seconds - (self._now - started).total_seconds()
        if left <= 0:
            return "DeadlineExceeded", "Job was active longer than specified deadline"
        self._requeue.append(left)
        return None

    def _restarted_too_often(self, limit: int) -> bool:
        template = self._job.spec.get("template") or {}
        if (template.get("spec") or {}).get("restartPolicy") != "OnFailure":
            return False
        restarts: int = sum(
            status.get("restartCount", 0)
            for pod in self._active
            for part in ("containerStatuses", "initContainerStatuses")
            for status in pod.status.get(part) or ()
        )
        return restarts > 0 and restarts >= limit

    def _has_succeeded(self) -> bool:
        if self._suspended:
            return False
        completions = self._job.spec.get("completions")
        if completions is None:
            return self._total("succeeded") > 0 and not self._active
        return self._total("succeeded") >= int(completions)

    def _finish(self, target: dict[str, Any]) -> None:
        """Say that the Job has ended, once none of its Pods runs or waits to be counted."""
        waits = self._active or self._terminating or self._status["uncountedTerminatedPods"]
        if waits:
            return
        final = _TARGETS[target["type"]]
        self._set(final, "True", target.get("reason", ""), target.get("message", ""))
        if final == "Complete":
            self._status["completionTime"] = timestamp(self._now)
            self._events.append(("Normal", "Completed", "Job completed"))
        else:
            event = ("Warning", target.get("reason", ""), target.get("message", ""))
            self._events.append(event)
        seconds = self._job.spec.get("ttlSecondsAfterFinished")
        if seconds:
            self._requeue.append(float(seconds))

    # --- the right number of Pods ---------------------------------------------------------------

    def _balance(self) -> tuple[tuple[Removal, ...], int]:
        wanted = 0 if self._suspended else self._wanted_active()
        # Replacements may have to wait until what they replace has ended.
        held = len(self._terminating) if self._waits_for_failed else 0
        surplus = len(self._active) - wanted
        if surplus < 0:
            surplus = min(surplus + held, 0)
        if surplus > 0:
            chosen = sorted(self._active, key=_worth)[:surplus]
            return tuple(Removal(pod, counts=False) for pod in chosen), 0
        delay = self._backoff_left()
        if surplus < 0 and delay > 0:
            self._requeue.append(delay)
            return (), 0
        return (), -surplus

    def _wanted_active(self) -> int:
        parallelism = int(self._job.spec.get("parallelism", 1))
        completions = self._job.spec.get("completions")
        if completions is None:
            # A work queue: once one has succeeded, no new ones.
            return len(self._active) if self._total("succeeded") else parallelism
        return max(min(parallelism, int(completions) - self._total("succeeded")), 0)

    def _backoff_left(self) -> float:
        failures = self._total("failed")
        ended = [_ended_at(pod) or self._now for pod in self._pods if _has_failed(pod)]
        if not failures or not ended:
            return 0.0
        delay: float = min(
            _FIRST_BACKOFF_SECONDS * 2 ** min(failures - 1, 10), _LONGEST_BACKOFF_SECONDS
        )
        return delay - (self._now - max(ended)).total_seconds()

    # --- the status -----------------------------------------------------------------------------

    def _write_counts(self) -> None:
        ready = sum(_is_ready(pod) for pod in self._active)
        for name, value in (("active", len(self._active)), ("succeeded", 0), ("failed", 0)):
            self._status[name] = self._status.get(name, 0) if name != "active" else value
            if not self._status[name]:
                del self._status[name]
        self._status |= {"ready": ready, "terminating": len(self._terminating)}

    def _set(self, type_: str, status: str, reason: str, message: str) -> bool:
        """Set a condition; returns whether its status changed."""
        conditions: list[dict[str, Any]] = self._status.setdefault("conditions", [])
        known = next((c for c in conditions if c["type"] == type_), None)
        if known is not None and known["status"] == status:
            return False
        if known is not None:
            conditions.remove(known)
        now = timestamp(self._now)
        conditions.append(
            {
                "type": type_,
                "status": status,
                "reason": reason,
                "message": message,
                "lastProbeTime": now,
                "lastTransitionTime": now,
            }
        )
        return True


def _true_condition(status: dict[str, Any], types: Iterable[str]) -> dict[str, Any] | None:
    wanted = set(types)
    for condition in status.get("conditions") or ():
        if condition["type"] in wanted and condition["status"] == "True":
            found: dict[str, Any] = condition
            return found
    return None


def _has_ended(pod: Pod) -> bool:
    return pod.status.get("phase") in ("Succeeded", "Failed")


def _has_succeeded(pod: Pod) -> bool:
    return pod.status.get("phase") == "Succeeded"


def _has_failed(pod: Pod) -> bool:
    """A Pod that is deleted has failed: it may never get to say so itself."""
    return pod.status.get("phase") == "Failed" or (pod.is_deleting and not _has_succeeded(pod))


def _is_ready(pod: Pod) -> bool:
    conditions = pod.status.get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _worth(pod: Pod) -> tuple[bool, bool, bool, float]:
    """Which of several Pods goes first: unscheduled, pending, unready, youngest."""
    created = parse_time(pod.metadata.creation_timestamp)
    return (
        bool(pod.spec.get("nodeName")),
        pod.status.get("phase") == "Running",
        _is_ready(pod),
        -(created.timestamp() if created else 0.0),
    )


def _ended_at(pod: Pod) -> datetime | None:
    times = [
        parse_time((status.get("state") or {}).get("terminated", {}).get("finishedAt"))
        for status in pod.status.get("containerStatuses") or ()
    ]
    known = [time for time in times if time is not None]
    if known:
        return max(known)
    return parse_time(pod.metadata.deletion_timestamp or pod.metadata.creation_timestamp)
