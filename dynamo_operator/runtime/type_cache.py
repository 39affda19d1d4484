"""One informer of a cache, and the own writes that it has not shown yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import structlog

from dynamo_operator.runtime.client.paths import Fields, Labels
from dynamo_operator.runtime.client.writes import Write
from dynamo_operator.runtime.metrics import InformerMetrics, Metrics
from dynamo_operator.runtime.own_writes import OwnerKey, OwnWrites, PendingWrite
from dynamo_operator.runtime.selectors import (
    label_matcher,
    label_text,
    names_match,
    server_field_text,
)
from informers.clock import Clock
from informers.errors import InformerError
from informers.events import ObjectEvent
from informers.indexers import BY_NAMESPACE, BY_OWNER_UID, Index
from informers.objects import CachedObject, ObjectKey, ResourceType
from informers.shared_informer import Handler, SharedInformer

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Scope:
    """What one informer covers."""

    resource_type: ResourceType
    namespace: str = ""
    labels: str = ""
    fields: str = ""
    metadata_only: bool = False

    @classmethod
    def of(
        cls,
        resource_type: ResourceType,
        *,
        labels: Labels = None,
        fields: Fields = None,
        metadata_only: bool = False,
    ) -> Scope:
        """Return the scope of all namespaces, in the form in which equal selections are equal.

        Raises:
            ValueError: a selector cannot be read, or no API server selects by it.
        """
        text = label_text(labels)
        label_matcher(text)  # refuses what is no selector before a server does
        return cls(
            resource_type,
            labels=text,
            fields=server_field_text(fields),
            metadata_only=metadata_only,
        )

    def within(self, namespace: str) -> Scope:
        """Return the same in one namespace."""
        return replace(self, namespace=namespace)

    @property
    def is_selective(self) -> bool:
        """Whether selectors hide objects."""
        return bool(self.labels or self.fields)

    def covers(self, obj: CachedObject) -> bool:
        """Whether the informer surely shows that object; by other fields than names: no."""
        matches = label_matcher(self.labels)
        return (matches is None or matches(obj.labels)) and names_match(obj.key, self.fields)

    @property
    def selection(self) -> str:
        """The type and what selects of it."""
        selectors = ";".join(text for text in (self.labels, self.fields) if text)
        return str(self.resource_type) + (f"[{selectors}]" if selectors else "")

    def __str__(self) -> str:
        return self.selection + (f" in {self.namespace}" if self.namespace else "")


class TypeCache:
    """One informer of one type and scope, and the own writes that it has not shown yet."""

    def __init__(
        self,
        scope: Scope,
        informer: SharedInformer,
        reporter: InformerReporter,
        metrics: Metrics,
        clock: Clock,
        own_write_timeout_seconds: float,
    ) -> None:
        self.scope = scope
        self.informer = informer
        self.users = 0
        """How many declarations need it; without any it stops."""
        self._reporter = reporter
        self._own_writes = OwnWrites(informer.lister, clock)
        self._metrics = metrics
        self._timeout = own_write_timeout_seconds
        self._indexes: dict[str, Index] = {}
        informer.add_handler(self._changed)
        self.add_index(BY_OWNER_UID)
        if scope.resource_type.namespaced and not scope.namespace:
            self.add_index(BY_NAMESPACE)
        else:
            self._indexes[BY_NAMESPACE.name] = BY_NAMESPACE  # of one namespace it would hold all

    def add_index(self, index: Index) -> None:
        """Keep an index from now on."""
        self.informer.add_index(index)
        self._indexes[index.name] = index

    def has_index(self, name: str) -> bool:
        """Whether there is an index of that name."""
        return name in self._indexes

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

    def hand_out(self, handler: Handler, event: ObjectEvent) -> None:
        """Call a handler as the informer would: one that raises loses the event."""
        try:
            handler(event)
        except Exception as error:  # noqa: BLE001 - one handler must not stop the others
            self._reporter.handler_failed(self.scope.resource_type, event.object.key, error)

    def closed(self) -> None:
        """Note that nobody needs it any more: it holds nothing that counts."""
        self._reporter.stopped()

    def why_unsynced(self) -> str:
        """Say what is known about why it is not filled yet."""
        error = self.informer.last_error
        return f"{self.scope}: {error}" if error else f"{self.scope}: no answer yet"

    def wrote(self, write: Write, owners: Sequence[OwnerKey]) -> None:
        """Record a write that the informer will show."""
        if write.in_doubt:
            self._own_writes.doubted(write.key, owners)
            return
        if self.scope.is_selective and not self._shows(write):
            return
        if write.resource_version:
            self._own_writes.wrote(write.key, write.resource_version, owners)
        elif write.deleted:
            cached = self.informer.lister.find(write.key)
            uid = write.deleted_uid or (cached.uid if cached is not None else "")
            self._own_writes.deleted(write.key, uid, owners)

    def _shows(self, write: Write) -> bool:
        """Whether the informer has the object, or surely will."""
        if write.key in self.informer.lister or self._own_writes.pending(write.key) is not None:
            return True
        return write.stored is not None and self.scope.covers(write.stored)

    @property
    def has_own_writes(self) -> bool:
        """Whether any own write is not visible yet."""
        return bool(self._own_writes)

    async def is_current(self, key: ObjectKey) -> bool:
        """Wait, bounded, for an own write to that object; False: read live instead."""
        if not self._own_writes or self._own_writes.pending(key) is None:
            return True

        def pending() -> list[PendingWrite]:
            write = self._own_writes.pending(key)
            return [] if write is None else [write]

        return await self._wait(pending, self._timeout)

    async def is_current_in(self, namespace: str) -> bool:
        """Wait, bounded, for own writes in a namespace ("": in any); False: read live instead."""
        if not self._own_writes:
            return True
        return await self._wait(partial(self._own_writes.pending_in, namespace), self._timeout)

    async def wait_for_writes_of(self, owner: OwnerKey, timeout_seconds: float) -> None:
        """Wait, bounded, for the own writes that count as that object's."""
        if self._own_writes:
            await self._wait(partial(self._own_writes.pending_for, owner), timeout_seconds)

    async def _wait(
        self, pending: Callable[[], Sequence[PendingWrite]], timeout_seconds: float
    ) -> bool:
        """Wait until none is pending; for those that were awaited in vain before, not again."""
        writes = pending()
        if not writes:
            return True
        if all(write.overdue for write in writes):
            return False
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            async with asyncio.timeout(timeout_seconds):
                await self.informer.wait_until(lambda _: all(w.overdue for w in pending()))
        except TimeoutError:
            _log.warning("own write not seen in time, reading live", resource=str(self.scope))
            for write in pending():
                write.overdue = True
        except InformerError:
            return False  # it was stopped meanwhile
        visible = not pending()
        self._metrics.own_write_waited(
            self.scope.resource_type, loop.time() - started, "seen" if visible else "timeout"
        )
        return visible

    def _changed(self, _event: ObjectEvent) -> None:
        if self._own_writes:
            self._own_writes.settle()


