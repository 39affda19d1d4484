"""Lives of a DynamoPoolRelay: it serves, follows its graph, rolls, is withdrawn, and goes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from dynamo_operator.api.conditions import ConditionType, ReadyReason
from dynamo_operator.api.labels import (
    GRAPH_NAME_LABEL,
    GROUP,
    RELAY_REVISION_LABEL,
    RELAY_UID_LABEL,
    WORKER_HASH_LABEL,
)
from dynamo_operator.api.v1alpha1 import DynamoPoolRelay
from dynamo_operator.apiserver.resources import Object
from dynamo_operator.cli.graph_crds import GRAPH_CRDS
from dynamo_operator.generate import rbac
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.generate.layout import MANAGER
from dynamo_operator.runtime import Manager
from dynamo_operator.runtime.builtin_kinds import (
    ClusterRole,
    ClusterRoleBinding,
    Pod,
    Service,
)
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.client.errors import ConflictError, NotFoundError
from dynamo_operator.simulation import Mask, Scenario
from dynamo_operator.simulation.history import Call, Commit, History
from dynamo_operator.simulation.invariants import (
    STANDARD,
    AtMostOne,
    CleanStop,
    Converges,
    EndsAs,
    ErrorsSurface,
    Justified,
    NoForeignTouch,
    NoLeak,
    Observed,
    Permitted,
    StatusForward,
    StatusTrue,
    WriteMinimal,
)
from dynamo_operator.simulation.invariants.invariant import conditions_of, controller_uid, status_of
from dynamo_operator.simulation.world import World
from informers.clock import Clock, Random
from informers.objects import ObjectKey
from reconcilers import pool_relay
from reconcilers.pool_relay.graphs import ServedComponent, ServedGraph
from tests.simulation.scenarios.acting import Commits, attempt, until
from tests.simulation.scenarios.searches import USER

RELAYS = (GROUP, "dynamopoolrelays")
CONFIG_MAPS = ("", "configmaps")
DEPLOYMENTS = ("apps", "deployments")
PODS = ("", "pods")
SERVICES = ("", "services")
GRAPHS = (GROUP, "dynamographdeployments")
BLOCKED, GOES, STAYS = "blocked", "goes", "stays"
MASK = Mask(
    texts=(r"(?<=-pool-relay-\*-)[a-z0-9]{5}\b",),  # of Pods
    paths=("status.observedGeneration",),  # a Deployment's counts annotations, too
)

_SPEC = {"image": "registry.lab/relay:1.6.0", "clusterID": "dc-a"}
_COMPONENTS = [{"name": "Decode", "type": "decode"}]


def build_pool_relay_manager(client: Client, *, clock: Clock, random: Random) -> Manager:
    """Make an operator of relays alone."""
    manager = Manager(
        client, clock=clock, random=random, name="dynamo-operator", graceful_shutdown_seconds=25.0
    )
    pool_relay.add_to(manager)
    return manager


async def set_up(world: World) -> None:
    """Grant the operator what it is shipped with; put a stranger in one relay's way."""
    await world.client.create(ClusterRole.model_validate(rbac.manager_role()))
    await world.client.create(ClusterRoleBinding.model_validate(rbac.role_binding(MANAGER)))
    strange = Service.new(
        f"{BLOCKED}-pool-relay", namespace="default", spec={"ports": [{"port": 80}]}
    )
    await world.client.create(strange)


async def kubelet(world: World) -> None:
    """Let every relay be Ready a second after its Pod is there."""
    commits = Commits(world, PODS)
    while True:
        await commits.wait()
        await asyncio.sleep(1.0)
        ready = {"type": "Ready", "status": "True"}
        status = {"status": {"phase": "Running", "conditions": [ready]}}
        for key, pod in sorted(world.history.objects(PODS).items()):
            if status_of(pod).get("phase") != "Running":
                with suppress(ConflictError, NotFoundError):
                    await world.client.patch(Pod, key, status, subresource="status")


