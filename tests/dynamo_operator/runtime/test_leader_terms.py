"""What a manager does with leader-bound work: in a term, at its loss, and in the next one."""

import asyncio
import json
from collections import Counter
from datetime import timedelta

import pytest

from dynamo_operator.apiserver.messages import ADMIN, Request
from dynamo_operator.runtime.builtin_kinds import ConfigMap, Event, Secret
from dynamo_operator.runtime.client.errors import NotLeadingError
from dynamo_operator.runtime.controller import Controller
from dynamo_operator.runtime.enqueue import by_label
from dynamo_operator.runtime.leader_election import LeadershipLostError
from dynamo_operator.runtime.reconciler import Result
from dynamo_operator.runtime.sources import Channel, Watch
from dynamo_operator.testing.virtual_time import START
from informers.objects import ObjectKey
from tests.dynamo_operator.runtime.elections import (
    LEASE,
    Candidate,
    Work,
    election,
    election_cluster,
    holder,
    now,
    pause,
)

pytestmark = pytest.mark.virtual_time

LEASE_PATH = "/apis/coordination.k8s.io/v1/namespaces/operators/leases/lab"


@pytest.fixture
async def cluster():
    async with election_cluster() as cluster:
        yield cluster


class Reconciling:
    """Takes its time for each key, and writes before and after."""

    def __init__(self, client, events, *, seconds=0.0):
        self.client = client
        self.events = events
        self.seconds = seconds
        self.begun = []
        self.ended = []
        self.outcomes = []

    async def reconcile(self, key):
        self.begun.append((now(), key.name))
        obj = await self.client.get(ConfigMap, key)
        try:
            await asyncio.sleep(self.seconds)
            self.events.record(obj, reason="Seen", action="See", note=f"at {now():g}")
            await self.client.patch(ConfigMap, key, {"data": {"seen": f"{now():g}"}})
            self.outcomes.append("written")
        except NotLeadingError:
            self.outcomes.append("refused")
            raise
        except asyncio.CancelledError:
            self.outcomes.append("cancelled")
            raise
        finally:
            self.ended.append(now())
        return Result.done()


class Controlling(Candidate):
    """A candidate whose work is a controller of the ConfigMaps named item-..."""

    def __init__(self, cluster, name="a", *, seconds=0.0, **options):
        super().__init__(cluster, name, work=Idle(), **options)
        manager = self.manager
        self.reconciler = Reconciling(manager.client, manager.events, seconds=seconds)
        self.channel = Channel()
        manager.add(
            Controller(
                ConfigMap,
                name="lab",
                reconciler=self.reconciler,
                channels=[self.channel],
                predicates=[is_new],
                max_concurrent_reconciles=4,
            )
        )


def is_new(event):
    return type(event).__name__ == "Added" and event.object.key.name.startswith("item")


class Idle:
    def __init__(self):
        self.started, self.ended = [], []

    async def run(self):
        self.started.append(now())
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.append(now())


async def make_items(cluster, *numbers):
    for number in numbers:
        await cluster.client.create(ConfigMap.new(f"item-{number}", namespace="default"))


def stop_renewals(candidate):
    candidate.network.fault = lambda request: "refuse" if "/leases" in request.path else "ok"


def recover(candidate):
    candidate.network.fault = lambda request: "ok"


def written_since(candidate, since):
    return [path for at, path in candidate.network.writes if at > since]


async def test_a_standby_is_ready_and_warm_and_reconciles_nothing(cluster):
    await make_items(cluster, 1, 2)
    async with Candidate(cluster, "a").running() as a:
        await a.manager.wait_elected()
        async with Controlling(cluster, "b").running() as b:
            await make_items(cluster, 3)
            b.channel.send(ObjectKey("default", "item-1"))
            await asyncio.sleep(30)

            await b.manager._check_informers()
            assert b.reconciler.begun == []
            assert b.network.writes == []
            assert not b.work.started

            await a.stop()
            await b.manager.wait_elected()
            await asyncio.sleep(1)
            assert Counter(name for _, name in b.reconciler.begun) == {
                "item-1": 1,
                "item-2": 1,
                "item-3": 1,
            }


