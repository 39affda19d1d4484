"""A Relay from its creation to its deletion."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from dynamo_operator.apiserver.resources import Object
from dynamo_operator.runtime import LeaderElection, Manager
from dynamo_operator.runtime.builtin_kinds import ConfigMap, Deployment
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.client.errors import ConflictError, NotFoundError
from dynamo_operator.runtime.finalizers import remove_finalizer
from dynamo_operator.simulation import Mask, Scenario
from dynamo_operator.simulation.history import Commit, History
from dynamo_operator.simulation.invariants import (
    STANDARD,
    AtMostOne,
    Bounded,
    CleanStop,
    Converges,
    EndsAs,
    ErrorsSurface,
    Justified,
    NoForeignTouch,
    NoLeak,
    Observed,
    SingleWriter,
    StatusForward,
    StatusTrue,
    WriteMinimal,
)
from dynamo_operator.simulation.invariants.invariant import conditions_of, controller_uid, status_of
from dynamo_operator.simulation.world import World
from informers.clock import Clock, Random
from informers.objects import ObjectKey
from tests.simulation.relay import (
    FINALIZER,
    REGISTRY,
    RELAY_CRD,
    RELAY_LABEL,
    ROLE_LABEL,
    Relay,
    build_relay_manager,
)
from tests.simulation.scenarios.acting import Commits, attempt, until

CONFIG_MAPS = ("", "configmaps")
DEPLOYMENTS = ("apps", "deployments")
SERVICES = ("", "services")
RELAYS = ("example.com", "relays")
GOES, STAYS = "edge-goes", "edge-stays"
HELD = "other.example/held"
_MASK = Mask(texts=(r"session-[a-z0-9]{5}",))  # the generated names of a planted bug


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
    """One Relay: made, changed, deleted while somebody else still holds it; another one stays."""
    await submit(world, STAYS, "one.example")
    await submit(world, GOES, "one.example", finalizers=[HELD])
    await until(world, lambda: serves(world, STAYS) and serves(world, GOES))
    await change(world, GOES, "two.example")
    await until(world, lambda: serves(world, GOES))
    await attempt(world.client.delete(Relay, key_of(GOES)))
    await until(world, lambda: is_let_go(world, GOES))
    for _ in range(3):
        if await attempt(_let_go(world, GOES)):
            break
        await asyncio.sleep(1.0)
    await world.settle(quiet=3.0)


async def submit(
    world: World, name: str, upstream: str, *, port: int = 80, finalizers: Sequence[str] = ()
) -> None:
    """Make a Relay."""
    new = Relay.new(name, namespace="default", spec={"port": port, "upstream": upstream})
    new.metadata.finalizers = list(finalizers)
    await attempt(world.client.create(new))


async def _let_go(world: World, name: str) -> None:
    relay = await world.client.find(Relay, key_of(name))
    if relay is not None:
        await remove_finalizer(world.client, relay, HELD)


def is_let_go(world: World, name: str) -> bool:
    """Whether the operator holds a Relay no longer."""
    relay = world.history.objects(RELAYS).get(key_of(name))
    return relay is None or FINALIZER not in (relay["metadata"].get("finalizers") or ())


async def set_up_stranger(world: World) -> None:
    """Put a ConfigMap there that looks like a session of a Relay, and is nobody's."""
    labels = {ROLE_LABEL: "session", RELAY_LABEL: GOES}
    await world.client.create(ConfigMap.new("strangers", namespace="default", labels=labels))


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


def served_generation(relay: Object) -> int:
    """Return the newest generation that a Relay says is served, 0 for none."""
    ready = conditions_of(relay).get("Ready", {})
    return int(ready.get("observedGeneration", 0)) if ready.get("status") == "True" else 0


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


def _still_used(commit: Commit, history: History) -> str:
    used = {
        env["configMapRef"]["name"]
        for d in history.objects(DEPLOYMENTS).values()
        for env in d["spec"]["template"]["spec"]["containers"][0]["envFrom"]
    }
    return "a Deployment uses it" if commit.key.name in used else ""


