import asyncio
import itertools
from contextlib import asynccontextmanager

import pytest

from dynamo_operator.runtime.builtin_kinds import Event, Lease
from dynamo_operator.runtime.leader_election import (
    LeaderElection,
    LeaderElectionError,
    LeadershipLostError,
)
from dynamo_operator.testing.cluster import Cluster
from tests.dynamo_operator.runtime.elections import (
    LEASE,
    Candidate,
    election,
    election_cluster,
    holder,
    lease_of,
    now,
)

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def cluster():
    async with election_cluster() as cluster:
        yield cluster


async def test_one_of_many_leads(cluster):
    candidates = [Candidate(cluster, name) for name in "abcde"]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(candidate.manager.run()) for candidate in candidates]
        for _ in range(60):
            await asyncio.sleep(1)
            assert sum(candidate.leads for candidate in candidates) == 1
        for task in tasks:
            task.cancel()


async def test_the_lease_says_who_holds_it_since_when_and_for_how_long(cluster):
    async with Candidate(cluster, "a", labels={"team": "lab"}).running() as a:
        await a.manager.wait_elected()
        first = await lease_of(cluster)
        await asyncio.sleep(10)
        later = await lease_of(cluster)
        lease = await cluster.client.get(Lease, LEASE)
    released = await lease_of(cluster)

    assert first["holderIdentity"].startswith("a_")
    assert first["leaseDurationSeconds"] == 15
    assert first["leaseTransitions"] == 0
    assert first["acquireTime"] == first["renewTime"] == "2030-01-01T00:00:00.000000Z"
    assert later["acquireTime"] == first["acquireTime"]
    assert later["renewTime"] > first["renewTime"]
    assert lease.labels == {"team": "lab"}
    assert released["holderIdentity"] == ""
    assert released["leaseDurationSeconds"] == 1


async def test_a_take_over_counts_as_a_transition(cluster):
    for name in ("a", "b", "a"):
        async with Candidate(cluster, name).running() as candidate:
            await candidate.manager.wait_elected()

    assert (await lease_of(cluster))["leaseTransitions"] == 2


async def test_a_standby_takes_over_at_once_when_the_leader_stops(cluster):
    async with Candidate(cluster, "a").running() as a:
        await a.manager.wait_elected()
        async with Candidate(cluster, "b").running() as b:
            await asyncio.sleep(60)
            assert not b.leads

            stopped = now()
            await a.stop()
            await b.manager.wait_elected()

            assert now() - stopped < 0.5
            assert a.work.ended[0] <= b.work.started[0]
            assert a.failure is None


async def test_a_standby_takes_over_when_the_lease_of_a_killed_leader_runs_out(cluster):
    async with leader_and_standby(cluster) as (a, b):
        await asyncio.sleep(31)
        renewed = a.renewals[-1]
        a.network.fault = always("hang")  # what others see of a leader that is no more
        await b.manager.wait_elected()

    assert 15 <= b.work.started[0] - renewed <= 15.5


async def test_a_leader_whose_api_server_hangs_stops_before_another_can_lead(cluster):
    async with leader_and_standby(cluster) as (a, b):
        await asyncio.sleep(a.renewals[-1] + 20.001 - now())  # 1 ms after a good renewal
        renewed = a.renewals[-1]
        a.network.fault = always("hang")
        await b.manager.wait_elected()

    assert now() - renewed < 40
    assert a.work.written[-1] - renewed < 12
    assert a.work.ended[-1] - renewed == pytest.approx(10, abs=0.1)
    assert b.work.started[0] - renewed >= 15
    assert isinstance(a.failure, LeadershipLostError)
    assert str(a.failure) == "the lease operators/lab was lost: not renewed in time"
    assert "a" not in {task.get_name() for task in asyncio.all_tasks()}


async def test_one_call_that_hangs_loses_nothing(cluster):
    async with Candidate(cluster, "a").running() as a:
        await a.manager.wait_elected()
        for _ in range(5):
            a.network.fault = once("hang", "PUT")
            await asyncio.sleep(20)

        assert a.leads
        assert len(a.work.started) == 1


@pytest.mark.parametrize("fault", ["hang", "refuse", "html", "lose"])
async def test_work_ends_at_the_deadline_whatever_keeps_the_lease_from_being_renewed(
    cluster, fault
):
    async with leader_and_standby(cluster) as (a, b):
        await asyncio.sleep(29)
        renewed = a.renewals[-1]
        a.network.fault = only_lease(fault) if fault != "lose" else always("refuse")
        await b.manager.wait_elected()

    assert a.work.written[-1] <= renewed + 10
    assert a.work.ended[-1] <= renewed + 10.1
    assert b.work.started[0] >= renewed + 15
    assert isinstance(a.failure, LeadershipLostError)


