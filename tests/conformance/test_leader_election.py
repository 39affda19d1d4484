"""Leader election with the rights that it asks for, and no others."""

import asyncio
from contextlib import AsyncExitStack
from uuid import uuid4

import pytest
import pytest_asyncio

from dynamo_operator.generate.rbac import role_rules
from dynamo_operator.runtime import LeaderElection
from dynamo_operator.runtime.builtin_kinds import Event, Lease, Role, RoleBinding
from dynamo_operator.runtime.client.errors import ForbiddenError
from dynamo_operator.runtime.leader_election import lease_permissions
from dynamo_operator.runtime.leader_elector import living_holder
from dynamo_operator.runtime.manager import MANAGER_PERMISSIONS
from informers.objects import ObjectKey

pytestmark = pytest.mark.asyncio(loop_scope="session")

RBAC = "rbac.authorization.k8s.io"


def election(namespace, identity=""):
    """One with short times."""
    return LeaderElection(
        "lab",
        namespace,
        identity=identity,
        lease_seconds=3,
        renew_deadline_seconds=2,
        retry_seconds=0.5,
    )


@pytest_asyncio.fixture(loop_scope="session")
async def candidate_client(cluster, namespace):
    user = f"candidate-{uuid4().hex[:8]}"
    rules = role_rules([*lease_permissions("lab"), *MANAGER_PERMISSIONS])
    await cluster.client.create(Role.new("candidate", namespace=namespace, rules=rules))
    binding = RoleBinding.new(
        "candidate",
        namespace=namespace,
        roleRef={"apiGroup": RBAC, "kind": "Role", "name": "candidate"},
        subjects=[{"apiGroup": RBAC, "kind": "User", "name": user}],
    )
    await cluster.client.create(binding)
    client = cluster.client_of(user)
    await cluster.eventually(lambda: may_look(client, namespace))
    return client


async def may_look(client, namespace):
    """Whether a real server's authorizer has heard of the binding."""
    try:
        return await client.find(Lease, ObjectKey(namespace, "lab")) is None
    except ForbiddenError:
        return False


def candidate(cluster, client, namespace, name):
    return cluster.manager(client=client, leader_election=election(namespace, name))


async def test_a_stopped_leader_hands_the_lease_on(cluster, namespace, candidate_client):
    loop = asyncio.get_running_loop()
    key = ObjectKey(namespace, "lab")
    async with AsyncExitStack() as standby:
        async with candidate(cluster, candidate_client, namespace, "a") as a:
            await a.wait_elected()
            b = await standby.enter_async_context(
                candidate(cluster, candidate_client, namespace, "b")
            )
            await asyncio.sleep(1)
            held = await cluster.client.get(Lease, key)
        stopped = loop.time()
        await b.wait_elected()
        took = loop.time() - stopped
        taken = await cluster.client.get(Lease, key)
    released = await cluster.client.get(Lease, key)
    events = await cluster.client.list(Event, namespace=namespace)

    assert held.spec["holderIdentity"].startswith("a_")
    assert took < 0.5
    assert taken.spec["holderIdentity"].startswith("b_")
    assert taken.spec["leaseTransitions"] == held.spec["leaseTransitions"] + 1
    assert released.spec["holderIdentity"] == ""
    assert sorted(event.note.split("_")[0] + event.note.split()[1] for event in events) == [
        "abecame",
        "astopped",
        "bbecame",
        "bstopped",
    ]


async def test_a_dead_holders_lease_is_taken_when_it_runs_out(cluster, namespace, candidate_client):
    loop = asyncio.get_running_loop()
    spec = {"holderIdentity": "dead", "leaseDurationSeconds": 2}
    await cluster.client.create(Lease.new("lab", namespace=namespace, spec=spec))
    begun = loop.time()
    async with candidate(cluster, candidate_client, namespace, "a") as a:
        await a.wait_elected()

    assert 2 <= loop.time() - begun < 4


async def test_a_deleted_lease_is_made_again(cluster, namespace, candidate_client):
    key = ObjectKey(namespace, "lab")
    async with candidate(cluster, candidate_client, namespace, "a") as a:
        await a.wait_elected()
        await asyncio.sleep(0.5)
        first = await cluster.client.get(Lease, key)
        await cluster.client.delete(Lease, key)
        second = await cluster.eventually(lambda: cluster.client.get(Lease, key))

    assert second.uid != first.uid
    assert second.spec["holderIdentity"] == first.spec["holderIdentity"]


async def test_whether_a_holder_lives_is_seen_by_its_renewals(cluster, namespace, candidate_client):
    async def asked():
        return await living_holder(candidate_client, election(namespace), clock=cluster.clock)

    assert await asked() == ""
    async with candidate(cluster, candidate_client, namespace, "a") as a:
        await a.wait_elected()
        assert (await asked()).startswith("a_")
    assert await asked() == ""

    spec = {"holderIdentity": "dead", "leaseDurationSeconds": 1}
    await cluster.client.patch(Lease, ObjectKey(namespace, "lab"), {"spec": spec})
    assert await asked() == ""
