"""The cache: declared informers, and reads from them that are never older than one's own writes.

A type is declared before it is read: nothing here starts a watch because somebody happened to read.
Every write of the manager's client is recorded until the informer shows it. A read of that object,
a list that could contain it, and the next reconcile of the object that caused the write wait for
that; after five seconds in vain they ask the API server instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Final

from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.codec import resource_type_of
from dynamo_operator.runtime.client.paths import Labels
from dynamo_operator.runtime.client.writes import Write
from dynamo_operator.runtime.metrics import Metrics
from dynamo_operator.runtime.models import KubeModel
from dynamo_operator.runtime.own_writes import OwnerKey
from dynamo_operator.runtime.type_cache import InformerReporter, Scope, TypeCache
from informers.clock import Clock, Random
from informers.indexers import Index
from informers.objects import ObjectKey, ResourceType, controller_ref
from informers.shared_informer import SharedInformer

CACHE_SYNC_TIMEOUT_SECONDS: Final = 120.0
OWN_WRITE_TIMEOUT_SECONDS: Final = 5.0

_reconciling: ContextVar[OwnerKey | None] = ContextVar("reconciling", default=None)


class CacheError(Exception):
    """Root of the cache's errors."""


class CacheNotStartedError(CacheError):
    """A cached read while the manager does not run."""


class NotCachedError(CacheError):
    """A cached read of a type, or in a namespace, that nobody declared."""


class CacheSyncError(CacheError):
    """A cache was not filled in time; the text has the last error of its list or watch."""


def owner_key(resource_type: ResourceType, key: ObjectKey) -> OwnerKey:
    """Return how the cache names an object that causes writes."""
    return (resource_type.group, resource_type.kind, key)


