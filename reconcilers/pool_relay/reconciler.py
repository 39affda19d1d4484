"""The level-triggered pass over one relay: observe its graph, make what serves it, tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dynamo_operator.api.conditions import ConditionType, ReadyReason
from dynamo_operator.api.labels import GRAPH_NAME_LABEL, RELAY_UID_LABEL
from dynamo_operator.api.relay_contract import SourceDocument, watchable
from dynamo_operator.api.v1alpha1 import DynamoPoolRelay
from dynamo_operator.runtime import CachedReader, EventRecorder, Result
from dynamo_operator.runtime.builtin_kinds import Deployment, Pod
from dynamo_operator.runtime.client import Client, Reader
from dynamo_operator.runtime.client.errors import (
    ConflictError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
)
from dynamo_operator.runtime.conditions import find_condition
from dynamo_operator.runtime.owner_references import is_controlled_by
from informers.clock import Clock
from informers.objects import ObjectKey
from reconcilers.pool_relay.children import Children
from reconcilers.pool_relay.errors import RelayError
from reconcilers.pool_relay.graphs import (
    NotServed,
    ServedComponent,
    ServedGraph,
    servable,
    worker_namespaces,
)
from reconcilers.pool_relay.manifests import connection_revision, endpoint_of, render_deployment
from reconcilers.pool_relay.settings import PoolRelaySettings
from reconcilers.pool_relay.status import Verdict, counts, judged, readiness
from reconcilers.statuses import write_status

# What is on its way, or what somebody asked for.
_EXPECTED = (ReadyReason.ROLLING_OUT, ReadyReason.SCALED_TO_ZERO)


class PoolRelayReconciler:
    """Runs relays beside the graph of each DynamoPoolRelay, and withdraws them without one.

    Args:
        reader: the manager's cached reader.
        live: a reader without cache; nothing is withdrawn without it.
        client: writes.
        events: where transitions are told.
        clock: time of conditions.
        children: makes, mends and withdraws what a relay owns.
        settings: of all relays.
    """

    def __init__(
        self,
        *,
        reader: CachedReader,
        live: Reader,
        client: Client,
        events: EventRecorder,
        clock: Clock,
        children: Children,
        settings: PoolRelaySettings,
    ) -> None:
        self._reader = reader
        self._live = live
        self._client = client
        self._events = events
        self._clock = clock
        self._children = children
        self._settings = settings

    async def reconcile(self, key: ObjectKey) -> Result:
        """Bring the relays of that key to where they should be, and its status to the truth."""
        relay = await self._reader.find(DynamoPoolRelay, key)
        if relay is None or relay.is_deleting:
            return Result.done()  # what it owns goes with it
        try:
            graph = await self._graph(key)
            if isinstance(graph, NotServed):
                return await self._withdraw(relay, graph)
            return await self._serve(relay, graph)
        except ConflictError:
            return Result.backoff("the relay or a child changed since it was read")

    async def _graph(self, key: ObjectKey) -> ServedGraph | NotServed:
        """Find the graph; that it cannot be served is believed of a live read only."""
        backend = self._settings.discovery_backend
        found = await self._reader.find(ServedGraph, key)
        graph = servable(key, found, default_backend=backend)
        if isinstance(graph, ServedGraph) or graph.reason is ReadyReason.INVALID_NAME:
            return graph
        return servable(key, await self._live.find(ServedGraph, key), default_backend=backend)

    async def _serve(self, relay: DynamoPoolRelay, graph: ServedGraph) -> Result:
        revision = connection_revision(relay)
        namespaces, left_out = watchable(await self._worker_namespaces(relay, graph))
        document = SourceDocument(revision, tuple(namespaces))
        told = await self._children.published(relay)
        try:
            deployment = await self._children.ensure(relay, document)
        except RelayError as error:
            broken = Verdict(False, error.reason, str(error))
            await self._tell(relay, counts(await self._deployment(relay)), broken, broken)
            return _retry(error)
        if told is not None and told.namespaces != document.namespaces:
            note = f"the relays watch {', '.join(namespaces) or 'no namespace'}"
            self._events.record(relay, reason="SourcesChanged", action="Publish", note=note)
        pods = await self._reader.list(
            Pod, namespace=relay.key.namespace, labels={RELAY_UID_LABEL: relay.uid}
        )
        fields = {
            **counts(deployment),
            "endpoint": endpoint_of(relay),
            "connectionRevision": revision,
            "sourceRevision": document.revision,
            "sources": len(namespaces),
        }
        unwatchable = f"no relay can watch {', '.join(left_out)[:512]}" if left_out else ""
        published = Verdict(True, ReadyReason.PUBLISHED, unwatchable)
        await self._tell(relay, fields, readiness(relay, deployment, pods, revision), published)
        return Result.done()

    async def _withdraw(self, relay: DynamoPoolRelay, obstacle: NotServed) -> Result:
        message, failure = obstacle.message, None
        try:
            if obstacle.reason is not ReadyReason.INVALID_NAME:
                await self._children.withdraw(relay)
        except RelayError as error:
            message, failure = f"{message}; {error}", error
        withdrawn = Verdict(False, obstacle.reason, message)
        fields = counts(await self._deployment(relay))
        await self._tell(relay, fields, withdrawn, withdrawn)
        return Result.done() if failure is None else _retry(failure)

    async def _worker_namespaces(self, relay: DynamoPoolRelay, graph: ServedGraph) -> set[str]:
        components = await self._components(self._reader, graph)
        namespaces = worker_namespaces(graph, components)
        if components:
            return namespaces
        told = await self._children.published(relay)
        if told is not None and set(told.namespaces) == namespaces:
            return namespaces
        # "Nothing known yet" is not "nothing".
        try:
            components = await self._components(self._live, graph)
        except NotFoundError:
            components = []  # the kind is not defined: graphs are made without it
        return worker_namespaces(graph, components)

    async def _components(self, reader: Reader, graph: ServedGraph) -> list[ServedComponent]:
        labels = {GRAPH_NAME_LABEL: graph.key.name}
        found = await reader.list(ServedComponent, namespace=graph.key.namespace, labels=labels)
        return [component for component in found if is_controlled_by(component, graph)]

    async def _deployment(self, relay: DynamoPoolRelay) -> Deployment | None:
        key = render_deployment(relay, self._settings.relay).key
        found = await self._reader.find(Deployment, key)
        return found if found is not None and is_controlled_by(found, relay) else None

    async def _tell(
        self, relay: DynamoPoolRelay, fields: Mapping[str, Any], ready: Verdict, published: Verdict
    ) -> None:
        status = judged(relay, fields, ready=ready, published=published, now=self._clock.now())
        before = find_condition(relay.status.conditions, ConditionType.READY)
        if status != relay.status.to_dict():
            await write_status(self._client, relay, status)
        if before is None or before.reason != ready.reason:
            self._events.record(
                relay,
                type="Normal" if ready.holds or ready.reason in _EXPECTED else "Warning",
                reason=str(ready.reason),
                action="Serve",
                note=ready.message,
            )


def _retry(error: RelayError) -> Result:
    """Return when to look again.

    Raises:
        ApiError: the server is overburdened or broken, and may say itself when to come back.
    """
    if isinstance(error.__cause__, (ServerError, TooManyRequestsError)):
        raise error.__cause__
    if error.retry_seconds is not None:
        return Result.requeue(after=error.retry_seconds)
    return Result.backoff(str(error))
