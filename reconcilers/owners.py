"""Whether an owner still is what a cache takes it for, before it gets a child."""

from __future__ import annotations

from dynamo_operator.runtime.client import Reader
from dynamo_operator.runtime.client.errors import ConflictError
from dynamo_operator.runtime.models import KubeModel


async def require_there(live: Reader, owner: KubeModel) -> None:
    """Look for an owner before it gets a child.

    A child of one that is gone, or going, is collected at once, and the event of that asks for the
    next one: without this look that goes on for as long as the owner's cache is behind.

    Args:
        live: a reader without cache.
        owner: as the cache has it.

    Raises:
        ConflictError: it is gone, is being deleted, or another one has its name.
    """
    latest = await live.find(type(owner), owner.key)
    if latest is None or latest.uid != owner.uid or latest.is_deleting:
        kind = owner.resource_type.kind
        raise ConflictError(409, "Conflict", f"{kind} {owner.key} (uid {owner.uid}) is gone")
