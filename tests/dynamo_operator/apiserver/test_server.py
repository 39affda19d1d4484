import base64
import json
import re
import ssl
import time
from contextlib import AsyncExitStack, asynccontextmanager
from io import BytesIO

import aiohttp
import pytest
from aiohttp import web
from ruamel.yaml import YAML
from yarl import URL

from dynamo_operator.apiserver import ApiServer, HttpsServer
from dynamo_operator.apiserver.server import load_certificate
from dynamo_operator.testing.polling import eventually
from tests.dynamo_operator.apiserver.api import CONFIG_MAPS, CORE, PODS, config_map, pod


@asynccontextmanager
async def running(**options):
    async with HttpsServer(ApiServer(), **options) as https:
        yield https


@asynccontextmanager
async def client(https, *, user="admin", groups=("system:masters",), token="", **options):
    context = ssl.create_default_context(cadata=https.ca_certificate.decode())
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    if user:
        load_certificate(context, https.issue_certificate(user, organizations=groups))
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(
        https.url, connector=connector, headers=headers, **options
    ) as session:
        yield session


async def test_it_starts_within_a_second_and_serves():
    start = time.monotonic()

    async with running() as https, client(https) as session:
        async with session.get("/version") as answer:
            version = await answer.json()
        elapsed = time.monotonic() - start

    assert version["major"] == "1"
    assert elapsed < 1


async def test_a_client_certificate_says_who_asks():
    async with running() as https, client(https, user="jane", groups=["devs"]) as session:
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        async with session.post(path, json={}) as answer:
            review = await answer.json()

    credential = review["status"]["userInfo"].pop("extra")
    assert review["status"]["userInfo"] == {
        "username": "jane",
        "groups": ["devs", "system:authenticated"],
    }
    [hashed] = credential["authentication.kubernetes.io/credential-id"]
    assert re.fullmatch("X509SHA256=[0-9a-f]{64}", hashed)


async def test_a_token_says_who_asks_and_no_credentials_are_anonymous():
    async with running() as https, client(https) as admin:
        accounts = f"{CORE}/namespaces/default/serviceaccounts"
        async with admin.post(accounts, json={"metadata": {"name": "sa"}}) as answer:
            assert answer.status == 201
        async with admin.post(f"{accounts}/sa/token", json={"spec": {}}) as answer:
            token = (await answer.json())["status"]["token"]
        async with (
            client(https, user="", token=token) as account,
            client(https, user="") as nobody,
            client(https, user="", token="bad") as stranger,
            account.get(PODS) as refused,
            nobody.get(PODS) as anonymous,
            stranger.get(PODS) as unknown,
        ):
            texts = [(await a.json())["message"] for a in (refused, anonymous, unknown)]

    assert "system:serviceaccount:default:sa" in texts[0]
    assert "system:anonymous" in texts[1]
    assert texts[2] == "Unauthorized"


async def test_a_certificate_of_another_authority_does_not_connect():
    async with running() as https, running() as other:
        context = ssl.create_default_context(cadata=https.ca_certificate.decode())
        load_certificate(context, other.issue_certificate("x", organizations=["system:masters"]))
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
            with pytest.raises(aiohttp.ClientError):
                await session.get(f"{https.url}/version")


async def test_a_watch_streams_line_by_line():
    async with (
        running() as https,
        client(https) as session,
        session.get(CONFIG_MAPS, params={"watch": "true"}) as stream,
    ):
        async with session.post(CONFIG_MAPS, json=config_map("a")) as answer:
            assert answer.status == 201
        line = await stream.content.readline()

    event = json.loads(line)
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "a")
    assert stream.headers["transfer-encoding"] == "chunked"


async def test_a_watch_ends_at_its_timeout():
    async with running() as https, client(https) as session:
        params = {"watch": "true", "timeoutSeconds": "1"}
        async with session.get(CONFIG_MAPS, params=params) as stream:
            assert await stream.read() == b""


async def test_it_stops_at_once_with_watches_open():
    async with AsyncExitStack() as server_stack:
        https = await server_stack.enter_async_context(running())
        async with client(https) as session:
            stream = await session.get(CONFIG_MAPS, params={"watch": "true"})
            start = time.monotonic()
            await server_stack.aclose()
            elapsed = time.monotonic() - start
            rest = await stream.read()

    assert rest == b""
    assert elapsed < 1


