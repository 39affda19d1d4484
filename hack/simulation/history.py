"""Everything that an API server ever committed, held against what must be true at every moment."""

from __future__ import annotations

from collections import Counter
from typing import Any

from dynamo_operator.api.labels import GROUP, REQUEST_GENERATION_LABEL, RUN_UID_LABEL
from dynamo_operator.api.v1beta2 import RunPhase
from dynamo_operator.apiserver.storage import Change, Storage, StorageKey

JOBS: StorageKey = ("batch", "jobs")
PODS: StorageKey = ("", "pods")
RUNS: StorageKey = (GROUP, "dynamographdeploymentruns")

_TERMINAL = (RunPhase.SUCCEEDED, RunPhase.FAILED)
_OVER = ("Succeeded", "Failed")
_ORDER: dict[str | None, int] = {
    None: 0,
    RunPhase.PENDING: 0,
    RunPhase.RUNNING: 1,
    RunPhase.SUCCEEDED: 2,
    RunPhase.FAILED: 2,
}


class History:
    """Follows a storage commit by commit and notes every broken promise.

    - A Run gets one Job, however often anything is deleted or restarted.
    - A Job is made only for a Run that goes on.
    - A generation of a Request gets one Run, and only when no older Run goes on.
    - The phase of a Run moves forward only, and nothing about an ended Run changes.
    - When a Run ends, nothing of it works any more: neither a Job that goes on, nor a Pod.

    Args:
        storage: of the API server.
    """

    def __init__(self, storage: Storage) -> None:
        self.violations: list[str] = []
        self.counts: Counter[str] = Counter()
        self._storage = storage
        self._jobs_of_run: Counter[str] = Counter()
        self._runs_of_generation: Counter[tuple[str, str]] = Counter()
        storage.on_commit(self._committed)

    def _committed(self, key: StorageKey, change: Change) -> None:
        if key == JOBS and change.type == "ADDED":
            self.counts["jobs"] += 1
            self._job_created(change)
        elif key == RUNS and change.type == "ADDED":
            self.counts["runs"] += 1
            self._run_created(change)
        elif key == RUNS and change.type == "MODIFIED":
            self._run_changed(change)

    def _job_created(self, change: Change) -> None:
        run_uid = _controller_uid(change.object.value)
        self._jobs_of_run[run_uid] += 1
        if self._jobs_of_run[run_uid] > 1:
            self._violated(f"Job {change.object.name} is another one of Run {run_uid}")
        for run in self._storage.objects(RUNS):
            phase = _phase(run.value)
            if run.value["metadata"]["uid"] == run_uid and phase in _TERMINAL:
                self._violated(f"Job {change.object.name} was made for a Run that is {phase}")

    def _run_created(self, change: Change) -> None:
        run = change.object
        request_uid = _controller_uid(run.value)
        generation = run.labels.get(REQUEST_GENERATION_LABEL, "")
        self._runs_of_generation[request_uid, generation] += 1
        if self._runs_of_generation[request_uid, generation] > 1:
            self._violated(f"Run {run.name} is another one of generation {generation}")
        for other in self._storage.objects(RUNS):
            if (
                other.key != run.key
                and _controller_uid(other.value) == request_uid
                and _phase(other.value) not in _TERMINAL
                and "deletionTimestamp" not in other.value["metadata"]
            ):
                self._violated(f"Run {run.name} was made while {other.name} goes on")

    def _run_changed(self, change: Change) -> None:
        assert change.previous is not None
        before, after = change.previous.value, change.object.value
        was, now = _phase(before), _phase(after)
        if _ORDER[now] < _ORDER[was]:
            self._violated(f"Run {change.object.name} went from {was} back to {now}")
        if was not in _TERMINAL:
            if now in _TERMINAL:
                self.counts[f"ended {_completed(after).get('reason')}"] += 1
                self._run_ended(change)
            return
        for what, old, new in (
            ("phase", was, now),
            ("Completed", _completed(before), _completed(after)),
            ("jobRef", before["status"].get("jobRef"), after["status"].get("jobRef")),
        ):
            if old != new:
                self._violated(
                    f"Run {change.object.name} had ended, and its {what} went from {old} to {new}"
                )

    def _run_ended(self, change: Change) -> None:
        run = change.object
        uid = run.value["metadata"]["uid"]
        for job in self._storage.objects(JOBS):
            if _controller_uid(job.value) == uid and not _is_finished(job.value):
                self._violated(f"Run {run.name} ended, and its Job {job.name} goes on")
        for pod in self._storage.objects(PODS):
            if pod.labels.get(RUN_UID_LABEL) == uid and _phase(pod.value) not in _OVER:
                self._violated(f"Run {run.name} ended, and its Pod {pod.name} goes on")

    def _violated(self, what: str) -> None:
        self.violations.append(f"version {self._storage.resource_version}: {what}")


def _phase(obj: dict[str, Any]) -> str | None:
    phase: str | None = obj.get("status", {}).get("phase")
    return phase


def _completed(run: dict[str, Any]) -> dict[str, Any]:
    conditions = run.get("status", {}).get("conditions") or ()
    return next((c for c in conditions if c["type"] == "Completed"), {})


def _is_finished(job: dict[str, Any]) -> bool:
    conditions = job.get("status", {}).get("conditions") or ()
    return any(c["type"] in ("Complete", "Failed") and c["status"] == "True" for c in conditions)


def _controller_uid(obj: dict[str, Any]) -> str:
    references = obj["metadata"].get("ownerReferences") or ()
    return next((r["uid"] for r in references if r.get("controller")), "")
