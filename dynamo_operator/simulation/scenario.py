"""What is simulated: an operator, the cluster it works on, and what its users do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from dynamo_operator.apiserver.messages import UserInfo
from dynamo_operator.simulation.end_state import Mask
from dynamo_operator.simulation.invariants import Invariant
from dynamo_operator.testing.cluster import ADMIN_GROUPS, ControllerName

if TYPE_CHECKING:
    from dynamo_operator.simulation.world import World


class Program(Protocol):
    """What a process runs, such as a Manager."""

    async def run(self) -> None:
        """Run until cancelled."""


OPERATOR_USER = UserInfo("operator", groups=(*ADMIN_GROUPS, "system:authenticated"))


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """An operator and its life, to be run again and again under faults.

    Args:
        name: for people.
        operator: makes the program of one operator process: is given its client, and `clock` and
            `random`, from which alone it may take time and randomness.
        workload: what users do; ends when they have done it.
        crds: CustomResourceDefinitions that are there from the beginning.
        controllers: what of a real cluster runs: `gc`, `jobs`, `namespaces`, `scheduler`, ...
        invariants: what must hold; each run works on copies.
        setup: prepares the cluster before any operator runs, without faults.
        actors: others who do something all the time, by name, e.g. nodes.
        settled: what is not as it should be at rest, or ""; None: anything is.
        actions: what a plan may have happen, by name (`Perform`).
        user: as whom the API server knows the operator.
        replicas: how many processes of it run; several need leader election.
        mask: what may differ between a run's end and the end of the run without faults.
        safety_seconds: within which the workload ends.
        converge_seconds: within which everything settles once the faults are healed.
        quiet_seconds: for how long nothing is written then: ten periods of a resync, at least.
    """

    name: str
    operator: Callable[..., Program]
    workload: Callable[[World], Awaitable[None]]
    crds: Sequence[Mapping[str, Any]] = ()
    controllers: Sequence[ControllerName] = ()
    invariants: Sequence[Invariant] = ()
    setup: Callable[[World], Awaitable[None]] | None = None
    actors: Mapping[str, Callable[[World], Coroutine[Any, Any, None]]] = field(default_factory=dict)
    settled: Callable[[World], Awaitable[str]] | None = None
    actions: Mapping[str, Callable[[World], Awaitable[None]]] = field(default_factory=dict)
    user: UserInfo = OPERATOR_USER
    replicas: int = 1
    mask: Mask = field(default_factory=Mask)
    safety_seconds: float = 3600.0
    converge_seconds: float = 900.0
    quiet_seconds: float = 600.0
