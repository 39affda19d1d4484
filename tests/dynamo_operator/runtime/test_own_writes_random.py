"""Random programs of writes, held watches and reads: no read is older than an own write."""

import asyncio
import contextlib

from hypothesis import example, given, settings
from hypothesis import strategies as st

from dynamo_operator.runtime.builtin_kinds import ConfigMap
from dynamo_operator.runtime.client.errors import (
    AlreadyExistsError,
    NotFoundError,
    UnknownOutcomeError,
)
from dynamo_operator.runtime.controller import Controller
from dynamo_operator.runtime.reconciler import Result
from dynamo_operator.testing.cluster import Cluster
from dynamo_operator.testing.virtual_time import run
from tests.dynamo_operator.runtime.widgets import HeldWatches, key

STEPS = st.one_of(
    st.tuples(
        st.sampled_from(["create", "patch", "delete", "foreign-create", "foreign-delete"]),
        st.sampled_from("ab"),
    ),
    st.tuples(
        st.sampled_from(["unanswered-create", "unanswered-patch", "unanswered-delete"]),
        st.sampled_from("ab"),
    ),
    st.tuples(st.sampled_from(["get", "list"]), st.sampled_from("ab")),
    st.tuples(st.sampled_from(["hold", "release", "wait", "cut"]), st.just("")),
)


class Idle:
    async def reconcile(self, key):
        return Result.done()


class Program:
    """Runs steps and knows, for each name, what an own read must at least show."""

    def __init__(self, cluster, transport, manager):
        self.cluster, self.transport, self.manager = cluster, transport, manager
        self.least = {}
        self.own_deleted = set()
        self.may_be_gone = {"a", "b"}

    async def step(self, what, name):
        with contextlib.suppress(AlreadyExistsError, NotFoundError):
            await getattr(self, what.replace("-", "_"))(name)

    async def create(self, name):
        made = await self.manager.client.create(ConfigMap.new(name, namespace="default"))
        self.least[name] = int(made.resource_version)
        self.may_be_gone.discard(name)

    async def patch(self, name):
        text = str(self.least.get(name, 0))
        made = await self.manager.client.patch(ConfigMap, key(name), {"data": {"x": text}})
        self.least[name] = int(made.resource_version)
        self.may_be_gone.discard(name)

    async def delete(self, name):
        found = await self.cluster.client.get(ConfigMap, key(name))
        await self.manager.client.delete(ConfigMap, key(name))
        self.own_deleted.add(found.uid)
        self.may_be_gone.add(name)

    async def unanswered_create(self, name):
        await self._unanswered("POST", self.create(name), name)

    async def unanswered_patch(self, name):
        await self._unanswered("PATCH", self.patch(name), name)

    async def unanswered_delete(self, name):
        await self._unanswered("DELETE", self.delete(name), name)

    async def _unanswered(self, method, write, name):
        before = await self.cluster.client.find(ConfigMap, key(name))
        self.transport.loses.append(method)
        try:
            await write
        except UnknownOutcomeError:
            there = await self.cluster.client.find(ConfigMap, key(name))
            if there is None:
                self.may_be_gone.add(name)
                self.own_deleted.update([before.uid] if before else [])
            else:
                self.least[name] = int(there.resource_version)
                self.may_be_gone.discard(name)
        finally:
            self.transport.loses.clear()

    async def foreign_create(self, name):
        await self.cluster.client.create(ConfigMap.new(name, namespace="default"))

    async def foreign_delete(self, name):
        await self.cluster.client.delete(ConfigMap, key(name))
        self.may_be_gone.add(name)

    async def get(self, name):
        self.check(name, await self.manager.reader.find(ConfigMap, key(name)))

    async def list(self, name):
        found = await self.manager.reader.list(ConfigMap, namespace="default")
        by_name = {config_map.key.name: config_map for config_map in found}
        for listed in "ab":
            self.check(listed, by_name.get(listed))

    async def hold(self, _):
        self.transport.hold()

    async def release(self, _):
        self.transport.release()

    async def wait(self, _):
        await asyncio.sleep(1)

    async def cut(self, _):
        self.cluster.server.close()

    def check(self, name, found):
        if found is None:
            assert name in self.may_be_gone
        else:
            assert int(found.resource_version) >= self.least.get(name, 0)
            assert found.uid not in self.own_deleted


@example(steps=[("hold", ""), ("unanswered-create", "a"), ("get", "a")])
@example(
    steps=[("create", "a"), ("get", "a"), ("hold", ""), ("unanswered-patch", "a"), ("list", "")]
)
@example(
    steps=[("create", "a"), ("get", "a"), ("hold", ""), ("unanswered-delete", "a"), ("get", "a")]
)
@given(steps=st.lists(STEPS, max_size=25))
@settings(max_examples=60, deadline=None)
def test_a_read_is_never_older_than_an_own_write(steps):
    async def program():
        async with Cluster.start() as cluster:
            transport = HeldWatches(cluster, "configmaps")
            controller = Controller(ConfigMap, reconciler=Idle())
            async with cluster.manager(controller, client=transport.client) as manager:
                running = Program(cluster, transport, manager)
                for what, name in steps:
                    await running.step(what, name)
                transport.release()
                await asyncio.sleep(120)
                for name in "ab":
                    truth = await cluster.client.find(ConfigMap, key(name))
                    shown = await manager.reader.find(ConfigMap, key(name))
                    assert (truth and truth.resource_version) == (shown and shown.resource_version)

    run(program())