async def test_a_watch_whose_client_went_away_is_forgotten():
    server = ApiServer()
    async with HttpsServer(server) as https, client(https) as session:
        stream = await session.get(CONFIG_MAPS, params={"watch": "true"})
        assert server.open_watches == 1
        stream.close()
        await eventually(lambda: server.open_watches == 0)


async def test_requests_share_a_connection():
    made = 0

    async def count(*_):
        nonlocal made
        made += 1

    trace = aiohttp.TraceConfig()
    trace.on_connection_create_end.append(count)
    async with running() as https, client(https, trace_configs=[trace]) as session:
        for _ in range(3):
            async with session.get("/healthz") as answer:
                await answer.read()

    assert made == 1


async def test_a_path_with_escapes_is_read_once():
    async with running() as https, client(https) as session:
        url = f"{https.url}{CORE}/namespaces/default/configmaps/a%25b"
        async with session.get(URL(url, encoded=True)) as answer:
            body = await answer.json()

    assert body["message"] == 'configmaps "a%b" not found'


async def test_a_body_beyond_the_limit_is_refused():
    async with running() as https, client(https) as session:
        big = BytesIO(json.dumps(config_map("a", x="y" * (4 * 1024 * 1024))).encode())
        async with session.post(CONFIG_MAPS, data=big) as answer:
            body = await answer.json()

    assert (answer.status, body["reason"]) == (413, "RequestEntityTooLarge")


async def test_a_kubeconfig_holds_all_that_a_client_needs(tmp_path):
    async with running() as https:
        path = tmp_path / "kubeconfig"
        https.write_kubeconfig(path, user="jane", groups=["devs"], namespace="lab")

    config = YAML(typ="safe").load(path)
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    assert cluster["server"] == https.url
    assert base64.b64decode(cluster["certificate-authority-data"]) == https.ca_certificate
    assert base64.b64decode(user["client-key-data"]).startswith(b"-----BEGIN PRIVATE KEY")
    assert config["contexts"][0]["context"]["namespace"] == "lab"
    assert path.stat().st_mode & 0o077 == 0


async def test_the_authority_outlives_a_restart_when_kept_in_a_directory(tmp_path):
    async with running(directory=tmp_path) as first:
        kept = first.ca_certificate
    async with running(directory=tmp_path) as second:
        assert second.ca_certificate == kept


@asynccontextmanager
async def kubelet(https):
    """Serve container logs on TLS to clients of the server's authority, as a node does."""

    async def logs(request):
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(f"log of {request.path}?{request.query_string}\n".encode())
        peer = dict(pair[0] for pair in request.transport.get_extra_info("peercert")["subject"])
        await answer.write(f"for {peer['commonName']}\n".encode())
        return answer

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_certificate(context, https.issue_certificate("node", hosts=["127.0.0.1"]))
    context.load_verify_locations(cadata=https.ca_certificate.decode())
    context.verify_mode = ssl.CERT_REQUIRED
    runner = web.ServerRunner(web.Server(logs))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def run_pod_on(session, port):
    address = {"type": "InternalIP", "address": "127.0.0.1"}
    status = {
        "addresses": [address],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    body = {"metadata": {"name": "n1"}}
    async with session.post(f"{CORE}/nodes", json=body) as answer:
        assert answer.status == 201
    merge = {"Content-Type": "application/merge-patch+json"}
    path = f"{CORE}/nodes/n1/status"
    async with session.patch(path, json={"status": status}, headers=merge) as answer:
        assert answer.status == 200
    async with session.post(PODS, json=pod("p", node="n1")) as answer:
        assert answer.status == 201


async def test_logs_are_fetched_from_the_node_with_a_client_certificate():
    async with running() as https, client(https) as session, kubelet(https) as port:
        await run_pod_on(session, port)
        async with session.get(f"{PODS}/p/log", params={"follow": "true"}) as answer:
            text = await answer.text()

    assert text == (
        "log of /containerLogs/default/p/main?follow=true\nfor kube-apiserver-kubelet-client\n"
    )


async def test_a_node_that_is_down_makes_logs_an_error():
    async with running() as https, client(https) as session:
        await run_pod_on(session, 1)
        async with session.get(f"{PODS}/p/log") as answer:
            body = await answer.json()

    assert answer.status == 500
    assert "https://127.0.0.1:1/containerLogs/default/p/main" in body["message"]
