"""The reader of a cache: every read decodes a fresh value, so that none can harm the copy."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping
from typing import Any, cast, overload

from dynamo_operator.runtime.cache import Cache
from dynamo_operator.runtime.client import codec
from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.errors import NotFoundError
from dynamo_operator.runtime.client.paths import Labels
from dynamo_operator.runtime.client.reader import M
from dynamo_operator.runtime.selectors import fields_match, label_matcher
from dynamo_operator.runtime.type_cache import TypeCache
from informers.indexers import Index
from informers.objects import CachedObject, ObjectKey, ResourceType

Kind = type[M] | ResourceType


class CachedReader:
    """Reads from a cache; a `Reader`.

    What is read is at least as new as every write that the manager's client made before. Where the
    cache cannot show that in time, the read goes to the API server.

    Errors beside the reader's own: NotCachedError for a type that nobody declared, and
    CacheNotStartedError while the manager does not run.
    """

    def __init__(self, cache: Cache, client: Client) -> None:
        self._cache = cache
        self._client = client

    @overload
    async def get(self, kind: type[M], key: ObjectKey) -> M: ...
    @overload
    async def get(self, kind: ResourceType, key: ObjectKey) -> dict[str, Any]: ...
    async def get(self, kind: Kind[M], key: ObjectKey) -> M | dict[str, Any]:
        """Return the object.

        Raises:
            NotFoundError: there is none.
        """
        found = await self.find(kind, key)
        if found is None:
            resource_type = codec.resource_type_of(kind)
            raise NotFoundError(
                404,
                "NotFound",
                f'{resource_type.plural} "{key.name}" not found',
                request=f"cached read of {resource_type} {key}",
            )
        return found

    @overload
    async def find(self, kind: type[M], key: ObjectKey) -> M | None: ...
    @overload
    async def find(self, kind: ResourceType, key: ObjectKey) -> dict[str, Any] | None: ...
    async def find(self, kind: Kind[M], key: ObjectKey) -> M | dict[str, Any] | None:
        """Return the object, or None when there is none."""
        resource_type = codec.resource_type_of(kind)
        if resource_type.namespaced and not key.namespace:
            key = ObjectKey(self._client.default_namespace, key.name)
        for cache in await self._cache.ready(resource_type, key.namespace):
            if not await cache.is_current(key):
                return await self._client.find(kind, key)
            cached = cache.informer.lister.find(key)
            if cached is not None:
                return codec.decode(kind, cached.data)
        return None

    @overload
    async def list(
        self,
        kind: type[M],
        *,
        namespace: str = "",
        labels: Labels = None,
        fields: Mapping[str, str] | None = None,
    ) -> list[M]: ...
    @overload
    async def list(
        self,
        kind: ResourceType,
        *,
        namespace: str = "",
        labels: Labels = None,
        fields: Mapping[str, str] | None = None,
    ) -> list[dict[str, Any]]: ...
    async def list(
        self,
        kind: Kind[M],
        *,
        namespace: str = "",
        labels: Labels = None,
        fields: Mapping[str, str] | None = None,
    ) -> list[M] | list[dict[str, Any]]:
        """Return the objects that match, sorted by key; no namespace means all of them.

        Fields are dotted paths compared as text, whether or not the API server would select by
        them.
        """
        resource_type = codec.resource_type_of(kind)
        found: builtins.list[CachedObject] = []
        for cache in await self._cache.ready(resource_type, namespace):
            if await cache.is_current_in(namespace):
                found += cache.informer.lister.list(namespace)
            else:
                found += await self._list_live(cache, namespace)
        return self._decoded(kind, found, labels, fields)

    @overload
    async def by_index(self, kind: type[M], index: Index | str, value: str) -> builtins.list[M]: ...
    @overload
    async def by_index(
        self, kind: ResourceType, index: Index | str, value: str
    ) -> builtins.list[dict[str, Any]]: ...
    async def by_index(
        self, kind: Kind[M], index: Index | str, value: str
    ) -> builtins.list[M] | builtins.list[dict[str, Any]]:
        """Return the objects that an index has under a value, sorted by key.

        Args:
            kind: their type.
            index: BY_NAMESPACE, BY_OWNER_UID, or one that was declared.
            value: e.g. the owner's UID.

        Raises:
            KeyError: there is no such index; the message names those there are.
        """
        found: builtins.list[CachedObject] = []
        for cache in await self._cache.ready(codec.resource_type_of(kind), ""):
            if await cache.is_current_in(""):
                found += cache.informer.lister.by_index(index, value)
            else:
                function = cache.index(index).function
                live = await self._list_live(cache, "")
                found += [obj for obj in live if value in function(obj)]
        return self._decoded(kind, found, None, None)

    async def _list_live(self, cache: TypeCache, namespace: str) -> builtins.list[CachedObject]:
        scope = cache.scope
        list_watch = self._client.list_watch(
            scope.resource_type,
            namespace=scope.namespace or namespace,
            labels=scope.labels or None,
            fields=dict(scope.fields) or None,
        )
        return list((await list_watch.list()).items)

    def _decoded(
        self,
        kind: Kind[M],
        found: Iterable[CachedObject],
        labels: Labels,
        fields: Mapping[str, str] | None,
    ) -> builtins.list[M] | builtins.list[dict[str, Any]]:
        matches = label_matcher(labels)
        chosen = {obj.key: obj for obj in found if matches is None or matches(obj.labels)}
        objects = [chosen[key] for key in sorted(chosen)]
        if fields:
            objects = [obj for obj in objects if fields_match(codec.decode_json(obj.data), fields)]
        return cast("builtins.list[M]", [codec.decode(kind, obj.data) for obj in objects])
