"""What a namespace that is being deleted says of what holds it. Pure.

Source: Kubernetes' namespace deleter (pkg/controller/namespace/deletion).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from dynamo_operator.local_cluster.pod_status import timestamp

# By type: reason and message when all is well.
_WELL: Final = {
    "NamespaceDeletionDiscoveryFailure": (
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": (
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
}


@dataclass(slots=True)
class Remains:
    """What a namespace still holds.

    Args:
        undiscovered: why not all resources are known, or "".
        resources: how many objects of each resource, as `plural.group`.
        finalizers: how many of them each finalizer holds.
    """

    undiscovered: str = ""
    resources: Counter[str] = field(default_factory=Counter)
    finalizers: Counter[str] = field(default_factory=Counter)

    @property
    def is_empty(self) -> bool:
        """Whether surely nothing is left."""
        return not self.undiscovered and not self.resources


def ending_conditions(
    status: Mapping[str, Any], remains: Remains, now: datetime
) -> list[dict[str, Any]]:
    """Return the conditions of a namespace that is being deleted.

    Args:
        status: the namespace's.
        remains: what it holds.
        now: for conditions that change.
    """
    conditions: list[dict[str, Any]] = deepcopy(list(status.get("conditions") or ()))
    known = {condition["type"]: condition for condition in conditions}
    for type_, said in _said(remains).items():
        condition = known.get(type_)
        if condition is None:
            conditions.append({"type": type_, **said, "lastTransitionTime": timestamp(now)})
            continue
        if condition["status"] != said["status"]:
            condition["lastTransitionTime"] = timestamp(now)
        condition |= said
    return conditions


def _said(remains: Remains) -> dict[str, dict[str, str]]:
    said = {
        type_: {"status": "False", "reason": reason, "message": message}
        for type_, (reason, message) in _WELL.items()
    }
    if remains.undiscovered:
        said["NamespaceDeletionDiscoveryFailure"] = _true("DiscoveryFailed", remains.undiscovered)
    if remains.resources:
        listed = _listed(remains.resources, "{} has {} resource instances")
        said["NamespaceContentRemaining"] = _true(
            "SomeResourcesRemain", f"Some resources are remaining: {listed}"
        )
    if remains.finalizers:
        listed = _listed(remains.finalizers, "{} in {} resource instances")
        said["NamespaceFinalizersRemaining"] = _true(
            "SomeFinalizersRemain",
            f"Some content in the namespace has finalizers remaining: {listed}",
        )
    return said


def _true(reason: str, message: str) -> dict[str, str]:
    return {"status": "True", "reason": reason, "message": message}


def _listed(counts: Counter[str], form: str) -> str:
    return ", ".join(form.format(name, count) for name, count in sorted(counts.items()))
