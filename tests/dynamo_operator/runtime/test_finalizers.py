import json

import pytest

from dynamo_operator.runtime.builtin_kinds import ConfigMap
from dynamo_operator.runtime.client import Client, ConflictError, NotFoundError
from dynamo_operator.runtime.finalizers import ensure_finalizer, finalize, remove_finalizer
from dynamo_operator.testing.cluster import Cluster
from dynamo_operator.testing.virtual_time import VirtualClock
from informers.objects import ObjectKey
from tests.dynamo_operator.runtime.client.scripted_transport import (
    ScriptedTransport,
    answer,
    refusal,
)

pytestmark = pytest.mark.virtual_time

MINE = "lab.test/mine"


def stored(*finalizers, version="7", uid="u"):
    return {
        "metadata": {
            "name": "a",
            "namespace": "lab",
            "uid": uid,
            "resourceVersion": version,
            "finalizers": list(finalizers),
        }
    }


def model(*finalizers, **fields):
    return ConfigMap.model_validate(stored(*finalizers, **fields))


def client_on(*steps):
    transport = ScriptedTransport(*steps)
    return transport, Client.over(transport, clock=VirtualClock())


def written(transport):
    return [
        json.loads(request.body or b"")["metadata"]
        for request in transport.requests
        if request.method == "PATCH"
    ]


async def test_a_finalizer_is_added_over_the_version_that_was_read():
    transport, client = client_on(answer(200, stored("other", MINE, version="8")))

    found = await ensure_finalizer(client, model("other"), MINE)

    assert found.resource_version == "8"
    assert written(transport) == [
        {"uid": "u", "resourceVersion": "7", "finalizers": ["other", MINE]}
    ]


async def test_a_finalizer_that_is_there_costs_nothing():
    transport, client = client_on(answer())

    await ensure_finalizer(client, model(MINE), MINE)
    await remove_finalizer(client, model("other"), MINE)

    assert transport.requests == []


async def test_a_conflict_is_settled_on_the_newer_version_without_losing_others():
    transport, client = client_on(
        refusal(409, "Conflict"),
        answer(200, stored(MINE, "new", version="9")),
        answer(200, stored("new", version="10")),
    )

    await remove_finalizer(client, model(MINE), MINE)

    assert written(transport)[-1] == {"uid": "u", "resourceVersion": "9", "finalizers": ["new"]}


async def test_another_writer_that_added_it_meanwhile_is_enough():
    _, client = client_on(refusal(409, "Conflict"), answer(200, stored(MINE, version="9")))

    assert (await ensure_finalizer(client, model(), MINE)).resource_version == "9"


async def test_a_namesake_is_never_touched():
    transport, client = client_on(refusal(409, "Conflict"), answer(200, stored(MINE, uid="new")))

    await remove_finalizer(client, model(MINE), MINE)
    assert len(written(transport)) == 1

    _, client = client_on(refusal(409, "Conflict"), answer(200, stored(uid="new")))
    with pytest.raises(NotFoundError, match="another instance"):
        await ensure_finalizer(client, model(), MINE)


async def test_an_object_that_is_gone_needs_no_removal():
    transport, client = client_on(refusal(404, "NotFound"))

    await remove_finalizer(client, model(MINE), MINE)

    assert len(transport.requests) == 1


async def test_endless_conflicts_end():
    def serve(request):
        return refusal(409, "Conflict") if request.method == "PATCH" else answer(200, stored(MINE))

    transport, client = client_on(serve)

    with pytest.raises(ConflictError):
        await remove_finalizer(client, model(MINE), MINE)
    assert len(written(transport)) == 5


class Cleanups:
    def __init__(self, *failing):
        self.failing = failing
        self.ran: list[str] = []

    def of(self, *finalizers):
        return {name: self._cleanup(name) for name in finalizers}

    def _cleanup(self, finalizer):
        async def clean(obj):
            self.ran.append(finalizer)
            if finalizer in self.failing:
                raise OSError(f"{finalizer} is busy")

        return clean


@pytest.fixture
async def cluster():
    async with Cluster.start() as cluster:
        yield cluster


KEY = ObjectKey("default", "a")


async def test_an_object_that_lives_gets_every_finalizer_and_nothing_is_cleaned_up(cluster):
    cleanups = Cleanups()
    made = await cluster.client.create(ConfigMap.new("a", namespace="default"))

    kept = await finalize(cluster.client, made, cleanups.of("lab.test/a", "lab.test/b"))

    assert kept is not None
    assert kept.metadata.finalizers == ["lab.test/a", "lab.test/b"]
    assert cleanups.ran == []


async def test_cleanups_run_when_it_is_deleted_and_let_it_go(cluster):
    cleanups = Cleanups()
    made = await cluster.client.create(ConfigMap.new("a", namespace="default"))
    both = cleanups.of("lab.test/a", "lab.test/b")
    await finalize(cluster.client, made, both)
    await cluster.client.delete(ConfigMap, KEY)

    deleting = await cluster.client.get(ConfigMap, KEY)
    assert await finalize(cluster.client, deleting, both) is None

    assert cleanups.ran == ["lab.test/a", "lab.test/b"]
    assert await cluster.client.find(ConfigMap, KEY) is None


async def test_a_cleanup_that_fails_keeps_its_finalizer_and_stops_no_other(cluster):
    cleanups = Cleanups("lab.test/a")
    made = await cluster.client.create(ConfigMap.new("a", namespace="default"))
    both = cleanups.of("lab.test/a", "lab.test/b")
    await finalize(cluster.client, made, both)
    await cluster.client.delete(ConfigMap, KEY)

    deleting = await cluster.client.get(ConfigMap, KEY)
    with pytest.raises(ExceptionGroup, match="default/a: not cleaned up") as failed:
        await finalize(cluster.client, deleting, both)

    assert [str(error) for error in failed.value.exceptions] == ["lab.test/a is busy"]
    left = await cluster.client.get(ConfigMap, KEY)
    assert left.metadata.finalizers == ["lab.test/a"]
