"""Relays beside a graph on every control plane, rolled by its own Deployment controller.

Nothing runs the Pods: what a scheduler and a kubelet would write of them is written by the test.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio

from dynamo_operator.api.conditions import ConditionType, ReadyReason
from dynamo_operator.api.labels import RELAY_REVISION_LABEL, RELAY_UID_LABEL
from dynamo_operator.api.v1alpha1 import DynamoPoolRelay
from dynamo_operator.apiserver.audit import AuditEntry
from dynamo_operator.app import build_manager, permissions
from dynamo_operator.cli.graph_crds import GRAPH_CRDS
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.generate.rbac import role_rules
from dynamo_operator.runtime import Manager
from dynamo_operator.runtime.builtin_kinds import (
    ConfigMap,
    Deployment,
    EndpointSlice,
    Namespace,
    PodDisruptionBudget,
    Role,
    RoleBinding,
    Service,
)
from dynamo_operator.runtime.models import KubeModel
from dynamo_operator.settings import OperatorSettings
from dynamo_operator.testing import Cluster, Interceptor
from dynamo_operator.testing.cluster import ADMIN_GROUPS, ControllerName
from dynamo_operator.testing.faults import Answer, Point
from informers.events import Deleted, ObjectEvent
from reconcilers import pool_relay
from reconcilers.pool_relay.graphs import ServedComponent, ServedGraph
from tests.conformance.own_clusters import OWN_MODES, own_cluster
from tests.conformance.relaying import (
    NAME,
    OPERATOR,
    PATIENCE_SECONDS,
    QUIET_SECONDS,
    PodRunner,
    Relaying,
    worker,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

CONTROLLERS: tuple[ControllerName, ...] = ("deployments", "endpoint_slices", "gc")
BACKEND = "nvidia.com/dynamo-discovery-backend"
PASSES = 10


class Operator:
    """The PoolRelay controller alone, to be stopped and started."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._running = AsyncExitStack()
        self.interceptor = Interceptor(cluster.clock)
        self._client = self.interceptor.around(cluster.client_of(OPERATOR, ADMIN_GROUPS))
        self._manager: Manager | None = None

    async def start(self) -> None:
        """Start it; returns when its caches are filled."""
        manager = Manager(self._client, clock=self._cluster.clock, random=self._cluster.random)
        pool_relay.add_to(manager)
        await self._running.enter_async_context(manager.running())
        self._manager = manager

    def passes(self) -> int:
        """How many reconciles ended well since the start."""
        assert self._manager is not None
        labels = {"controller": "pool-relay", "result": "success"}
        registry = self._manager.metrics.registry
        return int(registry.get_sample_value("controller_runtime_reconcile_total", labels) or 0)

    async def stop(self) -> None:
        """Stop it."""
        await self._running.aclose()


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=OWN_MODES)
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    crds = [*custom_resource_definitions(), *GRAPH_CRDS]
    async with own_cluster(request.param, *CONTROLLERS, crds=crds) as cluster:
        yield cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runner(cluster: Cluster) -> AsyncIterator[PodRunner]:
    async with PodRunner(cluster).running() as runner:
        yield runner


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def operator(cluster: Cluster, runner: PodRunner) -> AsyncIterator[Operator]:
    operator = Operator(cluster)
    await operator.start()
    yield operator
    await operator.stop()


@pytest.fixture
def interceptor(operator: Operator) -> Iterator[Interceptor]:
    """What stands between the operator and the API server; healed after each test."""
    yield operator.interceptor
    operator.interceptor.heal()


@pytest_asyncio.fixture(loop_scope="module")
async def relaying(cluster: Cluster, operator: Operator) -> AsyncIterator[Relaying]:
    relaying = await in_a_new_namespace(cluster)
    yield relaying
    # The next test's operator has less to do.
    if await cluster.client.find(DynamoPoolRelay, relaying.key):
        await cluster.client.delete(DynamoPoolRelay, relaying.key)


async def in_a_new_namespace(cluster: Cluster) -> Relaying:
    name = f"relays-{uuid4().hex[:8]}"
    await cluster.client.create(Namespace.new(name))
    return Relaying(cluster, name)


class Endpoints:
    """How many relays were Ready behind the Service, at every moment since `fewest` was set."""

    def __init__(self) -> None:
        self._ready: dict[str, int] = {}
        self.fewest = -1

    @property
    def now(self) -> int:
        return sum(self._ready.values())

    def changed(self, event: ObjectEvent) -> None:
        name = event.object.key.name
        ready = 0
        if not isinstance(event, Deleted):
            for endpoint in json.loads(event.object.data).get("endpoints") or ():
                ready += endpoint["conditions"]["ready"]
        self._ready[name] = ready
        self.fewest = min(self.fewest, self.now)