async def test_answers_that_are_lost_do_not_lose_the_lease(cluster):
    async with leader_and_standby(cluster) as (a, b):
        a.network.fault = some_lost()
        await asyncio.sleep(60)

        assert a.leads
        assert not b.work.started


async def test_a_leader_that_can_write_its_lease_only_goes_on_leading(cluster):
    async with leader_and_standby(cluster) as (a, b):
        a.network.fault = all_but_lease("refuse")
        await asyncio.sleep(60)

        assert a.leads
        assert not b.work.started


async def test_a_candidate_that_may_not_watch_polls(cluster):
    async with leader_and_standby(cluster) as (a, b):
        b.network.fault = no_watch
        await asyncio.sleep(30)
        polls = b.count("GET", "/leases/lab")
        stopped = now()
        await a.stop()
        await b.manager.wait_elected()

    assert polls <= 15
    assert b.work.started[0] - stopped <= 2 * 2.2


async def test_a_candidate_that_may_not_watch_takes_over_at_expiry(cluster):
    async with leader_and_standby(cluster) as (a, b):
        b.network.fault = no_watch
        await asyncio.sleep(30)
        renewed = a.renewals[-1]
        a.network.fault = always("hang")
        await b.manager.wait_elected()

    assert 15 <= b.work.started[0] - renewed <= 15 + 2 * 2.2


async def test_standing_by_costs_no_requests(cluster):
    async with leader_and_standby(cluster) as (_, b):
        await asyncio.sleep(5)
        before = len(b.network.requests)
        await asyncio.sleep(120)

        assert len(b.network.requests) == before


async def test_a_new_candidate_waits_a_whole_lease_of_a_holder_that_it_does_not_know(cluster):
    """The times in the record are another clock's, here an hour behind or ahead."""
    for hour in ("2029-12-31T23", "2030-01-01T01"):
        await write_lease(cluster, holderIdentity="gone", renewTime=f"{hour}:00:00.000000Z")
        begun = now()
        async with Candidate(cluster, "a").running() as a:
            await a.manager.wait_elected()

        assert 15 <= a.work.started[0] - begun <= 15.5


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        pytest.param({"leaseDurationSeconds": 2_000_000_000}, 15, id="absurd duration"),
        pytest.param({"leaseDurationSeconds": None}, 15, id="no duration"),
        pytest.param({"leaseDurationSeconds": 60}, 60, id="another's own duration"),
        pytest.param({"holderIdentity": ""}, 0, id="released"),
        pytest.param({"holderIdentity": None}, 0, id="no holder"),
        pytest.param({"acquireTime": None, "renewTime": None}, 15, id="no times"),
        pytest.param({"leaseTransitions": None}, 15, id="no transitions"),
        pytest.param({"leaseTransitions": 2**31 - 1}, 15, id="as many transitions as there can be"),
    ],
)
async def test_a_lease_of_any_content_locks_nobody_out_for_long(cluster, spec, seconds):
    await write_lease(cluster, **{"holderIdentity": "gone", **spec})
    begun = now()
    async with Candidate(cluster, "a").running() as a:
        await a.manager.wait_elected()

    assert seconds <= a.work.started[0] - begun <= seconds + 0.5


async def test_a_lease_without_a_spec_is_nobodys(cluster):
    await cluster.client.create(Lease.new(LEASE.name, namespace=LEASE.namespace))
    async with Candidate(cluster, "a").running() as a:
        await a.manager.wait_elected()

    assert now() < 1


async def test_a_deleted_lease_is_made_again_by_its_holder(cluster):
    async with leader_and_standby(cluster) as (a, b):
        await asyncio.sleep(5)
        await cluster.client.delete(Lease, LEASE)
        await asyncio.sleep(0.5)
        assert await holder(cluster) == "a"
        await asyncio.sleep(60)

        assert a.leads
        assert not b.work.started


async def test_a_deleted_lease_of_a_dead_leader_is_waited_out(cluster):
    async with leader_and_standby(cluster) as (a, b):
        await asyncio.sleep(5)
        renewed = a.renewals[-1]
        a.network.fault = always("hang")
        await cluster.client.delete(Lease, LEASE)
        await b.manager.wait_elected()

    assert a.work.written[-1] < renewed + 10
    assert 15 <= b.work.started[0] - renewed <= 15.5


