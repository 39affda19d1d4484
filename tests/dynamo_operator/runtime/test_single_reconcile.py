import pytest

from dynamo_operator.runtime.builtin_kinds import ConfigMap, Event
from dynamo_operator.runtime.cached_reader import CachedRead
from dynamo_operator.runtime.controller import Controller
from dynamo_operator.runtime.manager import Manager
from dynamo_operator.runtime.reconciler import Result
from dynamo_operator.runtime.single_reconcile import prepared
from informers.indexers import BY_OWNER_UID
from tests.dynamo_operator.runtime.widgets import Widget, key, widget, widget_cluster

pytestmark = pytest.mark.virtual_time


class Reads:
    """Reads its widget and what it owns, tells of it, and asks for another look."""

    def __init__(self, manager):
        self.manager = manager
        self.seen = []

    async def reconcile(self, key):
        self.seen.append(key)
        reader = self.manager.reader
        found = await reader.get(Widget, key)
        await reader.find(ConfigMap, key)
        await reader.by_index(ConfigMap, BY_OWNER_UID, found.uid)
        await reader.list(Widget, namespace=key.namespace)
        self.manager.events.record(found, reason="Looked", action="Look")
        return Result.requeue(after=7)


@pytest.fixture
async def cluster():
    async with widget_cluster() as cluster:
        for name in ("a", "b"):
            await cluster.client.create(widget(name))
        yield cluster


@pytest.fixture
def manager(cluster):
    return Manager(cluster.client, clock=cluster.clock, random=cluster.random)


async def test_one_key_is_reconciled_on_filled_caches_and_no_other(cluster, manager):
    reconciler = Reads(manager)
    controller = manager.add(Controller(Widget, owns=[ConfigMap], reconciler=reconciler))

    async with prepared(manager, controller):
        result = await controller.reconcile(key("a"))

    assert result == Result.requeue(after=7)
    assert reconciler.seen == [key("a")]
    (event,) = await cluster.client.list(Event)
    assert (event.reason, event.regarding["name"]) == ("Looked", "a")


async def test_every_cached_read_is_told(cluster, manager):
    controller = manager.add(Controller(Widget, owns=[ConfigMap], reconciler=Reads(manager)))
    told: list[CachedRead] = []
    manager.reader.observe(told.append)

    async with prepared(manager, controller):
        await controller.reconcile(key("a"))

    uid = (await cluster.client.get(Widget, key("a"))).uid
    assert [(read.resource_type.kind, read.wanted, list(read.found)) for read in told] == [
        ("Widget", "default/a", [key("a")]),
        ("ConfigMap", "default/a", []),
        ("ConfigMap", f"in all namespaces, owner-uid={uid}", []),
        ("Widget", "in default", [key("a"), key("b")]),
    ]


async def test_what_the_reconciler_raises_is_raised(manager):
    class Fails:
        async def reconcile(self, key):
            raise OSError(f"no {key}")

    controller = manager.add(Controller(Widget, reconciler=Fails()))

    with pytest.raises(OSError, match="no default/a"):
        async with prepared(manager, controller):
            await controller.reconcile(key("a"))