@asynccontextmanager
async def watching_endpoints(relaying: Relaying) -> AsyncIterator[Endpoints]:
    """Follow every change of the EndpointSlices of a relay's Service."""
    endpoints = Endpoints()
    manager = Manager(
        relaying.client,
        namespaces=[relaying.namespace],
        clock=relaying.cluster.clock,
        random=relaying.cluster.random,
    )
    labels = {"kubernetes.io/service-name": relaying.child.name}
    manager.cache.declare(EndpointSlice, labels=labels).add_handler(endpoints.changed)
    async with manager.running():
        yield endpoints


def child_writes(writes: list[AuditEntry]) -> list[str]:
    return [f"{e.verb} {e.resource}" for e in writes if e.resource != "dynamopoolrelays"]


# Serving


async def test_a_relay_waits_for_its_graph_and_then_serves_it(relaying):
    await relaying.create_relay()
    await relaying.until(ReadyReason.DGD_NOT_FOUND)
    assert await relaying.client.find(Deployment, relaying.child) is None

    await relaying.create_graph()
    relay = await relaying.serves()

    assert relay.status.endpoint == f"{NAME}-pool-relay.{relaying.namespace}.svc:5561"
    assert (relay.status.replicas, relay.status.ready_replicas, relay.status.sources) == (2, 2, 1)
    published = await relaying.until(ReadyReason.PUBLISHED, ConditionType.PUBLISHED)
    assert published.status == "True"
    for kind, key in relaying.children.items():
        child = await relaying.client.get(kind, key)
        (owner,) = child.owner_references
        assert (owner.kind, owner.uid, owner.controller) == ("DynamoPoolRelay", relay.uid, True)


async def test_only_ready_relays_are_behind_the_service(relaying, runner):
    held = asyncio.Event()
    runner.holds_back = lambda pod: not held.is_set() and pod.key.namespace == relaying.namespace
    async with watching_endpoints(relaying) as endpoints:
        await relaying.create_relay()
        await relaying.create_graph()
        await relaying.until(ReadyReason.NO_AVAILABLE_RELAY)
        pods = await relaying.cluster.eventually(relaying.pods, lambda found: len(found) == 2)
        assert endpoints.now == 0

        first = await relaying.cluster.eventually(
            lambda: relaying.client.get(type(pods[0]), pods[0].key), lambda p: "podIP" in p.status
        )
        await runner.set_ready(first, ready=True)
        ready = await relaying.until(ReadyReason.READY)
        assert ready.status == "True", "one is enough for subscribers"
        await relaying.cluster.eventually(lambda: endpoints.now, lambda ready: ready == 1)

        await runner.set_ready(first, ready=False)
        await relaying.until(ReadyReason.NO_AVAILABLE_RELAY)
        await relaying.cluster.eventually(lambda: endpoints.now, lambda ready: ready == 0)
        held.set()
        await relaying.cluster.eventually(lambda: endpoints.now, lambda ready: ready == 2)


async def test_relays_are_as_many_as_are_asked_for_whatever_the_graph_has(relaying):
    await relaying.create_relay()
    await relaying.create_graph(worker(replicas=7), {"name": "F", "type": "frontend"})
    await relaying.serves()
    assert len(await relaying.pods()) == 2

    await relaying.change(replicas=3)
    await relaying.until(ReadyReason.READY, saying="3 of 3")
    assert len(await relaying.pods()) == 3

    graph = {"spec": {"components": [worker(replicas=1)]}}
    await relaying.client.patch(ServedGraph, relaying.key, graph)
    await relaying.quiet()
    assert len(await relaying.pods()) == 3


async def test_no_relays_are_wanted_and_none_are_there(relaying):
    await relaying.serve()

    await relaying.change(replicas=1)
    await relaying.until_gone(PodDisruptionBudget)
    await relaying.change(replicas=0)

    await relaying.until(ReadyReason.SCALED_TO_ZERO)
    await relaying.until(ReadyReason.PUBLISHED, ConditionType.PUBLISHED)
    await relaying.cluster.eventually(relaying.pods, lambda found: found == [])


# Writes


async def test_ten_passes_over_what_is_there_write_nothing(relaying, operator):
    await relaying.serve()
    before = len(relaying.writes())

    for number in range(PASSES):
        passes = operator.passes()
        label = {"metadata": {"labels": {"lab.test/pass": str(number)}}}
        await relaying.client.patch(DynamoPoolRelay, relaying.key, label)
        await relaying.cluster.eventually(operator.passes, lambda now, n=passes: now > n)
    for _ in range(3):
        await operator.stop()
        await operator.start()
        await relaying.cluster.eventually(operator.passes)
    await relaying.quiet()

    assert [str(entry) for entry in relaying.writes()[before:]] == []