@pytest.mark.parametrize("spec", [None, {"holderIdentity": "gone"}], ids=["none", "another's"])
async def test_one_leads_again_after_the_server_was_set_back_to_a_backup(cluster, spec):
    """Which has versions that are older than those the candidates saw."""
    await write_lease(cluster, holderIdentity="gone")
    async with election_cluster() as backup, Candidate(cluster, "a").running() as standby:
        await asyncio.sleep(5)
        await write_lease(cluster, holderIdentity="still here")
        if spec is not None:
            await write_lease(backup, **spec)
        standby.network.replace_server(backup)
        cluster.server.close()
        begun = now()
        await standby.manager.wait_elected()

        assert now() - begun <= 35
        await asyncio.sleep(60)
        assert standby.leads
        assert standby.count("GET", f"leases/{LEASE.name}") <= 3


async def test_a_lease_that_another_took_ends_the_term_at_once(cluster):
    async with Candidate(cluster, "a").running() as a:
        await a.manager.wait_elected()
        await asyncio.sleep(5)
        await write_lease(cluster, holderIdentity="thief")
        taken = now()
        await a.wait_ended()

    assert now() - taken < 0.1
    assert a.work.written[-1] <= taken + 0.1
    assert str(a.failure) == "the lease operators/lab was lost: thief holds the lease"
    assert (await lease_of(cluster))["holderIdentity"] == "thief"


async def test_what_others_put_on_the_lease_stays(cluster):
    async with Candidate(cluster, "a", labels={"team": "lab"}).running() as a:
        await a.manager.wait_elected()
        await cluster.client.patch(
            Lease, LEASE, {"metadata": {"labels": {"cost": "low"}, "annotations": {"note": "x"}}}
        )
        await asyncio.sleep(10)
        lease = await cluster.client.get(Lease, LEASE)

        assert a.leads
        assert lease.labels == {"team": "lab", "cost": "low"}
        assert lease.annotations == {"note": "x"}


async def test_a_candidate_that_stops_never_starts_its_work(cluster):
    async with leader_and_standby(cluster) as (a, b):
        await asyncio.sleep(3)
        async with asyncio.TaskGroup() as group:
            group.create_task(a.stop())
            group.create_task(b.stop())

    assert not b.work.started
    assert b.failure is None


async def test_a_candidate_stops_while_it_claims(cluster):
    a = Candidate(cluster, "a")
    a.network.fault = only_lease("hang")
    async with a.running():
        await asyncio.sleep(3)

    assert now() < 4
    assert not a.work.started


@pytest.mark.parametrize("fault", ["hang", "refuse", "html"])
async def test_a_release_that_fails_does_not_hold_up_the_stop(cluster, fault):
    async with Candidate(cluster, "a").running() as a:
        await a.manager.wait_elected()
        a.network.fault = only_lease(fault)
        stopped = now()
        await a.stop()

    assert now() - stopped < 5
    assert a.failure is None
    assert await holder(cluster) == "a"


async def test_a_release_writes_over_nobody_else(cluster):
    async with Candidate(cluster, "a").running() as a:
        await a.manager.wait_elected()
        a.network.fault = no_watch_of_lease
        await asyncio.sleep(0.5)
        await write_lease(cluster, holderIdentity="thief")
        await a.stop()

    assert (await lease_of(cluster))["holderIdentity"] == "thief"


async def test_the_lease_is_released_after_the_work_has_ended_and_renewed_until_then(cluster):
    work = Stubborn(12)
    async with Candidate(cluster, "a", work=work).running() as a:
        await a.manager.wait_elected()
        async with Candidate(cluster, "b").running() as b:
            await a.stop()
            await b.manager.wait_elected()

            assert b.work.started[0] >= work.ended[0] >= 12
            assert b.work.started[0] - work.ended[0] < 0.5


async def test_a_lease_is_kept_at_the_stop_if_that_is_wished(cluster):
    async with Candidate(cluster, "a", release_on_exit=False).running() as a:
        await a.manager.wait_elected()

    assert await holder(cluster) == "a"


async def test_a_missing_namespace_fails_the_start_in_one_line():
    async with Cluster.start() as cluster, Candidate(cluster, "a").running() as a:
        await a.wait_ended()

    assert isinstance(a.failure, LeaderElectionError)
    assert str(a.failure) == (
        "lease operators/lab: namespace operators does not exist: create it, or name another one"
    )


