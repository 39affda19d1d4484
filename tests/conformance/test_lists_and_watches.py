"""What informers rely on when they list and watch."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio

from dynamo_operator.runtime.builtin_kinds import ConfigMap
from dynamo_operator.runtime.client.errors import ApiError, GoneError, InvalidError
from informers.events import Deleted, ObjectEvent
from informers.objects import ObjectKey
from informers.shared_informer import SharedInformer

pytestmark = pytest.mark.asyncio(loop_scope="session")

WATCH_LIST = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
PATIENCE_SECONDS = 20.0


OURS = {"made-by": "the-test"}  # the cluster's own controllers make a ConfigMap here, too


def config_map(name, namespace, labels=None, **data):
    return ConfigMap.new(name, namespace=namespace, labels={**OURS, **(labels or {})}, data=data)


class Watch:
    """The events of one watch, as they arrive."""

    def __init__(self, chunks):
        self._chunks = chunks
        self._rest = b""

    async def any(self):
        async with asyncio.timeout(PATIENCE_SECONDS):
            while b"\n" not in self._rest:
                self._rest += await anext(self._chunks)
        line, self._rest = self._rest.split(b"\n", 1)
        return json.loads(line)

    async def next(self):
        """The next event that is no bookmark: those come when the server likes."""
        while (event := await self.any())["type"] == "BOOKMARK":
            pass
        return event

    async def take(self, count):
        return [short(await self.next()) for _ in range(count)]


def short(event):
    return event["type"], event["object"]["metadata"].get("name", "")


@asynccontextmanager
async def watch(cluster, namespace, **query):
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    query = {"labelSelector": "made-by=the-test", **query}
    parameters = [("watch", "true"), ("allowWatchBookmarks", "true"), *query.items()]
    async with cluster.client.stream("GET", path, query=parameters) as chunks:
        yield Watch(aiter(chunks))


async def get_list(cluster, namespace, **query):
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    response = await cluster.client.request("GET", path, query=list(query.items()))
    return json.loads(response.body)


def names(page):
    return [item["metadata"]["name"] for item in page["items"]]


async def fill(cluster, namespace, count=5):
    return [
        await cluster.client.create(config_map(f"c{index}", namespace)) for index in range(count)
    ]


async def test_a_watch_tells_what_happened_since_its_version_in_order(cluster, namespace):
    first = await cluster.client.create(config_map("a", namespace))
    await cluster.client.patch(ConfigMap, first.key, {"data": {"x": "1"}})
    await cluster.client.delete(ConfigMap, first.key)
    await cluster.client.create(config_map("b", namespace))

    async with watch(cluster, namespace, resourceVersion=first.resource_version) as events:
        told = [await events.next() for _ in range(3)]

    assert [short(event) for event in told] == [("MODIFIED", "a"), ("DELETED", "a"), ("ADDED", "b")]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in told]
    assert versions == sorted(set(versions))
    assert told[1]["object"]["data"] == {"x": "1"}


async def test_a_watch_list_ends_its_beginning_with_a_bookmark(cluster, namespace):
    *_, last = await fill(cluster, namespace, 2)

    async with watch(cluster, namespace, **WATCH_LIST) as events:
        assert await events.take(2) == [("ADDED", "c0"), ("ADDED", "c1")]
        end = await events.any()
        await cluster.client.create(config_map("later", namespace))
        assert await events.take(1) == [("ADDED", "later")]

    metadata = end["object"]["metadata"]
    assert (end["type"], end["object"]["kind"]) == ("BOOKMARK", "ConfigMap")
    assert metadata["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(metadata["resourceVersion"]) >= int(last.resource_version)


async def test_an_object_that_leaves_a_selection_is_deleted_for_its_watchers(cluster, namespace):
    made = await cluster.client.create(config_map("a", namespace, {"team": "red"}, x="1"))
    async with watch(
        cluster, namespace, labelSelector="team=red", resourceVersion=made.resource_version
    ) as events:
        await cluster.client.patch(
            ConfigMap, made.key, {"metadata": {"labels": {"team": "blue"}}, "data": {"x": "2"}}
        )
        gone = await events.next()
        await cluster.client.patch(ConfigMap, made.key, {"metadata": {"labels": {"team": "red"}}})
        back = await events.next()

    assert (gone["type"], gone["object"]["metadata"]["labels"]) == (
        "DELETED",
        {**OURS, "team": "red"},
    )
    assert gone["object"]["data"] == {"x": "1"}
    assert int(gone["object"]["metadata"]["resourceVersion"]) > int(made.resource_version)
    assert (back["type"], back["object"]["data"]) == ("ADDED", {"x": "2"})


async def test_pages_are_of_one_moment(cluster, namespace):
    await fill(cluster, namespace)
    first = await get_list(cluster, namespace, limit="2")
    await cluster.client.delete(ConfigMap, ObjectKey(namespace, "c3"))
    await cluster.client.create(config_map("c2b", namespace))

    rest = await get_list(
        cluster, namespace, limit="10", **{"continue": first["metadata"]["continue"]}
    )

    ours = [name for name in names(first) + names(rest) if name.startswith("c")]
    assert ours == ["c0", "c1", "c2", "c3", "c4"]
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_a_list_at_an_exact_version_shows_that_moment(cluster, namespace):
    made = await fill(cluster, namespace, 3)
    await cluster.client.delete(ConfigMap, made[0].key)

    then = await get_list(
        cluster,
        namespace,
        resourceVersion=made[-1].resource_version,
        resourceVersionMatch="Exact",
    )

    assert [name for name in names(then) if name.startswith("c")] == ["c0", "c1", "c2"]
    assert then["metadata"]["resourceVersion"] == made[-1].resource_version


async def test_a_version_that_is_still_to_come_is_refused_after_a_while(cluster, namespace):
    with pytest.raises(ApiError) as error:
        await cluster.client.request(
            "GET",
            f"/api/v1/namespaces/{namespace}/configmaps",
            query=[("resourceVersion", str(2**40))],
        )

    assert (error.value.code, error.value.reason) == (504, "Timeout")
    assert "Too large resource version" in error.value.message
    causes = {cause["reason"] for cause in error.value.details["causes"]}
    assert causes == {"ResourceVersionTooLarge"}


@pytest.mark.parametrize(
    "query",
    [
        {"watch": "true", "sendInitialEvents": "true"},
        {"watch": "true", "resourceVersionMatch": "NotOlderThan", "resourceVersion": "1"},
        {"resourceVersionMatch": "Exact"},
        {"resourceVersionMatch": "Exact", "resourceVersion": "0"},
        {"resourceVersionMatch": "Near", "resourceVersion": "1"},
        {"sendInitialEvents": "true"},
    ],
    ids=["no match", "match alone", "exactly nothing", "exactly zero", "near", "not a watch"],
)
async def test_options_that_contradict_each_other_are_refused(cluster, namespace, query):
    with pytest.raises(InvalidError):
        await get_list(cluster, namespace, **query)


@pytest_asyncio.fixture(loop_scope="session")
async def forget_history(cluster):
    """Makes every version until now expired."""
    if not cluster.has_own_server:
        pytest.skip("the history of a cluster that was there before is not ours to compact")
    return cluster.forget_history


async def test_history_that_is_gone_is_told_in_the_stream(cluster, namespace, forget_history):
    made = await cluster.client.create(config_map("a", namespace))
    await fill(cluster, namespace, 2)
    await forget_history()

    async with watch(cluster, namespace, resourceVersion=made.resource_version) as events:
        event = await events.next()

    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")


async def test_pages_whose_moment_is_gone_are_refused_with_a_way_on(
    cluster, namespace, forget_history
):
    await fill(cluster, namespace)
    first = await get_list(cluster, namespace, limit="2")
    await cluster.client.delete(ConfigMap, ObjectKey(namespace, "c1"))
    await forget_history()

    with pytest.raises(GoneError) as error:
        await get_list(cluster, namespace, limit="9", **{"continue": first["metadata"]["continue"]})

    assert error.value.reason == "Expired"


async def test_an_informer_comes_through_the_loss_of_history(cluster, namespace, forget_history):
    await fill(cluster, namespace, 3)
    told: list[ObjectEvent] = []
    informer = SharedInformer(cluster.client.list_watch(ConfigMap, namespace=namespace))
    informer.add_handler(told.append)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(informer.run())
        await informer.wait_synced()
        await forget_history()
        await cluster.client.delete(ConfigMap, ObjectKey(namespace, "c1"))
        await cluster.client.create(config_map("new", namespace))
        await cluster.eventually(
            lambda: {key.name for key in informer.lister.keys() if key.name != "kube-root-ca.crt"},  # noqa: SIM118 - a method of the lister
            lambda found: found == {"c0", "c2", "new"},
            timeout=PATIENCE_SECONDS,
        )
        running.cancel()

    deleted = [event.object.key.name for event in told if isinstance(event, Deleted)]
    assert deleted == ["c1"]


async def test_a_metadata_only_watch_sends_metadata_only(cluster, namespace):
    made = await cluster.client.create(config_map("a", namespace, x="1"))
    # By its name: the namespace gets a ConfigMap of the cluster's authority about now.
    list_watch = cluster.client.list_watch(
        ConfigMap, namespace=namespace, fields={"metadata.name": "a"}, metadata_only=True
    )

    page = await list_watch.list()
    async with list_watch.watch(
        resource_version=page.resource_version, timeout_seconds=60
    ) as batches:
        await cluster.client.patch(ConfigMap, made.key, {"data": {"x": "2"}})
        (event,) = await anext(batches)

    assert event.object.key == made.key
    assert [item.key.name for item in page.items] == ["a"]
