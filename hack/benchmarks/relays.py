"""How soon relays follow their graphs, with many of them."""

from __future__ import annotations

import asyncio
import time

from dynamo_operator.api.labels import GRAPH_NAME_LABEL, WORKER_HASH_LABEL
from dynamo_operator.api.names import pool_relay_sources_name
from dynamo_operator.api.v1alpha1 import DynamoPoolRelay
from dynamo_operator.cli.graph_crds import GRAPH_CRDS
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.runtime import Manager
from dynamo_operator.runtime.builtin_kinds import ConfigMap
from dynamo_operator.testing import Cluster
from hack.benchmarks.measurement import Bar, Measurement
from informers.objects import ObjectKey
from reconcilers import pool_relay
from reconcilers.pool_relay.graphs import ServedComponent, ServedGraph

_RELAYS = 200
_CHANGES = 200
_SPEC = {"image": "registry.lab/relay:1.6.0", "clusterID": "dc-a"}
_COMPONENTS = [{"name": "Decode", "type": "decode"}]


def follow(scale: float) -> list[Measurement]:
    """Relays beside a graph each: how long after a change of its workers the sources are new."""
    relays = max(2, int(_RELAYS * scale))
    times = sorted(asyncio.run(_follow(relays, max(2, int(_CHANGES * scale)))))
    return [
        Measurement("a graph's change to its relays' sources, p50", _at(times, 0.5) * 1e3, "ms"),
        Measurement(
            "a graph's change to its relays' sources, p99", _at(times, 0.99) * 1e3, "ms", Bar(1000)
        ),
    ]


def _at(times: list[float], part: float) -> float:
    return times[min(len(times) - 1, int(len(times) * part))]


async def _follow(relays: int, changes: int) -> list[float]:
    crds = [*custom_resource_definitions(), *GRAPH_CRDS]
    async with Cluster.start(crds=crds) as cluster:
        manager = Manager(cluster.client)
        pool_relay.add_to(manager)
        async with manager.running():
            graphs = [await _make(cluster, f"g{number}") for number in range(relays)]
            await cluster.eventually(
                lambda: cluster.client.list(ConfigMap, namespace="default"),
                lambda found: len(found) == relays,
                timeout=300.0,
            )
            return [
                await _change(cluster, graphs[number % relays], f"h{number}")
                for number in range(changes)
            ]


async def _make(cluster: Cluster, name: str) -> ServedGraph:
    await cluster.client.create(DynamoPoolRelay.new(name, namespace="default", spec={**_SPEC}))
    graph = ServedGraph.new(name, namespace="default", spec={"components": _COMPONENTS})
    return await cluster.client.create(graph)


async def _change(cluster: Cluster, graph: ServedGraph, generation: str) -> float:
    """Return the seconds from new workers to the sources that name them."""
    labels = {GRAPH_NAME_LABEL: graph.key.name, WORKER_HASH_LABEL: generation}
    made = ServedComponent.new(
        f"{graph.key.name}-{generation}",
        namespace="default",
        labels=labels,
        spec={"type": "decode"},
    )
    sources = ObjectKey("default", pool_relay_sources_name(graph.key.name))
    began = time.perf_counter()
    await cluster.client.create(made, owner=graph)
    await cluster.eventually(
        lambda: cluster.client.get(ConfigMap, sources),
        lambda found: f"-{generation}" in found.data["sources.json"],
    )
    return time.perf_counter() - began
