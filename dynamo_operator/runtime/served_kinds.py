"""Whether a custom resource is served, as its CustomResourceDefinition tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dynamo_operator.runtime.builtin_kinds import CustomResourceDefinition
from dynamo_operator.runtime.client import codec
from dynamo_operator.runtime.permissions import Permission
from informers.objects import CachedObject, ObjectKey, ResourceType


def definition_key(resource_type: ResourceType) -> ObjectKey:
    """Return the key of the definition of a custom resource."""
    return ObjectKey("", f"{resource_type.plural}.{resource_type.group}")


def definition_permission(resource_type: ResourceType) -> Permission:
    """Return what an optional kind needs beside the permissions on the kind itself."""
    return Permission(
        CustomResourceDefinition.resource_type.group,
        (CustomResourceDefinition.resource_type.plural,),
        ("list", "watch"),
        names=(definition_key(resource_type).name,),
        cluster_wide=True,
    )


def is_served(definition: CachedObject, resource_type: ResourceType) -> bool:
    """Whether a definition is established and serves the version that the type names.

    One that is being deleted still does: it goes after its last object, which may wait for us.
    """
    decoded = codec.decode_json(definition.data)
    spec, status = decoded.get("spec") or {}, decoded.get("status") or {}
    return _is_established(status) and any(
        version.get("name") == resource_type.version and version.get("served")
        for version in spec.get("versions") or ()
    )


def _is_established(status: Mapping[str, Any]) -> bool:
    return any(
        condition.get("type") == "Established" and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )
