"""What a Deployment needs next. Pure.

being deleted               -> only its status
paused, or scaled amid rollout -> every ReplicaSet gets its share
RollingUpdate               -> the new ReplicaSet grows, the old ones shrink, within the limits
Recreate                    -> the new ReplicaSet grows once no old Pod runs
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from dynamo_operator.local_cluster.deployment_revisions import (
    REVISION,
    copied_annotations,
    find_new,
    new_replica_set,
    next_revision,
    oldest_first,
    revised_annotations,
    revision_of,
)
from dynamo_operator.local_cluster.deployment_sizes import (
    Limits,
    is_rolling,
    is_scaled,
    new_size,
    replicas_annotations,
    scaled_sizes,
    shrunk,
    size_of,
    total,
)
from dynamo_operator.local_cluster.deployment_status import StatusDraft
from dynamo_operator.runtime.builtin_kinds import Deployment, ReplicaSet

_NO_LIMIT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class DeploymentPlan:
    """What to do, in this order: create, replace, delete, write the status.

    Args:
        status: the status that the Deployment should have.
        revision: the revision that its annotation should have; None for the present one.
        create: a ReplicaSet to create, or None.
        replace: ReplicaSets as they are to be.
        delete: ReplicaSets that the history has no room for.
        events: notes of what was scaled.
        requeue_after: when to look again though nothing happens.
    """

    status: dict[str, Any]
    revision: str | None = None
    create: dict[str, Any] | None = None
    replace: tuple[ReplicaSet, ...] = ()
    delete: tuple[ReplicaSet, ...] = ()
    events: tuple[str, ...] = ()
    requeue_after: float | None = None


def plan_deployment(
    deployment: Deployment, replica_sets: Sequence[ReplicaSet], *, pods_run: bool, now: datetime
) -> DeploymentPlan:
    """Decide what a Deployment needs.

    Args:
        deployment: the Deployment.
        replica_sets: those that it controls.
        pods_run: whether Pods of its old ReplicaSets may still run; looked at for Recreate only.
        now: the time.
    """
    return _Planner(deployment, replica_sets, pods_run, now).plan()


@dataclass
class _Change:
    """What is to be different of one ReplicaSet."""

    size: int | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    min_ready_seconds: int | None = None


class _Planner:
    def __init__(
        self,
        deployment: Deployment,
        replica_sets: Sequence[ReplicaSet],
        pods_run: bool,
        now: datetime,
    ) -> None:
        self._deployment = deployment
        self._new = find_new(deployment, replica_sets)
        self._old = oldest_first(r for r in replica_sets if r is not self._new)
        self._pods_run = pods_run
        self._limits = Limits.of(deployment)
        self._draft = StatusDraft(deployment, now)
        self._changes: dict[str, _Change] = {}
        self._events: list[str] = []
        self._delete: tuple[ReplicaSet, ...] = ()
        self._create: dict[str, Any] | None = None
        self._revision: str | None = None

    def plan(self) -> DeploymentPlan:
        if self._deployment.is_deleting:
            return DeploymentPlan(self._draft.counted(self._new, self._old))
        self._draft.note_pause()
        if self._new is not None:
            self._renew(self._new)
        everyone = [*self._old, *([] if self._new is None else [self._new])]
        if self._deployment.spec.get("paused") or is_scaled(self._deployment, everyone):
            return self._plan_scaling()
        if is_rolling(self._deployment):
            self._roll()
        else:
            self._recreate()
        status = self._draft.rolled(self._new, self._old)
        return self._made(status, self._draft.seconds_to_deadline(status))

    def _plan_scaling(self) -> DeploymentPlan:
        sizes, annotate_all = scaled_sizes(self._deployment, self._new, self._old)
        for each in [*self._old, *([] if self._new is None else [self._new])]:
            if each.uid in sizes:
                self._resize(each, sizes[each.uid], annotate=annotate_all)
        if self._deployment.spec.get("paused"):
            self._clean_up()
        return self._made(self._draft.counted(self._new, self._old), None)

    def _made(self, status: dict[str, Any], requeue_after: float | None) -> DeploymentPlan:
        everyone = [*self._old, *([] if self._new is None else [self._new])]
        return DeploymentPlan(
            status=status,
            revision=self._revision,
            create=self._create,
            replace=tuple(
                _changed(each, self._changes[each.uid])
                for each in everyone
                if each.uid in self._changes
            ),
            delete=self._delete,
            events=tuple(self._events),
            requeue_after=requeue_after,
        )

    # --- the new ReplicaSet ---------------------------------------------------------------------

    def _renew(self, new: ReplicaSet) -> None:
        """Make the ReplicaSet of the present template the newest, if it is not already."""
        annotations = revised_annotations(self._deployment, new, next_revision(self._old))
        seconds = int(self._deployment.spec.get("minReadySeconds") or 0)
        if annotations != new.metadata.annotations:
            self._change(new).annotations = annotations
        if seconds != int(new.spec.get("minReadySeconds") or 0):
            self._change(new).min_ready_seconds = seconds
        self._show_revision(annotations.get(REVISION, ""))
        self._draft.note_found(new.key.name)

    def _make_new(self) -> None:
        revision = str(next_revision(self._old))
        annotations = {
            **copied_annotations(self._deployment),
            REVISION: revision,
            **replicas_annotations(self._limits),
        }
        size = new_size(self._limits, total(self._old), 0, rolling=is_rolling(self._deployment))
        self._create = new_replica_set(self._deployment, replicas=size, annotations=annotations)
        self._new = ReplicaSet.model_validate(self._create)
        if size > 0:
            self._events.append(f"Scaled up replica set {self._new.key.name} from 0 to {size}")
        self._show_revision(revision)
        self._draft.note_created(self._new.key.name)

    def _show_revision(self, revision: str) -> None:
        if self._deployment.metadata.annotations.get(REVISION) != revision:
            self._revision = revision

    # --- rollouts -------------------------------------------------------------------------------

    def _roll(self) -> None:
        if self._new is None:
            self._make_new()
        new = self._new
        assert new is not None  # made above
        size = new_size(self._limits, total(self._old), size_of(new), rolling=True)
        if self._resize(new, size):
            return  # one step at a time: the old ones shrink once this one has grown
        sizes = shrunk(self._limits, new, self._old)
        for each in self._old:
            if each.uid in sizes:
                self._resize(each, sizes[each.uid])
        if not sizes:
            self._clean_up_if_complete()

    def _recreate(self) -> None:
        shrinking = [each for each in self._old if size_of(each) > 0]
        for each in shrinking:
            self._resize(each, 0)
        old_pods = sum(int(each.status.get("replicas", 0)) for each in self._old)
        if shrinking or old_pods or self._pods_run:
            return
        if self._new is None:
            self._make_new()
        elif not self._resize(self._new, self._limits.desired):
            self._clean_up_if_complete()

    def _clean_up_if_complete(self) -> None:
        status, wanted = self._deployment.status, self._limits.desired
        counts = ("updatedReplicas", "replicas", "availableReplicas")
        is_seen = status.get("observedGeneration", 0) >= self._deployment.metadata.generation
        if is_seen and all(status.get(name, 0) == wanted for name in counts):
            self._clean_up()

    def _clean_up(self) -> None:
        """Choose the oldest of the ReplicaSets that are kept for going back, and have no Pods."""
        limit = self._deployment.spec.get("revisionHistoryLimit")
        if limit in (None, _NO_LIMIT):
            return
        kept = [each for each in self._old if not each.is_deleting]
        oldest = sorted(kept, key=revision_of)[: max(len(kept) - int(limit), 0)]
        self._delete = tuple(filter(_is_idle, oldest))

    # --- changes --------------------------------------------------------------------------------

    def _resize(self, replica_set: ReplicaSet, size: int, *, annotate: bool = False) -> bool:
        """Ask for a size; returns whether it is another one."""
        before = size_of(replica_set)
        if size == before and not annotate:
            return False
        known = self._changes.get(replica_set.uid)
        present = replica_set.metadata.annotations
        if known is not None and known.annotations:
            present = dict(known.annotations)
        annotations = {**present, **replicas_annotations(self._limits)}
        if annotations != present:
            self._change(replica_set).annotations = annotations
        if size == before:
            return False
        self._change(replica_set).size = size
        way = "up" if size > before else "down"
        name = replica_set.key.name
        self._events.append(f"Scaled {way} replica set {name} from {before} to {size}")
        return True

    def _change(self, replica_set: ReplicaSet) -> _Change:
        return self._changes.setdefault(replica_set.uid, _Change())


def _changed(replica_set: ReplicaSet, change: _Change) -> ReplicaSet:
    body = deepcopy(replica_set.to_dict())
    if change.annotations:
        body["metadata"]["annotations"] = dict(change.annotations)
    if change.size is not None:
        body["spec"]["replicas"] = change.size
    if change.min_ready_seconds is not None:
        body["spec"]["minReadySeconds"] = change.min_ready_seconds
    return ReplicaSet.model_validate(body)


def _is_idle(replica_set: ReplicaSet) -> bool:
    is_seen = replica_set.status.get("observedGeneration", 0) >= replica_set.metadata.generation
    return is_seen and size_of(replica_set) == 0 and not replica_set.status.get("replicas", 0)
