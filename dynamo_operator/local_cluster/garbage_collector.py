"""Deletes what has lost its owners, and carries out foreground and orphan deletion.

Every resource that can be listed, watched and deleted is watched (metadata only) into an
`OwnershipGraph`; what a change concerns is queued by UID. Nothing is done on the word of the graph
alone: the object and its owners are read live before anything is written, and every delete and
patch names the UID it is meant for.

    owners all absent          -> delete (background, or as the object's own finalizers say)
    some absent                -> remove those references
    owner deleted in foreground-> delete the dependents that block it, then let it go
    owner deleted as orphan    -> remove the references of its dependents, then let it go
    owner's kind not served    -> wait
    owner in another namespace -> it is absent; a Warning Event says where it is

A cluster-scoped object that names a namespaced owner cannot be judged: a Warning Event says so, and
it stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import structlog

from dynamo_operator.local_cluster.ownership_graph import OwnershipGraph
from dynamo_operator.local_cluster.served_resources import ServedResources, served_resources
from dynamo_operator.runtime.builtin_kinds import CustomResourceDefinition
from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.errors import (
    ClientError,
    ConflictError,
    MethodNotAllowedError,
    NotFoundError,
)
from dynamo_operator.runtime.event_recorder import EventRecorder
from informers.clock import Clock, Random, SystemClock, system_random
from informers.errors import InformerError, UnwatchableError
from informers.events import Deleted, ObjectEvent, Updated
from informers.objects import ObjectKey, ObjectRef, OwnerReference, ResourceType
from informers.rate_limiters import ItemExponential
from informers.shared_informer import SharedInformer
from informers.work_queue import WorkQueue

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"

_NEEDED_VERBS = frozenset({"list", "watch", "delete"})
# Made by the hundred and owned by nobody.
_IGNORED = {("", "events"), ("events.k8s.io", "events")}
_WORKERS = 8
_DISCOVER_EVERY_SECONDS = 30.0
_SYNC_TIMEOUT_SECONDS = 30.0
_LONGEST_RETRY_SECONDS = 60.0

_log = structlog.get_logger(__name__)


class GarbageCollector:
    """Collects garbage.

    Args:
        client: of the cluster.
        clock: times.
        random: jitter.
    """

    needs_leadership = False

    def __init__(
        self, client: Client, *, clock: Clock | None = None, random: Random | None = None
    ) -> None:
        self._client = client.with_field_manager("garbage-collector")
        self._clock = clock or SystemClock()
        self._random = random or system_random()
        self._graph = OwnershipGraph()
        self._queue: WorkQueue[str] = WorkQueue(
            rate_limiter=ItemExponential(cap_seconds=_LONGEST_RETRY_SECONDS), clock=self._clock
        )
        self._served = ServedResources()
        self._monitors: dict[ResourceType, _Monitor] = {}
        self._rediscover = asyncio.Event()
        self._synced = asyncio.Event()
        self._events = EventRecorder(
            self._client,
            clock=self._clock,
            reporting_controller="garbage-collector-controller",
            reporting_instance="garbage-collector",
        )

    async def wait_synced(self) -> None:
        """Wait until the graph holds what is in the cluster."""
        await self._synced.wait()

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._events.run())
            await self._watch_everything(tasks)
            self._synced.set()
            for _ in range(_WORKERS):
                tasks.create_task(self._work())
            while True:
                await self._pause()
                await self._watch_everything(tasks)

    # --- watching -------------------------------------------------------------------------------

    async def _pause(self) -> None:
        try:
            await asyncio.wait_for(self._rediscover.wait(), _DISCOVER_EVERY_SECONDS)
        except TimeoutError:
            return
        self._rediscover.clear()

    async def _watch_everything(self, tasks: asyncio.TaskGroup) -> None:
        """Watch new resources, and those no more that are gone."""
        try:
            served = await served_resources(self._client)
        except ClientError as error:
            _log.warning("resources not discovered", error=str(error))
            self._rediscover.set()
            await asyncio.sleep(1.0)
            return
        wanted = {
            found.resource_type
            for found in served.types
            if found.verbs >= _NEEDED_VERBS
            and (found.resource_type.group, found.resource_type.plural) not in _IGNORED
        }
        self._served = served
        if served.is_complete:
            for resource_type in self._monitors.keys() - wanted:
                self._stop_watching(resource_type)
        new = wanted - self._monitors.keys()
        for resource_type in sorted(new, key=str):
            monitor = _Monitor(self._informer(resource_type))
            monitor.task = tasks.create_task(self._run_monitor(resource_type, monitor))
            self._monitors[resource_type] = monitor
        for resource_type in sorted(new, key=str):
            await self._wait_monitor(resource_type)

    def _informer(self, resource_type: ResourceType) -> SharedInformer:
        informer = SharedInformer(
            self._client.list_watch(resource_type, metadata_only=True),
            clock=self._clock,
            random=self._random,
        )
        informer.add_handler(self._handler(resource_type))
        return informer

    def _handler(self, resource_type: ResourceType) -> Callable[[ObjectEvent], None]:
        is_definition = resource_type == CustomResourceDefinition.resource_type

        def handle(event: ObjectEvent) -> None:
            if isinstance(event, Deleted):
                concerned = self._graph.forget(event.object.uid)
            else:
                concerned = set()
                if isinstance(event, Updated) and event.old.uid != event.object.uid:
                    concerned |= self._graph.forget(event.old.uid)
                concerned |= self._graph.observe(resource_type, event.object)
            for uid in sorted(concerned):
                self._queue.add(uid)
            if is_definition:
                self._rediscover.set()

        return handle

    async def _run_monitor(self, resource_type: ResourceType, monitor: _Monitor) -> None:
        try:
            await monitor.informer.run()
        except UnwatchableError as error:
            _log.info("resource not watched", resource=str(resource_type), error=str(error))

    async def _wait_monitor(self, resource_type: ResourceType) -> None:
        monitor = self._monitors[resource_type]
        try:
            await monitor.informer.wait_synced(_SYNC_TIMEOUT_SECONDS)
        except InformerError as error:
            _log.warning("resource not synced", resource=str(resource_type), error=str(error))

    def _stop_watching(self, resource_type: ResourceType) -> None:
        monitor = self._monitors.pop(resource_type)
        if monitor.task is not None:
            monitor.task.cancel()
        for obj in monitor.informer.lister.list():
            for uid in sorted(self._graph.forget(obj.uid)):
                self._queue.add(uid)

    # --- working --------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            item = await self._queue.get()
            try:
                await self._attend(item.key)
                self._queue.forget(item.key)
            except (ClientError, _UndecidedError) as error:
                if not isinstance(error, ConflictError | NotFoundError):
                    _log.info("garbage collection delayed", uid=item.key, error=str(error))
                self._queue.add(item.key, rate_limited=True)
            finally:
                self._queue.done(item.key)

    async def _attend(self, uid: str) -> None:
        """Look at one object."""
        node = self._graph.find(uid)
        if node is None or node.ref is None:
            return
        ref = node.ref  # the graph may forget the object during any call
        live = await self._client.find(ref.resource_type, ref.key)
        if live is None or live["metadata"]["uid"] != uid:
            return  # its informer is about to say so
        metadata = live["metadata"]
        finalizers = metadata.get("finalizers") or ()
        if metadata.get("deletionTimestamp"):
            if ORPHAN in finalizers:
                await self._orphan_dependents(ref, metadata)
            elif FOREGROUND in finalizers:
                await self._delete_blocking_dependents(ref, metadata)
            return
        if metadata.get("ownerReferences"):
            await self._judge(ref, metadata)

    async def _judge(self, ref: ObjectRef, metadata: Mapping[str, Any]) -> None:
        """Decide what an object's owners mean for it."""
        owners = Owners([], [], [])
        for reference in metadata["ownerReferences"]:
            owner = _reference(reference)
            getattr(owners, await self._state_of(ref, owner)).append(owner)
        lost = [*owners.absent, *owners.waiting]
        if owners.solid:
            if lost:
                await self._remove_references(ref, metadata, {owner.uid for owner in lost})
            return
        dependents = self._graph.dependents(ref.uid)
        if owners.waiting and dependents:
            if any(dependent.is_deleting for dependent in dependents):
                await self._unblock(ref, metadata)  # else a circle would wait for itself
            # It goes with its owner, and its own dependents go before it.
            await self._delete(ref, metadata, "Foreground")
            return
        finalizers = metadata.get("finalizers") or ()
        policy: Literal["Background", "Foreground", "Orphan"] = "Background"
        if ORPHAN in finalizers:
            policy = "Orphan"
        elif FOREGROUND in finalizers:
            policy = "Foreground"
        await self._delete(ref, metadata, policy)

    async def _state_of(
        self, ref: ObjectRef, owner: OwnerReference
    ) -> Literal["solid", "absent", "waiting"]:
        """Look an owner up, in the object's own namespace."""
        owner_type = self._served.find(owner.group, owner.kind)
        if owner_type is None:
            self._rediscover.set()
            raise _UndecidedError(f"owner {owner.kind}.{owner.group}: no such kind is served")
        namespace = ref.key.namespace if owner_type.namespaced else ""
        if owner_type.namespaced and not ref.resource_type.namespaced:
            self._warn(
                ref,
                owner,
                "a cluster-scoped object cannot have a namespaced owner; it is not deleted",
            )
            return "solid"
        if self._graph.is_absent(owner.uid, namespace):
            return "absent"
        live = await self._client.find(owner_type, ObjectKey(namespace, owner.name))
        if live is None or live["metadata"]["uid"] != owner.uid:
            await self._warn_if_elsewhere(ref, owner, owner_type)
            self._graph.remember_absent(owner.uid, namespace)
            return "absent"
        metadata = live["metadata"]
        deleting = metadata.get("deletionTimestamp") is not None
        return "waiting" if deleting and FOREGROUND in metadata.get("finalizers", ()) else "solid"

    async def _warn_if_elsewhere(
        self, ref: ObjectRef, owner: OwnerReference, owner_type: ResourceType
    ) -> None:
        if not owner_type.namespaced:
            return
        named = await self._client.list(owner_type, fields={"metadata.name": owner.name})
        for found in named:
            if found["metadata"]["uid"] == owner.uid:
                place = found["metadata"]["namespace"]
                why = f"it exists in namespace {place!r}, not in {ref.key.namespace!r}"
                self._warn(ref, owner, f"{why}, and counts as absent")

    def _warn(self, ref: ObjectRef, owner: OwnerReference, why: str) -> None:
        named = f"{owner.api_version}/{owner.kind}, name: {owner.name}, uid: {owner.uid}"
        note = f"ownerRef [{named}]: {why}"
        self._events.record(
            _as_object(ref),
            type="Warning",
            reason="OwnerRefInvalidNamespace",
            action="GarbageCollection",
            note=note,
        )

    # --- acting ---------------------------------------------------------------------------------

    async def _delete(
        self,
        ref: ObjectRef,
        metadata: Mapping[str, Any],
        propagation: Literal["Background", "Foreground", "Orphan"],
    ) -> None:
        try:
            await self._client.delete(
                ref.resource_type,
                ref.key,
                uid=ref.uid,
                resource_version=metadata["resourceVersion"],
                propagation=propagation,
            )
        except (NotFoundError, MethodNotAllowedError):
            return
        _log.debug("object collected", kind=ref.resource_type.kind, key=str(ref.key))

    async def _delete_blocking_dependents(
        self, ref: ObjectRef, metadata: Mapping[str, Any]
    ) -> None:
        """Let a foreground-deleted object go once nothing that blocks it is left."""
        blocking = [
            dependent
            for dependent in self._graph.dependents(ref.uid)
            if any(o.uid == ref.uid and o.block_owner_deletion for o in dependent.owners)
        ]
        for dependent in blocking:
            if not dependent.is_deleting:
                self._queue.add(dependent.uid)
        if not blocking:
            await self._remove_finalizer(ref, metadata, FOREGROUND)

    async def _orphan_dependents(self, ref: ObjectRef, metadata: Mapping[str, Any]) -> None:
        for dependent in [node.ref for node in self._graph.dependents(ref.uid)]:
            if dependent is None:
                continue
            live = await self._client.find(dependent.resource_type, dependent.key)
            if live is not None and live["metadata"]["uid"] == dependent.uid:
                await self._remove_references(dependent, live["metadata"], {ref.uid})
        await self._remove_finalizer(ref, metadata, ORPHAN)

    async def _remove_references(
        self, ref: ObjectRef, metadata: Mapping[str, Any], uids: set[str]
    ) -> None:
        references = metadata.get("ownerReferences") or ()
        kept = [reference for reference in references if reference["uid"] not in uids]
        if len(kept) != len(references):
            await self._patch(ref, metadata, {"ownerReferences": kept or None})

    async def _unblock(self, ref: ObjectRef, metadata: Mapping[str, Any]) -> None:
        references = [{**r, "blockOwnerDeletion": False} for r in metadata["ownerReferences"]]
        if references != metadata["ownerReferences"]:
            await self._patch(ref, metadata, {"ownerReferences": references})
            raise _UndecidedError("its references were changed: look again")

    async def _remove_finalizer(
        self, ref: ObjectRef, metadata: Mapping[str, Any], finalizer: str
    ) -> None:
        kept = [name for name in metadata.get("finalizers") or () if name != finalizer]
        await self._patch(ref, metadata, {"finalizers": kept or None})

    async def _patch(
        self, ref: ObjectRef, metadata: Mapping[str, Any], changes: Mapping[str, Any]
    ) -> None:
        patch = {
            "metadata": {
                "uid": ref.uid,
                "resourceVersion": metadata["resourceVersion"],
                **changes,
            }
        }
        try:
            await self._client.patch(ref.resource_type, ref.key, patch)
        except NotFoundError:
            return


@dataclass(frozen=True, slots=True)
class Owners:
    """An object's owners by what they are: there, gone, or waiting for their dependents' end."""

    solid: list[OwnerReference]
    absent: list[OwnerReference]
    waiting: list[OwnerReference]


class _UndecidedError(Exception):
    """It cannot be said yet whether an owner exists."""


class _Monitor:
    """One watched resource."""

    def __init__(self, informer: SharedInformer) -> None:
        self.informer = informer
        self.task: asyncio.Task[None] | None = None


def _reference(wire: Mapping[str, Any]) -> OwnerReference:
    return OwnerReference(
        api_version=wire["apiVersion"],
        kind=wire["kind"],
        name=wire["name"],
        uid=wire["uid"],
        controller=wire.get("controller", False),
        block_owner_deletion=wire.get("blockOwnerDeletion", False),
    )


def _as_object(ref: ObjectRef) -> dict[str, Any]:
    metadata = {"name": ref.key.name, "uid": ref.uid}
    if ref.key.namespace:
        metadata["namespace"] = ref.key.namespace
    return {
        "apiVersion": ref.resource_type.api_version,
        "kind": ref.resource_type.kind,
        "metadata": metadata,
    }
