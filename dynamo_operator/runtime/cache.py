"""The cache: declared informers, and reads from them that are never older than one's own writes.

A type is declared before it is read: nothing here starts a watch because somebody happened to read.
Every write of the manager's client is recorded until the informer shows it. A read of that object,
a list that could contain it, and the next reconcile of the object that caused the write wait for
that; after five seconds in vain they ask the API server instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog

from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.codec import resource_type_of
from dynamo_operator.runtime.client.paths import Labels
from dynamo_operator.runtime.client.writes import Write
from dynamo_operator.runtime.metrics import InformerMetrics, Metrics
from dynamo_operator.runtime.models import KubeModel
from dynamo_operator.runtime.own_writes import OwnerKey, OwnWrites, PendingWrite
from informers.clock import Clock, Random
from informers.events import ObjectEvent
from informers.indexers import BY_NAMESPACE, BY_OWNER_UID, Index
from informers.objects import ObjectKey, ResourceType
from informers.shared_informer import SharedInformer

CACHE_SYNC_TIMEOUT_SECONDS: Final = 120.0
OWN_WRITE_TIMEOUT_SECONDS: Final = 5.0

_log = structlog.get_logger(__name__)
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


class TypeCache:
    """One informer of one type and scope, and the own writes that it has not shown yet."""

    def __init__(self, scope: Scope, informer: SharedInformer) -> None:
        self.scope = scope
        self.informer = informer
        self.own_writes = OwnWrites(informer.lister)
        self._indexes: dict[str, Index] = {}
        informer.add_handler(self._changed)
        for index in (BY_NAMESPACE, BY_OWNER_UID):
            self.add_index(index)

    def add_index(self, index: Index) -> None:
        """Keep an index from now on."""
        self.informer.add_index(index)
        self._indexes[index.name] = index

    def index(self, index: Index | str) -> Index:
        """Return the index of that name.

        Raises:
            KeyError: there is none; the message names those there are.
        """
        name = index if isinstance(index, str) else index.name
        try:
            return self._indexes[name]
        except KeyError:
            known = ", ".join(sorted(self._indexes))
            raise KeyError(f"index {name!r} does not exist (there are: {known})") from None

    def why_unsynced(self) -> str:
        """Say what is known about why it is not filled yet."""
        error = self.informer.last_error
        return f"{self.scope}: {error}" if error else f"{self.scope}: no answer yet"

    async def wait_until_visible(
        self, pending: Callable[[], Sequence[PendingWrite]], timeout_seconds: float
    ) -> bool:
        """Wait until none of those writes is pending; False when that takes too long.

        Writes for which somebody waited in vain before are not waited for again.
        """
        try:
            async with asyncio.timeout(timeout_seconds):
                await self.informer.wait_until(lambda _: all(w.overdue for w in pending()))
        except TimeoutError:
            for write in pending():
                write.overdue = True
        return not pending()

    def _changed(self, _event: ObjectEvent) -> None:
        if self.own_writes:
            self.own_writes.settle()


@dataclass(frozen=True, slots=True)
class Scope:
    """What one informer covers."""

    resource_type: ResourceType
    namespace: str = ""
    labels: str = ""
    fields: tuple[tuple[str, str], ...] = ()

    @property
    def is_selective(self) -> bool:
        """Whether selectors hide objects."""
        return bool(self.labels or self.fields)

    def __str__(self) -> str:
        return str(self.resource_type) + (f" in {self.namespace}" if self.namespace else "")


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
                Scope(resource_type, namespace, _label_text(labels), _field_items(fields))
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
        for cache in self._holding(write.resource_type, write.key.namespace):
            owners = list(self._owners(cache, write))
            if write.resource_version:
                cache.own_writes.wrote(write.key, write.resource_version, owners)
            elif write.deleted:
                cached = cache.informer.lister.find(write.key)
                uid = write.deleted_uid or (cached.uid if cached else "")
                cache.own_writes.deleted(write.key, uid, owners)

    def attribute_writes_to(self, owner: OwnerKey) -> None:
        """Let the writes that follow in this task count as caused by that object."""
        _reconciling.set(owner)

    async def wait_for_writes_of(self, owner: OwnerKey) -> None:
        """Wait, bounded, until what that object's reconciles wrote is visible here."""
        until = self._clock.monotonic() + self._own_write_timeout
        for cache in tuple(self._types.values()):
            if cache.own_writes and cache.own_writes.pending_for(owner):
                pending = partial(cache.own_writes.pending_for, owner)
                await self._wait(cache, pending, until - self._clock.monotonic())

    async def is_current(self, cache: TypeCache, key: ObjectKey) -> bool:
        """Wait, bounded, for an own write to that object; False: the cache may not be trusted."""
        if not cache.own_writes or cache.own_writes.pending(key) is None:
            return True

        def pending() -> list[PendingWrite]:
            write = cache.own_writes.pending(key)
            return [] if write is None else [write]

        return await self._wait(cache, pending, self._own_write_timeout)

    async def is_current_in(self, cache: TypeCache, namespace: str) -> bool:
        """Wait, bounded, for own writes in a namespace ("": in any)."""
        if not cache.own_writes:
            return True
        pending = partial(cache.own_writes.pending_in, namespace)
        return await self._wait(cache, pending, self._own_write_timeout)

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
            )
            informer = SharedInformer(
                list_watch,
                clock=self._clock,
                random=self._random,
                observer=_Reporter(self._metrics, str(scope.resource_type), scope.namespace),
            )
            cache = self._types[scope] = TypeCache(scope, informer)
            if self._group is not None:
                self._start(cache)
        return cache

    def _start(self, cache: TypeCache) -> None:
        if self._group is not None:
            self._group.create_task(cache.informer.run(), name=f"informer {cache.scope}")

    def _holding(self, resource_type: ResourceType, namespace: str) -> list[TypeCache]:
        """Return the caches for reads: those without selectors where there are any."""
        caches = [c for s, c in self._types.items() if s.resource_type == resource_type]
        whole = [c for c in caches if not c.scope.is_selective] or caches
        if not namespace:
            return whole
        return [c for c in whole if c.scope.namespace in ("", namespace)]

    def _owners(self, cache: TypeCache, write: Write) -> Iterator[OwnerKey]:
        yield owner_key(write.resource_type, write.key)
        reconciling = _reconciling.get()
        if reconciling is not None:
            yield reconciling
        references = write.owner_references
        if write.deleted:
            cached = cache.informer.lister.find(write.key)
            references = cached.owner_references if cached is not None else ()
        for reference in references:
            if reference.controller:
                # The reference does not say whether its owner is namespaced.
                for namespace in {write.key.namespace, ""}:
                    yield (reference.group, reference.kind, ObjectKey(namespace, reference.name))

    async def _wait(
        self,
        cache: TypeCache,
        pending: Callable[[], Sequence[PendingWrite]],
        timeout_seconds: float,
    ) -> bool:
        started = self._clock.monotonic()
        waited_in_vain = any(write.overdue for write in pending())
        visible = await cache.wait_until_visible(pending, timeout_seconds)
        outcome = "seen" if visible else "timeout"
        seconds = self._clock.monotonic() - started
        self._metrics.own_write_waited(cache.scope.resource_type, seconds, outcome)
        if not visible and not waited_in_vain:
            _log.warning("own write not seen in time, reading live", resource=str(cache.scope))
        return visible

    def _how_to_declare(self, resource_type: ResourceType, namespace: str) -> str:
        if any(scope.resource_type == resource_type for scope in self._types):
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


class _Reporter(InformerMetrics):
    """Counts and logs."""

    def failed(
        self, resource_type: ResourceType, error: Exception, retry_in_seconds: float
    ) -> None:
        super().failed(resource_type, error, retry_in_seconds)
        _log.warning(
            "list or watch failed",
            resource=str(resource_type),
            error=str(error),
            retry_in_seconds=round(retry_in_seconds, 3),
        )

    def handler_failed(self, resource_type: ResourceType, key: ObjectKey, error: Exception) -> None:
        super().handler_failed(resource_type, key, error)
        _log.error("event lost", resource=str(resource_type), object=str(key), exc_info=error)


def _label_text(labels: Labels) -> str:
    if isinstance(labels, str):
        return labels
    if not labels:
        return ""
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items()))


def _field_items(fields: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((fields or {}).items()))