async def test_what_others_add_to_a_child_stays_and_what_is_ours_comes_back(relaying):
    await relaying.serve()
    theirs = {"metadata": {"annotations": {"lab.test/note": "theirs"}}}
    await relaying.client.patch(Service, relaying.child, theirs)
    ours = {"metadata": {"labels": {RELAY_UID_LABEL: None}}, "spec": {"selector": {"a": "b"}}}
    await relaying.client.patch(Service, relaying.child, ours)

    found = await relaying.cluster.eventually(
        lambda: relaying.client.get(Service, relaying.child),
        lambda service: RELAY_UID_LABEL in service.labels,
    )

    assert RELAY_UID_LABEL in found.spec["selector"]
    assert found.annotations["lab.test/note"] == "theirs"


async def test_a_child_that_is_deleted_comes_back(relaying):
    await relaying.serve()

    async def comes_back(kind: type[KubeModel]) -> None:
        before = await relaying.client.get(kind, relaying.children[kind])
        await relaying.client.delete(kind, before.key)
        await relaying.cluster.eventually(
            lambda: relaying.client.get(kind, before.key),
            lambda found: found.uid != before.uid,
            timeout=PATIENCE_SECONDS,
        )

    await asyncio.gather(*(comes_back(kind) for kind in relaying.children))
    await relaying.serves()


async def test_with_the_relay_goes_all_that_it_owns(relaying):
    await relaying.serve()

    await relaying.client.delete(DynamoPoolRelay, relaying.key)

    for kind in relaying.children:
        await relaying.until_gone(kind)
    await relaying.cluster.eventually(relaying.pods, lambda found: found == [])


# Sources


async def test_new_workers_change_the_sources_alone(relaying):
    await relaying.serve()
    await relaying.until_sources(f"{relaying.namespace}-{NAME}")
    deployment = await relaying.client.get(Deployment, relaying.child)
    pods = {pod.uid for pod in await relaying.pods()}
    before = len(relaying.writes())

    base = f"{relaying.namespace}-{NAME}"
    await relaying.add_workers("aaaa")
    await relaying.until_sources(f"{base}-aaaa")
    new = await relaying.add_workers("bbbb")
    await relaying.until_sources(f"{base}-aaaa", f"{base}-bbbb")
    await relaying.client.delete(ServedComponent, new.key._replace(name=f"{NAME}-decode-aaaa"))
    await relaying.until_sources(f"{base}-bbbb")
    await relaying.quiet()

    written = child_writes(relaying.writes()[before:])
    assert written == ["patch configmaps"] * 3
    after = await relaying.client.get(Deployment, relaying.child)
    assert after.generation == deployment.generation
    assert {pod.uid for pod in await relaying.pods()} == pods


# Rollouts


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"clusterID": "dc-b"}, id="cluster"),
        pytest.param({"env": [{"name": "DYN_EVENT_PLANE", "value": "zmq"}]}, id="variables"),
    ],
)
async def test_another_connection_rolls_while_all_that_are_wanted_serve(relaying, runner, change):
    before = await relaying.serve()
    old = {pod.uid for pod in await relaying.pods()}
    held = asyncio.Event()
    runner.holds_back = lambda pod: (
        not held.is_set() and pod.key.namespace == relaying.namespace and pod.uid not in old
    )
    async with watching_endpoints(relaying) as endpoints:
        await relaying.cluster.eventually(lambda: endpoints.now, lambda ready: ready == 2)
        endpoints.fewest = 2

        await relaying.change(**change)
        await relaying.until(ReadyReason.ROLLING_OUT)
        during = await relaying.relay()
        assert during.status.connection_revision != before.status.connection_revision
        assert str(during.status.connection_revision) in await relaying.sources()
        # The old ones serve on, beside what the Deployment controller makes in its own time.
        await relaying.cluster.eventually(
            relaying.pods,
            lambda found: {pod.uid for pod in found} > old,
            timeout=PATIENCE_SECONDS,
        )

        held.set()
        await relaying.serves()
        await relaying.cluster.eventually(lambda: endpoints.now, lambda ready: ready == 2)

    assert endpoints.fewest == 2
    pods = await relaying.pods()
    assert not {pod.uid for pod in pods} & old
    assert {pod.labels[RELAY_REVISION_LABEL] for pod in pods} == {
        str(during.status.connection_revision)[:16]
    }


