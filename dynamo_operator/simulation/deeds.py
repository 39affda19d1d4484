"""What other users of a cluster do to objects in the middle of a run, because a plan says so."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from fnmatch import fnmatchcase

from dynamo_operator.apiserver.resources import Object
from dynamo_operator.apiserver.storage import Storage, StorageKey
from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.errors import ApiError
from dynamo_operator.simulation.history import Call
from dynamo_operator.simulation.plans import Delete, Touch, name_of
from informers.objects import ObjectKey, ResourceType

_GONE_WITHIN_SECONDS = 300.0
_LOOK_SECONDS = 0.1
_KEPT_METADATA = ("name", "namespace", "labels", "annotations")
TOUCHED_ANNOTATION = "simulation/touched"


class Intruder:
    """Somebody with every right, who deletes and writes what others work on.

    Args:
        client: theirs.
        storage: where they look for it.
    """

    def __init__(self, client: Client, storage: Storage) -> None:
        self._client = client
        self._storage = storage
        self._touched = 0

    async def delete(self, deed: Delete) -> None:
        """Delete the first object that is meant; there may be none."""
        found = self._find(deed.resource, deed.name)
        if found is None:
            return
        resource, obj = found
        key, kind = _key(obj), _type(resource, obj)
        with suppress(ApiError):  # it is gone already, or nobody may
            await self._client.delete(kind, key, propagation=deed.propagation)
            if deed.force:
                await self._client.patch(kind, key, {"metadata": {"finalizers": None}})
        if deed.recreate:
            await self._recreate(resource, obj)

    async def touch(self, deed: Touch, call: Call | None) -> None:
        """Write an annotation to the object that is meant; there may be none."""
        resource, name = deed.resource, deed.name
        if call is not None:
            resource, name = resource or call.resource[1], name or name_of(call)
        found = self._find(resource, name)
        if found is None:
            return
        self._touched += 1
        annotation = {TOUCHED_ANNOTATION: str(self._touched)}
        with suppress(ApiError):  # it is gone
            await self._client.patch(
                _type(*found), _key(found[1]), {"metadata": {"annotations": annotation}}
            )

    async def _recreate(self, resource: StorageKey, obj: Object) -> None:
        key, kind = _key(obj), _type(resource, obj)
        loop = asyncio.get_running_loop()
        until = loop.time() + _GONE_WITHIN_SECONDS
        uid = obj["metadata"]["uid"]
        while True:
            there = self._storage.get(resource, key.namespace, key.name)
            if there is None:
                break
            if there.value["metadata"]["uid"] != uid or loop.time() > until:
                return
            await asyncio.sleep(_LOOK_SECONDS)
        metadata = {k: v for k, v in obj["metadata"].items() if k in _KEPT_METADATA}
        fresh = {k: v for k, v in obj.items() if k != "status"} | {"metadata": metadata}
        with suppress(ApiError):  # somebody else was faster
            await self._client.create(fresh, kind=kind)

    def _find(self, plural: str, name: str) -> tuple[StorageKey, Object] | None:
        for resource in self._storage.storage_keys():
            if resource[1] != plural:
                continue
            for stored in self._storage.objects(resource):
                if fnmatchcase(stored.key.removeprefix("/"), name or "*"):
                    return resource, stored.value
        return None


def _key(obj: Object) -> ObjectKey:
    return ObjectKey(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


def _type(resource: StorageKey, obj: Object) -> ResourceType:
    _, _, version = obj["apiVersion"].rpartition("/")
    return ResourceType(
        resource[0], version, obj["kind"], resource[1], bool(obj["metadata"].get("namespace"))
    )
