"""Owner references: who an object belongs to and disappears with."""

from __future__ import annotations

from typing import Any

from dynamo_operator.runtime.models import KubeModel
from informers.objects import OwnerReference, controller_ref


class OwnershipError(ValueError):
    """An owner cannot own an object; one line saying why."""


def controller_reference(owner: KubeModel) -> dict[str, Any]:
    """Return the JSON of the reference that makes `owner` the controller of an object."""
    return {**owner_reference(owner), "controller": True, "blockOwnerDeletion": True}


def owner_reference(owner: KubeModel) -> dict[str, Any]:
    """Return the JSON of a reference to one owner of several, none of them the controller.

    An object that is applied with it in `metadata.ownerReferences` gets it beside those of others,
    and loses it when it is applied without.

    Raises:
        OwnershipError: the owner is not stored.
    """
    resource_type = owner.resource_type
    if not owner.uid:
        raise OwnershipError(f"{resource_type} {owner.key} has no UID: only a stored object owns")
    return {
        "apiVersion": resource_type.api_version,
        "kind": resource_type.kind,
        "name": owner.key.name,
        "uid": owner.uid,
    }


def add_controller_reference(
    body: dict[str, Any], owner: KubeModel, *, namespaced: bool, namespace: str
) -> None:
    """Make `owner` the controller of the object whose JSON is `body`.

    Args:
        body: the object, changed in place.
        owner: a stored object in the same namespace, or a cluster-scoped one.
        namespaced: whether the object's kind is namespaced.
        namespace: the namespace that the object goes into.

    Raises:
        OwnershipError: the owner is in another namespace, or another controller is set already.
    """
    reference = controller_reference(owner)
    owner_type = owner.resource_type
    if owner_type.namespaced:
        who = f"{owner_type} {owner.key}"
        if not namespaced:
            raise OwnershipError(f"{who} is namespaced: it cannot own a cluster-scoped object")
        if owner.key.namespace != namespace:
            raise OwnershipError(
                f"{who} cannot own an object in namespace {namespace!r}: "
                "owner and object must share a namespace"
            )
    metadata = body.setdefault("metadata", {})
    kept = []
    for present in metadata.get("ownerReferences") or []:
        if present.get("uid") == owner.uid:
            continue
        if present.get("controller"):
            raise OwnershipError(
                f"the object has a controller already: {present.get('kind')} {present.get('name')}"
            )
        kept.append(present)
    metadata["ownerReferences"] = [*kept, reference]


def is_controlled_by(obj: KubeModel, owner: KubeModel) -> bool:
    """Whether `owner`, that very instance, is the controller of `obj`."""
    reference: OwnerReference | None = controller_ref(obj)
    return reference is not None and bool(owner.uid) and reference.uid == owner.uid


def is_owned_by(obj: KubeModel, owner: KubeModel) -> bool:
    """Whether `owner`, that very instance, is among the owners of `obj`."""
    return bool(owner.uid) and any(r.uid == owner.uid for r in obj.owner_references)
