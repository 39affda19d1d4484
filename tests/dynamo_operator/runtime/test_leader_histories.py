"""Histories of several candidates under faults drawn from a seed: never two of them lead."""

import asyncio
from contextlib import AsyncExitStack, suppress
from itertools import groupby

import pytest

from dynamo_operator.runtime.builtin_kinds import Lease
from dynamo_operator.runtime.client.errors import NotFoundError
from informers.clock import Random
from tests.dynamo_operator.runtime.elections import LEASE, Candidate, election_cluster, now, pause

pytestmark = pytest.mark.virtual_time

STEPS = 15
FAULTS = ("ok", "ok", "hang", "refuse", "lose", "html")


def about(fault, part):
    """A fault of all requests, of those for the Lease, of all others, or of watches only."""

    def of(request):
        is_lease = "/leases" in request.path
        is_watch = ("watch", "true") in request.query
        meets = {"all": True, "lease": is_lease, "others": not is_lease, "watch": is_watch}[part]
        return fault if meets else "ok"

    return of


class History:
    """One run; `step` does something bad."""

    def __init__(self, cluster, seed):
        self.cluster = cluster
        self.random = Random(seed)
        self.candidates = [
            Candidate(cluster, name, seed=seed, on_lost="campaign") for name in "abc"
        ]
        for candidate in self.candidates:
            candidate.work.every = 1.0
        self.stopped = []

    async def step(self):
        candidate = self.random.choice(self.candidates)
        match self.random.randrange(10):
            case 0:
                await self.delete_lease()
            case 1:
                await self.label_lease()
            case 2:
                pause(self.cluster, self.random.choice([1.0, 8.0, 20.0]))
            case 3 if len(self.stopped) < 1:
                self.stopped.append(candidate)
                await candidate.stop()
            case _:
                fault = self.random.choice(FAULTS)
                part = self.random.choice(["all", "lease", "others", "watch"])
                candidate.network.fault = about(fault, part)

    async def delete_lease(self):
        with suppress(NotFoundError):
            await self.cluster.client.delete(Lease, LEASE)

    async def label_lease(self):
        change = {"metadata": {"labels": {"step": str(self.random.randrange(100))}}}
        with suppress(NotFoundError):
            await self.cluster.client.patch(Lease, LEASE, change)

    def leaders(self):
        return [
            candidate.name
            for candidate in self.candidates
            if candidate.elector.leadership.seconds_left() > 0
        ]

    def terms(self):
        """Who wrote objects, in the order in which the server took them, by name and term."""
        names = [
            entry.name
            for entry in self.cluster.audit.entries
            if entry.verb == "create" and entry.resource == "configmaps" and entry.code == 201
        ]
        return [term for term, _ in groupby(name.rsplit("-", 1)[0] for name in names)]


async def watch_leaders(history, seen):
    while True:
        seen.append(history.leaders())
        await asyncio.sleep(0.2)


@pytest.mark.parametrize("seed", range(8))
async def test_never_two_lead_and_in_the_end_one_does(seed):
    async with election_cluster(seed=seed) as cluster:
        history = History(cluster, seed)
        seen: list[list[str]] = []
        async with AsyncExitStack() as stack:
            for candidate in history.candidates:
                await stack.enter_async_context(candidate.running())
            group = await stack.enter_async_context(asyncio.TaskGroup())
            watching = group.create_task(watch_leaders(history, seen))
            for _ in range(STEPS):
                await asyncio.sleep(history.random.uniform(0.1, 12))
                await history.step()
            for candidate in history.candidates:
                candidate.network.fault = about("ok", "all")
            healed = now()
            await asyncio.sleep(60)
            watching.cancel()

        assert max(map(len, seen)) == 1
        terms = history.terms()
        assert len(terms) == len(set(terms)), "a term wrote after another had begun"
        assert seen[-1]
        (leader,) = [c for c in history.candidates if c.name == seen[-1][0]]
        assert any(at > healed for at in leader.work.written)
        assert [c.failure for c in history.candidates] == [None, None, None]