def registry_is_true(history: History) -> Iterator[str]:
    """Compare the registry with the Relays there are."""
    registry = history.objects(CONFIG_MAPS).get(REGISTRY)
    lines: dict[str, Any] = (registry or {}).get("data") or {}
    relays = history.objects(RELAYS).values()
    wanted = {r["metadata"]["uid"]: r["spec"]["upstream"] for r in relays}
    if lines != wanted:
        yield f"the registry has {lines}, not {wanted}"


def children_are_there(history: History) -> Iterator[str]:
    """Look for the children of each Relay."""
    for key, relay in history.objects(RELAYS).items():
        uid = relay["metadata"]["uid"]
        for resource, most in ((CONFIG_MAPS, 2), (SERVICES, 1), (DEPLOYMENTS, 1)):
            owned = [o for o in history.objects(resource).values() if controller_uid(o) == uid]
            if len(owned) != most:
                yield f"Relay {key.name} has {len(owned)} {resource[1]}, not {most}"


def _role(obj: Object) -> str:
    return str((obj["metadata"].get("labels") or {}).get(ROLE_LABEL, ""))


def _session_of(obj: Object) -> str:
    return controller_uid(obj) if _role(obj) == "session" else ""


RELAY_INVARIANTS = (
    *STANDARD,
    CleanStop(within_seconds=27.0),
    AtMostOne(CONFIG_MAPS, per=_session_of, again=True),
    AtMostOne(DEPLOYMENTS, again=True),
    NoForeignTouch(RELAYS, is_own=lambda obj, history: obj["metadata"]["name"] == REGISTRY.name),
    NoLeak(RELAYS),
    StatusForward(RELAYS),
    StatusTrue(RELAYS, "what is said to be served is served", untrue),
    Observed(RELAYS, within_seconds=90.0),
    Observed(
        RELAYS,
        within_seconds=300.0,
        observed=served_generation,
        name="I1 every Relay is served in time",
    ),
    ErrorsSurface(RELAYS, most=15),
    Justified(CONFIG_MAPS, "no ConfigMap in use is deleted", _still_used, verb="delete"),
    EndsAs("each Relay has its children", children_are_there),
    EndsAs("the registry has the Relays that there are", registry_is_true),
    Converges(_MASK),
    WriteMinimal(),
)


def relay_scenario(name: str, **options: Any) -> Scenario:
    """Make a scenario of the Relay operator."""
    return Scenario(
        **{
            "name": name,
            "crds": [RELAY_CRD],
            "controllers": ("gc",),
            "operator": build_relay_manager,
            "workload": live_and_leave,
            "setup": set_up_stranger,
            "actors": {"deployments": deployments},
            "settled": settled,
            "invariants": RELAY_INVARIANTS,
            "mask": _MASK,
            **options,
        }
    )


async def live_beside_a_refused_one(world: World) -> None:
    """A Relay that the API server refuses to serve, and others that it does."""
    await submit(world, "refused", "one.example", port=-1)
    await submit(world, "first", "one.example")
    await until(world, lambda: serves(world, "first"))
    for name in ("second", "third"):
        await submit(world, name, "one.example")
        await until(world, lambda name=name: serves(world, name))  # type: ignore[misc]
    await attempt(world.client.delete(Relay, key_of("refused")))
    await until(world, lambda: key_of("refused") not in world.history.objects(RELAYS))
    await world.settle(quiet=3.0)


def build_elected_manager(client: Client, *, clock: Clock, random: Random) -> Manager:
    """Make the operator, one of several."""
    election = LeaderElection("relay-operator", "default", renew_deadline_seconds=10.0)
    return build_relay_manager(client, clock=clock, random=random, election=election)


RELAY = relay_scenario("relay")
REFUSED = relay_scenario(
    "refused",
    workload=live_beside_a_refused_one,
    invariants=(
        *RELAY_INVARIANTS,
        Observed(RELAYS, within_seconds=20.0, name="I13 a refused Relay holds up no other"),
    ),
)
ELECTED = relay_scenario(
    "elected",
    operator=build_elected_manager,
    replicas=2,
    invariants=(
        *(each for each in RELAY_INVARIANTS if not isinstance(each, Bounded)),
        Bounded(**{"keys ready": 10}),  # the one that does not lead keeps them for its turn
        SingleWriter(renew_deadline_seconds=10.0),
    ),
)

RELAY_SCENARIOS = (RELAY, REFUSED, ELECTED)
