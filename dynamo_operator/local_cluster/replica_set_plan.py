"""How many Pods a ReplicaSet lacks or has too many, which go first, and its status. Pure.

Source of the ranking: Kubernetes' ActivePodsWithRanks (pkg/controller/controller_utils.go).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from datetime import datetime, timedelta
from functools import cmp_to_key
from typing import Any, Final

from dynamo_operator.local_cluster.pod_facts import (
    available_in,
    is_active,
    is_ready,
    ready_since,
)
from dynamo_operator.local_cluster.pod_status import parse_time, timestamp
from dynamo_operator.runtime.builtin_kinds import Pod, ReplicaSet

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}
_MOST_AT_ONCE = 500


def lacking(replica_set: ReplicaSet, active: Sequence[Pod]) -> int:
    """Return how many Pods are to be created now; negative: how many are to be deleted."""
    missing = int(replica_set.spec.get("replicas", 1)) - len(active)
    return max(min(missing, _MOST_AT_ONCE), -_MOST_AT_ONCE)


def first_to_go(
    active: Sequence[Pod], count: int, *, related: Iterable[Pod], now: datetime
) -> list[Pod]:
    """Choose the Pods that are missed least.

    In this order: on no node, pending, not ready, cheap to delete, on a node with many of their
    kind, ready for a short time, restarted often, young. Ages are compared by their logarithm, so
    that it is not always the Pods of the last scaling up that go; equals go by their UIDs.

    Args:
        active: the ReplicaSet's active Pods.
        count: how many of them.
        related: the Pods of all ReplicaSets of the same owner, for the crowd on each node.
        now: the time that ages are counted to.
    """
    if count >= len(active):
        return list(active)
    crowd = Counter(pod.spec.get("nodeName", "") for pod in related if is_active(pod))
    order = _Order(crowd, now)
    return sorted(active, key=cmp_to_key(order.compare))[:count]


def replica_set_status(
    replica_set: ReplicaSet,
    active: Sequence[Pod],
    terminating: Sequence[Pod],
    now: datetime,
    *,
    failure: str = "",
) -> dict[str, Any]:
    """Compute the status.

    Args:
        replica_set: as read.
        active: its active Pods.
        terminating: those that are being deleted.
        now: for availability and new conditions.
        failure: why Pods could not be created or deleted, or "".
    """
    template = (replica_set.spec.get("template") or {}).get("metadata") or {}
    labels = (template.get("labels") or {}).items()
    seconds = int(replica_set.spec.get("minReadySeconds") or 0)
    waits = [available_in(pod, seconds, now) for pod in active]
    ready = [wait for wait in waits if wait is not None]
    counts = {
        "fullyLabeledReplicas": sum(labels <= pod.metadata.labels.items() for pod in active),
        "readyReplicas": len(ready),
        "availableReplicas": sum(seconds == 0 or wait <= timedelta() for wait in ready),
    }
    status = {
        "replicas": len(active),
        **{name: count for name, count in counts.items() if count},
        "terminatingReplicas": len(terminating),
        "observedGeneration": replica_set.metadata.generation,
    }
    conditions = _conditions(replica_set, len(active), failure, now)
    return {**status, "conditions": conditions} if conditions else status


def next_availability(
    replica_set: ReplicaSet, active: Sequence[Pod], now: datetime
) -> float | None:
    """Return in how many seconds the next ready Pod will be available, or None."""
    seconds = int(replica_set.spec.get("minReadySeconds") or 0)
    waits = [available_in(pod, seconds, now) for pod in active]
    left = [wait.total_seconds() for wait in waits if wait is not None and wait > timedelta()]
    return min(left) if seconds and left else None


def _conditions(
    replica_set: ReplicaSet, active: int, failure: str, now: datetime
) -> list[dict[str, Any]]:
    conditions = deepcopy(replica_set.status.get("conditions") or [])
    kept = [c for c in conditions if c["type"] != "ReplicaFailure"]
    if not failure:
        return kept
    if len(kept) < len(conditions):
        return conditions  # it says already that, and since when, there is a failure
    short = active < int(replica_set.spec.get("replicas", 1))
    return [
        *kept,
        {
            "type": "ReplicaFailure",
            "status": "True",
            "reason": "FailedCreate" if short else "FailedDelete",
            "message": failure,
            "lastTransitionTime": timestamp(now),
        },
    ]


class _Order:
    """Compares two Pods of a ReplicaSet: negative when the first goes before the second."""

    def __init__(self, crowd: Mapping[str, int], now: datetime) -> None:
        self._crowd = crowd
        self._now = now

    def compare(self, one: Pod, other: Pod) -> int:
        first, second = self._worth(one), self._worth(other)
        if first != second:
            return -1 if first < second else 1
        by_readiness = self._by_age(one, other, ready_since(one), ready_since(other))
        if by_readiness:
            return by_readiness
        first_restarts, second_restarts = _restarts(one), _restarts(other)
        if first_restarts != second_restarts:
            return -1 if first_restarts > second_restarts else 1
        created = [parse_time(pod.metadata.creation_timestamp) for pod in (one, other)]
        return self._by_age(one, other, *created)

    def _worth(self, pod: Pod) -> tuple[bool, int, bool, int, int]:
        node = pod.spec.get("nodeName", "")
        return (
            bool(node),
            _PHASES.get(pod.status.get("phase", ""), 0),
            is_ready(pod),
            _deletion_cost(pod),
            -self._crowd.get(node, 0),
        )

    def _by_age(
        self, one: Pod, other: Pod, since: datetime | None, other_since: datetime | None
    ) -> int:
        if since is None or other_since is None or since == other_since:
            return 0
        first, second = self._rank(since), self._rank(other_since)
        if first == second:
            return -1 if one.uid < other.uid else 1
        return -1 if first < second else 1

    def _rank(self, since: datetime) -> int:
        nanoseconds = (self._now - since).total_seconds() * 1e9
        return int(math.log2(nanoseconds)) if nanoseconds > 0 else -1


def _deletion_cost(pod: Pod) -> int:
    text = pod.metadata.annotations.get(DELETION_COST, "0")
    try:
        return int(text)
    except ValueError:
        return 0


def _restarts(pod: Pod) -> tuple[int, int]:
    """The most restarts of a container, and of a sidecar."""
    sidecars = {
        container["name"]
        for container in pod.spec.get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    }
    main = [status.get("restartCount", 0) for status in pod.status.get("containerStatuses") or ()]
    beside = [
        status.get("restartCount", 0)
        for status in pod.status.get("initContainerStatuses") or ()
        if status["name"] in sidecars
    ]
    return max(main, default=0), max(beside, default=0)
