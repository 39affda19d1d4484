"""Owner references: who an object belongs to and disappears with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamo_operator.runtime.models import KubeModel
from informers.objects import ObjectKey, OwnerReference, ResourceType, controller_ref

if TYPE_CHECKING:  # the client knows us
    from dynamo_operator.runtime.client.generated_models import GeneratedModel

    Owner = KubeModel | GeneratedModel
    """An object that owns: a model of ours or of the generated client's."""


class OwnershipError(ValueError):
    """An owner cannot own an object; one line saying why."""


def controller_reference(owner: Owner) -> dict[str, Any]:
    """Return the JSON of the reference that makes `owner` the controller of an object."""
    return {**owner_reference(owner), "controller": True, "blockOwnerDeletion": True}


def owner_reference(owner: Owner) -> dict[str, Any]:
    """Return the JSON of a reference to one owner of several, none of them the controller.

    An object that is applied with it in `metadata.ownerReferences` gets it beside those of others,
    and loses it when it is applied without.

    Raises:
        OwnershipError: the owner is not stored.
    """
    resource_type, key = _type_of(owner), _key_of(owner)
    uid = owner.metadata.uid
    if not uid:
        raise OwnershipError(f"{resource_type} {key} has no UID: only a stored object owns")
    return {
        "apiVersion": resource_type.api_version,
        "kind": resource_type.kind,
        "name": key.name,
        "uid": uid,
    }


def add_controller_reference(
    body: dict[str, Any], owner: Owner, *, namespaced: bool, namespace: str
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
    owner_type = _type_of(owner)
    if owner_type.namespaced:
        key = _key_of(owner)
        who = f"{owner_type} {key}"
        if not namespaced:
            raise OwnershipError(f"{who} is namespaced: it cannot own a cluster-scoped object")
        if key.namespace != namespace:
            raise OwnershipError(
                f"{who} cannot own an object in namespace {namespace!r}: "
                "owner and object must share a namespace"
            )
    metadata = body.setdefault("metadata", {})
    kept = []
    for present in metadata.get("ownerReferences") or []:
        if present.get("uid") == owner.metadata.uid:
            continue
        if present.get("controller"):
            raise OwnershipError(
                f"the object has a controller already: {present.get('kind')} {present.get('name')}"
            )
        kept.append(present)
    metadata["ownerReferences"] = [*kept, reference]


def is_controlled_by(obj: KubeModel, owner: Owner) -> bool:
    """Whether `owner`, that very instance, is the controller of `obj`."""
    reference: OwnerReference | None = controller_ref(obj)
    return (
        reference is not None and bool(owner.metadata.uid) and reference.uid == owner.metadata.uid
    )


def is_owned_by(obj: KubeModel, owner: Owner) -> bool:
    """Whether `owner`, that very instance, is among the owners of `obj`."""
    return bool(owner.metadata.uid) and any(
        r.uid == owner.metadata.uid for r in obj.owner_references
    )


def _type_of(owner: Owner) -> ResourceType:
    if isinstance(owner, KubeModel):
        return owner.resource_type
    from dynamo_operator.runtime.client.codec import resource_type_of

    return resource_type_of(type(owner))


def _key_of(owner: Owner) -> ObjectKey:
    return ObjectKey(owner.metadata.namespace or "", owner.metadata.name or "")
