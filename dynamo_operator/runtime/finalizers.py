"""Finalizers: keep an object until what it caused outside is cleaned up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from dynamo_operator.runtime.client import Client, ConflictError, NotFoundError
from dynamo_operator.runtime.models import KubeModel

M = TypeVar("M", bound=KubeModel)

_ATTEMPTS = 5


async def ensure_finalizer(client: Client, obj: M, finalizer: str) -> M:
    """Add a finalizer unless it is there; return the object as it is then.

    Raises:
        NotFoundError: the object, that very instance, is gone.
        ForbiddenError: it is being deleted already.
    """
    if finalizer in obj.metadata.finalizers:
        return obj
    for _ in range(_ATTEMPTS - 1):
        try:
            return await _write(client, obj, [*obj.metadata.finalizers, finalizer])
        except ConflictError:
            obj = await _same_instance(client, obj)
            if finalizer in obj.metadata.finalizers:
                return obj
    return await _write(client, obj, [*obj.metadata.finalizers, finalizer])


async def remove_finalizer(client: Client, obj: M, finalizer: str) -> None:
    """Remove a finalizer if it is there; an object that is gone already is fine.

    Raises:
        ConflictError: others kept changing the object in between.
    """
    try:
        for attempt in range(_ATTEMPTS):
            rest = [name for name in obj.metadata.finalizers if name != finalizer]
            if len(rest) == len(obj.metadata.finalizers):
                return
            try:
                await _write(client, obj, rest)
                return
            except ConflictError:
                if attempt == _ATTEMPTS - 1:
                    raise
                obj = await _same_instance(client, obj)
    except NotFoundError:
        return


async def finalize(
    client: Client, obj: M, cleanups: Mapping[str, Callable[[M], Awaitable[None]]]
) -> M | None:
    """Keep an object's finalizers while it lives, and run their cleanups once it is being deleted.

    Args:
        client: writes the finalizers.
        obj: as read.
        cleanups: by finalizer; each has to be safe to repeat. A finalizer is removed when its
            cleanup returns.

    Returns:
        The object with all finalizers, or None when it is being deleted: nothing else is to be done
        for it then.

    Raises:
        ExceptionGroup: cleanups failed; the others were run all the same.
    """
    if not obj.is_deleting:
        for finalizer in cleanups:
            obj = await ensure_finalizer(client, obj, finalizer)
        return obj
    errors: list[Exception] = []
    for finalizer in [name for name in obj.metadata.finalizers if name in cleanups]:
        try:
            await cleanups[finalizer](obj)
            await remove_finalizer(client, obj, finalizer)
        except Exception as error:  # noqa: BLE001 - one cleanup must not keep the others from it
            errors.append(error)
    if errors:
        raise ExceptionGroup(f"{obj.resource_type} {obj.key}: not cleaned up", errors)
    return None


async def _write(client: Client, obj: M, finalizers: list[str]) -> M:
    """Write the list only over the version that it was computed from."""
    metadata = {
        "uid": obj.uid,
        "resourceVersion": obj.resource_version,
        "finalizers": finalizers,
    }
    return await client.patch(type(obj), obj.key, {"metadata": metadata})


async def _same_instance(client: Client, obj: M) -> M:
    found = await client.get(type(obj), obj.key)
    if found.uid != obj.uid:
        raise NotFoundError(
            404, "NotFound", f"{obj.resource_type} {obj.key} is another instance now"
        )
    return found
