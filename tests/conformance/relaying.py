"""A relay in a namespace of its own, its graph, and a node that runs its Pods by word alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any

from dynamo_operator.api.conditions import Condition, ConditionType, ReadyReason, find_condition
from dynamo_operator.api.labels import GRAPH_NAME_LABEL, RELAY_UID_LABEL, WORKER_HASH_LABEL
from dynamo_operator.api.v1alpha1 import DynamoPoolRelay
from dynamo_operator.apiserver.audit import AuditEntry
from dynamo_operator.runtime.builtin_kinds import (
    ConfigMap,
    Deployment,
    Node,
    Pod,
    PodDisruptionBudget,
    Role,
    RoleBinding,
    Service,
    ServiceAccount,
)
from dynamo_operator.runtime.client.errors import ConflictError, NotFoundError
from dynamo_operator.runtime.models import KubeModel
from dynamo_operator.testing import Cluster
from informers.objects import ObjectKey
from reconcilers.pool_relay.graphs import ServedComponent, ServedGraph

NAME = "aurora"
NODE = "relay-node"
OPERATOR = "relay-operator"
PATIENCE_SECONDS = 20.0
QUIET_SECONDS = 0.25

_addresses = count(1)


class Relaying:
    """What a test does with one relay.

    Args:
        cluster: where it is.
        namespace: of its own.
    """

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.namespace = namespace
        self.key = ObjectKey(namespace, NAME)
        self.child = ObjectKey(namespace, f"{NAME}-pool-relay")
        self.sources_key = ObjectKey(namespace, f"{NAME}-pool-relay-sources")
        self.children: dict[type[KubeModel], ObjectKey] = {
            ServiceAccount: self.child,
            Role: self.child,
            RoleBinding: self.child,
            ConfigMap: self.sources_key,
            Deployment: self.child,
            PodDisruptionBudget: self.child,
            Service: self.child,
        }

    async def create_relay(self, **spec: Any) -> DynamoPoolRelay:
        """Make the relay."""
        spec = {
            "image": "registry.lab/relay:1.6.0",
            "clusterID": "dc-a",
            "env": [{"name": "LAB_MODE", "value": "a"}],
            **spec,
        }
        return await self.client.create(
            DynamoPoolRelay.new(NAME, namespace=self.namespace, spec=spec)
        )

    async def create_graph(self, *components: dict[str, Any]) -> ServedGraph:
        """Make the graph."""
        made = components or ({"name": "Frontend", "type": "frontend"}, worker())
        graph = ServedGraph.new(NAME, namespace=self.namespace, spec={"components": list(made)})
        return await self.client.create(graph)

    async def add_workers(self, generation: str, *, held: bool = False) -> ServedComponent:
        """Make the component of one generation of the graph's workers."""
        component = ServedComponent.new(
            f"{NAME}-decode-{generation}",
            namespace=self.namespace,
            labels={GRAPH_NAME_LABEL: NAME, WORKER_HASH_LABEL: generation},
            spec={"type": "decode"},
        )
        component.metadata.finalizers = ["lab.test/held"] if held else []
        graph = await self.client.get(ServedGraph, self.key)
        return await self.client.create(component, owner=graph)

    async def serve(self, **spec: Any) -> DynamoPoolRelay:
        """Make a relay and its graph, and wait until all is there and quiet."""
        await self.create_relay(**spec)
        await self.create_graph()
        return await self.serves()

    async def serves(self) -> DynamoPoolRelay:
        """Wait until every relay of the relay's present spec is Ready and nothing moves."""
        await self.until(ReadyReason.READY)
        await self.rolled_out()
        await self.quiet()
        return await self.relay()

    async def relay(self) -> DynamoPoolRelay:
        """The relay now."""
        return await self.client.get(DynamoPoolRelay, self.key)

    async def change(self, **spec: Any) -> DynamoPoolRelay:
        """Change the relay's spec."""
        return await self.client.patch(DynamoPoolRelay, self.key, {"spec": spec})

    async def until(
        self, reason: ReadyReason, kind: ConditionType = ConditionType.READY, *, saying: str = ""
    ) -> Condition:
        """Wait until a condition of the present generation has that reason and says that."""

        def holds(relay: DynamoPoolRelay) -> bool:
            found = find_condition(relay.status.conditions, kind)
            return (
                found is not None
                and found.reason == reason
                and found.observed_generation == relay.generation
                and relay.status.observed_generation == relay.generation
                and saying in found.message
            )

        relay = await self.cluster.eventually(self.relay, holds, timeout=PATIENCE_SECONDS)
        found = find_condition(relay.status.conditions, kind)
        assert found is not None
        return found

    async def rolled_out(self) -> Deployment:
        """Wait until the Deployment has only Pods of its present template, all Ready."""

        def holds(deployment: Deployment) -> bool:
            status, wanted = deployment.status, deployment.spec["replicas"]
            names = ("replicas", "updatedReplicas", "readyReplicas")
            return status.get("observedGeneration") == deployment.generation and all(
                status.get(name, 0) == wanted for name in names
            )

        return await self.cluster.eventually(
            lambda: self.client.get(Deployment, self.child), holds, timeout=PATIENCE_SECONDS
        )

    async def sources(self) -> str:
        """What the relays are told to watch."""
        found = await self.client.get(ConfigMap, self.sources_key)
        return str(found.data["sources.json"])

    async def until_sources(self, *namespaces: str) -> None:
        """Wait until exactly these are told, in this order."""
        listed = ",".join(f'{{"namespace":"{namespace}"}}' for namespace in namespaces)
        await self.cluster.eventually(
            self.sources, lambda text: text.endswith(f'"sources":[{listed}]}}')
        )

    async def until_gone(self, kind: type[KubeModel]) -> None:
        """Wait until that child is gone."""
        await self.cluster.eventually(
            lambda: self.client.find(kind, self.children[kind]), lambda found: found is None
        )

    async def pods(self) -> list[Pod]:
        """The relays' Pods that are to stay."""
        found = await self.client.list(Pod, namespace=self.namespace, labels=RELAY_UID_LABEL)
        return [pod for pod in found if not pod.is_deleting]

    def writes(self) -> list[AuditEntry]:
        """What the operator wrote here, but for Events, whether it succeeded or not."""
        return [
            entry
            for entry in self.cluster.audit.writes(user=OPERATOR, namespace=self.namespace)
            if entry.resource != "events"
        ]

    async def quiet(self) -> None:
        """Wait until the operator has written nothing for a while."""
        seen = -1
        async with asyncio.timeout(PATIENCE_SECONDS):
            while seen != len(self.writes()):
                seen = len(self.writes())
                await asyncio.sleep(QUIET_SECONDS)


