"""One run's world: a cluster, its operator processes, its network, and all that happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from dynamo_operator.apiserver.api_server import ApiServer
from dynamo_operator.apiserver.messages import UserInfo
from dynamo_operator.apiserver.storage import Storage
from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.http import Transport
from dynamo_operator.simulation.decisions import Decisions
from dynamo_operator.simulation.deeds import Intruder
from dynamo_operator.simulation.fault_table import FaultTable
from dynamo_operator.simulation.history import EVENTS, INTRUDER, LEASES, Call, Commit, History
from dynamo_operator.simulation.network import Network
from dynamo_operator.simulation.plans import (
    Compact,
    Deed,
    Delete,
    Fault,
    Freeze,
    Jump,
    Kill,
    Overlap,
    Partition,
    Pause,
    Perform,
    Plan,
    Terminate,
    Touch,
)
from dynamo_operator.simulation.processes import RESTART_SECONDS, Process
from dynamo_operator.simulation.scenario import Scenario
from dynamo_operator.simulation.sky import Sky
from dynamo_operator.simulation.views import View
from dynamo_operator.testing.cluster import ADMIN_GROUPS, Cluster
from informers.clock import Clock, Random

USER = "user"
_ADMIN = UserInfo("admin", groups=(*ADMIN_GROUPS, "system:authenticated"))
_CONTROLLER_PREFIX = "system:controller:"
_NOT_COUNTED = frozenset({LEASES, EVENTS, ("", "events")})
_LOOK_SECONDS = 0.5
BEHIND_SECONDS = 60.0
"""After which an API server that was behind has caught up."""
_EXTRA = "-too"
"""How the name of a process ends that runs beside the one it is named after."""


class World:
    """What a scenario's functions are given.

    `client` is the users' own, with every right; `random` is for their choices; `cluster` is the
    embedded cluster itself, `history` has everything that was asked and committed.
    """

    def __init__(
        self,
        scenario: Scenario,
        cluster: Cluster,
        network: Network,
        decisions: Decisions,
    ) -> None:
        self._decisions = decisions
        self.scenario = scenario
        self.cluster = cluster
        self.network = network
        self.history: History = network.history
        self.clock: Clock = cluster.clock
        self.random: Random = decisions.random("workload")
        self.client: Client = self.client_of(USER)
        self.operators: dict[str, Process] = {}
        """The latest process of each actor."""
        self.processes: list[Process] = []
        """Every process that there ever was."""
        self.defects: list[str] = []
        """What no fault explains: processes that ended by themselves, scenarios that failed."""
        self.phase = "setup"
        self.last_change_seconds = 0.0
        """When anything was last committed, or asked for by an operator; Leases aside."""
        self._intruder = Intruder(self.client_of(INTRUDER), self.storage)
        self._incarnations: dict[str, int] = {}
        self.happened: list[Fault] = []
        """The planned faults that came at their time."""
        self._healed = False
        self.history.subscribe(self._committed, self._called)

    @classmethod
    @asynccontextmanager
    async def start(cls, scenario: Scenario, plan: Plan) -> AsyncGenerator[World]:
        """Start the cluster of a scenario on the running loop, without any operator.

        Args:
            scenario: what is simulated.
            plan: whose faults happen to calls from now on.
        """
        decisions = Decisions(plan.seed)
        loop = asyncio.get_running_loop()
        history = History(loop.time)
        sky = None if plan.weather is None else Sky(plan.weather, decisions.random("weather"))
        faults = FaultTable(plan.faults, sky)
        worlds: list[World] = []
        networks: list[Network] = []

        async def perform(deed: Deed, call: Call | None, process: Process | None) -> None:
            await worlds[0].perform(deed, call, process)

        def connect(server: ApiServer, *, user: UserInfo) -> Transport:
            if not networks:
                networks.append(Network(server, history, faults, perform))
            return networks[0].link(user.name.removeprefix(_CONTROLLER_PREFIX), user)

        async with Cluster.start(
            crds=scenario.crds,
            controllers=scenario.controllers,
            seed=decisions.random("cluster").getrandbits(64),
            connect=connect,
        ) as cluster:
            (network,) = networks
            history.follow(cluster.server.storage)
            world = cls(scenario, cluster, network, decisions)
            worlds.append(world)
            yield world
            network.seal()

    @property
    def storage(self) -> Storage:
        """The API server's store: the truth."""
        return self.cluster.server.storage

    def client_of(self, actor: str, user: UserInfo = _ADMIN) -> Client:
        """Return a client of somebody outside the operator, whose calls history knows by name."""
        return Client.over(
            self.network.link(actor, user),
            host="in-process",
            clock=self.cluster.clock,
            random=self._decisions.random(f"client of {actor}"),
        )

    # Operators

    def start_operators(self) -> None:
        """Start those that do not run."""
        for number in range(1, self.scenario.replicas + 1):
            name = "operator" if self.scenario.replicas == 1 else f"operator-{number}"
            running = self.operators.get(name)
            if running is None or not running.is_running:
                self.start_operator(name)

    def start_operator(self, name: str) -> Process:
        """Start a process of an operator; one that runs under that name is forgotten."""
        incarnation = self._incarnations[name] = self._incarnations.get(name, 0) + 1
        process = Process(name, incarnation, self.history, self._ended)
        process.link = self.network.link(name, self.scenario.user, process)
        self.operators[name] = process
        self.processes.append(process)
        random = self._decisions.random(f"{name}/{incarnation}")

        async def main() -> None:
            client = Client.over(
                process.link, host="in-process", clock=process.clock, random=random
            )
            program = self.scenario.operator(client, clock=process.clock, random=random)
            process.program = program
            await program.run()

        process.start(main)
        return process

    async def stop_operators(self) -> None:
        """Tell all to stop, and wait until they have."""
        running = [process for process in self.operators.values() if process.is_running]
        for process in running:
            process.resume()
            process.terminate()
        for process in running:
            await process.wait_ended()

    def kill_operators(self) -> None:
        """End all at once."""
        for process in self.operators.values():
            process.kill()

    def _ended(self, process: Process, error: BaseException | None) -> None:
        if not process.is_explained(error):
            told = f"{type(error).__name__}: {error}"
            self.defects.append(f"{process.name}/{process.incarnation} ended by itself: {told}")
        if not process.is_told_to_stop and self.operators.get(process.name) is process:
            self._later(RESTART_SECONDS, lambda: self._restart(process))

    def _restart(self, process: Process, version: int = 0) -> None:
        """Start a successor, unless there is one or the run is over.

        Args:
            process: that has ended.
            version: at which the API server stands that it finds; 0: it is up to date.
        """
        if self.operators.get(process.name) is process and self.phase != "over":
            successor = self.start_operator(process.name)
            if version and not self._healed:
                view = View("*", max(1, version), is_old_server=True)
                successor.link.lag(view)
                self._later(BEHIND_SECONDS, lambda: successor.link.catch_up(view))

    # What happens

    async def perform(self, deed: Deed, call: Call | None, process: Process | None) -> None:
        """Let something happen to a process, or to the world.

        Args:
            deed: what.
            call: the moment, if it is one.
            process: the one that called; None: the first that runs.
        """
        if process is None:
            process = next((p for p in self.operators.values() if p.is_running), None)
        match deed:
            case Compact(keep=keep):
                self.history.mark("compacted")
                self.storage.compact(self.storage.resource_version - keep)
            case Delete():
                await self._intruder.delete(deed)
            case Touch():
                await self._intruder.touch(deed, call)
            case Perform(action=name):
                self.history.mark(f"action {name}")
                await self.scenario.actions[name](self)
            case _ if process is not None:
                self._befall(deed, process, call)

    def _befall(self, deed: Deed, process: Process, call: Call | None) -> None:
        match deed:
            case Kill(restart_after=seconds, behind=behind):
                process.kill()
                if seconds is not None:
                    version = self.storage.resource_version - behind if behind else 0
                    self._later(seconds, lambda: self._restart(process, version))
            case Terminate(restart_after=seconds):
                self.network.spawn(partial(self._stop, process, seconds))
            case Pause(seconds=seconds):
                process.pause()
                self._later(seconds, process.resume)
            case Overlap(seconds=seconds):
                self._overlap(process, seconds)
            case Partition(seconds=until):
                process.cut_off(deed)
                if until is not None:
                    self._later(until, lambda: process.reconnect(deed))
            case Freeze():
                self._freeze(deed, process, call)
            case Jump(seconds=error):
                process.clock.error_seconds += error

    def _overlap(self, process: Process, seconds: float) -> None:
        name = process.name.removesuffix(_EXTRA) + _EXTRA
        running = self.operators.get(name)
        if running is None or not running.is_running:
            other = self.start_operator(name)
            self._later(seconds, lambda: self.network.spawn(partial(self._stop, other, None)))

    def _freeze(self, deed: Freeze, process: Process, call: Call | None) -> None:
        resource = deed.resource or (call.resource[1] if call is not None else "*")
        view = View(resource, self.storage.resource_version, deed.events)
        process.link.lag(view)
        if deed.seconds is not None:
            self._later(deed.seconds, lambda: process.link.catch_up(view))

    async def _stop(self, process: Process, restart_after: float | None) -> None:
        process.terminate()
        await process.wait_ended()
        if restart_after is not None:
            self._later(restart_after, lambda: self._restart(process))

    def _later(self, seconds: float, what: Callable[[], object]) -> None:
        """Do something in the world, whoever's context this is."""
        self.network.call_later(seconds, what)

    def schedule(self, faults: Sequence[Fault]) -> None:
        """Let those faults happen that have a time."""
        now = self.clock.monotonic()
        for fault in faults:
            if fault.at.seconds is not None:
                self._later(max(0.0, fault.at.seconds - now), partial(self._happen_now, fault))

    def _happen_now(self, fault: Fault) -> None:
        if self._healed:
            return
        self.happened.append(fault)
        process = next(
            (
                process
                for name, process in self.operators.items()
                if process.is_running and fnmatchcase(name, fault.at.actor)
            ),
            None,
        )
        self.network.spawn(partial(self.perform, fault.do, None, process))

    def heal(self) -> None:
        """End every fault: nothing goes wrong from now on."""
        self._healed = True
        self.last_change_seconds = self.clock.monotonic()  # from here on quiet means something
        self.history.mark("healed")
        self.last_change_seconds = self.clock.monotonic()  # quiet for want of news is no rest
        self.network.heal()
        for process in list(self.operators.values()):
            process.heal()
            if process.name.endswith(_EXTRA) and process.is_running:
                self.network.spawn(partial(self._stop, process, None))
        self.start_operators()

    # Rest

    def quiet_seconds(self) -> float:
        """Return for how long nothing was changed."""
        return self.clock.monotonic() - self.last_change_seconds

    async def settle(self, *, quiet: float = 5.0, within: float = 600.0) -> bool:
        """Wait until nothing was changed for a while; return whether that came about.

        Args:
            quiet: for how many seconds.
            within: how many seconds this may take.
        """
        until = self.clock.monotonic() + within
        while (wait := quiet - self.quiet_seconds()) > 0:
            if self.clock.monotonic() + wait > until:
                return False
            await asyncio.sleep(max(wait, _LOOK_SECONDS))
        return True

    def _committed(self, commit: Commit) -> None:
        if commit.resource not in _NOT_COUNTED:
            self.last_change_seconds = commit.seconds

    def _called(self, call: Call) -> None:
        if call.is_write and call.incarnation and call.resource not in _NOT_COUNTED:
            self.last_change_seconds = self.clock.monotonic()


Workload = Callable[[World], Awaitable[Any]]
