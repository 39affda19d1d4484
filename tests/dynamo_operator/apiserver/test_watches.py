import asyncio

import pytest

from tests.dynamo_operator.apiserver.api import CONFIG_MAPS, CORE, Api, Json, config_map

pytestmark = pytest.mark.virtual_time

WATCH_LIST = {
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": "true",
}


def labelled(name: str, **labels: str) -> Json:
    body = config_map(name)
    body["metadata"]["labels"] = labels
    return body


async def test_a_watch_delivers_what_happens_after_its_version():
    api = Api()
    made = await api.create(CONFIG_MAPS, config_map("a"))
    await api.create(CONFIG_MAPS, config_map("b"))

    events = await api.watch(CONFIG_MAPS, resourceVersion=made.version)
    await api.merge(f"{CONFIG_MAPS}/a", {"data": {"x": "1"}})
    await api.delete(f"{CONFIG_MAPS}/b")

    assert await events.take(3) == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]
    await events.close()


async def test_a_deletion_carries_the_last_state_at_the_version_of_the_deletion():
    api = Api()
    made = await api.create(CONFIG_MAPS, config_map("a", x="1"))
    events = await api.watch(CONFIG_MAPS, resourceVersion=made.version)

    await api.delete(f"{CONFIG_MAPS}/a")

    event = await events.next()
    assert event["object"]["data"] == {"x": "1"}
    assert int(event["object"]["metadata"]["resourceVersion"]) == int(made.version) + 1
    await events.close()


@pytest.mark.parametrize("version", ["", "0"], ids=["unset", "zero"])
async def test_a_watch_without_a_version_begins_with_what_there_is(version):
    api = Api()
    await api.create(CONFIG_MAPS, config_map("b"))
    await api.create(CONFIG_MAPS, config_map("a"))

    events = await api.watch(CONFIG_MAPS, resourceVersion=version)
    await api.create(CONFIG_MAPS, config_map("c"))

    assert await events.take(3) == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]
    await events.close()


async def test_a_watch_list_marks_the_end_of_the_initial_events():
    api = Api()
    made = await api.create(CONFIG_MAPS, config_map("a"))

    events = await api.watch(CONFIG_MAPS, **WATCH_LIST)

    first, end = await events.next(), await events.next()
    assert (first["type"], end["type"]) == ("ADDED", "BOOKMARK")
    assert end["object"]["kind"] == "ConfigMap"
    assert end["object"]["metadata"]["resourceVersion"] == made.version
    assert end["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    await events.close()


async def test_a_watch_list_of_nothing_ends_its_initial_events_too():
    events = await Api().watch(CONFIG_MAPS, **WATCH_LIST)

    assert (await events.next())["type"] == "BOOKMARK"
    await events.close()


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"sendInitialEvents": "true"}, "requires setting resourceVersionMatch to NotOlderThan"),
        (
            {"resourceVersionMatch": "NotOlderThan", "resourceVersion": "1"},
            "forbidden for watch unless sendInitialEvents is provided",
        ),
    ],
    ids=["no-match", "match-alone"],
)
async def test_watch_options_that_contradict_each_other_are_refused(query, text):
    answer = await Api().get(CONFIG_MAPS, watch="1", **query)

    assert answer.status == 422
    assert text in answer.message


async def test_a_compacted_version_is_an_expired_event_in_the_stream():
    api = Api()
    made = await api.create(CONFIG_MAPS, config_map("a"))
    for _ in range(3):
        await api.merge(f"{CONFIG_MAPS}/a", {"data": {"n": str(_)}})
    storage = api.server.storage
    storage.compact(storage.resource_version - 1)

    events = await api.watch(CONFIG_MAPS, resourceVersion=made.version)
    (event,) = await events.rest()

    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
    oldest = storage.compacted_version
    assert event["object"]["message"] == f"too old resource version: {made.version} ({oldest})"


async def test_a_reader_that_falls_behind_the_compaction_is_told():
    api = Api()
    events = await api.watch(CONFIG_MAPS)
    for name in "abc":
        await api.create(CONFIG_MAPS, config_map(name))

    api.server.storage.compact(api.server.storage.resource_version)

    (event,) = await events.rest()
    assert event["object"]["code"] == 410


async def test_an_idle_watch_survives_a_compaction_that_lost_it_nothing():
    api = Api()
    events = await api.watch(CONFIG_MAPS)
    await api.create(CONFIG_MAPS, config_map("a"))
    await events.take(1)

    for name in "xyz":
        await api.create(f"{CORE}/namespaces", {"metadata": {"name": name}})
    api.server.storage.compact(api.server.storage.resource_version)
    await api.create(CONFIG_MAPS, config_map("b"))

    assert await events.take(1) == [("ADDED", "b")]
    await events.close()


