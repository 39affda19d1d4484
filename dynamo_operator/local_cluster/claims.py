"""Who controls what: adopts what a controller's selector matches, lets go of what it does not.

The rules of Kubernetes' controller reference manager (pkg/controller/controller_ref_manager.go):

    controlled by somebody else        -> not ours
    controlled by us, matches          -> ours
    controlled by us, matches no more  -> let go, unless we are being deleted
    no controller, matches             -> adopted, unless either is being deleted

Nothing is adopted on a cache's word: the owner is read live first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.errors import ConflictError, InvalidError, NotFoundError
from dynamo_operator.runtime.client.writes import PatchType
from dynamo_operator.runtime.models import KubeModel
from dynamo_operator.runtime.owner_references import owner_reference
from dynamo_operator.runtime.selectors import LabelMatcher
from informers.objects import controller_ref

K = TypeVar("K", bound=KubeModel)


async def claim(
    client: Client, owner: KubeModel, candidates: Iterable[K], matches: LabelMatcher
) -> list[K]:
    """Return those of some objects that the owner controls, after adopting and letting go.

    Args:
        client: of the owner's controller.
        owner: as its controller read it.
        candidates: objects of the owner's namespace: those it controls, and those nobody does.
        matches: the owner's selector.

    Raises:
        ConflictError: the owner is another one by now, or is being deleted: look again.
        ClientError: an object could not be adopted or let go.
    """
    claimed: list[K] = []
    may_adopt = False
    for candidate in candidates:
        controller = controller_ref(candidate)
        is_wanted = matches(candidate.metadata.labels)
        if controller is not None:
            if controller.uid != owner.uid:
                continue
            if is_wanted:
                claimed.append(candidate)
            elif not owner.is_deleting:
                await _release(client, owner, candidate)
            continue
        if not is_wanted or owner.is_deleting or candidate.is_deleting:
            continue
        if not may_adopt:
            await _check_alive(client, owner)
            may_adopt = True
        adopted = await _adopt(client, owner, candidate)
        if adopted is not None:
            claimed.append(adopted)
    return claimed


async def _check_alive(client: Client, owner: KubeModel) -> None:
    live = await client.find(type(owner), owner.key)
    if live is None or live.uid != owner.uid or live.is_deleting:
        kind = owner.resource_type.kind
        raise ConflictError(409, "Conflict", f"{kind} {owner.key} of UID {owner.uid} is gone")


async def _adopt(client: Client, owner: KubeModel, candidate: K) -> K | None:
    reference = {**owner_reference(owner), "controller": True, "blockOwnerDeletion": True}
    return await _patch(client, candidate, reference)


async def _release(client: Client, owner: KubeModel, candidate: KubeModel) -> None:
    await _patch(client, candidate, {"$patch": "delete", "uid": owner.uid})


async def _patch(client: Client, candidate: K, reference: dict[str, object]) -> K | None:
    patch = {"metadata": {"uid": candidate.uid, "ownerReferences": [reference]}}
    try:
        return await client.patch(
            type(candidate), candidate.key, patch, patch_type=PatchType.STRATEGIC
        )
    except NotFoundError:
        return None
    except (ConflictError, InvalidError):
        live = await client.find(type(candidate), candidate.key)
        if live is None or live.uid != candidate.uid:
            return None  # another of that name: its next event says so
        raise