def worker(name: str = "Decode", **more: Any) -> dict[str, Any]:
    """A worker component of a graph."""
    return {"name": name, "type": "decode", **more}


class PodRunner:
    """Writes what a scheduler and a kubelet would write of every Pod: bound, then Ready.

    Attributes:
        holds_back: Pods that are started and do not become Ready.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._client = cluster.client
        self.holds_back: Callable[[Pod], bool] = lambda pod: False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[PodRunner]:
        """Run the Pods for the length of the block."""
        await self._client.create(Node.new(NODE))
        task = asyncio.create_task(self._run())
        try:
            yield self
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _run(self) -> None:
        while True:
            steps: list[Coroutine[Any, Any, None]] = [
                self._step(pod) for pod in await self._client.list(Pod)
            ]
            for step in steps:
                with suppress(NotFoundError, ConflictError):  # it changed just now
                    await step
            await asyncio.sleep(0.1)

    async def _step(self, pod: Pod) -> None:
        if pod.is_deleting:
            await self._client.delete(Pod, pod.key, uid=pod.uid, grace_period_seconds=0)
        elif not pod.spec.get("nodeName"):
            binding = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": pod.key.name, "namespace": pod.key.namespace},
                "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
            }
            await self._client.create_subresource(Pod, pod.key, "binding", binding)
        elif not pod.status.get("podIP"):
            number = next(_addresses)
            address = f"10.77.{number // 250}.{number % 250 + 1}"
            await self._tell(pod, podIP=address, podIPs=[{"ip": address}], phase="Running")
        elif not self.holds_back(pod) and not _is_ready(pod):
            await self.set_ready(pod, ready=True)

    async def set_ready(self, pod: Pod, *, ready: bool) -> None:
        """Say whether a Pod is Ready."""
        condition = {"type": "Ready", "status": "True" if ready else "False"}
        await self._tell(pod, conditions=[condition])

    async def _tell(self, pod: Pod, **status: Any) -> None:
        await self._client.patch(Pod, pod.key, {"status": status}, subresource="status")


def _is_ready(pod: Pod) -> bool:
    conditions = pod.status.get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