async def test_managers_with_leases_of_different_names_do_not_affect_each_other(cluster):
    async with cluster.manager(leader_election=election()) as one:
        other_election = LeaderElection("other", LEASE.namespace)
        async with cluster.manager(leader_election=other_election) as other:
            await one.wait_elected()
            await other.wait_elected()


async def test_what_leads_and_has_led_is_told_by_metric_and_events(cluster):
    def status(candidate):
        (line,) = [
            line
            for line in candidate.manager.metrics.render().decode().splitlines()
            if line.startswith("leader_election_master_status")
        ]
        return line

    async with leader_and_standby(cluster) as (a, b):
        assert status(a) == 'leader_election_master_status{name="lab"} 1.0'
        assert status(b) == 'leader_election_master_status{name="lab"} 0.0'
        await asyncio.sleep(1)
        await a.stop()
        assert status(a) == 'leader_election_master_status{name="lab"} 0.0'
        await b.manager.wait_elected()
        await asyncio.sleep(1)
        events = await cluster.client.list(Event, namespace=LEASE.namespace)

    told = sorted(
        (e.event_time, e.reason, e.note.split("_")[0], e.note.split()[1:]) for e in events
    )
    assert [event[1:] for event in told] == [
        ("LeaderElection", "a", ["became", "leader"]),
        ("LeaderElection", "a", ["stopped", "leading"]),
        ("LeaderElection", "b", ["became", "leader"]),
    ]
    assert {event.regarding["kind"] for event in events} == {"Lease"}


async def test_a_lost_term_is_not_told_as_if_it_had_been_given_up(cluster):
    async with leader_and_standby(cluster) as (a, b):
        a.network.fault = only_lease("refuse")
        await b.manager.wait_elected()
        events = await cluster.client.list(Event, namespace=LEASE.namespace)

    assert "stopped" not in {event.note.split()[1] for event in events}


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"lease_seconds": 10}, id="lease not longer than the deadline"),
        pytest.param({"renew_deadline_seconds": 2.4}, id="deadline not longer than jittered tries"),
        pytest.param({"retry_seconds": 0}, id="no pause"),
        pytest.param({"lease_seconds": 601}, id="longer than anybody waits"),
        pytest.param({"lease_seconds": float("nan")}, id="no number"),
        pytest.param({"on_lost": "panic"}, id="unknown"),
    ],
)
def test_what_cannot_be_is_refused(options):
    with pytest.raises(ValueError, match=r"^leader election: "):
        election(**options)


@pytest.mark.parametrize("names", [("", "operators"), ("lab", "")])
def test_a_lease_needs_a_name_and_a_namespace(names):
    with pytest.raises(ValueError, match="is empty"):
        LeaderElection(*names)


class Stubborn:
    """Takes so many seconds to end."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.started = []
        self.ended = []

    async def run(self):
        self.started.append(now())
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(self.seconds)
            self.ended.append(now())


@asynccontextmanager
async def leader_and_standby(cluster):
    async with Candidate(cluster, "a").running() as a:
        await a.manager.wait_elected()
        async with Candidate(cluster, "b").running() as b:
            yield a, b


async def write_lease(cluster, **spec):
    """Write the Lease as somebody who heeds no rules."""
    whole = {"leaseDurationSeconds": 15, "leaseTransitions": 3, **spec}
    present = await cluster.client.find(Lease, LEASE)
    if present is None:
        spec = {name: value for name, value in whole.items() if value is not None}
        await cluster.client.create(Lease.new(LEASE.name, namespace=LEASE.namespace, spec=spec))
    else:
        await cluster.client.patch(Lease, LEASE, {"spec": whole})


def always(fault):
    return lambda request: fault


def once(fault, method):
    faults = [fault]
    return lambda request: faults.pop() if faults and request.method == method else "ok"


def some_lost():
    """Lose two of three answers to writes of the Lease."""
    numbers = itertools.count()

    def fault(request):
        is_renewal = request.method == "PUT" and "/leases" in request.path
        return "lose" if is_renewal and next(numbers) % 3 else "ok"

    return fault


def only_lease(fault):
    return lambda request: fault if "/leases" in request.path else "ok"


def all_but_lease(fault):
    return lambda request: "ok" if "/leases" in request.path else fault


def no_watch(request):
    return "refuse" if is_watch_or_list(request) else "ok"


def no_watch_of_lease(request):
    return "refuse" if "/leases" in request.path and is_watch_or_list(request) else "ok"


def is_watch_or_list(request):
    return request.method == "GET" and ("fieldSelector", "metadata.name=lab") in request.query