async def test_work_added_while_standing_by_starts_with_the_term(cluster):
    async with Candidate(cluster, "a").running() as a:
        await a.manager.wait_elected()
        async with Candidate(cluster, "b").running() as b:
            late = Idle()
            b.manager.add(late)
            await asyncio.sleep(5)
            assert not late.started

            await a.stop()
            await b.manager.wait_elected()
            await asyncio.sleep(0.1)
            assert late.started


async def test_what_needs_no_leadership_works_and_writes_while_standing_by(cluster):
    class Always(Work):
        needs_leadership = False

    async with Candidate(cluster, "a").running() as a:
        await a.manager.wait_elected()
        b = Candidate(cluster, "b")
        always = Always("always", b.manager.unfenced_client)
        b.manager.add(always)
        async with b.running():
            await asyncio.sleep(5)

            assert len(always.written) > 10
            made = await cluster.client.get(ConfigMap, ObjectKey("default", "always-1-1"))
            b.manager.unfenced_events.record(made, reason="Made", action="Make")
            await asyncio.sleep(1)
            (event,) = await cluster.client.list(Event, namespace="default")
            assert event.regarding["name"] == made.key.name


async def test_writes_of_leader_bound_work_are_refused_while_standing_by(cluster):
    async with Candidate(cluster, "a").running() as a:
        await a.manager.wait_elected()
        async with Candidate(cluster, "b").running() as b:
            with pytest.raises(NotLeadingError):
                await b.manager.client.create(ConfigMap.new("x", namespace="default"))
            assert await b.manager.client.list(ConfigMap)


async def test_without_election_nothing_is_fenced(cluster):
    async with cluster.manager() as manager:
        await manager.wait_elected()
        assert manager.client is manager.unfenced_client
        assert manager.events is manager.unfenced_events
        await manager.client.create(ConfigMap.new("x", namespace="default"))


async def test_reconciles_in_progress_are_cancelled_without_grace_when_the_lease_is_lost(cluster):
    await make_items(cluster, *range(6))
    async with Controlling(cluster, seconds=100).running() as a:
        await a.manager.wait_elected()
        await asyncio.sleep(5)
        stop_renewals(a)
        await a.wait_ended()

    assert isinstance(a.failure, LeadershipLostError)
    assert a.reconciler.outcomes == ["cancelled"] * 4
    assert max(a.reconciler.ended) <= a.renewals[-1] + 10.1
    assert written_since(a, a.renewals[-1] + 10) == []


async def test_reconciles_in_progress_are_finished_when_a_leader_stops(cluster):
    await make_items(cluster, 1, 2)
    async with Controlling(cluster, seconds=20).running() as a:
        await a.manager.wait_elected()
        await asyncio.sleep(5)
        await a.stop()

    assert a.reconciler.outcomes == ["written", "written"]
    assert await holder(cluster) == ""


@pytest.mark.parametrize("offset", [0.0, 0.4, 0.83, 1.9])
async def test_a_leader_that_was_paused_for_longer_than_its_lease_writes_nothing_more(
    cluster, offset
):
    """A reconcile sleeps, a Work writes at every turn, an Event is queued: all wake too late."""
    await make_items(cluster, 1, 2)
    a = Controlling(cluster, seconds=40)
    a.manager.add(Work("busy", a.manager.client, every=0.02))
    async with a.running():
        await a.manager.wait_elected()
        await asyncio.sleep(4 + offset)
        lease = json.dumps({"spec": {"holderIdentity": "other"}}).encode()
        made = await cluster.client.get(ConfigMap, ObjectKey("default", "item-1"))
        a.manager.events.record(made, reason="BeforeThePause", action="See")
        paused = now()
        pause(
            cluster,
            30,
            Request(
                "PATCH",
                LEASE_PATH,
                (),
                {"content-type": "application/merge-patch+json"},
                lease,
                user=ADMIN,
            ),
        )
        await a.wait_ended()
        events = await cluster.client.list(Event, namespace="default")

    assert isinstance(a.failure, LeadershipLostError)
    assert written_since(a, paused) == []
    assert set(a.reconciler.outcomes) <= {"cancelled", "refused"}
    assert len(a.reconciler.outcomes) == 2
    assert "BeforeThePause" not in {event.reason for event in events}
    assert await holder(cluster) == "other"


class Sleepy:
    """The clock of a machine whose monotonic time stands still while it sleeps."""

    def __init__(self):
        self.slept = timedelta()

    def monotonic(self):
        return now()

    def now(self):
        return START + timedelta(seconds=now()) + self.slept


