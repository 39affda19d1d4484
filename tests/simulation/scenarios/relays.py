"""A Relay from its creation to its deletion."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from dynamo_operator.apiserver.resources import Object
from dynamo_operator.runtime.builtin_kinds import Deployment
from dynamo_operator.runtime.client.errors import ConflictError, NotFoundError
from dynamo_operator.simulation import Mask, Scenario
from dynamo_operator.simulation.history import History
from dynamo_operator.simulation.invariants import (
    STANDARD,
    AtMostOne,
    Converges,
    EndsAs,
    ErrorsSurface,
    NoForeignTouch,
    NoLeak,
    Observed,
    StatusForward,
    StatusTrue,
    WriteMinimal,
)
from dynamo_operator.simulation.invariants.invariant import conditions_of, controller_uid, status_of
from dynamo_operator.simulation.world import World
from informers.objects import ObjectKey
from tests.simulation.relay import (
    REGISTRY,
    RELAY_CRD,
    ROLE_LABEL,
    Relay,
    build_relay_manager,
)
from tests.simulation.scenarios.acting import Commits, attempt, until

CONFIG_MAPS = ("", "configmaps")
DEPLOYMENTS = ("apps", "deployments")
RELAYS = ("example.com", "relays")
_MASK = Mask(texts=(r"session-[a-z0-9]{5}",))


async def deployments(world: World) -> None:
    """Run every Deployment: two seconds after a change its newest spec is available."""
    commits = Commits(world, DEPLOYMENTS)
    while True:
        await commits.wait()
        await asyncio.sleep(2.0)
        for key, obj in sorted(world.history.objects(DEPLOYMENTS).items()):
            generation = obj["metadata"]["generation"]
            if status_of(obj).get("observedGeneration") == generation:
                continue
            status = {
                "observedGeneration": generation,
                "replicas": 1,
                "availableReplicas": 1,
                "updatedReplicas": 1,
                "readyReplicas": 1,
            }
            with suppress(NotFoundError, ConflictError):
                await world.client.patch(Deployment, key, {"status": status}, subresource="status")


async def live_and_leave(world: World) -> None:
    """One Relay: made, changed, deleted; another one stays."""
    await submit(world, "stays", "one.example")
    await submit(world, "goes", "one.example")
    await until(world, lambda: serves(world, "stays") and serves(world, "goes"))
    await change(world, "goes", "two.example")
    await until(world, lambda: serves(world, "goes"))
    await attempt(world.client.delete(Relay, key_of("goes")))
    await until(world, lambda: key_of("goes") not in world.history.objects(RELAYS))


async def submit(world: World, name: str, upstream: str) -> None:
    """Make a Relay."""
    new = Relay.new(name, namespace="default", spec={"port": 80, "upstream": upstream})
    await attempt(world.client.create(new))


async def change(world: World, name: str, upstream: str) -> None:
    """Change a Relay's upstream."""
    patch = {"spec": {"upstream": upstream}}
    await attempt(world.client.patch(Relay, key_of(name), patch))


def key_of(name: str) -> ObjectKey:
    """Return the key of a Relay."""
    return ObjectKey("default", name)


def serves(world: World, name: str) -> bool:
    """Whether a Relay says that its newest spec is served."""
    relay = world.history.objects(RELAYS).get(key_of(name))
    return relay is not None and says_ready(relay)


def says_ready(relay: Object) -> bool:
    """Whether it says so."""
    ready = conditions_of(relay).get("Ready", {})
    generation = relay["metadata"]["generation"]
    return ready.get("status") == "True" and ready.get("observedGeneration") == generation


async def settled(world: World) -> str:
    """Say what is not as it should be."""
    for key, relay in world.history.objects(RELAYS).items():
        if "deletionTimestamp" in relay["metadata"]:
            return f"Relay {key} is being deleted"
        if not says_ready(relay):
            return f"Relay {key} is not ready: {status_of(relay)}"
    return ""


def untrue(relay: Object, history: History) -> str:
    """Say what a Relay claims that is not so."""
    if not says_ready(relay):
        return ""
    uid, upstream = relay["metadata"]["uid"], relay["spec"]["upstream"]
    mine = [c for c in history.objects(CONFIG_MAPS).values() if controller_uid(c) == uid]
    configs = {c["metadata"]["name"]: c for c in mine if _role(c) == "config"}
    used = {
        env["configMapRef"]["name"]
        for d in history.objects(DEPLOYMENTS).values()
        if controller_uid(d) == uid
        for env in d["spec"]["template"]["spec"]["containers"][0]["envFrom"]
    }
    served = [configs[name]["data"]["upstream"] for name in sorted(used & configs.keys())]
    if served != [upstream]:
        return f"says that {upstream} is served, and {served} is"
    return ""


def registry_is_true(history: History) -> Iterator[str]:
    """Compare the registry with the Relays there are."""
    registry = history.objects(CONFIG_MAPS).get(REGISTRY)
    lines: dict[str, Any] = (registry or {}).get("data") or {}
    relays = history.objects(RELAYS).values()
    wanted = {r["metadata"]["uid"]: r["spec"]["upstream"] for r in relays}
    if lines != wanted:
        yield f"the registry has {lines}, not {wanted}"


def _role(obj: Object) -> str:
    return str((obj["metadata"].get("labels") or {}).get(ROLE_LABEL, ""))


def _session_of(obj: Object) -> str:
    return controller_uid(obj) if _role(obj) == "session" else ""


RELAY_INVARIANTS = (
    *STANDARD,
    AtMostOne(CONFIG_MAPS, per=_session_of),
    AtMostOne(DEPLOYMENTS),
    NoForeignTouch(RELAYS, is_own=lambda obj, history: obj["metadata"]["name"] == REGISTRY.name),
    NoLeak(RELAYS),
    StatusForward(RELAYS),
    StatusTrue(RELAYS, "what is said to be served is served", untrue),
    Observed(RELAYS, within_seconds=60.0),
    ErrorsSurface(RELAYS),
    EndsAs("the registry has the Relays that there are", registry_is_true),
    Converges(_MASK),
    WriteMinimal(),
)

RELAY = Scenario(
    name="relay",
    crds=[RELAY_CRD],
    controllers=("gc",),
    operator=build_relay_manager,
    workload=live_and_leave,
    actors={"deployments": deployments},
    settled=settled,
    invariants=RELAY_INVARIANTS,
    mask=_MASK,
)

RELAY_SCENARIOS = (RELAY,)
