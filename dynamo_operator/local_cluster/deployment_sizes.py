"""How large the ReplicaSets of a Deployment are to be: rollouts, and scaling amid one. Pure.

Source: Kubernetes' deployment controller (pkg/controller/deployment: rolling.go, sync.go), whose
rules these are but for one: a ReplicaSet that was made smaller is never taken to have more
available Pods than it is to have, though its status may still say so. With that, more old Pods
would go than `maxUnavailable` allows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dynamo_operator.local_cluster.deployment_revisions import (
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    oldest_first,
)
from dynamo_operator.runtime.builtin_kinds import Deployment, ReplicaSet


def size_of(obj: Deployment | ReplicaSet) -> int:
    """Return `spec.replicas`."""
    return int(obj.spec.get("replicas", 1))


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a rolling update may go over and under the number of Pods that is wanted."""

    desired: int
    max_surge: int
    max_unavailable: int

    @classmethod
    def of(cls, deployment: Deployment) -> Limits:
        """Compute them from numbers or percents; a surge is rounded up, the rest down."""
        desired = size_of(deployment)
        strategy = deployment.spec.get("strategy") or {}
        if not is_rolling(deployment):
            return cls(desired, 0, 0)
        rolling = strategy.get("rollingUpdate") or {}
        surge = scaled(rolling.get("maxSurge", 0), desired, up=True)
        unavailable = scaled(rolling.get("maxUnavailable", 0), desired, up=False)
        if surge == 0 and unavailable == 0:
            unavailable = 1  # rounding must not stop every rollout
        return cls(desired, surge, min(unavailable, desired))

    @property
    def most(self) -> int:
        """The largest number of Pods."""
        return self.desired + self.max_surge

    @property
    def least_available(self) -> int:
        """The smallest number of available Pods."""
        return self.desired - self.max_unavailable


def is_rolling(deployment: Deployment) -> bool:
    """Whether old Pods make room little by little."""
    strategy = deployment.spec.get("strategy") or {}
    return bool(strategy.get("type", "RollingUpdate") == "RollingUpdate")


def total(replica_sets: Iterable[ReplicaSet]) -> int:
    """Return how many Pods some ReplicaSets are to have."""
    return sum(map(size_of, replica_sets))


def available(replica_set: ReplicaSet) -> int:
    """Return how many available Pods a ReplicaSet surely keeps."""
    return min(int(replica_set.status.get("availableReplicas", 0)), size_of(replica_set))


def new_size(limits: Limits, others: int, present: int, *, rolling: bool) -> int:
    """Return the size of the new ReplicaSet in a rollout.

    Args:
        limits: of the Deployment.
        others: how many Pods its other ReplicaSets are to have.
        present: its present size.
        rolling: whether to stay within the limits.
    """
    if not rolling or present > limits.desired:
        return limits.desired
    room = max(limits.most - others - present, 0)
    return present + min(room, limits.desired - present)


def shrunk(limits: Limits, new: ReplicaSet, old: Sequence[ReplicaSet]) -> dict[str, int]:
    """Return the sizes, by UID, of the old ReplicaSets that a rolling update makes smaller.

    First go Pods that are not available, as they are no loss; then as many of the others as
    available ones are left over.
    """
    old = [each for each in oldest_first(old) if size_of(each) > 0]
    sizes = {each.uid: size_of(each) for each in old}
    missing = size_of(new) - available(new)
    may_go = total(old) + size_of(new) - limits.least_available - missing
    if may_go <= 0:
        return {}
    for each in old:
        taken = min(may_go, sizes[each.uid] - available(each))
        sizes[each.uid] -= taken
        may_go -= taken
    spare = available(new) - limits.least_available
    spare += sum(min(available(each), sizes[each.uid]) for each in old)
    for each in old:
        taken = min(max(spare, 0), sizes[each.uid])
        sizes[each.uid] -= taken
        spare -= taken
    return {each.uid: sizes[each.uid] for each in old if sizes[each.uid] != size_of(each)}


def is_scaled(deployment: Deployment, replica_sets: Iterable[ReplicaSet]) -> bool:
    """Whether the number of wanted Pods changed since the ReplicaSets were last sized."""
    for replica_set in replica_sets:
        text = replica_set.metadata.annotations.get(DESIRED_REPLICAS, "")
        if size_of(replica_set) > 0 and text.isdigit() and int(text) != size_of(deployment):
            return True
    return False


def scaled_sizes(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]
) -> tuple[dict[str, int], bool]:
    """Return the sizes, by UID, after a change of the number of wanted Pods or while paused.

    Every ReplicaSet keeps its share, so that a rollout goes neither on nor back by it.

    Returns:
        The sizes, and whether the annotations of all of them are to be brought up to date.
    """
    limits, wanted = Limits.of(deployment), size_of(deployment)
    everyone = [*old, *([] if new is None else [new])]
    active = [each for each in everyone if size_of(each) > 0]
    if len(active) <= 1:
        newest = new or next(iter(reversed(oldest_first(old))), None)
        only = active[0] if active else newest
        return ({} if only is None else {only.uid: wanted}), False
    if new is not None and _is_saturated(wanted, new):
        return {each.uid: 0 for each in active if each is not new}, False
    if not is_rolling(deployment):
        return {}, False
    allowed = limits.most if wanted > 0 else 0
    return _shares(deployment, limits, active, allowed - total(active)), True


def _shares(
    deployment: Deployment, limits: Limits, active: Sequence[ReplicaSet], to_add: int
) -> dict[str, int]:
    # From the largest to the smallest; among equals growth goes to the newest, loss to the oldest.
    ordered = oldest_first(active)
    if to_add > 0:
        ordered.reverse()
    if to_add:
        ordered.sort(key=size_of, reverse=True)
    sizes: dict[str, int] = {}
    added = 0
    for each in ordered:
        share = 0
        if to_add != added:
            share = _fraction(deployment, limits, each)
            left = to_add - added
            share = min(share, left) if to_add > 0 else max(share, left)
        sizes[each.uid] = size_of(each) + share
        added += share
    largest = ordered[0].uid
    sizes[largest] = max(sizes[largest] + to_add - added, 0)
    return sizes


def _fraction(deployment: Deployment, limits: Limits, replica_set: ReplicaSet) -> int:
    size = size_of(replica_set)
    if limits.desired == 0:
        return -size
    text = replica_set.metadata.annotations.get(MAX_REPLICAS, "")
    before = int(text) if text.isascii() and text.isdigit() else 0
    before = before or int(deployment.status.get("replicas", 0))
    if before == 0:
        return 0
    return math.floor(size * limits.most / before + 0.5) - size


def _is_saturated(wanted: int, new: ReplicaSet) -> bool:
    annotated = new.metadata.annotations.get(DESIRED_REPLICAS)
    available_pods = new.status.get("availableReplicas", 0)
    return size_of(new) == wanted == available_pods and annotated == str(wanted)


def scaled(value: Any, desired: int, *, up: bool) -> int:
    """Resolve a number, or a percent of the wanted Pods, rounded up or down."""
    if isinstance(value, str) and value.endswith("%"):
        hundredths = int(value[:-1]) * desired
        return -(-hundredths // 100) if up else hundredths // 100
    return int(value)


def replicas_annotations(limits: Limits) -> Mapping[str, str]:
    """Return the annotations by which a later change of the size is noticed."""
    return {DESIRED_REPLICAS: str(limits.desired), MAX_REPLICAS: str(limits.most)}
