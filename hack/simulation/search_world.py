"""A namespace in which people, operators, nodes and the network do random things.

After every step the history must hold what it promises (`hack.simulation.history`). In the end the
weather calms down and people leave, and then
    - every Run ends, and every Request tells what became of its Run;
    - an operator that starts anew writes nothing, as long as nothing happens;
    - with the Requests everything goes that they caused.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from dynamo_operator.api.conditions import AcceptedReason, ConditionType, find_condition
from dynamo_operator.api.labels import GROUP, RUN_UID_LABEL
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest, DynamoGraphDeploymentRun
from dynamo_operator.apiserver.audit import AuditEntry
from dynamo_operator.app import build_manager
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.runtime import Manager
from dynamo_operator.runtime.builtin_kinds import (
    ConfigMap,
    Job,
    Pod,
    Role,
    RoleBinding,
    ServiceAccount,
)
from dynamo_operator.runtime.client.errors import ApiError
from dynamo_operator.runtime.models import KubeModel
from dynamo_operator.testing.cluster import Cluster
from hack.simulation.faulty_transport import BREEZE, CALM, STORM
from hack.simulation.history import History
from hack.simulation.node import RandomNode
from hack.simulation.operators import USER, Operators
from informers.clock import Random
from informers.objects import ObjectKey

NAMESPACE = "default"

_NAMES = ("llama", "mistral", "qwen")
_SPEC = {
    "model": {"name": "meta-llama/Meta-Llama-3.1-8B"},
    "hardware": {"gpu": {"sku": "h200_sxm", "budget": 8}},
}
_NO_LOAD = {"static": {"inputTokens": -1}}
_CHILDREN: tuple[type[KubeModel], ...] = (ConfigMap, ServiceAccount, Role, RoleBinding, Job, Pod)
_SETTLE_LOOKS = 400
_LOOK_SECONDS = 15.0
_QUIET_SECONDS = 1200.0
_UNEXPECTED_CODES = frozenset({400, 401, 403, 405, 413, 422})


class InvariantError(AssertionError):
    """Something is not as it must be; says what, in which run, after which steps."""


@dataclass(frozen=True, slots=True)
class Report:
    """What one run of a world came to."""

    seed: int
    steps: int
    virtual_seconds: float
    counts: Counter[str]
    """Jobs and Runs made, endings by reason, writes of operators, steps by name."""


async def explore(
    seed: int, *, steps: int = 60, build: Callable[..., Manager] = build_manager
) -> Report:
    """Let random things happen, on a virtual-time loop.

    Args:
        seed: of every choice: the same seed is the same run.
        steps: how many things happen before everything calms down.
        build: makes the operator that is looked at.

    Raises:
        InvariantError: something went wrong.
    """
    async with (
        Cluster.start(
            controllers=("gc", "jobs", "namespaces", "scheduler"),
            crds=custom_resource_definitions(),
            seed=seed,
        ) as cluster,
        asyncio.TaskGroup() as group,
    ):
        world = _World(seed, cluster, Operators(cluster, Random(seed), group, build))
        try:
            return await world.run(steps)
        finally:
            await world.operators.kill()


class _World:
    def __init__(self, seed: int, cluster: Cluster, operators: Operators) -> None:
        random = Random(seed)
        self._seed = seed
        self._random = random
        self._cluster = cluster
        self._client = cluster.client
        self._history = History(cluster.server.storage)
        self._node = RandomNode(cluster.client, clock=cluster.clock, random=random)
        self.operators = operators
        self._steps: list[str] = []
        self._audited = 0

    async def run(self, steps: int) -> Report:
        await self.operators.grant_rights()
        await self._node.register()
        self.operators.start()
        actions = [action for action, weight in self._actions() for _ in range(weight)]
        for _ in range(steps):
            action = self._random.choice(actions)
            now = self._cluster.clock.monotonic()
            self._steps.append(f"{now:.1f} {action.__name__.strip('_')}")
            try:
                await action()
            except ApiError as error:
                if error.code >= 500:
                    self._fail(f"the server failed: {error}")
            self._check()
        await self._settle()
        await self._stay_quiet()
        await self._leave_nothing()
        await self.operators.stop()
        self._check()
        return self._report(steps)

    def _actions(self) -> tuple[tuple[Callable[[], Awaitable[object]], int], ...]:
        return (
            (self._node.step, 30),
            (self._pass_a_moment, 24),
            (self._pass_some_time, 8),
            (self._submit, 10),
            (self._edit, 6),
            (self._ask_for_the_impossible, 1),
            (self._search_again, 8),
            (self._delete_a_request, 3),
            (self._delete_a_run, 3),
            (self._delete_a_child, 4),
            (self._widen_a_role, 2),
            (self._change_the_weather, 6),
            (self._restart_the_operator, 4),
            (self._kill_the_operator, 4),
            (self._overlap_operators, 3),
            (self._compact, 2),
        )

    # What people do.

    async def _submit(self) -> None:
        name = self._random.choice(_NAMES)
        await self._client.create(
            DynamoGraphDeploymentRequest.new(name, namespace=NAMESPACE, spec=_SPEC)
        )

    async def _edit(self) -> None:
        count = self._random.randrange(1, 6)
        await self._patch_request({"recommendation": {"maxCandidates": count}, "workload": None})

    async def _ask_for_the_impossible(self) -> None:
        await self._patch_request({"workload": _NO_LOAD})

    async def _search_again(self) -> None:
        await self._patch_request({"rerun": {"reason": f"{self._random.getrandbits(32):x}"}})

    async def _patch_request(self, spec: dict[str, object]) -> None:
        key = ObjectKey(NAMESPACE, self._random.choice(_NAMES))
        await self._client.patch(DynamoGraphDeploymentRequest, key, {"spec": spec})

    async def _delete_a_request(self) -> None:
        await self._delete(DynamoGraphDeploymentRequest)

    async def _delete_a_run(self) -> None:
        await self._delete(DynamoGraphDeploymentRun)

    async def _delete_a_child(self) -> None:
        await self._delete(self._random.choice(_CHILDREN), labels=RUN_UID_LABEL)

    async def _delete(self, kind: type[KubeModel], labels: str | None = None) -> None:
        found = await self._client.list(kind, namespace=NAMESPACE, labels=labels)
        if found:
            key = self._random.choice(found).key
            await self._client.delete(
                kind, key, propagation=self._random.choice(("Background", "Foreground"))
            )

    async def _widen_a_role(self) -> None:
        roles = await self._client.list(Role, namespace=NAMESPACE, labels=RUN_UID_LABEL)
        if roles:
            role = self._random.choice(roles)
            more = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
            await self._client.patch(Role, role.key, {"rules": [*role.rules, more]})

    # What machines do.

    async def _pass_a_moment(self) -> None:
        await asyncio.sleep(self._random.expovariate(2.0))

    async def _pass_some_time(self) -> None:
        await asyncio.sleep(self._random.uniform(0, 120.0))

    async def _change_the_weather(self) -> None:
        self.operators.set_weather(self._random.choice((CALM, BREEZE, STORM, STORM)))

    async def _restart_the_operator(self) -> None:
        await self.operators.stop()
        self.operators.start()

    async def _kill_the_operator(self) -> None:
        await self.operators.kill()
        await asyncio.sleep(self._random.expovariate(1.0))
        self.operators.start()

    async def _overlap_operators(self) -> None:
        """Start a successor before the predecessor is gone, as when a node is cut off."""
        self.operators.start()
        await asyncio.sleep(self._random.uniform(0, 10.0))
        await self.operators.stop(keep=1)

    async def _compact(self) -> None:
        storage = self._cluster.server.storage
        storage.compact(storage.resource_version - self._random.randrange(20))

    # What must hold in the end.

    async def _settle(self) -> None:
        self._steps.append(f"{self._cluster.clock.monotonic():.1f} settle")
        self.operators.set_weather(CALM)
        for _ in range(_SETTLE_LOOKS):
            while await self._node.step():
                pass
            self._check()
            unsettled = await self._unsettled()
            if not unsettled:
                return
            await asyncio.sleep(_LOOK_SECONDS)
        self._fail(f"not settled after {_SETTLE_LOOKS * _LOOK_SECONDS:g} s: {unsettled}")

    async def _unsettled(self) -> str:
        runs = {
            run.key.name: run
            for run in await self._client.list(DynamoGraphDeploymentRun, namespace=NAMESPACE)
        }
        for run in runs.values():
            if not run.is_terminal:
                return f"Run {run.key.name} is {run.status.phase}: {run.status.execution_message}"
            if run.is_deleting:
                return f"Run {run.key.name} is being deleted"
        requests = await self._client.list(DynamoGraphDeploymentRequest, namespace=NAMESPACE)
        return next((why for r in requests if (why := _unsettled_request(r, runs))), "")

    async def _stay_quiet(self) -> None:
        self._steps.append(f"{self._cluster.clock.monotonic():.1f} stay quiet")
        await asyncio.sleep(60.0)  # the last events are sent, the last own writes seen
        before = len(self._cluster.audit.writes(user=USER.name))
        await asyncio.sleep(_QUIET_SECONDS)
        await self.operators.stop()
        self.operators.start()
        await asyncio.sleep(_QUIET_SECONDS)
        writes = self._cluster.audit.writes(user=USER.name)[before:]
        if writes:
            told = ", ".join(f"{w.verb} {w.resource}/{w.subresource} {w.name}" for w in writes[:5])
            self._fail(f"{len(writes)} writes although nothing happened: {told}")
        self._check()

    async def _leave_nothing(self) -> None:
        self._steps.append(f"{self._cluster.clock.monotonic():.1f} leave")
        for request in await self._client.list(DynamoGraphDeploymentRequest, namespace=NAMESPACE):
            await self._client.delete(DynamoGraphDeploymentRequest, request.key)
        for _ in range(_SETTLE_LOOKS):
            while await self._node.step():
                pass
            if not self._left():
                return
            await asyncio.sleep(_LOOK_SECONDS)
        self._fail(f"left after all Requests were deleted: {', '.join(self._left())}")

    def _left(self) -> list[str]:
        storage = self._cluster.server.storage
        return [
            f"{key[1]} {stored.name}"
            for key in storage.storage_keys()
            for stored in storage.objects(key, NAMESPACE)
            if (key[0] == GROUP or RUN_UID_LABEL in stored.labels)
        ]

    # What must hold at every moment.

    def _check(self) -> None:
        wrong = [*self._history.violations, *self.operators.failures]
        entries = self._cluster.audit.entries
        for entry in entries[self._audited :]:
            if _is_unexpected(entry):
                what = f"{entry.user.name} {entry.verb} {entry.request_uri}"
                wrong.append(f"{what} was answered {entry.code} {entry.reason}")
        self._audited = len(entries)
        if wrong:
            self._fail("; ".join(wrong))

    def _fail(self, what: str) -> None:
        steps = "\n".join(f"  {step}" for step in self._steps)
        raise InvariantError(f"seed {self._seed}: {what}\nsteps so far:\n{steps}")

    def _report(self, steps: int) -> Report:
        counts = Counter(step.partition(" ")[2] for step in self._steps)
        counts.update(self._history.counts)
        counts["operators started"] = self.operators.started
        counts["operator writes"] = len(self._cluster.audit.writes(user=USER.name))
        return Report(self._seed, steps, self._cluster.clock.monotonic(), counts)


def _is_unexpected(entry: AuditEntry) -> bool:
    """Whether the server failed, or an operator asked what it must not or cannot ask."""
    if entry.code >= 500:
        return True
    if entry.user.name != USER.name or entry.code not in _UNEXPECTED_CODES:
        return False
    # Nobody may bind a Role that somebody has just widened: it is mended first, then bound.
    return (entry.code, entry.resource) != (403, "rolebindings")


def _unsettled_request(
    request: DynamoGraphDeploymentRequest, runs: dict[str, DynamoGraphDeploymentRun]
) -> str:
    """Say why a Request does not tell the truth yet, or nothing."""
    accepted = find_condition(request.status.conditions, ConditionType.ACCEPTED)
    if accepted is None or accepted.observed_generation != request.generation:
        return f"Request {request.key.name} does not speak of generation {request.generation}"
    if accepted.reason in (AcceptedReason.INVALID_INPUT, AcceptedReason.RUN_DELETED):
        return ""
    if accepted.reason != AcceptedReason.RUN_CREATED:
        return f"Request {request.key.name} is {accepted.reason}: {accepted.message}"
    active = request.status.active_run_ref
    run = runs.get(active.name) if active else None
    if run is None or run.request_generation != request.generation:
        return f"Request {request.key.name} names {active}, not its Run"
    mirrored = find_condition(request.status.conditions, ConditionType.COMPLETED)
    completed = find_condition(run.status.conditions, ConditionType.COMPLETED)
    if mirrored is None or completed is None or mirrored.reason != completed.reason:
        return f"Request {request.key.name} says {mirrored}, its Run {completed}"
    return ""
