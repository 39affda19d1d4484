"""The reader of a cache: every read decodes a fresh value, so that none can harm the copy."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast, overload

from dynamo_operator.runtime.cache import Cache
from dynamo_operator.runtime.client import codec
from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.errors import NotFoundError
from dynamo_operator.runtime.client.paths import Fields, Labels, refuse_other_cluster
from dynamo_operator.runtime.client.reader import AnyKind, M
from dynamo_operator.runtime.selectors import (
    FieldRequirement,
    field_index_name,
    label_matcher,
    meets,
    parse_fields,
)
from dynamo_operator.runtime.type_cache import TypeCache
from informers.indexers import Index
from informers.objects import CachedObject, ObjectKey, ResourceType

Kind = type[M] | ResourceType


@dataclass(frozen=True, slots=True)
class CachedRead:
    """One read: of which type, which objects were wanted, and the keys of those found."""

    resource_type: ResourceType
    wanted: str
    found: Sequence[ObjectKey]


ReadObserver = Callable[[CachedRead], None]


class CachedReader:
    """Reads from a cache; a `Reader`.

    What is read is at least as new as every write that the manager's client made before, unless a
    call says otherwise. Where the cache cannot show that in time, the read goes to the API server.

    Of an optional type that is not defined there are no objects: reads find none.

    Errors beside the reader's own: NotCachedError for a type that nobody declared, and
    CacheNotStartedError while the manager does not run.
    """

    def __init__(self, cache: Cache, client: Client) -> None:
        self._cache = cache
        self._client = client
        self._observer: ReadObserver | None = None

    def observe(self, observer: ReadObserver) -> None:
        """Tell of every read from now on."""
        self._observer = observer

    @overload
    async def get(self, kind: type[M], key: ObjectKey, *, await_own_writes: bool = True) -> M: ...
    @overload
    async def get(
        self, kind: ResourceType, key: ObjectKey, *, await_own_writes: bool = True
    ) -> dict[str, Any]: ...
    async def get(
        self, kind: Kind[M], key: ObjectKey, *, await_own_writes: bool = True
    ) -> M | dict[str, Any]:
        """Return the object.

        Args:
            kind: its type.
            key: which one.
            await_own_writes: False: take what the cache has, however old.

        Raises:
            NotFoundError: there is none.
        """
        found = await self.find(kind, key, await_own_writes=await_own_writes)
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
    async def find(
        self, kind: type[M], key: ObjectKey, *, await_own_writes: bool = True
    ) -> M | None: ...
    @overload
    async def find(
        self, kind: ResourceType, key: ObjectKey, *, await_own_writes: bool = True
    ) -> dict[str, Any] | None: ...
    async def find(
        self, kind: Kind[M], key: ObjectKey, *, await_own_writes: bool = True
    ) -> M | dict[str, Any] | None:
        """Return the object, or None when there is none; see `get`."""
        resource_type = codec.resource_type_of(kind)
        key = self._placed(resource_type, key)
        for cache in await self._cache.ready(resource_type, key.namespace):
            if await_own_writes and not await cache.is_current(key):
                return await self._client.find(kind, key)
            cached = cache.informer.lister.find(key)
            if cached is not None:
                self._tell(resource_type, str(key), [cached])
                return codec.decode(kind, cached.data)
        self._tell(resource_type, str(key), [])
        return None

    @overload
    async def list(
        self,
        kind: type[M],
        *,
        namespace: str = "",
        labels: Labels = None,
        fields: Fields = None,
        await_own_writes: bool = True,
    ) -> list[M]: ...
    @overload
    async def list(
        self,
        kind: ResourceType,
        *,
        namespace: str = "",
        labels: Labels = None,
        fields: Fields = None,
        await_own_writes: bool = True,
    ) -> list[dict[str, Any]]: ...
    async def list(
        self,
        kind: Kind[M],
        *,
        namespace: str = "",
        labels: Labels = None,
        fields: Fields = None,
        await_own_writes: bool = True,
    ) -> list[M] | list[dict[str, Any]]:
        """Return the objects that match, sorted by key; no namespace means all of them.

        Args:
            kind: their type.
            namespace: only there.
            labels: a label selector.
            fields: dotted paths and the text that they must have, or selector text: `=`, `!=`,
                `in (a, b)` and `notin (a, b)`, whether or not the API server would select by them.
                Objects are decoded to compare, unless an index (`by_field`) narrows them down.
            await_own_writes: False: take what the cache has, however old.
        """
        resource_type = codec.resource_type_of(kind)
        requirements = parse_fields(fields)
        found: builtins.list[CachedObject] = []
        for cache in await self._cache.ready(resource_type, namespace):
            if not await_own_writes or await cache.is_current_in(namespace):
                found += _candidates(cache, namespace, requirements)
            else:
                found += await self._list_live(cache, namespace)
        wanted = _selection(namespace, labels=labels, fields=fields)
        return self._decoded(kind, found, labels, requirements, wanted)

    async def find_metadata(self, kind: AnyKind, key: ObjectKey) -> CachedObject | None:
        """Return the metadata of an object, or None when there is none.

        Any cache of the type will do, one of metadata only too; nothing is decoded.
        """
        resource_type = codec.resource_type_of(kind)
        key = self._placed(resource_type, key)
        for cache in await self._cache.ready(resource_type, key.namespace, metadata=True):
            if not await cache.is_current(key):
                name = f"metadata.name={key.name}"
                live = await self._list_live(cache, key.namespace, fields=name, metadata_only=True)
                return live[0] if live else None
            found = cache.informer.lister.find(key)
            if found is not None:
                self._tell(resource_type, str(key), [found])
                return found
        self._tell(resource_type, str(key), [])
        return None

    async def list_metadata(
        self,
        kind: AnyKind,
        *,
        namespace: str = "",
        labels: Labels = None,
    ) -> builtins.list[CachedObject]:
        """Return the metadata of the objects that match, sorted by key; see `find_metadata`."""
        found: builtins.list[CachedObject] = []
        resource_type = codec.resource_type_of(kind)
        for cache in await self._cache.ready(resource_type, namespace, metadata=True):
            if await cache.is_current_in(namespace):
                found += cache.informer.lister.list(namespace)
            else:
                found += await self._list_live(cache, namespace, metadata_only=True)
        chosen = _chosen(found, labels)
        self._tell(resource_type, _selection(namespace, labels=labels), chosen)
        return chosen

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
        name = index if isinstance(index, str) else index.name
        return self._decoded(kind, found, None, (), _selection("", **{name: value}))

    async def _list_live(
        self,
        cache: TypeCache,
        namespace: str,
        *,
        fields: str = "",
        metadata_only: bool = False,
    ) -> builtins.list[CachedObject]:
        scope = cache.scope
        list_watch = self._client.list_watch(
            scope.resource_type,
            namespace=scope.namespace or namespace,
            labels=scope.labels or None,
            fields=",".join(text for text in (scope.fields, fields) if text) or None,
            metadata_only=metadata_only,
        )
        return list((await list_watch.list()).items)

    def _tell(
        self, resource_type: ResourceType, wanted: str, found: Sequence[CachedObject]
    ) -> None:
        if self._observer is not None:
            read = CachedRead(resource_type, wanted, tuple(obj.key for obj in found))
            self._observer(read)

    def _placed(self, resource_type: ResourceType, key: ObjectKey) -> ObjectKey:
        refuse_other_cluster(key)
        if resource_type.namespaced and not key.namespace:
            return ObjectKey(self._client.default_namespace, key.name)
        return key

    def _decoded(
        self,
        kind: Kind[M],
        found: Iterable[CachedObject],
        labels: Labels,
        requirements: Sequence[FieldRequirement],
        wanted: str,
    ) -> builtins.list[M] | builtins.list[dict[str, Any]]:
        objects = _chosen(found, labels)
        if requirements:
            objects = [obj for obj in objects if meets(obj, requirements)]
        self._tell(codec.resource_type_of(kind), wanted, objects)
        return cast("builtins.list[M]", [codec.decode(kind, obj.data) for obj in objects])


def _selection(namespace: str, /, **selectors: Any) -> str:
    """Say which objects a list is of."""
    chosen = (f"{name}={value}" for name, value in selectors.items() if value)
    return ", ".join((f"in {namespace}" if namespace else "in all namespaces", *chosen))


def _chosen(found: Iterable[CachedObject], labels: Labels) -> list[CachedObject]:
    matches = label_matcher(labels)
    chosen = {obj.key: obj for obj in found if matches is None or matches(obj.labels)}
    return [chosen[key] for key in sorted(chosen)]


def _candidates(
    cache: TypeCache, namespace: str, requirements: Sequence[FieldRequirement]
) -> list[CachedObject]:
    """Return what may meet the requirements: an index of a wanted field has no more than that."""
    lister = cache.informer.lister
    for requirement in requirements:
        index = field_index_name(requirement.path)
        if requirement.wanted and cache.has_index(index):
            found = [obj for value in requirement.values for obj in lister.by_index(index, value)]
            return [obj for obj in found if not namespace or obj.key.namespace == namespace]
    return lister.list(namespace)