async def test_another_image_rolls_with_the_same_connection(relaying):
    before = await relaying.serve()
    old = {pod.uid for pod in await relaying.pods()}

    await relaying.change(image="registry.lab/relay:2")
    await relaying.cluster.eventually(
        relaying.pods, lambda found: not {pod.uid for pod in found} & old, timeout=PATIENCE_SECONDS
    )
    after = await relaying.serves()

    assert after.status.connection_revision == before.status.connection_revision


async def test_a_variable_that_is_taken_away_leaves_the_deployment(relaying):
    await relaying.serve()

    await relaying.change(env=[])

    def names(deployment: Deployment) -> list[str]:
        (container,) = deployment.spec["template"]["spec"]["containers"]
        return [variable["name"] for variable in container["env"]]

    await relaying.cluster.eventually(
        lambda: relaying.client.get(Deployment, relaying.child),
        lambda found: "LAB_MODE" not in names(found),
    )


# Withdrawal


async def test_without_its_graph_the_service_and_the_sources_go_and_nothing_else(relaying):
    before = await relaying.serve()
    pods = {pod.uid for pod in await relaying.pods()}

    await relaying.client.delete(ServedGraph, relaying.key)
    await relaying.until(ReadyReason.DGD_NOT_FOUND)
    await relaying.until(ReadyReason.DGD_NOT_FOUND, ConditionType.PUBLISHED)
    await relaying.until_gone(Service)
    await relaying.until_sources()
    assert (await relaying.relay()).status.endpoint is None
    for kind in relaying.children.keys() - {Service}:
        assert await relaying.client.find(kind, relaying.children[kind]) is not None

    await relaying.create_graph()
    after = await relaying.serves()
    assert after.status.endpoint == before.status.endpoint
    assert {pod.uid for pod in await relaying.pods()} == pods, "they had never gone"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {"metadata": {"annotations": {BACKEND: "etcd"}}},
            ReadyReason.INCOMPATIBLE_DISCOVERY,
        ),
        (
            {"spec": {"components": [{"name": "F", "type": "frontend"}]}},
            ReadyReason.NO_WORKERS,
        ),
    ],
    ids=["incompatible", "no workers"],
)
async def test_a_graph_that_turns_is_withdrawn_until_it_turns_back(relaying, change, reason):
    await relaying.serve()
    graph = await relaying.client.get(ServedGraph, relaying.key)

    await relaying.client.patch(ServedGraph, relaying.key, change)
    await relaying.until(reason)
    await relaying.until_gone(Service)

    back = {"metadata": {"annotations": None}, "spec": graph.spec}
    await relaying.client.patch(ServedGraph, relaying.key, back)
    await relaying.serves()


async def test_another_graph_of_the_name_is_relayed_with_its_own_workers_only(relaying):
    await relaying.serve()
    old = await relaying.add_workers("0ld", held=True)
    await relaying.until_sources(f"{relaying.namespace}-{NAME}-0ld")

    await relaying.client.delete(ServedGraph, relaying.key)
    await relaying.create_graph()
    await relaying.until_sources(f"{relaying.namespace}-{NAME}")
    await relaying.serves()

    assert await relaying.client.find(ServedComponent, old.key) is not None
    await relaying.client.patch(ServedComponent, old.key, {"metadata": {"finalizers": None}})


async def test_a_service_that_cannot_be_deleted_is_told_for_the_current_generation(
    relaying, interceptor
):
    await relaying.serve()
    path = f".*/{relaying.namespace}/services/.*"
    interceptor.inject(Point("DELETE", path, repeats=True), Answer(403, message="not today"))
    await relaying.change(clusterID="dc-b")
    await relaying.client.delete(ServedGraph, relaying.key)

    told = f"Service {relaying.child.name} cannot be deleted: not today"
    await relaying.until(ReadyReason.DGD_NOT_FOUND, saying=told)

    interceptor.heal()
    await relaying.until_gone(Service)
    await relaying.cluster.eventually(
        lambda: relaying.until(ReadyReason.DGD_NOT_FOUND),
        lambda found: "cannot be deleted" not in found.message,
    )


async def test_a_service_that_lost_its_label_while_nobody_looked_is_withdrawn_too(
    relaying, operator
):
    await relaying.serve()
    await operator.stop()
    unlabelled = {"metadata": {"labels": {RELAY_UID_LABEL: None}}}
    await relaying.client.patch(Service, relaying.child, unlabelled)
    await relaying.client.patch(ConfigMap, relaying.sources_key, unlabelled)
    await relaying.client.delete(ServedGraph, relaying.key)
    await operator.start()

    await relaying.until_gone(Service)
    await relaying.until_sources()
    await relaying.until(ReadyReason.DGD_NOT_FOUND)


