"""Random programs of declarations, definitions and namespaces: caches hold what is wanted."""

import asyncio
import contextlib
from collections import Counter
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from dynamo_operator.runtime.builtin_kinds import ConfigMap, CustomResourceDefinition, Namespace
from dynamo_operator.runtime.client.errors import ApiError
from dynamo_operator.runtime.manager import Manager
from dynamo_operator.testing.cluster import Cluster
from dynamo_operator.testing.virtual_time import run
from informers.events import Deleted
from informers.objects import ObjectKey
from tests.dynamo_operator.runtime.widgets import WIDGET_CRD, HeldWatches, Widget

NAMESPACES = ("one", "two")
KINDS: dict[str, Any] = {"widgets": Widget, "configmaps": ConfigMap}

STEPS = st.one_of(
    st.tuples(st.just("declare"), st.sampled_from([*KINDS]), st.booleans()),
    st.tuples(st.just("close"), st.integers(0, 5)),
    st.tuples(st.sampled_from(["define", "undefine", "start", "wait"])),
    st.tuples(st.sampled_from(["choose", "leave"]), st.sampled_from(NAMESPACES)),
    st.tuples(
        st.sampled_from(["create", "delete"]),
        st.sampled_from([*KINDS]),
        st.sampled_from(NAMESPACES),
    ),
)


class View:
    """What the handler of one declaration believes to be there."""

    def __init__(self, plural, declaration):
        self.plural, self.declaration = plural, declaration
        self.keys = set()
        declaration.add_handler(self.handle)

    def handle(self, event):
        if isinstance(event, Deleted):
            self.keys.discard(event.object.key)
        else:
            self.keys.add(event.object.key)


class Program:
    """Runs steps on a manager and knows what it then has to hold."""

    def __init__(self, cluster, manager, stack):
        self.cluster, self.manager, self.stack = cluster, manager, stack
        self.views: list[View] = []
        self.chosen: set[str] = set()
        self.running = False

    async def step(self, what, *arguments):
        with contextlib.suppress(ApiError):
            await getattr(self, what)(*arguments)

    async def declare(self, plural, metadata_only):
        declaration = self.manager.cache.declare(
            KINDS[plural], metadata_only=metadata_only, optional=plural == "widgets"
        )
        self.views.append(View(plural, declaration))

    async def close(self, index):
        if index < len(self.views):
            self.views.pop(index).declaration.close()

    async def start(self):
        if not self.running:
            self.running = True
            await self.stack.enter_async_context(self.manager.running())

    async def wait(self):
        await asyncio.sleep(1)

    async def define(self):
        await self.cluster.install(WIDGET_CRD)

    async def undefine(self):
        await self.cluster.client.delete(
            CustomResourceDefinition, ObjectKey("", "widgets.lab.test")
        )

    async def choose(self, namespace):
        await self._label(namespace, "a")
        self.chosen.add(namespace)

    async def leave(self, namespace):
        await self._label(namespace, None)
        self.chosen.discard(namespace)

    async def create(self, plural, namespace):
        await self.cluster.client.create(KINDS[plural].new("a", namespace=namespace))

    async def delete(self, plural, namespace):
        await self.cluster.client.delete(KINDS[plural], ObjectKey(namespace, "a"))

    async def check(self):
        await self.start()
        await asyncio.sleep(120)  # for whoever waits to try again
        for view in self.views:
            assert view.keys == await self._there(view.plural), view.plural
        wanted = {(v.plural, n) for v in self.views for n in self.chosen}
        defined = await self.cluster.client.list(CustomResourceDefinition)
        if not defined:
            wanted = {(plural, n) for plural, n in wanted if plural != "widgets"}
        held = Counter(
            (cache.scope.resource_type.plural, cache.scope.namespace)
            for cache in self.manager.cache
            if cache.scope.resource_type.plural in KINDS
        )
        assert held.keys() == wanted
        # Twice at most: of whole objects and of metadata.
        assert all(count <= 2 for count in held.values())

    async def _there(self, plural):
        try:
            found = await self.cluster.client.list(KINDS[plural])
        except ApiError:
            return set()
        return {obj.key for obj in found if obj.key.namespace in self.chosen}

    async def _label(self, namespace, value):
        patch = {"metadata": {"labels": {"lab/team": value}}}
        await self.cluster.client.patch(Namespace, ObjectKey("", namespace), patch)


FILLED = [("choose", "one"), ("create", "configmaps", "one"), ("start",), ("wait",)]


@example([("declare", "configmaps", False), *FILLED, ("leave", "one")])
@example([("declare", "configmaps", True), ("declare", "configmaps", False), *FILLED, ("close", 1)])
@example([*FILLED, ("declare", "configmaps", True), ("declare", "configmaps", False)])
@example(
    [
        *(("define",), ("choose", "two"), ("create", "widgets", "two"), ("start",)),
        *(("declare", "widgets", False), ("wait",), ("undefine",), ("wait",), ("define",)),
    ]
)
@settings(max_examples=15, deadline=None)
@given(st.lists(STEPS, max_size=25))
def test_caches_and_handlers_hold_what_is_wanted_after_any_changes(steps):
    async def play():
        async with Cluster.start() as cluster, contextlib.AsyncExitStack() as stack:
            for namespace in NAMESPACES:
                await cluster.client.create(Namespace.new(namespace))
            manager = Manager(
                HeldWatches(cluster).client,
                namespace_selector="lab/team=a",
                clock=cluster.clock,
                random=cluster.random,
            )
            program = Program(cluster, manager, stack)
            for step in steps:
                await program.step(*step)
            await program.check()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(play())
