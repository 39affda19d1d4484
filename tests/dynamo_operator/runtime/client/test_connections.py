"""What a client holds on to, and that it lets go of it."""

import asyncio
import gc
import logging
import os
import ssl
import threading
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from dynamo_operator.apiserver import ApiServer, HttpsServer, UserInfo
from dynamo_operator.runtime.builtin_kinds import ConfigMap
from dynamo_operator.runtime.client import (
    Client,
    ClientConfig,
    DeadlineExceededError,
    InvalidError,
    TlsConfig,
    UnauthorizedError,
)
from dynamo_operator.runtime.client.connection_pool import ConnectionPool
from dynamo_operator.runtime.client.credentials import StaticCredentials
from dynamo_operator.runtime.controller import Controller
from dynamo_operator.runtime.manager import Manager
from dynamo_operator.runtime.reconciler import Result
from informers.objects import ObjectKey
from tests.dynamo_operator.runtime.client.scripted_server import ScriptedServer, chunked, hang

KEY = ObjectKey("default", "a")
ADMIN = UserInfo("root", groups=("system:masters",))


@pytest.fixture
async def https(tmp_path):
    server = ApiServer(static_tokens={"t1": ADMIN, "t2": ADMIN, "t1-c4nary": ADMIN})
    async with HttpsServer(server, directory=tmp_path) as https:
        https.write_kubeconfig(tmp_path / "kubeconfig")
        yield https


@pytest.fixture
def config(https, tmp_path):
    return ClientConfig.load(tmp_path / "kubeconfig", environ={})


async def test_one_tls_context_is_made_in_a_thread_and_two_pools_serve_everything(
    config, monkeypatch
):
    contexts: list[int] = []
    pools: list[object] = []
    make_context, make_pool = ssl.create_default_context, ConnectionPool.__init__

    def context(*arguments, **options):
        contexts.append(threading.get_ident())
        return make_context(*arguments, **options)

    def pool(self, *arguments, **options):
        pools.append(self)
        make_pool(self, *arguments, **options)

    monkeypatch.setattr(ssl, "create_default_context", context)
    monkeypatch.setattr(ConnectionPool, "__init__", pool)
    async with Client.connect(config) as client, AsyncExitStack() as stack:
        variants = [client, client.with_field_manager("x"), client.with_dry_run()]
        async with asyncio.TaskGroup() as tasks:
            for number in range(30):
                tasks.create_task(variants[number % 3].find(ConfigMap, KEY))
        for _ in range(10):
            watch = client.list_watch(ConfigMap).watch(resource_version="", timeout_seconds=60)
            await stack.enter_async_context(watch)

    assert len(pools) == 2
    # One checks that the authority can be read at all, the other one is used.
    assert len(contexts) <= 2
    assert threading.get_ident() not in contexts


def sockets():
    links = [
        os.path.realpath(path) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()
    ]
    return sorted(link for link in links if "socket:" in link)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux's /proc")
async def test_no_socket_and_no_task_is_left_after_a_manager_stopped(tmp_path):
    class Idle:
        async def reconcile(self, key):
            return Result.done()

    gc.collect()
    tasks, open_sockets = asyncio.all_tasks(), sockets()
    async with HttpsServer(ApiServer(), directory=tmp_path) as https:
        https.write_kubeconfig(tmp_path / "kubeconfig")
        config = ClientConfig.load(tmp_path / "kubeconfig", environ={})
        async with Client.connect(config) as client:
            manager = Manager(client, health_address="127.0.0.1:0", metrics_address="127.0.0.1:0")
            manager.add(Controller(ConfigMap, reconciler=Idle()))
            async with manager.running():
                await client.create(ConfigMap.new("a"))
            mine = asyncio.all_tasks() - tasks
            assert not [task for task in mine if "informer" in repr(task.get_coro())]
        await asyncio.sleep(0.1)  # the server's side of the connections ends a moment later
    await asyncio.sleep(0)
    gc.collect()  # an unclosed transport or session would warn, and warnings are errors

    assert asyncio.all_tasks() == tasks
    assert sockets() == open_sockets


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux's /proc")
async def test_a_cancelled_call_leaves_no_connection_behind():
    async with ScriptedServer([hang]) as server:
        before = sockets()
        client = Client.connect(ClientConfig(server.url))
        for _ in range(5):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await client.request("GET", "/x")
            with pytest.raises(DeadlineExceededError):
                await client.request("GET", "/x", timeout_seconds=0.05)
        await client.close()
        await asyncio.sleep(0.05)

        assert server.connections >= 10
        assert len(sockets()) <= len(before) + server.connections  # the server's own halves
    await asyncio.sleep(0.05)
    gc.collect()


async def test_a_stream_that_is_left_early_closes_its_connection():
    ended = asyncio.Event()

    async def until_closed(connection):
        try:
            while True:
                await connection.write(b"1\r\nx\r\n")
                await asyncio.sleep(0.01)
        finally:
            ended.set()

    async with (
        ScriptedServer([chunked(b"x", then=until_closed)]) as server,
        Client.connect(ClientConfig(server.url)) as client,
    ):
        async with client.stream("GET", "/log") as chunks:
            async for _ in chunks:
                break

        async with asyncio.timeout(5):
            await ended.wait()


async def test_a_rotated_service_account_token_is_used_at_once_where_the_old_one_is_refused(
    https, tmp_path
):
    directory = tmp_path / "serviceaccount"
    directory.mkdir()
    (directory / "ca.crt").write_bytes(https.ca_certificate)
    (directory / "token").write_text("t1\n")
    host, port = https.url.removeprefix("https://").split(":")
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    config = ClientConfig.in_cluster(environ=environ, directory=directory)
    async with Client.connect(config) as client:
        created = await client.create(ConfigMap.new("a"))
        (directory / "token").write_text("expired")
        assert await client.find(ConfigMap, KEY) == created  # not a minute old: the old one does

        config.credentials.rejected(await config.credentials.authorization())
        with pytest.raises(UnauthorizedError):
            await client.find(ConfigMap, KEY)
        (directory / "token").write_text("t2\n")

        # Refused with the token at hand, read again, repeated: the caller sees nothing of it.
        await client.delete(ConfigMap, KEY)


async def test_no_log_at_any_level_shows_a_secret_or_a_body(https, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    tls = TlsConfig(ca_data=https.ca_certificate)
    known = StaticCredentials.token("t1-c4nary")
    other = StaticCredentials.token("c4nary")
    with capture_logs() as structured:
        async with Client.connect(ClientConfig(https.url, tls=tls, credentials=other)) as client:
            with pytest.raises(UnauthorizedError) as refused:
                await client.create(ConfigMap.new("a", data={"k": "c4nary"}))
        async with Client.connect(ClientConfig(https.url, tls=tls, credentials=known)) as client:
            await client.create(ConfigMap.new("a", data={"k": "c4nary"}))
            with pytest.raises(InvalidError) as invalid:
                await client.create(ConfigMap.new("b", data={"k/c4nary": "v"}))
            assert (await client.get(ConfigMap, KEY)).data == {"k": "c4nary"}

    assert "c4nary" not in caplog.text
    assert "c4nary" not in str(structured)
    assert "c4nary" not in f"{client!r}{client.__dict__}"
    assert "c4nary" not in f"{refused.value!r}"
    assert "k/c4nary" in str(invalid.value)  # what the server says of the caller's own object
