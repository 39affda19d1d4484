"""Candidates on one embedded API server, each behind a network that can be broken."""

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

from dynamo_operator.runtime.builtin_kinds import ConfigMap, Lease, Namespace
from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.errors import (
    ClientError,
    DeadlineExceededError,
    TransportError,
)
from dynamo_operator.runtime.client.http import HttpRequest, HttpResponse
from dynamo_operator.runtime.leader_election import LeaderElection
from dynamo_operator.runtime.leader_elector import LeaderElector
from dynamo_operator.runtime.manager import Manager
from dynamo_operator.testing.cluster import Cluster
from dynamo_operator.testing.in_process_transport import InProcessTransport
from informers.clock import Random
from informers.objects import ObjectKey

LEASE = ObjectKey("operators", "lab")
WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


def now() -> float:
    return asyncio.get_running_loop().time()


def election(**options: Any) -> LeaderElection:
    return LeaderElection(LEASE.name, LEASE.namespace, **options)


@asynccontextmanager
async def election_cluster(**options: Any):
    async with Cluster.start(**options) as cluster:
        await cluster.client.create(Namespace.new(LEASE.namespace))
        yield cluster


class Network:
    """A transport whose faults a test chooses; it notes when which write was taken.

    `fault` is asked for every request, and says `ok`, `hang`, `refuse` (not sent), `lose` (done,
    the answer lost) or `html` (status 500 with a page).
    """

    def __init__(self, cluster: Cluster) -> None:
        self._transport = InProcessTransport(cluster.server)
        self.fault = lambda request: "ok"
        self.requests: list[tuple[float, str, str]] = []
        self.writes: list[tuple[float, str]] = []

    def replace_server(self, cluster: Cluster) -> None:
        """Have another server answer from now on."""
        self._transport = InProcessTransport(cluster.server)

    async def send(self, request: HttpRequest, *, timeout_seconds: float) -> HttpResponse:
        self.requests.append((now(), request.method, request.path))
        fault = self.fault(request)
        if fault == "hang":
            await asyncio.sleep(timeout_seconds)
            raise DeadlineExceededError(f"{request}: no answer in time")
        if fault == "refuse":
            raise TransportError(f"{request}: connection refused", sent=False)
        if fault == "html":
            return HttpResponse(500, {"content-type": "text/html"}, b"<html>proxy</html>")
        sent_at = []

        def note() -> None:
            if request.before_send is not None:
                request.before_send()
            sent_at.append(now())

        noting = replace(request, before_send=note)
        answer = await self._transport.send(noting, timeout_seconds=timeout_seconds)
        if request.method in WRITES:
            self.writes.append((sent_at[0], request.path))
        if fault == "lose":
            raise TransportError(f"{request}: connection reset")
        return answer

    @asynccontextmanager
    async def stream(self, request: HttpRequest):
        self.requests.append((now(), "WATCH", request.path))
        fault = self.fault(request)
        if fault == "hang":
            await asyncio.sleep(30)
            raise DeadlineExceededError(f"{request}: no answer in time")
        if fault != "ok":
            raise TransportError(f"{request}: connection refused", sent=False)
        async with self._transport.stream(request) as stream:
            yield _Stream(stream, self, request)

    async def close(self) -> None:
        await self._transport.close()


class _Stream:
    def __init__(self, stream: Any, network: Network, request: HttpRequest) -> None:
        self._stream = stream
        self._network = network
        self._request = request
        self.status = stream.status
        self.headers = stream.headers

    async def chunks(self):
        async for chunk in self._stream.chunks():
            match self._network.fault(self._request):
                case "ok":
                    yield chunk
                case "hang":
                    await asyncio.sleep(3600)
                case _:
                    raise TransportError("connection reset")

    async def read(self) -> Any:
        return await self._stream.read()


class Work:
    """Leader-bound: writes an object every `every` seconds, and notes when it works and writes."""

    def __init__(self, name: str, client: Any = None, *, every: float = 0.25) -> None:
        self.name = name
        self.client = client
        self.every = every
        self.started: list[float] = []
        self.ended: list[float] = []
        self.written: list[float] = []
        self.refused: list[ClientError] = []
        self._count = 0

    async def run(self) -> None:
        self.started.append(now())
        try:
            while True:
                self._count += 1
                term = len(self.started)
                made = ConfigMap.new(f"{self.name}-{term}-{self._count}", namespace="default")
                try:
                    await self.client.create(made)
                    self.written.append(now())
                except ClientError as error:
                    self.refused.append(error)
                await asyncio.sleep(self.every)
        finally:
            self.ended.append(now())


class Candidate:
    """A manager with an identity, a network and leader-bound work of its own."""

    def __init__(
        self, cluster: Cluster, name: str, *, seed: int = 0, work: Any = None, **options: Any
    ) -> None:
        random = Random(f"{name} {seed}")
        self.name = name
        self.cluster = cluster
        self.network = Network(cluster)
        self.client = Client.over(
            self.network, field_manager=name, clock=cluster.clock, random=random
        )
        manager_options = options.pop("manager", {})
        self.manager = Manager(
            self.client,
            clock=cluster.clock,
            random=random,
            leader_election=election(identity=name, **options),
            **manager_options,
        )
        self.work = work or Work(name, self.manager.client)
        self.manager.add(self.work)
        self.failure: Exception | None = None

    @property
    def leads(self) -> bool:
        return len(self.work.started) > len(self.work.ended)

    @property
    def elector(self) -> LeaderElector:
        assert self.manager._elector is not None
        return self.manager._elector

    @property
    def renewals(self) -> list[float]:
        """When the server took what the candidate wrote into the Lease."""
        return [at for at, path in self.network.writes if "/leases" in path]

    def count(self, method: str, text: str) -> int:
        return sum(m == method and text in path for _, m, path in self.network.requests)

    @asynccontextmanager
    async def running(self):
        """Run the manager until the block ends, or `stop`; how it failed is in `failure`."""
        async with asyncio.TaskGroup() as group:
            self._task = group.create_task(self._run(), name=f"candidate {self.name}")
            await self.manager.wait_synced()
            try:
                yield self
            finally:
                await self.stop()

    async def stop(self) -> None:
        self._task.cancel()
        await self.wait_ended()

    async def wait_ended(self) -> None:
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            await self.manager.run()
        except Exception as error:  # noqa: BLE001 - a test looks at whatever it is
            self.failure = error


def pause(cluster: Cluster, seconds: float, meanwhile: Any = None) -> None:
    """Let time pass while nothing here runs, as for a stopped process or a blocked loop.

    Args:
        cluster: that goes on.
        seconds: how long.
        meanwhile: an administrator's request that is answered in that time.
    """
    loop: Any = asyncio.get_running_loop()
    loop._jump(seconds)
    if meanwhile is not None:
        answering = cluster.server.handle(meanwhile)
        with suppress(StopIteration):
            answering.send(None)
            raise AssertionError("the server waits for something")


async def lease_of(cluster: Cluster) -> dict[str, Any]:
    return (await cluster.client.get(Lease, LEASE)).spec


async def holder(cluster: Cluster) -> str:
    """The candidate's name, without what makes it unique."""
    found = await cluster.client.find(Lease, LEASE)
    return (found.spec.get("holderIdentity") or "").split("_")[0] if found else ""
