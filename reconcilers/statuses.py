"""Writing the status of an object that was read a moment ago."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.client.errors import ConflictError, NotFoundError
from dynamo_operator.runtime.models import KubeModel

Kind = TypeVar("Kind", bound=KubeModel)


async def write_status(client: Client, obj: Kind, status: Mapping[str, Any]) -> Kind:
    """Apply our part of a status to the very version that it was computed from.

    Returns:
        The object as stored.

    Raises:
        ConflictError: the object changed since it was read, or is gone; look again.
    """
    try:
        return await client.apply_status(obj, status, resource_version=obj.resource_version)
    except NotFoundError as error:
        raise ConflictError(
            409, "Conflict", f"{obj.resource_type.kind} {obj.key} was deleted since it was read"
        ) from error
