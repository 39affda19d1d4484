import asyncio
import subprocess
import sys

import pytest

from dynamo_operator.runtime.builtin_kinds import ConfigMap, Namespace, Pod
from dynamo_operator.runtime.client.errors import ForbiddenError, NotFoundError
from dynamo_operator.runtime.controller import Controller
from dynamo_operator.runtime.reconciler import Result
from dynamo_operator.testing import Cluster, eventually
from dynamo_operator.testing.virtual_time import START
from informers.objects import ObjectKey

KEY = ObjectKey("default", "a")


class Doubler:
    """Keeps `double` twice the `size` of a ConfigMap."""

    def __init__(self, reader, client):
        self.reader, self.client = reader, client

    async def reconcile(self, key):
        found = await self.reader.find(ConfigMap, key)
        if found is not None and "size" in found.data:
            double = str(2 * int(found.data["size"]))
            if found.data.get("double") != double:
                await self.client.patch(ConfigMap, key, {"data": {"double": double}})
        return Result.done()


async def double_a_size(cluster):
    async with cluster.manager(Controller(ConfigMap, reconciler=Doubler)):
        await cluster.client.create(ConfigMap.new("a", namespace="default", data={"size": "2"}))
        found = await cluster.eventually(
            lambda: cluster.client.get(ConfigMap, KEY), lambda c: "double" in c.data
        )
    return found.data["double"]


@pytest.mark.parametrize("mode", ["in_process", "http"])
async def test_a_controller_works_in_either_mode(mode):
    async with Cluster.start(mode=mode) as cluster:
        assert await double_a_size(cluster) == "4"
        writes = cluster.audit.writes(user="admin")

    assert [write.verb for write in writes] == ["create", "patch"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.virtual_time
async def test_on_a_virtual_loop_the_clusters_time_is_virtual():
    async with Cluster.start() as cluster:
        assert cluster.clock.now() == START
        assert await double_a_size(cluster) == "4"
        found = await cluster.client.get(ConfigMap, KEY)

    assert found.metadata.creation_timestamp == "2030-01-01T00:00:00Z"


@pytest.mark.virtual_time
async def test_the_same_seed_gives_the_same_cluster():
    async def uid():
        async with Cluster.start(seed=7) as cluster:
            await double_a_size(cluster)
            return (await cluster.client.get(ConfigMap, KEY)).uid

    assert await uid() == await uid()


@pytest.mark.parametrize("mode", ["in_process", "http"])
async def test_another_user_may_do_only_what_is_granted(mode):
    async with Cluster.start(mode=mode) as cluster:
        with pytest.raises(ForbiddenError, match="somebody"):
            await cluster.client_of("somebody").get(ConfigMap, KEY)


@pytest.mark.virtual_time
async def test_the_controllers_of_a_real_cluster_run_when_asked_for():
    async with Cluster.start(controllers=["gc", "namespaces"]) as cluster:
        parent = await cluster.client.create(ConfigMap.new("parent", namespace="default"))
        await cluster.client.create(ConfigMap.new("child", namespace="default"), owner=parent)
        await cluster.client.delete(ConfigMap, parent.key)

        async def children():
            found = await cluster.client.list(ConfigMap, namespace="default")
            return [c.key.name for c in found if c.key.name == "child"]

        await cluster.eventually(children, lambda found: not found, timeout=60)
        await cluster.client.create(Namespace.new("lab"))
        await cluster.client.delete(Namespace, ObjectKey("", "lab"))
        await cluster.eventually(
            lambda: cluster.client.find(Namespace, ObjectKey("", "lab")),
            lambda found: found is None,
            timeout=60,
        )


async def test_without_an_address_there_is_no_kubeconfig():
    async with Cluster.start() as cluster:
        with pytest.raises(RuntimeError, match='mode="http"'):
            _ = cluster.url


@pytest.mark.virtual_time
async def test_waiting_in_vain_shows_what_was_seen_last():
    async with Cluster.start() as cluster:
        with pytest.raises(AssertionError, match=r'not within 3 s; last seen: .*"a" not found'):
            await eventually(lambda: cluster.client.get(Pod, KEY), timeout=3)
        with pytest.raises(AssertionError, match="not within 10 s; last seen: 4"):
            await eventually(lambda: 4, lambda number: number > 5)
        with pytest.raises(NotFoundError):
            await cluster.client.get(Pod, KEY)


def test_without_the_extra_local_a_cluster_says_what_to_install():
    missing = "import sys; sys.modules['cryptography'] = None; "
    program = f"{missing}from dynamo_operator.testing import Cluster"

    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    ).stderr

    assert told.endswith(
        "ImportError: Cluster needs cryptography: pip install 'dynamo-operator[testing]'\n"
    ), told
