"""The cache: declared informers, and reads from them that are never older than one's own writes.

A type is declared before it is read: nothing here starts a watch because somebody happened to read.
Which informers a declaration has follows from what is known: one for each of the cache's
namespaces, which a label selector may choose, and none while an optional type is not defined.

Every write of the manager's client is recorded until the informer shows it. A read of that object,
a list that could contain it, and the next reconcile of the object that caused the write wait for
that; after five seconds in vain they ask the API server instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Final

import structlog

from dynamo_operator.runtime.builtin_kinds import CustomResourceDefinition, Namespace
from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.codec import resource_type_of
from dynamo_operator.runtime.client.paths import Fields, Labels
from dynamo_operator.runtime.client.reader import AnyKind
from dynamo_operator.runtime.client.writes import Write
from dynamo_operator.runtime.declaration import Declaration
from dynamo_operator.runtime.informer_pool import InformerPool
from dynamo_operator.runtime.metrics import Metrics
from dynamo_operator.runtime.own_writes import OwnerKey
from dynamo_operator.runtime.served_kinds import (
    DISCOVERED_KIND,
    definition_key,
    discovered_key,
    is_served,
)
from dynamo_operator.runtime.type_cache import Scope, TypeCache
from informers.clock import Clock, Random
from informers.errors import InformerError, InformerFailedError
from informers.events import Added, Deleted, ObjectEvent
from informers.indexers import Index
from informers.objects import ObjectKey, ResourceType, controller_ref
from informers.transform import Transform
from informers.watch_session import IDLE_SECONDS

CACHE_SYNC_TIMEOUT_SECONDS: Final = 120.0
OWN_WRITE_TIMEOUT_SECONDS: Final = 5.0

_reconciling: ContextVar[OwnerKey | None] = ContextVar("reconciling", default=None)

_log = structlog.get_logger(__name__)


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
        namespace_selector: restricts every namespaced type to the namespaces whose labels match, as
            they come and go; needs the permission to list and watch namespaces.
        clock: the informers' time.
        random: the informers' jitter.
        metrics: counts what the informers do.
        own_write_timeout_seconds: how long a read waits for an own write.
        watch_idle_seconds: after so long without a byte a watch is given up for a new one; servers
            send a bookmark every minute.
        fail_when_forbidden: whether a type that may not be listed ends the cache, instead of being
            tried again until the permission is there.
    """

    needs_leadership = False

    def __init__(
        self,
        client: Client,
        *,
        namespaces: Sequence[str] = (),
        namespace_selector: Labels = None,
        clock: Clock,
        random: Random,
        metrics: Metrics,
        own_write_timeout_seconds: float = OWN_WRITE_TIMEOUT_SECONDS,
        watch_idle_seconds: float = IDLE_SECONDS,
        fail_when_forbidden: bool = False,
    ) -> None:
        if namespaces and namespace_selector:
            raise ValueError("namespaces and namespace_selector exclude each other: give one")
        self._namespaces = tuple(dict.fromkeys(namespaces))
        self._clock = clock
        self._own_write_timeout = own_write_timeout_seconds
        self._pool = InformerPool(
            client,
            clock=clock,
            random=random,
            metrics=metrics,
            own_write_timeout_seconds=own_write_timeout_seconds,
            watch_idle_seconds=watch_idle_seconds,
            fail_when_forbidden=fail_when_forbidden,
            can_do_without=self._can_do_without,
        )
        self._declarations: list[Declaration] = []
        # Of optional types that are not held: they are defined, before their definition is seen.
        self._early_writes: dict[ResourceType, list[Write]] = {}
        self._selected: Declaration | None = None
        if namespace_selector:
            self._selected = self.declare(Namespace, labels=namespace_selector, metadata_only=True)
            self._selected.add_handler(self._namespace_changed)

    def declare(
        self,
        kind: AnyKind,
        *,
        labels: Labels = None,
        fields: Fields = None,
        indexes: Iterable[Index] = (),
        metadata_only: bool = False,
        optional: bool = False,
    ) -> Declaration:
        """Watch a type from the start of the manager on, or from now if it runs.

        Declarations of the same share their informers.

        Args:
            kind: the type.
            labels: only objects with these labels.
            fields: only objects with these fields; what the API server selects by.
            indexes: to find objects by.
            metadata_only: fetch and keep no more than metadata.
            optional: the custom resource need not be defined: it is watched while it is, and has
                no objects while it is not. Needs the permission to list and watch its
                CustomResourceDefinition; a cache that is restricted to `namespaces` polls
                discovery instead, every 10 seconds, and makes no call that is cluster-scoped.

        Raises:
            ValueError: a selector that cannot be, or `optional` for what is no custom resource.
        """
        resource_type = resource_type_of(kind)
        scope = Scope.of(resource_type, labels=labels, fields=fields, metadata_only=metadata_only)
        prerequisites = []
        if self._selected is not None and resource_type.namespaced:
            prerequisites.append(self._selected)
        if optional:
            prerequisites.append(self._declare_definition(resource_type))
        declaration = Declaration(
            scope,
            optional=optional,
            indexes=indexes,
            prerequisites=prerequisites,
            on_close=self._closed,
        )
        if optional:
            prerequisites[-1].add_handler(lambda _event: self._plan(declaration))
        self._plan(declaration)
        self._declarations.append(declaration)
        return declaration

    def transform(self, kind: AnyKind, function: Transform) -> None:
        """Keep of every object of a type what a function makes of it.

        What is read then is less than what is there: such objects must not be sent back whole.

        Args:
            kind: the type.
            function: returns the object to keep; key, UID and versions have to stay.

        Raises:
            ValueError: the type has been declared, or has a function already.
        """
        self._pool.transform(self._undeclared(kind, "transform it"), function)

    def poll(self, kind: AnyKind, *, every_seconds: float) -> None:
        """List a type that often instead of watching it, as some types cannot be watched.

        Args:
            kind: the type.
            every_seconds: from one list to the next, give or take a tenth.

        Raises:
            ValueError: the type has been declared, or the time is not positive.
        """
        resource_type = self._undeclared(kind, "poll it")
        if every_seconds <= 0:
            raise ValueError(f"{resource_type}: every_seconds={every_seconds}: must be positive")
        self._pool.poll(resource_type, every_seconds)

    async def run(self) -> None:
        """Run every informer until cancelled.

        Raises:
            InformerFailedError: one ended that is not optional.
        """
        await self._pool.run()

    async def wait_synced(self, timeout_seconds: float = CACHE_SYNC_TIMEOUT_SECONDS) -> None:
        """Wait until every declared type is here.

        Raises:
            CacheSyncError: one did not arrive in time; names it and its last error.
        """
        try:
            async with asyncio.timeout(timeout_seconds):
                for declaration in tuple(self._declarations):
                    if not declaration.is_closed:
                        await declaration.wait_synced()
        except TimeoutError:
            missing = "; ".join(self.unsynced())
            raise CacheSyncError(
                f"caches not synced after {timeout_seconds:g} s: {missing}"
            ) from None

    def unsynced(self) -> list[str]:
        """Say of each type that is not here yet what is known about why."""
        return [cache.why_unsynced() for cache in self._pool if not cache.informer.is_synced]

    def __iter__(self) -> Iterator[TypeCache]:
        """Iterate over what is held now: one cache for each informer."""
        return iter(self._pool)

    def covers(self, resource_type: ResourceType, namespace: str) -> bool:
        """Whether objects of a type are looked at in that namespace, if there are any."""
        if not resource_type.namespaced:
            return True
        if self._selected is None:
            return not self._namespaces or namespace in self._namespaces
        return any(ObjectKey("", namespace) in c.informer.lister for c in self._selected)

    def wrote(self, write: Write) -> None:
        """Record a write of the manager's client; its write observer."""
        written, owners = write.resource_type, list(_owners(write))
        for cache in self._pool.of(written):
            if cache.scope.namespace in ("", write.key.namespace):
                cache.wrote(write, owners)
        for declaration in self._declarations:
            if (
                declaration.optional
                and declaration.failure is None
                and declaration.scope.resource_type == written
                and not _is_defined(declaration)
            ):
                self._early_writes.setdefault(written, []).append(write)
                break

    def attribute_writes_to(self, owner: OwnerKey) -> None:
        """Let the writes that follow in this task count as caused by that object."""
        _reconciling.set(owner)

    async def wait_for_writes_of(self, owner: OwnerKey) -> None:
        """Wait, bounded, until what that object's reconciles wrote is visible here."""
        lagging = [cache for cache in self._pool if cache.has_own_writes]
        until = self._clock.monotonic() + self._own_write_timeout
        for cache in lagging:
            await cache.wait_for_writes_of(owner, until - self._clock.monotonic())

    async def ready(
        self, resource_type: ResourceType, namespace: str, *, metadata: bool = False
    ) -> list[TypeCache]:
        """Return the synced caches that together hold a namespace ("": all) of a type.

        Args:
            resource_type: what is read.
            namespace: where.
            metadata: metadata is all that is read.

        Raises:
            NotCachedError: nobody declared it.
            CacheNotStartedError: the manager does not run.
        """
        while True:
            caches = self._holding(resource_type, namespace, metadata=metadata)
            if not caches:
                await self._expect_nothing(resource_type, namespace, metadata=metadata)
                caches = self._holding(resource_type, namespace, metadata=metadata)
            if not self._pool.is_running:
                raise CacheNotStartedError(
                    f"{resource_type}: cached reads work while the manager runs; "
                    "before that read with manager.uncached_reader"
                )
            missing = None
            for cache in caches:  # almost always one, and asked by every read
                if not cache.informer.is_synced:
                    missing = cache
                    break
            if missing is None:
                return caches
            try:
                await missing.informer.wait_synced()
            except InformerError:
                if missing in self._pool:
                    raise

    def _undeclared(self, kind: AnyKind, what: str) -> ResourceType:
        resource_type = resource_type_of(kind)
        if any(d.scope.resource_type == resource_type for d in self._declarations):
            raise ValueError(f"{resource_type}: is declared: {what} before that")
        return resource_type

    # What is held

    def _plan(self, declaration: Declaration) -> None:
        """Let a declaration have the informers that it needs now, and no others."""
        wanted = self._wanted(declaration)
        for namespace in declaration.namespaces.difference(wanted):
            self._let_go(declaration, namespace)
        for namespace in wanted:
            if namespace not in declaration.namespaces:
                self._hold(declaration, namespace)
        if wanted:
            self._early_writes.pop(declaration.scope.resource_type, None)

    def _wanted(self, declaration: Declaration) -> Collection[str]:
        if not _is_on(declaration):
            return ()
        if not declaration.scope.resource_type.namespaced:
            return ("",)
        if self._selected is not None:
            return [
                obj.key.name for cache in self._selected for obj in cache.informer.lister.list()
            ]
        return self._namespaces or ("",)

    def _namespace_changed(self, event: ObjectEvent) -> None:
        namespace = event.object.key.name
        for declaration in tuple(self._declarations):
            if declaration is self._selected or not declaration.scope.resource_type.namespaced:
                continue
            held = namespace in declaration.namespaces
            if isinstance(event, Deleted):
                if held:
                    self._let_go(declaration, namespace)
            elif isinstance(event, Added) and not held and _is_on(declaration):
                self._hold(declaration, namespace)

    def _hold(self, declaration: Declaration, namespace: str) -> None:
        scope = declaration.scope.within(namespace)
        cache = self._pool.acquire(scope)
        for write in self._early_writes.get(scope.resource_type, ()):
            if namespace in ("", write.key.namespace):
                cache.wrote(write, list(_owners(write)))
        try:
            declaration.hold(namespace, cache)
        except BaseException:
            self._pool.release(cache)
            raise
        if not scope.metadata_only and not self._pool.is_running:
            self._share(cache)

    def _share(self, whole: TypeCache) -> None:
        """Move those who want metadata only to the whole objects; while nothing runs, loss-free."""
        namespace = whole.scope.namespace
        wanted = replace(whole.scope, metadata_only=True)
        for declaration in self._declarations:
            if declaration.scope.within(namespace) == wanted and whole not in tuple(declaration):
                self._pool.release(declaration.let_go(namespace))
                self._hold(declaration, namespace)

    def _let_go(self, declaration: Declaration, namespace: str) -> None:
        cache = declaration.let_go(namespace)
        self._pool.release(cache)
        if not declaration.is_closed:
            declaration.tell_gone(cache)

    def _closed(self, declaration: Declaration) -> None:
        self._declarations.remove(declaration)
        for namespace in declaration.namespaces:
            self._let_go(declaration, namespace)
        for prerequisite in declaration.prerequisites:
            if prerequisite is not self._selected:
                prerequisite.close()

    def _declare_definition(self, resource_type: ResourceType) -> Declaration:
        if not resource_type.group:
            raise ValueError(f"{resource_type}: optional is for custom resources only")
        if self._namespaces:
            name = discovered_key(resource_type).name
            return self.declare(DISCOVERED_KIND, fields={"metadata.name": name})
        name = definition_key(resource_type).name
        return self.declare(CustomResourceDefinition, fields={"metadata.name": name})

    def _can_do_without(self, cache: TypeCache, error: InformerFailedError) -> bool:
        users = [d for d in self._declarations if cache in tuple(d)]
        if not all(declaration.optional for declaration in users):
            return False
        _log.error("optional type is off", resource=str(cache.scope), error=str(error))
        for declaration in users:
            declaration.failure = error
            self._plan(declaration)
        return True

    # Reads

    def _declared(self, resource_type: ResourceType) -> list[Declaration]:
        return [d for d in self._declarations if d.scope.resource_type == resource_type]

    async def _wait_defined(self, declaration: Declaration) -> None:
        """Wait, bounded, for the definition of a type that was written to, so there must be one."""
        try:
            async with asyncio.timeout(self._own_write_timeout):
                for cache in declaration.prerequisites[-1]:
                    await cache.informer.wait_until(lambda _: _is_on(declaration))
        except TimeoutError:
            raise NotCachedError(
                f"{declaration.scope}: was written to, but its definition was not seen yet"
            ) from None

    def _holding(
        self, resource_type: ResourceType, namespace: str, *, metadata: bool
    ) -> list[TypeCache]:
        """Return the caches for reads: those without selectors where there are any."""
        caches = [
            cache
            for cache in self._pool.of(resource_type)
            if cache.scope.resource_type == resource_type
            and (metadata or not cache.scope.metadata_only)
            and (not namespace or cache.scope.namespace in ("", namespace))
        ]
        if len(caches) <= 1:
            return caches
        return [c for c in caches if not c.scope.is_selective] or caches

    async def _expect_nothing(
        self, resource_type: ResourceType, namespace: str, *, metadata: bool
    ) -> None:
        """Return if a type that nothing is held of surely has no objects, or once it is known.

        Raises:
            NotCachedError: it may well have.
        """
        declared = self._declared(resource_type)
        usable = [d for d in declared if metadata or not d.scope.metadata_only]
        if not usable:
            raise NotCachedError(_how_to_declare(resource_type, only_metadata=bool(declared)))
        if not self._pool.is_running:
            return
        for declaration in usable:
            await declaration.wait_synced()
            if declaration.optional and resource_type in self._early_writes:
                await self._wait_defined(declaration)
            if declaration.failure is not None:
                raise NotCachedError(
                    f"{resource_type} is not cached: {declaration.failure}; "
                    "read with manager.uncached_reader"
                )
        if namespace and not self.covers(resource_type, namespace):
            where = (
                f"match {self._selected.scope.labels!r}"
                if self._selected is not None
                else f"are {', '.join(self._namespaces)}"
            )
            raise NotCachedError(
                f"{resource_type} is not cached in namespace {namespace!r}: the manager's "
                f"namespaces {where}; add it there, or read with manager.uncached_reader"
            )


def _is_on(declaration: Declaration) -> bool:
    """Whether a declaration holds anything at all now."""
    if declaration.is_closed or declaration.failure is not None:
        return False
    return not declaration.optional or _is_defined(declaration)


def _is_defined(declaration: Declaration) -> bool:
    resource_type = declaration.scope.resource_type
    definition = declaration.prerequisites[-1]
    if definition.scope.resource_type == DISCOVERED_KIND:
        return any(cache.informer.lister.list() for cache in definition)
    key = definition_key(resource_type)
    found = (cache.informer.lister.find(key) for cache in definition)
    return any(obj is not None and is_served(obj, resource_type) for obj in found)


def _how_to_declare(resource_type: ResourceType, *, only_metadata: bool) -> str:
    if only_metadata:
        return (
            f"{resource_type} is cached as metadata only: watch it without metadata_only, read "
            "its metadata, or read with manager.uncached_reader"
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