async def test_a_machine_that_slept_has_lost_its_lease(cluster):
    clock = Sleepy()

    async def lead_and_sleep():
        async with cluster.manager(leader_election=election(), clock=clock) as manager:
            await manager.wait_elected()
            await asyncio.sleep(5)
            clock.slept = timedelta(hours=1)
            with pytest.raises(NotLeadingError):
                await manager.client.create(ConfigMap.new("made", namespace="default"))
            await asyncio.sleep(11)

    with pytest.raises(LeadershipLostError):
        await lead_and_sleep()


async def test_a_wall_clock_that_is_set_back_changes_nothing(cluster):
    clock = Sleepy()
    async with cluster.manager(leader_election=election(), clock=clock) as manager:
        await manager.wait_elected()
        await asyncio.sleep(5)
        clock.slept = timedelta(hours=-1)
        await asyncio.sleep(60)
        await manager.client.create(ConfigMap.new("made", namespace="default"))


async def test_a_loop_that_is_blocked_for_less_than_the_deadline_loses_nothing(cluster):
    async with Candidate(cluster, "a").running() as a:
        await a.manager.wait_elected()
        for _ in range(10):
            await asyncio.sleep(5)
            pause(cluster, 5)
        await asyncio.sleep(1)

        assert a.leads
        assert len(a.work.started) == 1


async def test_a_term_is_followed_by_another_in_which_everything_is_reconciled_anew(cluster):
    await make_items(cluster, 1, 2, 3)
    async with Controlling(cluster, on_lost="campaign").running() as a:
        await a.manager.wait_elected()
        await asyncio.sleep(5)
        stop_renewals(a)
        await asyncio.sleep(20)
        lost = now()
        assert not a.manager._elected.is_set()
        first = Counter(name for _, name in a.reconciler.begun)
        await make_items(cluster, 4)
        a.channel.send(ObjectKey("default", "item-1"))
        await asyncio.sleep(10)
        recover(a)
        await a.manager.wait_elected()
        await asyncio.sleep(1)
        second = Counter(name for at, name in a.reconciler.begun if at > lost)

        assert first == {f"item-{number}": 1 for number in (1, 2, 3)}
        assert second == {f"item-{number}": 1 for number in (1, 2, 3, 4)}
        assert len(a.work.started) == 2
        await make_items(cluster, 5)
        await asyncio.sleep(1)
        assert a.reconciler.begun[-1][1] == "item-5"

    assert a.failure is None
    assert await holder(cluster) == ""


async def test_a_handle_and_its_watches_outlive_a_term(cluster):
    await make_items(cluster, 1)
    secret = Secret.new("s", namespace="default", labels={"for": "item-1"})
    await cluster.client.create(secret)

    async def term_after_a_loss():
        stop_renewals(a)
        await asyncio.sleep(20)
        recover(a)
        await a.manager.wait_elected()
        await asyncio.sleep(5)
        begun = len(a.reconciler.begun)
        await cluster.client.patch(Secret, secret.key, {"data": {"t": ""}})
        await asyncio.sleep(5)
        return len(a.reconciler.begun) - begun

    async with Controlling(cluster, on_lost="campaign").running() as a:
        await a.manager.wait_elected()
        (handle,) = a.manager._controllers.values()
        watch = handle.watch(Watch(Secret, enqueue=by_label("for")))

        assert await term_after_a_loss() == 1
        watch.close()
        assert await term_after_a_loss() == 0
        await handle.stop()
        await make_items(cluster, 2)
        assert await term_after_a_loss() == 0
        assert "item-2" not in {name for _, name in a.reconciler.begun}

    assert a.failure is None


async def test_a_controller_added_between_terms_runs_in_the_next_one(cluster):
    await make_items(cluster, 1)
    begun = []

    class Begins:
        async def reconcile(self, key):
            begun.append(key.name)
            return Result.done()

    async with Controlling(cluster, on_lost="campaign").running() as a:
        await a.manager.wait_elected()
        stop_renewals(a)
        await asyncio.sleep(20)
        predicates = [lambda event: event.object.key.name.startswith("item")]
        a.manager.add(
            Controller(ConfigMap, reconciler=Begins(), name="late", predicates=predicates)
        )
        await asyncio.sleep(5)
        assert begun == []
        recover(a)
        await a.manager.wait_elected()
        await asyncio.sleep(1)

    assert set(begun) == {"item-1"}


