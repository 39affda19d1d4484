"""A Deployment's status: counts, and the conditions Available, Progressing, ReplicaFailure. Pure.

Source: Kubernetes' deployment controller (pkg/controller/deployment: sync.go, progress.go).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from datetime import datetime, timedelta
from typing import Any, Final

from dynamo_operator.local_cluster.deployment_sizes import Limits, size_of, total
from dynamo_operator.local_cluster.pod_status import parse_time, timestamp
from dynamo_operator.runtime.builtin_kinds import Deployment, ReplicaSet

_COMPLETE: Final = "NewReplicaSetAvailable"
_TIMED_OUT: Final = "ProgressDeadlineExceeded"
_PAUSED: Final = "DeploymentPaused"
_NO_LIMIT: Final = 2**31 - 1


class StatusDraft:
    """The status that a Deployment is to have, worked on step by step.

    Args:
        deployment: as read.
        now: for conditions.
    """

    def __init__(self, deployment: Deployment, now: datetime) -> None:
        self._deployment = deployment
        self._now = now
        self._conditions: list[dict[str, Any]] = deepcopy(deployment.status.get("conditions") or [])
        seconds = deployment.spec.get("progressDeadlineSeconds")
        self._deadline = None if seconds in (None, _NO_LIMIT) else int(seconds or 0)

    def note_pause(self) -> None:
        """Say that the Deployment was paused or resumed; time-outs begin anew with that."""
        reason = self._reason("Progressing")
        if self._deadline is None or reason == _TIMED_OUT:
            return
        paused = bool(self._deployment.spec.get("paused"))
        if paused and reason != _PAUSED:
            self._set("Progressing", "Unknown", _PAUSED, "Deployment is paused")
        elif not paused and reason == _PAUSED:
            self._set("Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed")

    def note_found(self, name: str) -> None:
        """Say that there is a ReplicaSet of the present template, if nothing is said yet."""
        if self._deadline is not None and self._find("Progressing") is None:
            message = f'Found new replica set "{name}"'
            self._set("Progressing", "True", "FoundNewReplicaSet", message)

    def note_created(self, name: str) -> None:
        """Say that the ReplicaSet of the present template was created."""
        if self._deadline is not None:
            message = f'Created new replica set "{name}"'
            self._set("Progressing", "True", "NewReplicaSetCreated", message)

    def note_create_failed(self, message: str) -> None:
        """Say why the ReplicaSet of the present template could not be created."""
        if self._deadline is not None:
            self._set("Progressing", "False", "ReplicaSetCreateError", message)

    def counted(self, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> dict[str, Any]:
        """Return the status with its counts and the condition Available."""
        counts = self._counts(new, old)
        limits = Limits.of(self._deployment)
        if counts.get("availableReplicas", 0) >= limits.least_available:
            message = "Deployment has minimum availability."
            self._set("Available", "True", "MinimumReplicasAvailable", message)
        else:
            message = "Deployment does not have minimum availability."
            self._set("Available", "False", "MinimumReplicasUnavailable", message)
        return self._whole(counts)

    def rolled(self, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> dict[str, Any]:
        """Return the status of a rollout: counted, with its progress and failures."""
        counts = self.counted(new, old)
        if self._deadline is None:
            self._remove("Progressing")
        elif not self._was_complete(counts):
            self._note_progress(new, counts)
        failures = [
            condition
            for replica_set in ([new] if new is not None else []) + list(old)
            for condition in replica_set.status.get("conditions") or ()
            if condition["type"] == "ReplicaFailure"
        ]
        if failures:
            self._copy_failure(failures[0])
        else:
            self._remove("ReplicaFailure")
        return self._whole(counts)

    def as_read(self) -> dict[str, Any]:
        """Return the status as it was read, with the conditions as they are by now."""
        return self._whole(self._deployment.status)

    def seconds_to_deadline(self, status: dict[str, Any]) -> float | None:
        """Return when to look whether the rollout has stalled, or None when it cannot have."""
        condition = self._find("Progressing")
        if self._deadline is None or condition is None or self._is_complete(status):
            return None
        if condition.get("reason") == _TIMED_OUT:
            return None
        left = (self._deadline_of(condition) - self._now).total_seconds()
        return max(left, 0.0) + 1.0  # a time is kept without its fraction

    def _counts(self, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> dict[str, Any]:
        everyone = [*old, *([] if new is None else [new])]

        def sum_of(name: str) -> int:
            return sum(int(each.status.get(name, 0)) for each in everyone)

        available = sum_of("availableReplicas")
        counts = {
            "observedGeneration": self._deployment.metadata.generation,
            "replicas": sum_of("replicas"),
            "updatedReplicas": 0 if new is None else int(new.status.get("replicas", 0)),
            "readyReplicas": sum_of("readyReplicas"),
            "availableReplicas": available,
            "unavailableReplicas": max(total(everyone) - available, 0),
        }
        counts = {name: count for name, count in counts.items() if count}
        seen = [each for each in everyone if each.status.get("observedGeneration")]
        if all("terminatingReplicas" in each.status for each in seen):
            counts["terminatingReplicas"] = sum_of("terminatingReplicas")
        if "collisionCount" in self._deployment.status:
            counts["collisionCount"] = self._deployment.status["collisionCount"]
        return counts

    def _note_progress(self, new: ReplicaSet | None, status: dict[str, Any]) -> None:
        name = self._deployment.key.name
        subject = f'Deployment "{name}"' if new is None else f'ReplicaSet "{new.key.name}"'
        if self._is_complete(status):
            message = f"{subject} has successfully progressed."
            self._set("Progressing", "True", _COMPLETE, message)
        elif self._progressed(status):
            self._refresh("ReplicaSetUpdated", f"{subject} is progressing.")
        elif self._timed_out():
            self._set("Progressing", "False", _TIMED_OUT, f"{subject} has timed out progressing.")

    def _is_complete(self, status: dict[str, Any]) -> bool:
        wanted = size_of(self._deployment)
        names = ("updatedReplicas", "replicas", "availableReplicas")
        return all(status.get(name, 0) == wanted for name in names)

    def _was_complete(self, status: dict[str, Any]) -> bool:
        """Whether this is no rollout: the last one is over, and only its Pods are there."""
        is_updated = status.get("replicas", 0) == status.get("updatedReplicas", 0)
        return is_updated and self._reason("Progressing") == _COMPLETE

    def _progressed(self, status: dict[str, Any]) -> bool:
        before = self._deployment.status

        def old_pods(counts: dict[str, Any]) -> int:
            return int(counts.get("replicas", 0)) - int(counts.get("updatedReplicas", 0))

        grown = ("updatedReplicas", "readyReplicas", "availableReplicas")
        return old_pods(status) < old_pods(before) or any(
            status.get(name, 0) > before.get(name, 0) for name in grown
        )

    def _timed_out(self) -> bool:
        condition = self._find("Progressing")
        if condition is None or condition.get("reason") == _COMPLETE:
            return False
        if condition.get("reason") == _TIMED_OUT:
            return True
        return self._deadline_of(condition) < self._now

    def _deadline_of(self, condition: dict[str, Any]) -> datetime:
        updated = parse_time(condition.get("lastUpdateTime")) or self._now
        return updated + timedelta(seconds=self._deadline or 0)

    # --- conditions -----------------------------------------------------------------------------

    def _find(self, type_: str) -> dict[str, Any] | None:
        return next((c for c in self._conditions if c["type"] == type_), None)

    def _reason(self, type_: str) -> str:
        return str((self._find(type_) or {}).get("reason", ""))

    def _remove(self, type_: str) -> None:
        self._conditions = [c for c in self._conditions if c["type"] != type_]

    def _set(self, type_: str, status: str, reason: str, message: str) -> None:
        """Set a condition, unless it has that status and reason already."""
        known = self._find(type_)
        if known is not None and (known["status"], known.get("reason")) == (status, reason):
            return
        self._put(type_, status, reason, message)

    def _refresh(self, reason: str, message: str) -> None:
        self._put("Progressing", "True", reason, message)

    def _put(self, type_: str, status: str, reason: str, message: str) -> None:
        known, now = self._find(type_), timestamp(self._now)
        is_same = known is not None and known["status"] == status
        since = known.get("lastTransitionTime", now) if is_same and known is not None else now
        self._remove(type_)
        self._conditions.append(
            {
                "type": type_,
                "status": status,
                "lastUpdateTime": now,
                "lastTransitionTime": since,
                "reason": reason,
                "message": message,
            }
        )

    def _copy_failure(self, failure: dict[str, Any]) -> None:
        known = self._find("ReplicaFailure")
        names = ("status", "reason")
        if known is not None and all(known.get(n) == failure.get(n) for n in names):
            return
        self._remove("ReplicaFailure")
        time = failure.get("lastTransitionTime")
        self._conditions.append({**failure, "lastUpdateTime": time})

    def _whole(self, counts: dict[str, Any]) -> dict[str, Any]:
        whole = {name: value for name, value in counts.items() if name != "conditions"}
        return {**whole, "conditions": deepcopy(self._conditions)} if self._conditions else whole
