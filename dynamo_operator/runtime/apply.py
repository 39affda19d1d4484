"""Whether an apply would change anything, so that none is sent when nothing differs.

What the server adds (defaults, the work of other managers) is no difference: every field of the
desired object must be in the live one with an equal value. What the server writes in another form
(quantities) or leaves out (empty texts, lists and objects) is equal.
Fields that an earlier apply set and this one does not are found through `metadata.managedFields`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal, DecimalException
from typing import TYPE_CHECKING, Any, TypeVar

from dynamo_operator.runtime.client.writes import PatchType
from dynamo_operator.runtime.models import KubeModel
from dynamo_operator.runtime.owner_references import controller_reference

if TYPE_CHECKING:
    from dynamo_operator.runtime.client.client import Client

M = TypeVar("M", bound=KubeModel)

# Lists whose items the API merges by key; all others are taken as a whole.
_MERGE_KEYS: Mapping[str, tuple[str, ...]] = {
    "conditions": ("type",),
    "containers": ("name",),
    "env": ("name",),
    "ephemeralContainers": ("name",),
    "hostAliases": ("ip",),
    "imagePullSecrets": ("name",),
    "initContainers": ("name",),
    "ownerReferences": ("uid",),
    "ports": ("containerPort", "port", "protocol"),
    "secrets": ("name",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
}
_KEY_DEFAULTS = {"protocol": "TCP"}
_SETS = frozenset({"finalizers"})
_QUANTITIES = frozenset(
    {"allocatable", "capacity", "divisor", "hard", "limits", "requests", "sizeLimit"}
)
_SUFFIXES = {
    **{suffix: Decimal(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi"), 1)},
    **{suffix: Decimal(1024) ** power for power, suffix in enumerate(("Ti", "Pi", "Ei"), 4)},
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate(("k", "M", "G"), 1)},
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate(("T", "P", "E"), 4)},
    "m": Decimal("0.001"),
    "u": Decimal("0.000001"),
    "n": Decimal("0.000000001"),
}


def matches(
    live: KubeModel | Mapping[str, Any],
    desired: KubeModel | Mapping[str, Any],
    *,
    owner: KubeModel | None = None,
    field_manager: str = "",
) -> bool:
    """Whether the live object already holds what applying `desired` would bring about.

    Args:
        live: the object as read.
        desired: the fields to own.
        owner: the controller that the apply would set.
        field_manager: whose earlier applies count: a field that it owns and that `desired` has no
            longer is a difference. Needs the live object's managedFields.
    """
    live, desired = _plain(live), _plain(desired)
    if owner is not None:
        desired = _with_controller(desired, owner)
    if not _holds(live, desired, "", in_quantity=False):
        return False
    return not field_manager or not _owns_more(live, desired, field_manager)


async def ensure(
    client: Client,
    desired: M,
    *,
    live: M | None,
    owner: KubeModel | None = None,
    force: bool = True,
) -> M:
    """Apply what is desired unless it is there; return the object as it is then.

    Args:
        client: applies under its field manager.
        desired: the fields to own, built with `new`.
        live: the object as read, None when there is none. The very same is returned when nothing
            had to be written. Only that instance is written to: ConflictError for a successor.
        owner: the object that becomes its controller.
        force: take fields over from other managers instead of raising ConflictError.
    """
    if live is not None and matches(live, desired, owner=owner, field_manager=client.field_manager):
        return live
    uid = live.uid if live is not None else None
    return await client.apply(desired, owner=owner, uid=uid, force=force)


async def create_applied(client: Client, desired: M, *, owner: KubeModel | None = None) -> M:
    """Create an object and own its fields as an apply would; return it as it is then.

    An apply cannot tell an object that somebody else has just made from one that it makes, so that
    it might take over a stranger's. A create can, but what it sets no later apply takes away,
    unless the ownership is turned into an apply's, as `kubectl apply --server-side` does with
    objects that were applied otherwise before.

    Raises:
        AlreadyExistsError: there is one.
        ConflictError: it changed right after it was made; `claim_created` may be called again.
    """
    return await claim_created(client, await client.create(desired, owner=owner))


async def claim_created(client: Client, obj: M) -> M:
    """Turn what the client's manager set by creating an object into what it applied.

    Args:
        client: who created the object.
        obj: as a live read or the create returned it; the same is returned if it has nothing to
            be turned.

    Raises:
        ConflictError: the object changed since it was read.
    """
    entries = obj.to_dict()["metadata"].get("managedFields") or []
    ours = [
        entry
        for entry in entries
        if entry.get("manager") == client.field_manager and not entry.get("subresource")
    ]
    if [entry.get("operation") for entry in ours] != ["Update"]:
        return obj
    ours[0]["operation"] = "Apply"
    turned: list[dict[str, Any]] = [
        {"op": "replace", "path": "/metadata/managedFields", "value": entries},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": obj.resource_version},
    ]
    return await client.patch(type(obj), obj.key, turned, patch_type=PatchType.JSON)


def is_applied_by(obj: KubeModel, field_manager: str) -> bool:
    """Whether a manager has applied an object, so that its next apply also takes away."""
    return any(
        entry.get("manager") == field_manager and entry.get("operation") == "Apply"
        for entry in obj.to_dict()["metadata"].get("managedFields") or ()
    )


def parse_quantity(value: Any) -> Decimal | None:
    """Return the number that a Kubernetes quantity stands for, or None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    text = str(value).strip()
    suffix = text.lstrip("+-.0123456789")
    factor = _SUFFIXES.get(suffix, Decimal(1))
    if suffix in _SUFFIXES:
        text = text.removesuffix(suffix)
    try:
        number = Decimal(text) * factor
    except DecimalException:  # an exponent that no number can have, too
        return None
    return number if number.is_finite() else None


