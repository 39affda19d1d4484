"""The manager: starts what an operator consists of in order, and stops it in the reverse order.

    HTTP servers                     listening
    webhooks                         listening, with a certificate
      event recorder                 running
        cache                        every declared type is there
          other runnables            started
            leader's event recorder  running
              leader-bound runnables started; controllers are among them

Each line is a task group inside the one above, so that it can rely on those above for as long as it
runs. An error of any runnable stops everything, and `run` raises that error. On stop, controllers
take no new keys and finish the reconciles in progress; whoever still runs after the grace period is
cancelled again and named in an error.

With leader election the last two are there only in a term, while this manager holds the Lease. A
candidate that waits for one is warm: its caches are filled, and its controllers' queues fill. At a
stop the Lease is released once that work has ended. When it is lost the work is cancelled without
grace, and from before that on whatever it still tries to write is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final, overload

import structlog

from dynamo_operator.runtime.builder import ControllerParts, build
from dynamo_operator.runtime.cache import OWN_WRITE_TIMEOUT_SECONDS, Cache
from dynamo_operator.runtime.cached_reader import CachedReader
from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.http import HttpRequest, HttpResponse
from dynamo_operator.runtime.client.paths import Labels
from dynamo_operator.runtime.client.uncached_reader import UncachedReader
from dynamo_operator.runtime.controller import Controller
from dynamo_operator.runtime.event_recorder import EventRecorder
from dynamo_operator.runtime.health import HealthCheck, HealthEndpoint, UnhealthyError
from dynamo_operator.runtime.http_server import HttpServer
from dynamo_operator.runtime.leader_election import LeaderElection, LeadershipLostError
from dynamo_operator.runtime.leader_elector import LeaderElector
from dynamo_operator.runtime.metrics import CONTENT_TYPE as METRICS_CONTENT_TYPE
from dynamo_operator.runtime.metrics import Metrics
from dynamo_operator.runtime.permissions import Permission
from dynamo_operator.runtime.runnables import (
    Failures,
    Runnable,
    RunnableGroup,
    first_leaf,
    is_webhooks,
)
from dynamo_operator.runtime.running_controller import RunningController
from dynamo_operator.runtime.server_warnings import ServerWarnings
from informers.clock import Clock, Random, SystemClock, system_random
from informers.watch_session import IDLE_SECONDS

if TYPE_CHECKING:  # see is_webhooks
    from dynamo_operator.runtime.webhooks.server import Webhooks

GRACEFUL_SHUTDOWN_SECONDS: Final = 30.0

_INSIST_SECONDS: Final = 1.0
_AT_ONCE_SECONDS: Final = 0.001  # lets a first cancellation arrive before the second

MANAGER_PERMISSIONS: Final = (Permission("events.k8s.io", ("events",), ("create", "patch")),)
"""What a manager itself does, beside its controllers."""

_log = structlog.get_logger(__name__)


class ManagerStateError(RuntimeError):
    """Something was asked of a manager at the wrong time of its life."""


class ShutdownTimeoutError(RuntimeError):
    """Runnables were still running at the end of the grace period; names them."""


class _State(Enum):
    NEW = "new"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"


class Manager:
    """Runs controllers and other runnables on one cluster.

    It leaves signals, environment, logging and the event loop alone, and several can live in one
    process.

    Args:
        client: speaks to the cluster; the caller closes it.
        namespaces: restricts caches to these; empty for all namespaces.
        namespace_selector: restricts caches to the namespaces whose labels match, as they come and
            go; needs the permission to list and watch namespaces.
        own_write_timeout_seconds: how long reads and reconciles wait for the cache to show what the
            client wrote, before they ask the API server.
        watch_idle_seconds: after so long without a byte a watch is given up for a new one; servers
            send a bookmark every minute.
        fail_when_forbidden: whether a watched kind that may not be listed ends the manager, instead
            of being tried again until somebody grants the permission.
        health_address: `host:port` of /healthz and /readyz; None for neither.
        metrics_address: `host:port` of /metrics, which may be the same; None for none.
        graceful_shutdown_seconds: how long a stop waits before it cancels what still runs.
        clock: time of everything inside.
        random: randomness of everything inside.
        name: of the operator, for events; by default the client's field manager.
        identity: which instance of it this is, e.g. the Pod's name.
        leader_election: do leader-bound work only while holding a Lease. `client` and `events` are
            then for that work: what it writes while this manager does not lead fails with
            NotLeadingError. Whatever needs no leadership writes through `unfenced_client` and
            `unfenced_events`. None: these are the same, and this manager leads alone.

    Example:
        >>> async def main(client: Client) -> None:
        ...     manager = Manager(client)
        ...     manager.add(Controller(Widget, owns=[ConfigMap], reconciler=WidgetReconciler))
        ...     await manager.run()
    """

    def __init__(
        self,
        client: Client,
        *,
        namespaces: Sequence[str] = (),
        namespace_selector: Labels = None,
        own_write_timeout_seconds: float = OWN_WRITE_TIMEOUT_SECONDS,
        watch_idle_seconds: float = IDLE_SECONDS,
        fail_when_forbidden: bool = False,
        health_address: str | None = None,
        metrics_address: str | None = None,
        graceful_shutdown_seconds: float = GRACEFUL_SHUTDOWN_SECONDS,
        clock: Clock | None = None,
        random: Random | None = None,
        name: str = "",
        identity: str = "",
        leader_election: LeaderElection | None = None,
    ) -> None:
        clock = clock or SystemClock()
        self.clock: Clock = clock
        random = random or system_random()
        self.random: Random = random
        self.name: str = name or client.field_manager
        self.metrics: Metrics = Metrics()
        counted = client.with_request_observer(self.metrics.request_answered).with_warning_observer(
            ServerWarnings().log
        )
        self.cache: Cache = Cache(
            counted,
            namespaces=namespaces,
            namespace_selector=namespace_selector,
            own_write_timeout_seconds=own_write_timeout_seconds,
            watch_idle_seconds=watch_idle_seconds,
            fail_when_forbidden=fail_when_forbidden,
            clock=clock,
            random=random,
            metrics=self.metrics,
        )
        self.unfenced_client: Client = counted.with_write_observer(self.cache.wrote)
        self.client: Client = self.unfenced_client
        self.reader: CachedReader = CachedReader(self.cache, counted)
        self.uncached_reader: UncachedReader = UncachedReader(counted)
        make_recorder = partial(
            EventRecorder,
            clock=clock,
            reporting_controller=self.name,
            reporting_instance=identity or self.name,
            dropped=self.metrics.event_dropped,
        )
        self.unfenced_events: EventRecorder = make_recorder(counted)
        self.events: EventRecorder = self.unfenced_events
        self.healthz: HealthEndpoint = HealthEndpoint("/healthz")
        self.readyz: HealthEndpoint = HealthEndpoint("/readyz")
        self.readyz.add("informers", self._check_informers)
        self._servers = self._make_servers(health_address, metrics_address)
        self._elector: LeaderElector | None = None
        if leader_election is not None:
            leads = partial(self.metrics.leads, leader_election.name)
            self._elector = elector = LeaderElector(
                leader_election, counted, clock=clock, random=random, leads=leads
            )
            self.client = self.unfenced_client.with_fence(elector.leadership)
            self.events = make_recorder(counted.with_fence(elector.leadership))
            self.healthz.add("leader-election", elector.check)
        self._grace = graceful_shutdown_seconds
        self._failures = Failures()
        self._webhooks: list[Webhooks] = []
        self._infrastructure = RunnableGroup(self._failures)
        self._caches = RunnableGroup(self._failures)
        self._others = RunnableGroup(self._failures)
        self._term_events = RunnableGroup(self._failures)
        self._leader_bound = RunnableGroup(self._failures, self._has_lost)
        self._kept: list[Runnable] = []
        self._term_is_lost = False
        self._controllers: dict[str, RunningController] = {}
        self._state = _State.NEW
        self._synced = asyncio.Event()
        self._elected = asyncio.Event()
        self._grace_timer: asyncio.TimerHandle | None = None
        self._late: list[str] = []

    @overload
    def add(self, runnable: Controller) -> RunningController: ...
    @overload
    def add(self, runnable: Runnable) -> None: ...
    def add(self, runnable: Controller | Runnable) -> RunningController | None:
        """Run something with the manager; if it runs already, at once, webhooks excepted.

        An HttpServer listens before anything else is started, as the manager's own do.

        Returns:
            Of a Controller the handle that watches more for it, or stops it.

        Raises:
            ValueError: a controller of that name, or a server of that address, is there.
            ManagerStateError: the manager is stopping or has stopped.
        """
        if self._state in (_State.STOPPING, _State.STOPPED):
            raise ManagerStateError(f"manager {self.name!r}: has begun to stop: cannot add to it")
        if is_webhooks(runnable):
            self._add_webhooks(runnable)
            return None
        if isinstance(runnable, Controller):
            return self._add_controller(runnable)
        if isinstance(runnable, HttpServer) and self._state is _State.NEW:
            self._add_server(runnable)
        else:
            self._add_runnable(runnable)
        return None

    def add_healthz_check(self, name: str, check: HealthCheck) -> None:
        """Add a check to /healthz; it raises when the process should be restarted."""
        self.healthz.add(name, check)

    def add_readyz_check(self, name: str, check: HealthCheck) -> None:
        """Add a check to /readyz; it raises when the process should get no traffic."""
        self.readyz.add(name, check)

    @property
    def addresses(self) -> dict[str, int]:
        """Ports of the servers that listen, by configured address."""
        ports = {address: server.port for address, server in self._servers.items()}
        return ports | {webhooks.address: webhooks.port for webhooks in self._webhooks}

    @property
    def controllers(self) -> dict[str, RunningController]:
        """The latest controller of each name."""
        return dict(self._controllers)

    async def run(self) -> None:
        """Run everything until cancelled or until something fails; once only.

        Raises:
            ManagerStateError: it ran before.
            ShutdownTimeoutError: after a stop, something outlived the grace period.
            LeadershipLostError: the Lease was lost; what was bound to it has ended.
            LeaderElectionError: the Lease cannot be had.
            Exception: whatever a runnable raised first.
        """
        self._require_new()
        self._state = _State.RUNNING
        failure: BaseException | None = None
        try:
            async with AsyncExitStack() as stack:
                try:
                    await self._start(stack)
                    await self._lead()
                finally:
                    self._begin_stop()
        except BaseExceptionGroup as group:
            failure = self._failures.first or first_leaf(group)
        finally:
            self._end_stop(failure)
        if failure is not None:
            raise failure

    async def wait_synced(self) -> None:
        """Wait until the caches are filled and everything is started that needs no leadership.

        Without leader election the rest is started, too.

        Raises:
            ManagerStateError: the manager stopped before that.
        """
        await self._synced.wait()
        self._require_running()

    async def wait_elected(self) -> None:
        """Wait until this manager leads and leader-bound work is started.

        Raises:
            ManagerStateError: the manager stopped before that.
        """
        await self._elected.wait()
        self._require_running()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Manager]:
        """Run the manager inside the block: synced at its begin, stopped after its end.

        With leader election it need not lead at the begin: `wait_elected` waits for that.

        An error of the manager cancels the block and is raised from it.
        """
        self._require_new()
        raised: BaseException | None = None
        try:
            async with asyncio.TaskGroup() as group:
                task = group.create_task(self.run(), name=f"manager {self.name}")
                try:
                    await self.wait_synced()
                    yield self
                except BaseException as error:
                    raised = error
                    raise
                finally:
                    task.cancel()
        except BaseExceptionGroup as failures:
            if raised is None or isinstance(raised, asyncio.CancelledError | ManagerStateError):
                raised = first_leaf(failures)
        if raised is not None:
            raise raised

    def _add_webhooks(self, webhooks: Webhooks) -> None:
        self._require_new()
        webhooks.count_in(self.metrics)
        name = f"webhooks-{len(self._webhooks)}" if self._webhooks else "webhooks"
        self.readyz.add(name, webhooks.check)
        self._webhooks.append(webhooks)

    def _add_server(self, server: HttpServer) -> None:
        if server.address in self._servers:
            raise ValueError(f"address {server.address}: the manager serves there already")
        self._servers[server.address] = server

    def _add_controller(self, controller: Controller) -> RunningController:
        present = self._controllers.get(controller.name)
        if present is not None and not present.is_stopped:
            raise ValueError(
                f"controller {controller.name!r}: the manager has one of that name: "
                "give it another with name="
            )
        running = self._build(controller)
        self._add_runnable(running)
        return running

    def _add_runnable(self, runnable: Runnable) -> None:
        if not getattr(runnable, "needs_leadership", True):
            self._others.add(runnable)
            return
        if self._competes_again:
            self._kept.append(runnable)
        if not self._term_is_lost:  # else it is for the next one
            self._leader_bound.add(runnable)

    def _build(self, controller: Controller) -> RunningController:
        fenced = controller.needs_leadership
        parts = ControllerParts(
            self.cache,
            self.reader,
            self.client if fenced else self.unfenced_client,
            self.metrics,
            self.clock,
            self.random,
            self.events if fenced else self.unfenced_events,
        )
        running = self._controllers[controller.name] = build(controller, parts)
        return running

    def _require_new(self) -> None:
        if self._state is not _State.NEW:
            raise ManagerStateError(f"manager {self.name!r}: was started already")

    def _require_running(self) -> None:
        if self._state is not _State.RUNNING:
            raise ManagerStateError(f"manager {self.name!r}: does not run any more")

    async def _start(self, stack: AsyncExitStack) -> None:
        for server in self._servers.values():
            await stack.enter_async_context(server)
            self._infrastructure.add(server)
        for webhooks in self._webhooks:
            # Before the caches: what they list may have to be converted here.
            await stack.enter_async_context(webhooks)
            self._infrastructure.add(webhooks)
        self._infrastructure.add(self.unfenced_events)
        await stack.enter_async_context(self._infrastructure)
        self._caches.add(self.cache)
        await stack.enter_async_context(self._caches)
        await self._wait_caches_synced()
        await stack.enter_async_context(self._others)
        if self._elector is None:
            await stack.enter_async_context(self._leader_bound)
            self._elected.set()
        self._synced.set()

    async def _lead(self) -> None:
        """Serve terms until cancelled; without election the only one has begun."""
        if self._elector is None:
            await asyncio.Event().wait()
            return
        async with self._elector.watching():
            while True:
                await self._elector.acquire()
                reason = await self._serve_term(self._elector)
                if not self._competes_again:
                    lease = self._elector.election.key
                    raise LeadershipLostError(f"the lease {lease} was lost: {reason}")
                self._prepare_term()

    async def _serve_term(self, elector: LeaderElector) -> str:
        """Run what is leader-bound until the Lease is lost; return why it was."""
        self._term_events.add(self.events)
        async with elector.term(self._abandon) as term, self._term_events:
            self._record_leadership(elector, "became leader")
            try:
                async with self._leader_bound:
                    try:
                        self._elected.set()
                        return await term.wait_lost()
                    except BaseException:
                        self._begin_stop()
                        raise
                    finally:
                        self._elected.clear()
            finally:
                self._record_leadership(elector, "stopped leading")
                self._term_events.cancel()

    def _abandon(self) -> None:
        """Cancel leader-bound work, and what controllers reconcile with it."""
        self._term_is_lost = True
        lost = self._leader_bound  # the next term has another group
        if lost.cancel():
            asyncio.get_running_loop().call_later(_AT_ONCE_SECONDS, self._abandon_again, lost)

    def _abandon_again(self, lost: RunnableGroup) -> None:
        running = lost.cancel()
        if running:
            _log.info("work of a lost term is being cancelled", runnables=running)
            asyncio.get_running_loop().call_later(_INSIST_SECONDS, self._abandon_again, lost)

    def _prepare_term(self) -> None:
        """Make what is leader-bound anew, so that controllers queue all that is there once more."""
        kept, self._kept = self._kept, []
        self._term_is_lost = False
        self._leader_bound = RunnableGroup(self._failures, self._has_lost)
        for runnable in kept:
            if isinstance(runnable, RunningController):
                if runnable.is_stopping:
                    continue
                runnable.renew()
            self._add_runnable(runnable)

    @property
    def _competes_again(self) -> bool:
        return self._elector is not None and self._elector.election.on_lost == "campaign"

    def _has_lost(self) -> bool:
        return self._elector is not None and self._elector.leadership.seconds_left() <= 0

    def _record_leadership(self, elector: LeaderElector, what: str) -> None:
        if not self._has_lost():
            note = f"{elector.identity} {what}"
            self.events.record(
                elector.lease_reference, reason="LeaderElection", action="Elect", note=note
            )

    async def _wait_caches_synced(self) -> None:
        controllers = [r for r in self._leader_bound if isinstance(r, RunningController)]
        controllers += [r for r in self._others if isinstance(r, RunningController)]
        async with asyncio.TaskGroup() as group:
            for controller in controllers:
                group.create_task(controller.wait_synced())
        await self.cache.wait_synced()

    def _begin_stop(self) -> None:
        if self._state is _State.STOPPING:
            return
        self._state = _State.STOPPING
        self._failures.stopping = True
        if self._grace < float("inf"):
            loop = asyncio.get_running_loop()
            self._grace_timer = loop.call_later(self._grace, self._end_grace)

    def _end_grace(self) -> None:
        """Cancel a second time: controllers then cancel their reconciles."""
        leader, others = (self._leader_bound, self._term_events), (self._others, self._caches)
        for group in (*leader, *others, self._infrastructure):
            running = group.cancel()
            if running:
                # The groups outside have not been asked to stop yet; they will be, in their turn.
                self._late += [name for name in running if name not in self._late]
                break
        loop = asyncio.get_running_loop()
        self._grace_timer = loop.call_later(_INSIST_SECONDS, self._end_grace)

    def _end_stop(self, failure: BaseException | None) -> None:
        self._state = _State.STOPPED
        self._synced.set()
        self._elected.set()
        if self._grace_timer is not None:
            self._grace_timer.cancel()
        if self._late and failure is None:
            raise ShutdownTimeoutError(
                f"manager {self.name!r}: still running after the grace period of "
                f"{self._grace:g} s: {', '.join(self._late)}"
            )

    def _make_servers(self, health: str | None, metrics: str | None) -> dict[str, HttpServer]:
        servers = {address: HttpServer(address) for address in (health, metrics) if address}
        if health:
            self.healthz.mount(servers[health])
            self.readyz.mount(servers[health])
        if metrics:
            servers[metrics].route("GET", "/metrics", self._answer_metrics)
        return servers

    async def _answer_metrics(self, _request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, {"content-type": METRICS_CONTENT_TYPE}, self.metrics.render())

    async def _check_informers(self) -> None:
        if self._state is not _State.RUNNING:
            raise ManagerStateError(f"manager {self.name!r}: is {self._state.value}")
        if any(webhooks.has_conversions for webhooks in self._webhooks):
            return  # the Service must send conversions here, or the caches may never fill
        if self._synced.is_set():
            return  # what is declared later, or comes with a namespace, takes nobody's traffic away
        unsynced = self.cache.unsynced()
        if unsynced:
            raise UnhealthyError("; ".join(unsynced))
        raise ManagerStateError(f"manager {self.name!r}: is starting")
