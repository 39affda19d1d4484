"""`dynamo-operator demo --pool-relay`: two real relays beside a graph, from nothing to nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

from dynamo_operator.api.conditions import ConditionType, find_condition
from dynamo_operator.api.labels import GRAPH_NAME_LABEL, WORKER_HASH_LABEL
from dynamo_operator.api.names import pool_relay_name
from dynamo_operator.api.relay_contract import SYSTEM_PORT
from dynamo_operator.api.v1alpha1 import DynamoPoolRelay
from dynamo_operator.cli.crds import apply_crds
from dynamo_operator.cli.errors import CliError
from dynamo_operator.cli.graph_crds import GRAPH_CRDS
from dynamo_operator.cli.rendering.progress import ProgressLine
from dynamo_operator.images import PUBLIC_PLANNER_IMAGE
from dynamo_operator.runtime.builtin_kinds import CustomResourceDefinition
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.client.errors import ClientError
from dynamo_operator.runtime.client.transport import fetch_text
from dynamo_operator.testing.endpoints import Endpoint, ready_endpoints
from informers.objects import ObjectKey
from reconcilers.pool_relay.graphs import ServedComponent, ServedGraph

RELAY_MODULE: Final = "dynamo.kv_dc_relay"
"""What the relay is called in the release that the planner environment has."""

_KEY = ObjectKey("default", "demo")
_LOOK_SECONDS = 0.5
_PATIENCE_SECONDS = 120.0
_STATE_SECONDS = 5.0


async def prepare_relays(client: Client) -> None:
    """Install our CRDs, and permissive ones of the kinds that relays look at."""
    await apply_crds(client)
    for crd in GRAPH_CRDS:
        await client.create(CustomResourceDefinition.model_validate(crd))


async def show_relays(client: Client) -> None:
    """Bring relays up, let the graph's workers be rolled, and take the graph away.

    Raises:
        CliError: something did not come about in two minutes; says what was seen last.
    """
    await _create_relay(client)
    await _create_graph(client)
    await _create_workers(client, "1a2b3c4d")
    await _until(client, "two relays serve", _all_serve, relays=2, sources=1)
    await _create_workers(client, "5e6f7a8b")
    await _until(client, "both generations of workers are watched", _all_serve, relays=2, sources=2)
    await _delete_workers(client, "1a2b3c4d")
    await _until(client, "only the new workers are watched", _all_serve, relays=2, sources=1)
    await client.delete(ServedGraph, _KEY)
    await _until(client, "the relays are withdrawn", _none_serves)
    await client.delete(DynamoPoolRelay, _KEY)


async def _create_relay(client: Client) -> None:
    spec = {
        "image": PUBLIC_PLANNER_IMAGE,
        "clusterID": "demo-cluster",
        "env": [{"name": "DYN_EVENT_PLANE", "value": "zmq"}],
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}},
    }
    await client.create(DynamoPoolRelay.new(_KEY.name, namespace=_KEY.namespace, spec=spec))
    print(f"submitted DynamoPoolRelay {_KEY}", flush=True)


async def _create_graph(client: Client) -> None:
    components = [{"name": "Frontend", "type": "frontend"}, {"name": "Decode", "type": "decode"}]
    graph = ServedGraph.new(_KEY.name, namespace=_KEY.namespace, spec={"components": components})
    await client.create(graph)
    print(f"submitted DynamoGraphDeployment {_KEY}", flush=True)


async def _create_workers(client: Client, generation: str) -> None:
    graph = await client.get(ServedGraph, _KEY)
    labels = {GRAPH_NAME_LABEL: _KEY.name, WORKER_HASH_LABEL: generation}
    component = ServedComponent.new(
        _workers_name(generation), namespace=_KEY.namespace, labels=labels, spec={"type": "decode"}
    )
    await client.create(component, owner=graph)
    print(f"workers of generation {generation} come up", flush=True)


async def _delete_workers(client: Client, generation: str) -> None:
    await client.delete(ServedComponent, ObjectKey(_KEY.namespace, _workers_name(generation)))
    print(f"workers of generation {generation} are gone", flush=True)


def _workers_name(generation: str) -> str:
    return f"{_KEY.name}-decode-{generation}"


Look = Callable[..., Awaitable[tuple[bool, str]]]


async def _until(client: Client, what: str, look: Look, **expected: int) -> None:
    line = ProgressLine()
    seen = ""
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while True:
                holds, seen = await look(client, **expected)
                line.show(seen)
                if holds:
                    break
                await asyncio.sleep(_LOOK_SECONDS)
    except TimeoutError:
        line.end()
        raise CliError(f"not within {_PATIENCE_SECONDS:g} s: {what}; last seen: {seen}") from None
    line.end()
    print(f"  {what}", flush=True)


async def _all_serve(client: Client, *, relays: int, sources: int) -> tuple[bool, str]:
    """Whether every relay behind the Service says what the status says."""
    relay = await client.get(DynamoPoolRelay, _KEY)
    states = [state for e in await _endpoints(client) if (state := await _state(e)) is not None]
    revision = relay.status.source_revision
    current = [state for state in states if state["sources"]["appliedRevision"] == revision]
    watched = ", ".join(
        f"{state['podUID'][:8]} watches {state['sources']['count']}" for state in states
    )
    seen = f"{_ready(relay)}; behind the Service: {watched or 'nobody'}"
    return len(current) == relays and relay.status.sources == sources, seen


async def _none_serves(client: Client) -> tuple[bool, str]:
    relay = await client.get(DynamoPoolRelay, _KEY)
    endpoints = await _endpoints(client)
    return not endpoints and relay.status.endpoint is None, _ready(relay)


def _ready(relay: DynamoPoolRelay) -> str:
    ready = find_condition(relay.status.conditions, ConditionType.READY)
    return f"{ready.reason}: {ready.message}" if ready else "waiting for the operator"


async def _endpoints(client: Client) -> list[Endpoint]:
    service = ObjectKey(_KEY.namespace, pool_relay_name(_KEY.name))
    return await ready_endpoints(client, service, "grpc")


async def _state(endpoint: Endpoint) -> dict[str, Any] | None:
    """What a relay says of itself; None from one that comes or goes just now."""
    url = f"http://{endpoint.address}:{SYSTEM_PORT}/engine/state"
    try:
        state: dict[str, Any] = json.loads(await fetch_text(url, timeout_seconds=_STATE_SECONDS))
    except (ClientError, ValueError):
        return None
    return state