class InformerReporter(InformerMetrics):
    """Counts and logs what one informer meets."""

    def failed(
        self, resource_type: ResourceType, error: Exception, retry_in_seconds: float
    ) -> None:
        """Count and log a failed list or watch."""
        super().failed(resource_type, error, retry_in_seconds)
        _log.warning(
            "list or watch failed",
            resource=str(resource_type),
            error=str(error),
            retry_in_seconds=round(retry_in_seconds, 3),
        )

    def recovered(self, resource_type: ResourceType) -> None:
        """Log the end of what `failed` told."""
        super().recovered(resource_type)
        _log.info("list and watch work again", resource=str(resource_type))

    def handler_failed(self, resource_type: ResourceType, key: ObjectKey, error: Exception) -> None:
        """Count and log an event that a handler lost."""
        super().handler_failed(resource_type, key, error)
        _log.error("event lost", resource=str(resource_type), object=str(key), exc_info=error)

    def index_failed(
        self, resource_type: ResourceType, index: str, key: ObjectKey, error: Exception
    ) -> None:
        """Count and log an object that is missing in an index."""
        super().index_failed(resource_type, index, key, error)
        resource = str(resource_type)
        _log.error(
            "object not indexed", resource=resource, index=index, object=str(key), exc_info=error
        )
