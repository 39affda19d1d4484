import asyncio

import pytest

from informers.errors import SyncTimeoutError
from informers.events import Added, Deleted, ObjectEvent, Updated
from informers.transform import TransformedListWatch
from tests.informers.fake_cluster import WIDGETS, FakeCluster, running

pytestmark = pytest.mark.virtual_time


async def test_objects_are_changed_once_each_before_store_and_handlers_see_them():
    changed: list[str] = []

    def strip(obj):
        changed.append(f"{obj.key.name} {obj.resource_version}")
        return obj._replace(data=b"")

    cluster = FakeCluster(watch_list=True)
    cluster.put("a", data=b"long")
    told: list[ObjectEvent] = []

    async with running(TransformedListWatch(cluster, strip), resync_seconds=20) as informer:
        informer.add_handler(told.append)
        await informer.wait_synced(1)
        cluster.put("a", data=b"longer")
        await asyncio.sleep(25)
        assert informer.resource_type is WIDGETS
        assert informer.lister.data_bytes == 0

    assert {event.object.data for event in told} == {b""}
    assert [type(event) for event in told] == [Added, Updated, Updated]
    assert changed == ["a 11", "a 12"]


async def test_a_tombstone_shows_what_was_kept():
    cluster = FakeCluster()
    cluster.put("a", data=b"long")
    told: list[ObjectEvent] = []
    short = TransformedListWatch(cluster, lambda obj: obj._replace(data=b"short"))

    async with running(short, use_watch_list=False) as informer:
        informer.add_handler(told.append)
        await informer.wait_synced(1)
        cluster.break_streams()
        cluster.remove("a")
        cluster.compact()
        await asyncio.sleep(10)

    gone = told[-1]
    assert isinstance(gone, Deleted)
    assert gone.final_state_unknown
    assert gone.object.data == b"short"


async def test_a_transform_that_raises_is_the_informers_error():
    def fails(obj):
        raise ValueError(f"no idea what {obj.key} is")

    cluster = FakeCluster()
    cluster.put("a")

    async with running(TransformedListWatch(cluster, fails)) as informer:
        with pytest.raises(SyncTimeoutError, match="no idea what ns/a is"):
            await informer.wait_synced(60)
