"""A graph for relays to serve, and what they say of themselves to a Pod."""

from __future__ import annotations

import json
from typing import Any

from dynamo_operator.api.labels import GRAPH_NAME_LABEL, WORKER_HASH_LABEL
from dynamo_operator.api.names import pool_relay_name
from dynamo_operator.api.relay_contract import SYSTEM_PORT
from dynamo_operator.runtime.client.client import Client
from dynamo_operator.testing.endpoints import ready_endpoints
from dynamo_operator.testing.polling import eventually
from informers.objects import ObjectKey
from reconcilers.pool_relay.graphs import ServedComponent, ServedGraph
from tests.end_to_end.releases import run_in_pod

_ASK = """
import json, sys, time, urllib.request
deadline, states = time.monotonic() + 60, []
while time.monotonic() < deadline:
    states = [json.load(urllib.request.urlopen(url)) for url in sys.argv[1:]]
    if all(state["sources"]["count"] for state in states):
        break
    time.sleep(0.5)
print(json.dumps(states))
"""


async def create_graph(client: Client, key: ObjectKey) -> None:
    """Create a graph with one generation of workers."""
    components = [{"name": "Frontend", "type": "frontend"}, {"name": "Decode", "type": "decode"}]
    spec = {"components": components}
    graph = await client.create(ServedGraph.new(key.name, namespace=key.namespace, spec=spec))
    labels = {GRAPH_NAME_LABEL: key.name, WORKER_HASH_LABEL: "1a2b3c4d"}
    workers = ServedComponent.new(
        f"{key.name}-decode", namespace=key.namespace, labels=labels, spec={"type": "decode"}
    )
    await client.create(workers, owner=graph)


async def relay_states(client: Client, key: ObjectKey) -> list[dict[str, Any]]:
    """Return what both relays behind the Service say, once each knows its sources."""
    service = ObjectKey(key.namespace, pool_relay_name(key.name))
    endpoints = await eventually(
        lambda: ready_endpoints(client, service, "grpc"), lambda found: len(found) == 2, timeout=60
    )
    urls = [f"http://{each.address}:{SYSTEM_PORT}/engine/state" for each in endpoints]
    states: list[dict[str, Any]] = json.loads(await run_in_pod(client, "asker", _ASK, *urls))
    return states
