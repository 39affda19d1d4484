"""The informers of a cache: each shared by all who need the same, and gone with the last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import replace

import structlog

from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.metrics import Metrics
from dynamo_operator.runtime.served_kinds import (
    DISCOVERED_KIND,
    DISCOVERY_POLL_SECONDS,
    DiscoveredKinds,
)
from dynamo_operator.runtime.type_cache import InformerReporter, Scope, TypeCache
from informers.clock import Clock, Random
from informers.errors import InformerError, InformerFailedError
from informers.list_watch import ListWatch
from informers.objects import ObjectKey, ResourceType
from informers.shared_informer import SharedInformer
from informers.transform import Transform, TransformedListWatch
from informers.watch_list_support import WatchListSupport

_log = structlog.get_logger(__name__)


class InformerPool:
    """Makes informers when they are needed and runs them while they are.

    Args:
        client: lists and watches.
        clock: the informers' time.
        random: the informers' jitter.
        metrics: counts what the informers do.
        own_write_timeout_seconds: how long a read waits for an own write.
        watch_idle_seconds: after so long without a byte a watch is given up for a new one.
        fail_when_forbidden: whether a type that may not be listed ends its informer.
        can_do_without: asked when an informer ended by itself; False fails `run` with its error.
    """

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        random: Random,
        metrics: Metrics,
        own_write_timeout_seconds: float,
        watch_idle_seconds: float,
        fail_when_forbidden: bool,
        can_do_without: Callable[[TypeCache, InformerFailedError], bool],
    ) -> None:
        self._client = client
        self._clock = clock
        self._random = random
        self._metrics = metrics
        self._own_write_timeout = own_write_timeout_seconds
        self._watch_idle_seconds = watch_idle_seconds
        self._fail_when_forbidden = fail_when_forbidden
        self._can_do_without = can_do_without
        self._watch_list_support = WatchListSupport()
        self._transforms: dict[ResourceType, Transform] = {}
        self._poll_seconds: dict[ResourceType, float] = {DISCOVERED_KIND: DISCOVERY_POLL_SECONDS}
        # By group and plural: an object is the same in all versions of its API.
        self._caches: dict[tuple[str, str], dict[Scope, TypeCache]] = {}
        self._tasks: dict[TypeCache, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None

    @property
    def is_running(self) -> bool:
        """Whether `run` runs."""
        return self._group is not None

    def __iter__(self) -> Iterator[TypeCache]:
        return iter([cache for caches in self._caches.values() for cache in caches.values()])

    def __contains__(self, cache: TypeCache) -> bool:
        return self._family(cache.scope.resource_type).get(cache.scope) is cache

    def of(self, resource_type: ResourceType) -> Collection[TypeCache]:
        """Return the caches of a type, in all versions of its API."""
        return self._family(resource_type).values()

    def transform(self, resource_type: ResourceType, function: Transform) -> None:
        """Change the objects of a type on their way in.

        Raises:
            ValueError: the type has a function already.
        """
        if resource_type in self._transforms:
            raise ValueError(f"{resource_type}: is transformed already")
        self._transforms[resource_type] = function

    def poll(self, resource_type: ResourceType, every_seconds: float) -> None:
        """List a type that often instead of watching it."""
        self._poll_seconds[resource_type] = every_seconds

    def acquire(self, scope: Scope) -> TypeCache:
        """Return the cache of a scope, made now if need be; `release` must follow.

        Who wants metadata only gets the whole objects if those are here: they have it, too.
        """
        caches = self._caches.setdefault(_family_key(scope.resource_type), {})
        cache = caches.get(replace(scope, metadata_only=False)) or caches.get(scope)
        if cache is None:
            cache = caches[scope] = self._make(scope)
            self._start(cache)
        cache.users += 1
        return cache

    def release(self, cache: TypeCache) -> None:
        """Need a cache no more."""
        cache.users -= 1
        if cache.users:
            return
        del self._family(cache.scope.resource_type)[cache.scope]
        cache.closed()
        cache.informer.abandon()
        task = self._tasks.pop(cache, None)
        if task is not None:
            task.cancel()

    async def run(self) -> None:
        """Run every informer until cancelled.

        Raises:
            InformerFailedError: one ended that cannot be done without.
        """
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                try:
                    for cache in self:
                        self._start(cache)
                    await asyncio.Event().wait()
                finally:
                    self._group = None
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    def _family(self, resource_type: ResourceType) -> dict[Scope, TypeCache]:
        return self._caches.get(_family_key(resource_type), {})

    def _make(self, scope: Scope) -> TypeCache:
        resource_type = scope.resource_type
        list_watch = self._list_watch(scope)
        if resource_type in self._transforms:
            list_watch = TransformedListWatch(list_watch, self._transforms[resource_type])
        reporter = InformerReporter(self._metrics, scope.selection, scope.namespace)
        informer = SharedInformer(
            list_watch,
            clock=self._clock,
            random=self._random,
            observer=reporter,
            poll_every_seconds=self._poll_seconds.get(resource_type, 0.0),
            watch_list_support=self._watch_list_support,
            idle_seconds=self._watch_idle_seconds,
            fail_when_forbidden=self._fail_when_forbidden,
        )
        return TypeCache(
            scope, informer, reporter, self._metrics, self._clock, self._own_write_timeout
        )

    def _list_watch(self, scope: Scope) -> ListWatch:
        if scope.resource_type == DISCOVERED_KIND:
            return DiscoveredKinds(self._client, ObjectKey("", scope.fields.partition("=")[2]))
        return self._client.list_watch(
            scope.resource_type,
            namespace=scope.namespace,
            labels=scope.labels or None,
            fields=scope.fields or None,
            metadata_only=scope.metadata_only,
        )

    def _start(self, cache: TypeCache) -> None:
        if self._group is not None:
            name = f"informer {cache.scope}"
            self._tasks[cache] = self._group.create_task(self._run(cache), name=name)
            self._group.create_task(_announce(cache), name=f"{name} is synced")

    async def _run(self, cache: TypeCache) -> None:
        try:
            await cache.informer.run()
        except asyncio.CancelledError:
            if self.is_running and cache in self:
                # A task group takes a cancelled task for one that ended.
                raise RuntimeError(f"informer {cache.scope}: was cancelled from outside") from None
            raise
        except InformerFailedError as error:
            if not self._can_do_without(cache, error):
                raise


async def _announce(cache: TypeCache) -> None:
    with suppress(InformerError):
        await cache.informer.wait_synced()
        lister = cache.informer.lister
        _log.info(
            "informer synced",
            resource=str(cache.scope),
            objects=len(lister),
            data_bytes=lister.data_bytes,
        )


def _family_key(resource_type: ResourceType) -> tuple[str, str]:
    return (resource_type.group, resource_type.plural)