async def live_and_leave(world: World) -> None:
    """Three relays: one is in a stranger's way, one stays, and one lives through everything."""
    for name in (BLOCKED, STAYS, GOES):
        await submit(world, name)
        await make_graph(world, name)
    await until(world, lambda: serves(world, STAYS) and serves(world, GOES))
    await add_workers(world, GOES, "aaaa")
    await until(world, lambda: "goes-aaaa" in sources(world, GOES))
    change = {"spec": {"clusterID": "dc-b"}}
    await attempt(world.client.patch(DynamoPoolRelay, key_of(GOES), change))
    await until(world, lambda: serves(world, GOES))
    await attempt(world.client.delete(ServedGraph, key_of(GOES)))
    await until(world, lambda: reason(world, GOES) == ReadyReason.DGD_NOT_FOUND)
    await make_graph(world, GOES)
    await until(world, lambda: serves(world, GOES))
    await attempt(world.client.delete(DynamoPoolRelay, key_of(GOES)))
    await until(world, lambda: not sources(world, GOES))
    await world.settle(quiet=3.0)


async def submit(world: World, name: str) -> None:
    """Make a relay."""
    await attempt(
        world.client.create(DynamoPoolRelay.new(name, namespace="default", spec={**_SPEC}))
    )


async def make_graph(world: World, name: str) -> None:
    """Make the graph of a relay."""
    spec: dict[str, Any] = {"components": _COMPONENTS}
    await attempt(world.client.create(ServedGraph.new(name, namespace="default", spec=spec)))


async def add_workers(world: World, name: str, generation: str) -> None:
    """Make the component of one generation of a graph's workers."""
    graph = await world.client.find(ServedGraph, key_of(name))
    labels = {GRAPH_NAME_LABEL: name, WORKER_HASH_LABEL: generation}
    made = ServedComponent.new(
        f"{name}-decode-{generation}", namespace="default", labels=labels, spec={"type": "decode"}
    )
    if graph is not None:
        await attempt(world.client.create(made, owner=graph))


def key_of(name: str) -> ObjectKey:
    """Return the key of a relay, and of its graph."""
    return ObjectKey("default", name)


def sources(world: World, name: str) -> str:
    """Return what the relays of a name are told to watch."""
    key = ObjectKey("default", f"{name}-pool-relay-sources")
    found = world.history.objects(CONFIG_MAPS).get(key)
    return str(found["data"]["sources.json"]) if found is not None else ""


def reason(world: World, name: str) -> str:
    """Return why a relay is Ready or not, if it speaks of its present generation."""
    relay = world.history.objects(RELAYS).get(key_of(name))
    return _reason(relay) if relay is not None else ""


def serves(world: World, name: str) -> bool:
    """Whether a relay says that its present generation serves."""
    return reason(world, name) == ReadyReason.READY


def _reason(relay: Object) -> str:
    ready = conditions_of(relay).get(ConditionType.READY, {})
    is_current = ready.get("observedGeneration") == relay["metadata"]["generation"]
    return str(ready.get("reason", "")) if is_current else ""


async def settled(world: World) -> str:
    """Say what is not as it should be."""
    for key, relay in world.history.objects(RELAYS).items():
        wanted = ReadyReason.OWNERSHIP_CONFLICT if key.name == BLOCKED else ReadyReason.READY
        if "deletionTimestamp" in relay["metadata"] or _reason(relay) != wanted:
            return f"relay {key.name} is not {wanted}: {status_of(relay)}"
    for key, deployment in world.history.objects(DEPLOYMENTS).items():
        status, count = status_of(deployment), deployment["spec"]["replicas"]
        if (status.get("replicas"), status.get("readyReplicas")) != (count, count):
            return f"Deployment {key.name} is rolling: {status}"
    return ""


