"""The ReplicaSets of a Deployment: which one is new, their revisions, and how they are named. Pure.

Source: Kubernetes' deployment controller (pkg/controller/deployment/util).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

from dynamo_operator.runtime.builtin_kinds import Deployment, ReplicaSet
from dynamo_operator.runtime.owner_references import owner_reference

TEMPLATE_HASH: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
REVISION_HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS: Final = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS: Final = "deployment.kubernetes.io/max-replicas"

_NOT_COPIED = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        "deprecated.deployment.rollback.to",
        REVISION,
        REVISION_HISTORY,
        DESIRED_REPLICAS,
        MAX_REPLICAS,
    }
)
_MOST_HISTORY_CHARACTERS = 2000
_LONGEST_NAME = 253
# Digits of a hash are written without vowels and without what is read as one, so that no name
# spells a word.
_SAFE = "bcdfghjklmnpqrstvwxz2456789"


def oldest_first(replica_sets: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    """Sort by creation, and by name what was created in the same second."""
    return sorted(replica_sets, key=lambda r: (r.metadata.creation_timestamp or "", r.key.name))


def find_new(deployment: Deployment, replica_sets: Sequence[ReplicaSet]) -> ReplicaSet | None:
    """Return the oldest ReplicaSet that has the Deployment's template, or None."""
    wanted = _without_hash(deployment.spec.get("template") or {})
    for replica_set in oldest_first(replica_sets):
        if _without_hash(replica_set.spec.get("template") or {}) == wanted:
            return replica_set
    return None


def revision_of(replica_set: ReplicaSet) -> int:
    """Return a ReplicaSet's revision, 0 where it has none that can be read."""
    text = replica_set.metadata.annotations.get(REVISION, "")
    return int(text) if text.isascii() and text.isdigit() else 0


def next_revision(old: Iterable[ReplicaSet]) -> int:
    """Return the revision that makes a ReplicaSet the newest."""
    return max(map(revision_of, old), default=0) + 1


def new_replica_set(
    deployment: Deployment, *, replicas: int, annotations: Mapping[str, str]
) -> dict[str, Any]:
    """Return the ReplicaSet of the Deployment's template, to be created."""
    spec = deployment.spec
    template: dict[str, Any] = deepcopy(spec.get("template") or {})
    digest = template_hash(template, deployment.status.get("collisionCount"))
    metadata = template.setdefault("metadata", {})
    metadata["labels"] = {**(metadata.get("labels") or {}), TEMPLATE_HASH: digest}
    selector: dict[str, Any] = deepcopy(spec.get("selector") or {})
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), TEMPLATE_HASH: digest}
    name = deployment.key.name[: _LONGEST_NAME - 1 - len(digest)]
    owner = {**owner_reference(deployment), "controller": True, "blockOwnerDeletion": True}
    return {
        "apiVersion": ReplicaSet.resource_type.api_version,
        "kind": ReplicaSet.resource_type.kind,
        "metadata": {
            "name": f"{name}-{digest}",
            "namespace": deployment.key.namespace,
            "labels": dict(metadata["labels"]),
            "annotations": dict(annotations),
            "ownerReferences": [owner],
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": spec.get("minReadySeconds", 0),
            "selector": selector,
            "template": template,
        },
    }


def template_hash(template: Mapping[str, Any], collisions: int | None) -> str:
    """Return the `pod-template-hash` of a template; another one after each collision."""
    text = json.dumps(_without_hash(template), sort_keys=True)
    salt = "" if collisions is None else str(collisions)
    number = int.from_bytes(hashlib.sha256(f"{text}{salt}".encode()).digest()[:4], "big")
    return "".join(_SAFE[ord(digit) % len(_SAFE)] for digit in str(number))


def copied_annotations(deployment: Deployment) -> dict[str, str]:
    """Return the annotations that a Deployment's newest ReplicaSet has of it."""
    annotations = deployment.metadata.annotations.items()
    return {name: value for name, value in annotations if name not in _NOT_COPIED}


def revised_annotations(
    deployment: Deployment, replica_set: ReplicaSet, revision: int
) -> dict[str, str]:
    """Return the annotations that make a ReplicaSet the newest; older revisions are noted."""
    before = replica_set.metadata.annotations
    annotations = {**before, **copied_annotations(deployment)}
    known = before.get(REVISION, "")
    if (known and not known.isdigit()) or revision_of(replica_set) >= revision:
        return annotations
    annotations[REVISION] = str(revision)
    if known:
        annotations[REVISION_HISTORY] = _lengthened(before.get(REVISION_HISTORY, ""), known)
    return annotations


def _lengthened(history: str, revision: str) -> str:
    revisions = [*filter(None, history.split(",")), revision]
    while len(",".join(revisions)) > _MOST_HISTORY_CHARACTERS:
        revisions.pop(0)
    return ",".join(revisions)


def _without_hash(template: Mapping[str, Any]) -> dict[str, Any]:
    """A template as templates are compared: without the hash's label and without what is empty."""
    metadata = {**(template.get("metadata") or {})}
    labels = metadata.get("labels") or {}
    metadata["labels"] = {name: value for name, value in labels.items() if name != TEMPLATE_HASH}
    metadata = {name: value for name, value in metadata.items() if value}
    return {"metadata": metadata, "spec": template.get("spec") or {}}