async def test_the_history_is_compacted_by_itself_in_steps():
    api = Api(history_limit=40)
    for index in range(200):
        await api.create(CONFIG_MAPS, config_map(f"c{index}"))

    storage = api.server.storage
    assert 40 <= storage.resource_version - storage.compacted_version <= 50


async def test_a_watch_from_the_future_begins_there():
    api = Api()
    current = api.server.storage.resource_version
    events = await api.watch(CONFIG_MAPS, resourceVersion=str(current + 1))

    await api.create(CONFIG_MAPS, config_map("a"))
    await api.create(CONFIG_MAPS, config_map("b"))

    assert await events.take(1) == [("ADDED", "b")]
    await events.close()


async def test_objects_enter_and_leave_a_selector():
    api = Api()
    events = await api.watch(CONFIG_MAPS, labelSelector="on=yes")

    await api.create(CONFIG_MAPS, labelled("a", on="no"))
    entered = await api.merge(f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"on": "yes"}}})
    await api.merge(f"{CONFIG_MAPS}/a", {"data": {"x": "1"}})
    left = await api.merge(f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"on": None}}})
    await api.merge(f"{CONFIG_MAPS}/a", {"data": {"x": "2"}})
    await api.create(CONFIG_MAPS, labelled("b", on="yes"))

    added, modified, deleted, other = [await events.next() for _ in range(4)]
    assert (added["type"], added["object"]["metadata"]["resourceVersion"]) == (
        "ADDED",
        entered.version,
    )
    assert modified["type"] == "MODIFIED"
    assert deleted["type"] == "DELETED"
    assert deleted["object"]["metadata"]["labels"] == {"on": "yes"}
    assert deleted["object"]["metadata"]["resourceVersion"] == left.version
    assert (other["type"], other["object"]["metadata"]["name"]) == ("ADDED", "b")
    await events.close()


async def test_a_watch_of_one_name_sees_only_that():
    api = Api()
    events = await api.watch(CONFIG_MAPS, fieldSelector="metadata.name=b")

    await api.create(CONFIG_MAPS, config_map("a"))
    await api.create(CONFIG_MAPS, config_map("b"))

    assert await events.take(1) == [("ADDED", "b")]
    await events.close()


async def test_bookmarks_come_every_minute_and_before_the_end_when_asked_for():
    api = Api()
    start = asyncio.get_running_loop().time()
    events = await api.watch(CONFIG_MAPS, timeoutSeconds="90", allowWatchBookmarks="true")
    await api.create(f"{CORE}/namespaces", {"metadata": {"name": "elsewhere"}})

    bookmarks = await events.rest()

    assert [event["type"] for event in bookmarks] == ["BOOKMARK", "BOOKMARK"]
    version = str(api.server.storage.resource_version)
    assert bookmarks[0]["object"]["metadata"]["resourceVersion"] == version
    assert asyncio.get_running_loop().time() - start == pytest.approx(90)


async def test_no_bookmarks_come_unasked():
    events = await Api().watch(CONFIG_MAPS, timeoutSeconds="300")

    assert await events.rest() == []


async def test_a_watch_without_a_timeout_ends_between_half_an_hour_and_an_hour():
    events = await Api().watch(CONFIG_MAPS)
    start = asyncio.get_running_loop().time()

    await events.rest()

    assert 1800 <= asyncio.get_running_loop().time() - start <= 3600


async def test_closing_the_server_ends_every_watch():
    api = Api()
    events = await api.watch(CONFIG_MAPS)

    async with asyncio.TaskGroup() as group:
        rest = group.create_task(events.rest())
        await asyncio.sleep(0)
        api.server.close()

    assert rest.result() == []


async def test_a_watch_can_be_a_table_whose_first_event_alone_has_the_columns():
    api = Api()
    events = await api.watch(CONFIG_MAPS, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    await api.create(CONFIG_MAPS, config_map("a"))
    await api.create(CONFIG_MAPS, config_map("b"))

    first, second = await events.next(), await events.next()

    assert [c["name"] for c in first["object"]["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert second["object"]["columnDefinitions"] == []
    assert second["object"]["rows"][0]["cells"][0] == "b"
    await events.close()


async def test_a_watch_can_be_only_metadata():
    api = Api()
    accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    events = await api.watch(CONFIG_MAPS, accept=accept)
    await api.create(CONFIG_MAPS, config_map("a", x="1"))

    event = await events.next()

    assert event["object"]["kind"] == "PartialObjectMetadata"
    assert "data" not in event["object"]
    await events.close()
