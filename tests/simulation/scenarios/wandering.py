"""Users who do random things: to searches, to Relays, and to what those own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

from dynamo_operator.api.labels import RUN_UID_LABEL
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest, DynamoGraphDeploymentRun
from dynamo_operator.runtime.builtin_kinds import (
    ConfigMap,
    Deployment,
    Job,
    Pod,
    Role,
    RoleBinding,
    Service,
    ServiceAccount,
)
from dynamo_operator.runtime.models import KubeModel
from dynamo_operator.simulation.world import World
from informers.objects import ObjectKey
from tests.simulation.relay import RELAY_LABEL, Relay
from tests.simulation.scenarios.acting import attempt
from tests.simulation.scenarios.node import Kubelet
from tests.simulation.scenarios.relays import change, relay_scenario, submit
from tests.simulation.scenarios.searches import REFUSED_SPEC, SPEC, search_scenario

NAMESPACE = "default"

_STEPS = 16
_SEARCHES = ("llama", "mistral")
_RELAYS = ("edge-one", "edge-two", "inner")
_UPSTREAMS = ("one.example", "two.example", "three.example")
_RUN_CHILDREN: tuple[type[KubeModel], ...] = (
    ConfigMap,
    ServiceAccount,
    Role,
    RoleBinding,
    Job,
    Pod,
)
_RELAY_CHILDREN: tuple[type[KubeModel], ...] = (ConfigMap, Service, Deployment)

Action = Callable[[World], Awaitable[None]]


async def among_searches(world: World) -> None:
    """Submit, change, search again, delete: Requests, Runs and what those own."""
    await _wander(
        world,
        (
            (_submit_search, 5),
            (_change_search, 3),
            (_search_again, 4),
            (_refuse_search, 1),
            (_delete_request, 2),
            (_delete_run, 2),
            (_delete_run_child, 2),
            (_widen_role, 1),
        ),
    )


async def among_relays(world: World) -> None:
    """Submit, change, delete: Relays and their children."""
    await _wander(
        world,
        ((_submit_relay, 5), (_change_relay, 5), (_delete_relay, 3), (_delete_relay_child, 3)),
    )


async def _wander(world: World, actions: Sequence[tuple[Action, int]]) -> None:
    weighted = [action for action, weight in actions for _ in range(weight)]
    for _ in range(_STEPS):
        await world.random.choice(weighted)(world)
        await asyncio.sleep(world.random.expovariate(world.random.choice((0.05, 0.5, 5.0))))


async def _submit_search(world: World) -> None:
    name = world.random.choice(_SEARCHES)
    new = DynamoGraphDeploymentRequest.new(name, namespace=NAMESPACE, spec=SPEC)
    await attempt(world.client.create(new))


async def _change_search(world: World) -> None:
    await _patch_search(world, {"recommendation": {"maxCandidates": world.random.randint(1, 5)}})


async def _search_again(world: World) -> None:
    await _patch_search(world, {"rerun": {"reason": f"{world.random.getrandbits(32):x}"}})


async def _refuse_search(world: World) -> None:
    await _patch_search(world, REFUSED_SPEC)
    await asyncio.sleep(world.random.uniform(0.0, 20.0))
    await _patch_search(world, {"aisimulate": None})


async def _patch_search(world: World, spec: dict[str, Any]) -> None:
    key = ObjectKey(NAMESPACE, world.random.choice(_SEARCHES))
    await attempt(world.client.patch(DynamoGraphDeploymentRequest, key, {"spec": spec}))


async def _delete_request(world: World) -> None:
    await _delete(world, DynamoGraphDeploymentRequest)


async def _delete_run(world: World) -> None:
    await _delete(world, DynamoGraphDeploymentRun)


async def _delete_run_child(world: World) -> None:
    await _delete(world, world.random.choice(_RUN_CHILDREN), label=RUN_UID_LABEL)


async def _widen_role(world: World) -> None:
    roles = await world.client.list(Role, namespace=NAMESPACE, labels=RUN_UID_LABEL)
    if roles:
        role = world.random.choice(roles)
        more = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
        await attempt(world.client.patch(Role, role.key, {"rules": [*role.rules, more]}))


async def _submit_relay(world: World) -> None:
    await submit(world, world.random.choice(_RELAYS), world.random.choice(_UPSTREAMS))


async def _change_relay(world: World) -> None:
    await change(world, world.random.choice(_RELAYS), world.random.choice(_UPSTREAMS))


async def _delete_relay(world: World) -> None:
    await _delete(world, Relay)


async def _delete_relay_child(world: World) -> None:
    await _delete(world, world.random.choice(_RELAY_CHILDREN), label=RELAY_LABEL)


async def _delete(world: World, kind: type[KubeModel], label: str | None = None) -> None:
    found = await world.client.list(kind, namespace=NAMESPACE, labels=label)
    if found:
        key = world.random.choice(found).key
        policies: tuple[Literal["Background", "Foreground"], ...] = ("Background", "Foreground")
        how = world.random.choice(policies)
        await attempt(world.client.delete(kind, key, propagation=how))


WANDERING_SCENARIOS = (
    search_scenario("wandering searches", among_searches, kubelet=Kubelet(at_random=True)),
    relay_scenario("wandering relays", workload=among_relays, setup=None),
)