def _plain(obj: KubeModel | Mapping[str, Any]) -> Mapping[str, Any]:
    return obj.to_dict() if isinstance(obj, KubeModel) else obj


def _with_controller(desired: Mapping[str, Any], owner: KubeModel) -> Mapping[str, Any]:
    metadata = desired.get("metadata") or {}
    references = [*(metadata.get("ownerReferences") or ()), controller_reference(owner)]
    return {**desired, "metadata": {**metadata, "ownerReferences": references}}


def _holds(live: Any, desired: Any, name: str, *, in_quantity: bool) -> bool:
    if _is_empty(desired):
        return _is_empty(live) or (isinstance(desired, Mapping) and isinstance(live, Mapping))
    if isinstance(desired, Mapping):
        return isinstance(live, Mapping) and all(
            _holds(live.get(key), value, key, in_quantity=in_quantity or key in _QUANTITIES)
            for key, value in desired.items()
        )
    if isinstance(desired, list | tuple):
        return isinstance(live, list | tuple) and _list_holds(live, desired, name)
    if isinstance(desired, bool) or isinstance(live, bool):
        return live is desired
    if in_quantity:
        wanted = parse_quantity(desired)
        return live == desired or (wanted is not None and parse_quantity(live) == wanted)
    return bool(live == desired)


def _list_holds(live: Sequence[Any], desired: Sequence[Any], name: str) -> bool:
    if name in _SETS:
        return all(item in live for item in desired)
    if name in _MERGE_KEYS and all(isinstance(item, Mapping) for item in (*live, *desired)):
        by_key = {_merge_key(item, name): item for item in live}
        return all(
            _holds(by_key.get(_merge_key(item, name)), item, "", in_quantity=False)
            for item in desired
        )
    return len(live) == len(desired) and all(
        _holds(have, want, "", in_quantity=False) for have, want in zip(live, desired, strict=True)
    )


def _merge_key(item: Mapping[str, Any], name: str) -> tuple[Any, ...]:
    return tuple(item.get(key, _KEY_DEFAULTS.get(key)) for key in _MERGE_KEYS[name])


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str | Mapping | list | tuple) and not value)


def _owns_more(live: Mapping[str, Any], desired: Mapping[str, Any], field_manager: str) -> bool:
    for entry in (live.get("metadata") or {}).get("managedFields") or ():
        if (
            entry.get("manager") == field_manager
            and entry.get("operation") == "Apply"
            and not entry.get("subresource")
            and not _covers(desired, entry.get("fieldsV1") or {})
        ):
            return True
    return False


def _covers(desired: Any, owned: Mapping[str, Any]) -> bool:
    """Whether every owned field (`f:name`, `k:{keys}`, `v:value`) is in the desired object."""
    for path, below in owned.items():
        prefix, _, rest = path.partition(":")
        if prefix == "f":
            if not isinstance(desired, Mapping) or rest not in desired:
                return False
            if below and not _covers(desired[rest], below):
                return False
        elif prefix == "k":
            keys = json.loads(rest)
            item = _find_item(desired, keys)
            if item is None or not _covers(item, below):
                return False
        elif prefix == "v" and not (
            isinstance(desired, list | tuple) and json.loads(rest) in desired
        ):
            return False
    return True


def _find_item(desired: Any, keys: Mapping[str, Any]) -> Mapping[str, Any] | None:
    for item in desired if isinstance(desired, list | tuple) else ():
        if isinstance(item, Mapping) and all(
            item.get(name, _KEY_DEFAULTS.get(name)) == value for name, value in keys.items()
        ):
            return item
    return None