def untrue(relay: Object, history: History) -> str:
    """Say what a relay claims that is not so."""
    status = status_of(relay)
    if _reason(relay) != ReadyReason.READY or "deletionTimestamp" in relay["metadata"]:
        return ""
    uid, revision = relay["metadata"]["uid"], str(status.get("connectionRevision"))
    documents = [
        obj["data"]["sources.json"]
        for obj in history.objects(CONFIG_MAPS).values()
        if controller_uid(obj) == uid
    ]
    if len(documents) != 1 or revision not in documents[0]:
        return f"is Ready with connection {revision[:8]}, and tells its relays {documents}"
    pods = [
        pod
        for pod in history.objects(PODS).values()
        if pod["metadata"]["labels"].get(RELAY_UID_LABEL) == uid
        and pod["metadata"]["labels"].get(RELAY_REVISION_LABEL) == revision[:16]
    ]
    if not pods:
        return "is Ready, and no Pod has its connection"
    return ""


def withdrawn_beside_a_graph(commit: Commit, history: History) -> str:
    """Say why a relay's Service should not have been deleted."""
    assert commit.before is not None
    call, relay = commit.call, history.living(controller_uid(commit.before))
    if call is None or relay is None or "deletionTimestamp" in relay["metadata"]:
        return ""
    began = min(
        (c.sent_seconds for c in history.calls if _of_one_pass(c, call)), default=call.sent_seconds
    )
    key = key_of(relay["metadata"]["name"])
    graph = history.objects(GRAPHS).get(key)
    for each in reversed(history.commits):
        if graph is not None and (each.verb, each.uid) == ("create", graph["metadata"]["uid"]):
            return f"its graph is there since {each.seconds:.3f} s" if each.seconds < began else ""
    return ""


def _of_one_pass(one: Call, other: Call) -> bool:
    return one.reconcile is not None and (one.reconcile, one.actor) == (
        other.reconcile,
        other.actor,
    )


def children_are_there(history: History) -> Iterator[str]:
    """Look for the children of each relay."""
    for key, relay in history.objects(RELAYS).items():
        uid, wanted = relay["metadata"]["uid"], 0 if key.name == BLOCKED else 1
        for resource in (CONFIG_MAPS, SERVICES, DEPLOYMENTS):
            owned = [o for o in history.objects(resource).values() if controller_uid(o) == uid]
            if len(owned) != wanted:
                yield f"relay {key.name} has {len(owned)} {resource[1]}, not {wanted}"


def _asked_in_time(call: Call) -> bool:
    # Nobody may bind a Role that somebody has just widened: it is mended first, then bound.
    return call.code == 403 and call.resource[1] == "rolebindings"


POOL_RELAY = Scenario(
    name="pool-relay",
    crds=[*custom_resource_definitions(), *GRAPH_CRDS],
    controllers=("gc", "deployments"),
    operator=build_pool_relay_manager,
    workload=live_and_leave,
    setup=set_up,
    actors={"kubelet": kubelet},
    settled=settled,
    invariants=(
        *STANDARD,
        CleanStop(within_seconds=27.0),
        AtMostOne(DEPLOYMENTS, again=True),
        Justified(
            SERVICES,
            "a Service is withdrawn only without a graph",
            withdrawn_beside_a_graph,
            verb="delete",
        ),
        NoForeignTouch(RELAYS),
        NoLeak(RELAYS, labels=[RELAY_UID_LABEL]),
        StatusForward(RELAYS),
        StatusTrue(RELAYS, "what is said to be relayed is relayed", untrue),
        Observed(RELAYS, within_seconds=120.0),  # a server that lags does so for a minute
        ErrorsSurface(RELAYS),
        Permitted(may=_asked_in_time),
        EndsAs("each relay has its children", children_are_there),
        Converges(MASK),
        WriteMinimal(),
    ),
    mask=MASK,
    user=USER,
)

POOL_RELAY_SCENARIOS = (POOL_RELAY,)
