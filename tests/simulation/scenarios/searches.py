"""Lives of a search: done, superseded, cancelled, refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from dynamo_operator.api.conditions import ConditionType
from dynamo_operator.api.labels import RUN_UID_LABEL
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest
from dynamo_operator.apiserver.messages import UserInfo
from dynamo_operator.app import build_manager
from dynamo_operator.generate import rbac
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.generate.layout import MANAGER, NAME, NAMESPACE
from dynamo_operator.hardware.discovery import GPU_DISCOVERY_ROLE
from dynamo_operator.runtime import Manager
from dynamo_operator.runtime.builtin_kinds import ClusterRole, ClusterRoleBinding, Job
from dynamo_operator.runtime.client import Client
from dynamo_operator.settings import OperatorSettings
from dynamo_operator.simulation import Scenario
from dynamo_operator.simulation.invariants.invariant import conditions_of, status_of
from dynamo_operator.simulation.world import World
from informers.clock import Clock, Random
from informers.objects import ObjectKey
from tests.simulation.scenarios.acting import attempt, until
from tests.simulation.scenarios.node import Kubelet, register
from tests.simulation.scenarios.search_promises import (
    MASK,
    REQUESTS,
    RUNS,
    SEARCH_INVARIANTS,
    settled,
)

KEY = ObjectKey("default", "llama")
USER = UserInfo(
    f"system:serviceaccount:{NAMESPACE}:{NAME}",
    groups=(
        "system:serviceaccounts",
        f"system:serviceaccounts:{NAMESPACE}",
        "system:authenticated",
    ),
)

_SETTINGS = OperatorSettings(operator_image="registry.lab/dynamo-operator:0.1.0")
SPEC: dict[str, Any] = {
    "model": {"name": "meta-llama/Meta-Llama-3.1-8B"},
    "hardware": {"gpu": {"sku": "h200_sxm", "budget": 8}},
}
REFUSED_SPEC = {"aisimulate": {"inputOverrides": {"dgdr_run": {"name": "mine"}}}}


def build_search_manager(client: Client, *, clock: Clock, random: Random) -> Manager:
    """Make the operator as it is shipped."""
    return build_manager(client, _SETTINGS, clock=clock, random=random)


async def set_up(world: World) -> None:
    """Grant the operator what it is shipped with, and announce the node."""
    for role in (rbac.manager_role(), rbac.gpu_discovery_role()):
        await world.client.create(ClusterRole.model_validate(role))
    for name in (MANAGER, GPU_DISCOVERY_ROLE):
        await world.client.create(ClusterRoleBinding.model_validate(rbac.role_binding(name)))
    await register(world)


async def be_done(world: World) -> None:
    """A search that ends well."""
    await submit(world)
    await until(world, lambda: is_completed(world, 1))
    await world.settle(quiet=3.0)


async def be_superseded(world: World) -> None:
    """A search that is running when another one is asked for, which ends well."""
    await submit(world)
    await until(world, lambda: is_running(world))
    await change(world, {"recommendation": {"maxCandidates": 2}})
    await until(world, lambda: is_completed(world, 2))
    await world.settle(quiet=3.0)


async def be_cancelled(world: World) -> None:
    """A search that is running when its Request is deleted."""
    await submit(world)
    await until(world, lambda: is_running(world))
    await attempt(world.client.delete(DynamoGraphDeploymentRequest, KEY, propagation="Foreground"))
    await until(world, lambda: KEY not in world.history.objects(REQUESTS))
    await world.settle(quiet=3.0)


async def be_refused(world: World) -> None:
    """A Request that cannot be served, until it is mended; it is deleted when it is done."""
    await submit(world, **REFUSED_SPEC)
    await until(world, lambda: _accepted(world) == "InvalidInput")
    await change(world, {"aisimulate": None})
    await until(world, lambda: is_completed(world, 2))
    await attempt(world.client.delete(DynamoGraphDeploymentRequest, KEY))
    await until(world, lambda: not world.history.objects(RUNS))
    await world.settle(quiet=3.0)


async def submit(world: World, **spec: Any) -> None:
    """Make the Request."""
    new = DynamoGraphDeploymentRequest.new(KEY.name, namespace=KEY.namespace, spec={**SPEC, **spec})
    await attempt(world.client.create(new))


async def change(world: World, spec: dict[str, Any]) -> None:
    """Change the Request."""
    await attempt(world.client.patch(DynamoGraphDeploymentRequest, KEY, {"spec": spec}))


def is_completed(world: World, generation: int) -> bool:
    """Whether the Request says that its search of that generation is over."""
    request = world.history.objects(REQUESTS).get(KEY)
    completed = conditions_of(request).get(ConditionType.COMPLETED, {})
    is_current = completed.get("observedGeneration", 0) >= generation
    return is_current and completed.get("status") == "True"


def is_running(world: World) -> bool:
    """Whether there is a Run that runs."""
    runs = world.history.objects(RUNS).values()
    return any(status_of(run).get("phase") == "Running" for run in runs)


def _accepted(world: World) -> str:
    request = world.history.objects(REQUESTS).get(KEY)
    return str(conditions_of(request).get(ConditionType.ACCEPTED, {}).get("reason", ""))


def search_scenario(
    name: str, workload: Callable[[World], Awaitable[None]], **options: Any
) -> Scenario:
    """Make a scenario of the operator as it is shipped."""
    return Scenario(
        name=name,
        crds=custom_resource_definitions(),
        controllers=("gc", "jobs", "scheduler"),
        operator=build_search_manager,
        workload=workload,
        setup=set_up,
        actors={"kubelet": options.pop("kubelet", Kubelet()).act, **options.pop("actors", {})},
        settled=settled,
        invariants=SEARCH_INVARIANTS,
        mask=MASK,
        user=USER,
        **options,
    )


async def strangers_job(world: World) -> None:
    """Put a Job there, once there is a Run, that has its label and is nobody's."""
    await until(world, lambda: bool(world.history.objects(RUNS)))
    (run,) = world.history.objects(RUNS).values()
    labels = {RUN_UID_LABEL: run["metadata"]["uid"]}
    pod = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}
    spec = {"suspend": True, "template": {"metadata": {"labels": labels}, "spec": pod}}
    new = Job.new("strangers", namespace=KEY.namespace, labels=labels, spec=spec)
    await attempt(world.client.create(new))


SEARCH_SCENARIOS = (
    search_scenario("search", be_done),
    # The first search does not end while an operator is away: it would keep its Candidates,
    # rightly, and the end would be another one.
    search_scenario("supersede", be_superseded, kubelet=Kubelet(endless=1)),
    search_scenario("cancel", be_cancelled, kubelet=Kubelet(endless=1)),
    search_scenario("refuse", be_refused),
    search_scenario("strangers", be_done, actors={"stranger": strangers_job}),
)
