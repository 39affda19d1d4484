import asyncio
import signal

import aiohttp
import pytest
import structlog

from dynamo_operator.runtime.builtin_kinds import ConfigMap, Event
from dynamo_operator.runtime.controller import Controller
from dynamo_operator.runtime.http_server import HttpServer
from dynamo_operator.runtime.manager import (
    Manager,
    ManagerStateError,
    ShutdownTimeoutError,
)
from dynamo_operator.runtime.reconciler import Result
from dynamo_operator.testing.cluster import Cluster
from dynamo_operator.testing.polling import eventually
from tests.dynamo_operator.runtime.widgets import HeldWatches


class Idle:
    async def reconcile(self, key):
        return Result.done()


class Slow:
    """Reconciles for so many seconds, heedless of cancellation or not."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.ended = []

    async def reconcile(self, key):
        try:
            await asyncio.sleep(self.seconds)
            self.ended.append("done")
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise
        return Result.done()


class Noted:
    """A runnable that notes when it starts and stops."""

    def __init__(self, name, notes, *, needs_leadership=True, fails=None):
        self.name = name
        self.notes = notes
        self.needs_leadership = needs_leadership
        self.fails = fails

    async def run(self):
        self.notes.append(f"{self.name} started")
        try:
            if self.fails:
                raise self.fails
            await asyncio.Event().wait()
        finally:
            self.notes.append(f"{self.name} stopped")


@pytest.fixture
async def cluster():
    async with Cluster.start() as cluster:
        yield cluster


def now():
    return asyncio.get_running_loop().time()


def controller(reconciler=None, **options):
    return Controller(ConfigMap, reconciler=reconciler or Idle(), **options)


def other_tasks():
    return asyncio.all_tasks() - {asyncio.current_task()}


@pytest.mark.virtual_time
async def test_groups_start_in_order_and_stop_in_the_reverse_order(cluster):
    transport = HeldWatches(cluster, "configmaps")
    notes: list[str] = []
    leader_bound = Noted("leader-bound", notes)
    other = Noted("other", notes, needs_leadership=False)
    manager = Manager(transport.client, clock=cluster.clock, random=cluster.random)
    for runnable in (leader_bound, other, controller()):
        manager.add(runnable)

    transport.hold()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(manager.run())
        await asyncio.sleep(10)
        assert notes == []  # the caches are not synced
        transport.release()
        await manager.wait_synced()
        await asyncio.sleep(1)
        task.cancel()

    assert notes == [
        "other started",
        "leader-bound started",
        "leader-bound stopped",
        "other stopped",
    ]


@pytest.mark.virtual_time
async def test_an_error_of_any_runnable_stops_the_manager_with_that_error(cluster):
    notes: list[str] = []
    error = OSError("disk full")
    manager = Manager(cluster.client)
    manager.add(Noted("steady", notes))
    manager.add(Noted("broken", notes, needs_leadership=False, fails=error))
    manager.add(controller())

    with pytest.raises(OSError, match="disk full") as raised:
        await manager.run()

    assert raised.value is error
    assert notes.count("broken stopped") == 1
    assert not other_tasks()


@pytest.mark.virtual_time
async def test_a_runnable_that_returns_stops_nothing(cluster):
    class Brief:
        async def run(self):
            pass

    async with cluster.manager(Brief()) as manager:
        await asyncio.sleep(3600)
        manager.add(Brief())


@pytest.mark.virtual_time
async def test_errors_while_stopping_are_logged_and_not_raised(cluster):
    class Clumsy:
        async def run(self):
            try:
                await asyncio.Event().wait()
            finally:
                raise OSError("at the very end")

    with structlog.testing.capture_logs() as logs:
        async with cluster.manager(Clumsy()):
            pass

    assert [(line["event"], line["runnable"]) for line in logs] == [
        ("runnable failed while stopping", "Clumsy")
    ]


@pytest.mark.virtual_time
async def test_a_failing_manager_cancels_the_block_that_runs_it(cluster):
    async def fail_later():
        await asyncio.sleep(5)
        raise OSError("gone")

    class Fails:
        run = staticmethod(fail_later)

    with pytest.raises(OSError, match="gone"):
        async with cluster.manager(Fails()):
            await asyncio.sleep(3600)

    assert now() == pytest.approx(5, abs=1)


@pytest.mark.virtual_time
async def test_an_error_of_the_block_is_raised_as_it_is(cluster):
    with pytest.raises(AssertionError, match="not equal"):
        async with cluster.manager(controller()):
            raise AssertionError("not equal")

    assert not other_tasks()


@pytest.mark.virtual_time
async def test_a_manager_runs_once(cluster):
    manager = Manager(cluster.client)
    async with manager.running():
        with pytest.raises(ManagerStateError, match="was started already"):
            await manager.run()
    with pytest.raises(ManagerStateError, match="was started already"):
        async with manager.running():
            pass
    with pytest.raises(ManagerStateError, match="has begun to stop"):
        manager.add(controller())
    with pytest.raises(ManagerStateError, match="does not run any more"):
        await manager.wait_synced()


@pytest.mark.virtual_time
async def test_names_of_controllers_are_unique_within_a_manager_only(cluster):
    first, second = Manager(cluster.client, name="one"), Manager(cluster.client, name="two")
    first.add(controller())
    second.add(controller())

    with pytest.raises(ValueError, match="controller 'configmap': the manager has one"):
        first.add(controller())
    async with first.running(), second.running():
        pass


@pytest.mark.virtual_time
async def test_a_stop_waits_for_running_reconciles_within_the_grace_period(cluster):
    slow = Slow(20)
    await cluster.client.create(ConfigMap.new("a", namespace="default"))

    async with cluster.manager(controller(slow), graceful_shutdown_seconds=30):
        await asyncio.sleep(1)

    assert slow.ended == ["done"]
    assert now() == pytest.approx(20, abs=0.1)


@pytest.mark.virtual_time
async def test_whoever_outlives_the_grace_period_is_cancelled_and_named(cluster):
    slow = Slow(3600)
    await cluster.client.create(ConfigMap.new("a", namespace="default"))

    with pytest.raises(ShutdownTimeoutError, match=r"grace period of 30 s: configmap$"):
        async with cluster.manager(controller(slow)):
            await asyncio.sleep(1)

    assert slow.ended == ["cancelled"]
    assert now() == pytest.approx(31, abs=0.1)
    assert not other_tasks()


@pytest.mark.virtual_time
async def test_without_grace_reconciles_are_cancelled_at_once(cluster):
    slow = Slow(3600)
    await cluster.client.create(ConfigMap.new("a", namespace="default"))

    with pytest.raises(ShutdownTimeoutError):
        async with cluster.manager(controller(slow), graceful_shutdown_seconds=0):
            await asyncio.sleep(1)

    assert slow.ended == ["cancelled"]
    assert now() == pytest.approx(1, abs=0.1)


@pytest.mark.virtual_time
async def test_events_are_recorded_on_objects(cluster):
    made = await cluster.client.create(ConfigMap.new("a", namespace="default"))

    async with cluster.manager(name="lab.test/widgets", identity="pod-0") as manager:
        manager.events.record(made, reason="Seen", action="Look", note="拉" * 500)

    (event,) = await cluster.client.list(Event, namespace="default")
    assert event.regarding["uid"] == made.uid
    assert len(event.note.encode()) <= 1024
    assert event.model_extra["reportingController"] == "lab.test/widgets"
    assert event.model_extra["reportingInstance"] == "pod-0"


async def test_probes_tell_whether_it_is_alive_and_ready_and_metrics_are_served(cluster):
    transport = HeldWatches(cluster, "configmaps")
    transport.hold()
    manager = Manager(transport.client, health_address="127.0.0.1:0", metrics_address="localhost:0")
    manager.add(controller())

    async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as group:
        task = group.create_task(manager.run())
        await cluster.eventually(lambda: all(manager.addresses.values()))

        async def get(address, path):
            async with session.get(f"http://127.0.0.1:{manager.addresses[address]}{path}") as a:
                return a.status, await a.text()

        alive = await get("127.0.0.1:0", "/healthz")
        not_ready = await get("127.0.0.1:0", "/readyz")
        transport.release()
        await manager.wait_synced()
        ready = await get("127.0.0.1:0", "/readyz/informers")
        status, metrics = await get("localhost:0", "/metrics")
        task.cancel()

    assert alive == (200, "ok")
    assert not_ready[0] == 500
    assert ready == (200, "ok")
    assert status == 200
    assert "controller_runtime_reconcile_total" in metrics
    assert 'rest_client_requests_total{code="200"' in metrics
    assert not other_tasks()


async def test_checks_of_ones_own_are_served(cluster):
    async def broken():
        raise RuntimeError("deadlock")

    manager = Manager(cluster.client, health_address="127.0.0.1:0")
    manager.add_healthz_check("loop", broken)
    async with manager.running(), aiohttp.ClientSession() as session:
        port = manager.addresses["127.0.0.1:0"]
        async with session.get(f"http://127.0.0.1:{port}/healthz/loop") as answer:
            assert answer.status == 500


async def test_a_used_address_fails_the_start(cluster):
    async with Manager(cluster.client, health_address="127.0.0.1:0").running() as first:
        port = first.addresses["127.0.0.1:0"]
        with pytest.raises(OSError, match="in use"):
            async with Manager(cluster.client, health_address=f"127.0.0.1:{port}").running():
                pass


async def test_signals_are_left_alone(cluster):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    async with cluster.manager(controller()):
        during = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    assert during == before


@pytest.mark.virtual_time
async def test_a_runnable_that_raises_cancelled_by_itself_has_failed(cluster):
    class Confused:
        async def run(self):
            raise asyncio.CancelledError

    with pytest.raises(RuntimeError, match="Confused raised CancelledError"):
        async with cluster.manager(Confused()):
            await asyncio.sleep(1)


async def test_a_server_that_is_added_listens_while_the_caches_still_fill(cluster):
    transport = HeldWatches(cluster, "configmaps")
    transport.hold()
    manager = Manager(transport.client, clock=cluster.clock, random=cluster.random)
    manager.add(controller())
    server = HttpServer("127.0.0.1:0")
    manager.add(server)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(manager.run())
        await eventually(lambda: server.is_listening)
        assert manager.cache.unsynced() != []
        assert manager.addresses == {"127.0.0.1:0": server.port}
        running.cancel()


async def test_two_servers_of_a_manager_have_two_addresses(cluster):
    manager = Manager(cluster.client, health_address=":8081")

    with pytest.raises(ValueError, match="address :8081: the manager serves there already"):
        manager.add(HttpServer(":8081"))