# What is another's


_POD = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "lab:1"}]},
}
_FIELDS: dict[type[KubeModel], dict[str, Any]] = {
    RoleBinding: {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "another"}
    },
    ConfigMap: {"data": {"theirs": "1"}},
    Deployment: {
        "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": _POD}
    },
    PodDisruptionBudget: {"spec": {"minAvailable": 1}},
    Service: {"spec": {"ports": [{"port": 80}]}},
}


async def plant(relaying: Relaying, kind: type[KubeModel], whose: str) -> KubeModel:
    """Make an object with the name of a child that the relay does not own."""
    key = relaying.children[kind]
    other = await relaying.client.create(ConfigMap.new("other", namespace=relaying.namespace))
    reference = {"nobody's": None, "another's": other.uid, "an older relay's": "0ld"}[whose]
    of = (
        ("v1", "ConfigMap", "other")
        if whose == "another's"
        else ("nvidia.com/v1alpha1", "DynamoPoolRelay", NAME)
    )
    made = kind.new(key.name, namespace=key.namespace, **_FIELDS.get(kind, {})).to_dict()
    if reference is not None:
        owner = dict(zip(("apiVersion", "kind", "name"), of, strict=True), uid=reference)
        made["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    # Held, or the collector would clear away what an older relay left.
    made["metadata"]["finalizers"] = ["lab.test/held"]
    return await relaying.client.create(kind.model_validate(made))


@pytest.mark.parametrize("whose", ["nobody's", "an older relay's", "another's"])
async def test_what_is_not_ours_stays_as_it_is_and_is_named(cluster, operator, whose):
    async def stays(kind: type[KubeModel]) -> None:
        relaying = await in_a_new_namespace(cluster)
        foreign = await plant(relaying, kind, whose)
        await relaying.create_relay()
        await relaying.create_graph()

        named = f"{kind.resource_type.kind} {foreign.key.name}"
        await relaying.until(ReadyReason.OWNERSHIP_CONFLICT, saying=named)

        await asyncio.sleep(QUIET_SECONDS)
        assert child_writes(relaying.writes()) == [], "nothing was half made"
        found = await relaying.client.get(kind, foreign.key)
        assert found.uid == foreign.uid
        assert found.to_dict().get("spec") == foreign.to_dict().get("spec")
        await relaying.client.delete(DynamoPoolRelay, relaying.key)
        await relaying.client.patch(kind, foreign.key, {"metadata": {"finalizers": None}})

    reference = Relaying(cluster, "")
    await asyncio.gather(*(stays(kind) for kind in reference.children))


async def test_a_foreign_service_is_not_withdrawn(relaying):
    foreign = await plant(relaying, Service, "nobody's")
    await relaying.create_relay()
    await relaying.until(ReadyReason.DGD_NOT_FOUND)
    await relaying.quiet()

    found = await relaying.client.get(Service, foreign.key)
    assert (found.uid, found.is_deleting) == (foreign.uid, False)
    await relaying.client.patch(Service, foreign.key, {"metadata": {"finalizers": None}})


# In one namespace


async def test_in_one_namespace_a_role_is_enough_and_nothing_of_the_cluster_is_asked_for(
    cluster, operator, runner
):
    await operator.stop()
    relaying = await in_a_new_namespace(cluster)
    role = Role.new(
        "operator",
        namespace=relaying.namespace,
        rules=role_rules(p for p in permissions() if not p.cluster_wide),
    )
    user = f"system:serviceaccount:{relaying.namespace}:operator"
    binding = RoleBinding.new(
        "operator",
        namespace=relaying.namespace,
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "operator"},
        subjects=[{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}],
    )
    for obj in (role, binding):
        await cluster.client.create(obj)
    settings = OperatorSettings(
        operator_image="registry.lab/dynamo-operator:0.1.0", watch_namespaces=(relaying.namespace,)
    )
    async with build_manager(cluster.client_of(user), settings).running():
        await relaying.create_relay()
        await relaying.create_graph()
        await relaying.until(ReadyReason.READY)
        await relaying.client.delete(ServedGraph, relaying.key)
        await relaying.until_gone(Service)
        await relaying.until(ReadyReason.DGD_NOT_FOUND)
    await relaying.client.delete(DynamoPoolRelay, relaying.key)
    await operator.start()

    asked = [entry for entry in cluster.audit.entries if entry.user.name == user]
    assert [str(entry) for entry in asked if entry.resource and not entry.namespace] == []
    assert [str(entry) for entry in asked if entry.code == 403] == []