async def test_terms_leave_nothing_behind(cluster):
    await make_items(cluster, 1, 2, 3)
    async with Controlling(cluster, on_lost="campaign").running() as a:
        sizes = []
        for _ in range(4):
            await a.manager.wait_elected()
            await asyncio.sleep(5)
            declarations = len(a.manager.cache._declarations)
            sizes.append((len(asyncio.all_tasks()), declarations, len(a.channel._sinks)))
            stop_renewals(a)
            await asyncio.sleep(25)
            recover(a)

    assert len(set(sizes)) == 1


async def test_an_event_of_a_lost_term_is_not_sent_in_the_next_one(cluster):
    async with Controlling(cluster, on_lost="campaign").running() as a:
        await a.manager.wait_elected()
        await make_items(cluster, 1)
        made = await cluster.client.get(ConfigMap, ObjectKey("default", "item-1"))
        await asyncio.sleep(1)
        a.network.fault = lambda request: "hang"
        for number in range(3):
            a.manager.events.record(made, reason=f"Lost{number}", action="Lose")
        await asyncio.sleep(30)
        recover(a)
        await a.manager.wait_elected()
        a.manager.events.record(made, reason="Kept", action="Keep")
        await asyncio.sleep(60)
        events = await cluster.client.list(Event, namespace="default")

    reasons = {event.reason for event in events}
    assert "Kept" in reasons
    assert not {"Lost1", "Lost2"} & reasons


async def test_work_that_fails_for_want_of_leadership_does_not_hide_the_loss(cluster):
    class Fragile(Work):
        async def run(self):
            self.started.append(now())
            for number in range(1000):
                await self.client.create(ConfigMap.new(f"f-{number}", namespace="default"))
                await asyncio.sleep(0)

    async with Candidate(cluster, "a").running() as a:
        a.manager.add(Fragile("fragile", a.manager.client))
        await a.manager.wait_elected()
        await asyncio.sleep(0)
        pause(cluster, 30)
        await a.wait_ended()

    assert isinstance(a.failure, LeadershipLostError)


async def test_a_defect_of_leader_bound_work_still_ends_the_manager_and_releases_the_lease(
    cluster,
):
    class Broken:
        async def run(self):
            await asyncio.sleep(3)
            raise KeyError("missing")

    async with Candidate(cluster, "a").running() as a:
        a.manager.add(Broken())
        await a.wait_ended()

    assert isinstance(a.failure, KeyError)
    assert await holder(cluster) == ""


async def test_a_loss_while_stopping_cancels_what_still_drains_and_is_no_error(cluster):
    await make_items(cluster, 1)
    async with Controlling(
        cluster, seconds=100, manager={"graceful_shutdown_seconds": 60}
    ).running() as a:
        await a.manager.wait_elected()
        await asyncio.sleep(5)
        stop_renewals(a)
        stopped = now()
        await a.stop()

    assert now() - stopped < 11
    assert a.failure is None
    assert a.reconciler.outcomes == ["cancelled"]


async def test_health_fails_when_the_work_of_a_lost_term_does_not_end(cluster):
    class Deaf:
        """Goes on for two minutes, whatever it is told."""

        async def run(self):
            until = now() + 120
            while now() < until:
                try:
                    await asyncio.sleep(until - now())
                except asyncio.CancelledError:
                    continue

    async with Candidate(cluster, "a").running() as a:
        a.manager.add(Deaf())
        await a.manager.wait_elected()
        await asyncio.sleep(1)
        await a.elector.check()
        stop_renewals(a)
        await asyncio.sleep(30)
        await a.elector.check()
        await asyncio.sleep(10)
        with pytest.raises(LeadershipLostError, match="has not ended"):
            await a.elector.check()
        await a.wait_ended()
        assert now() > 110


async def test_a_leader_bound_lease_event_names_the_lease(cluster):
    async with Candidate(cluster, "a").running() as a:
        await a.manager.wait_elected()
        await asyncio.sleep(1)
        (event,) = await cluster.client.list(Event, namespace=LEASE.namespace)

    assert event.regarding["name"] == LEASE.name
    assert event.regarding["uid"]
    assert event.note.startswith("a_")