class Cache:
    """All informers of one manager.

    Args:
        client: lists and watches.
        namespaces: restricts every namespaced type to these; empty for all namespaces.
        clock: the informers' time.
        random: the informers' jitter.
        metrics: counts what the informers do.
        own_write_timeout_seconds: how long a read waits for an own write.
    """

    needs_leadership = False

    def __init__(
        self,
        client: Client,
        *,
        namespaces: Sequence[str] = (),
        clock: Clock,
        random: Random,
        metrics: Metrics,
        own_write_timeout_seconds: float = OWN_WRITE_TIMEOUT_SECONDS,
    ) -> None:
        self._client = client
        self._namespaces = tuple(dict.fromkeys(namespaces))
        self._clock = clock
        self._random = random
        self._metrics = metrics
        self._own_write_timeout = own_write_timeout_seconds
        self._types: dict[Scope, TypeCache] = {}
        self._group: asyncio.TaskGroup | None = None

    def declare(
        self,
        kind: type[KubeModel] | ResourceType,
        *,
        labels: Labels = None,
        fields: Mapping[str, str] | None = None,
        indexes: Iterable[Index] = (),
        metadata_only: bool = False,
    ) -> list[TypeCache]:
        """Watch a type from the start of the manager on, or from now if it runs.

        Declaring the same again only adds indexes.

        Returns:
            One cache for each namespace.
        """
        resource_type = resource_type_of(kind)
        wanted = self._namespaces if resource_type.namespaced and self._namespaces else ("",)
        declared = [
            self._declare(
                Scope.of(resource_type, namespace, labels, fields, metadata_only=metadata_only)
            )
            for namespace in wanted
        ]
        for cache in declared:
            for index in indexes:
                cache.add_index(index)
        return declared

    async def run(self) -> None:
        """Run every informer until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                for cache in self._types.values():
                    self._start(cache)
                await asyncio.Event().wait()
            finally:
                self._group = None

    async def wait_synced(self, timeout_seconds: float = CACHE_SYNC_TIMEOUT_SECONDS) -> None:
        """Wait until every declared type is here.

        Raises:
            CacheSyncError: one did not arrive in time; names it and its last error.
        """
        try:
            async with asyncio.timeout(timeout_seconds):
                for cache in tuple(self._types.values()):
                    await cache.informer.wait_synced()
        except TimeoutError:
            missing = "; ".join(self.unsynced())
            raise CacheSyncError(
                f"caches not synced after {timeout_seconds:g} s: {missing}"
            ) from None

    def unsynced(self) -> list[str]:
        """Say of each type that is not here yet what is known about why."""
        return [
            cache.why_unsynced() for cache in self._types.values() if not cache.informer.is_synced
        ]

    def wrote(self, write: Write) -> None:
        """Record a write of the manager's client; its write observer."""
        written, owners = write.resource_type, list(_owners(write))
        for scope, cache in self._types.items():
            # An object is the same in all versions of its API.
            if (scope.resource_type.group, scope.resource_type.plural) == (
                written.group,
                written.plural,
            ) and scope.namespace in ("", write.key.namespace):
                cache.wrote(write, owners)

    def attribute_writes_to(self, owner: OwnerKey) -> None:
        """Let the writes that follow in this task count as caused by that object."""
        _reconciling.set(owner)

    async def wait_for_writes_of(self, owner: OwnerKey) -> None:
        """Wait, bounded, until what that object's reconciles wrote is visible here."""
        until = self._clock.monotonic() + self._own_write_timeout
        for cache in tuple(self._types.values()):
            await cache.wait_for_writes_of(owner, until - self._clock.monotonic())

    async def ready(self, resource_type: ResourceType, namespace: str) -> list[TypeCache]:
        """Return the synced caches that together hold a namespace ("": all) of a type.

        Raises:
            NotCachedError: nobody declared it.
            CacheNotStartedError: the manager does not run.
        """
        caches = self._holding(resource_type, namespace)
        if not caches:
            raise NotCachedError(self._how_to_declare(resource_type, namespace))
        if self._group is None:
            raise CacheNotStartedError(
                f"{resource_type}: cached reads work while the manager runs; "
                "before that read with manager.uncached_reader"
            )
        for cache in caches:
            if not cache.informer.is_synced:
                await cache.informer.wait_synced()
        return caches

    def _declare(self, scope: Scope) -> TypeCache:
        cache = self._types.get(scope)
        if cache is None:
            list_watch = self._client.list_watch(
                scope.resource_type,
                namespace=scope.namespace,
                labels=scope.labels or None,
                fields=dict(scope.fields) or None,
                metadata_only=scope.metadata_only,
            )
            informer = SharedInformer(
                list_watch,
                clock=self._clock,
                random=self._random,
                observer=InformerReporter(self._metrics, str(scope.resource_type), scope.namespace),
            )
            cache = self._types[scope] = TypeCache(
                scope, informer, self._metrics, self._own_write_timeout
            )
            if self._group is not None:
                self._start(cache)
        return cache

    def _start(self, cache: TypeCache) -> None:
        if self._group is not None:
            self._group.create_task(cache.informer.run(), name=f"informer {cache.scope}")

    def _holding(self, resource_type: ResourceType, namespace: str) -> list[TypeCache]:
        """Return the caches for reads: those without selectors where there are any."""
        caches = [
            cache
            for scope, cache in self._types.items()
            if scope.resource_type == resource_type and not scope.metadata_only
        ]
        whole = [c for c in caches if not c.scope.is_selective] or caches
        if not namespace:
            return whole
        return [c for c in whole if c.scope.namespace in ("", namespace)]

    def _how_to_declare(self, resource_type: ResourceType, namespace: str) -> str:
        scopes = [scope for scope in self._types if scope.resource_type == resource_type]
        if scopes and all(scope.metadata_only for scope in scopes):
            return (
                f"{resource_type} is cached as metadata only: watch it without metadata_only, "
                "or read with manager.uncached_reader"
            )
        if scopes:
            known = ", ".join(self._namespaces)
            return (
                f"{resource_type} is not cached in namespace {namespace!r}: the manager's "
                f"namespaces are {known}; add it there, or read with manager.uncached_reader"
            )
        kind = resource_type.kind
        return (
            f"{resource_type} is not cached: give a Controller owns=[{kind}] or "
            f"watches=[Watch({kind}, ...)], or call manager.cache.declare({kind}); "
            "for a live read use manager.uncached_reader"
        )


def _owners(write: Write) -> Iterator[OwnerKey]:
    """Whose next reconcile has to see a write: the object's, its controller's, the writer's."""
    yield owner_key(write.resource_type, write.key)
    reconciling = _reconciling.get()
    if reconciling is not None:
        yield reconciling
    reference = controller_ref(write.stored) if write.stored is not None else None
    if reference is not None:
        # The reference does not say whether its owner is namespaced.
        for namespace in dict.fromkeys((write.key.namespace, "")):
            yield (reference.group, reference.kind, ObjectKey(namespace, reference.name))
