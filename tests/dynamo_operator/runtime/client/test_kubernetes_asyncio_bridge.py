"""kubernetes_asyncio's API classes, models and configurations beside ours, over HTTPS."""

import asyncio
import json
from typing import Any, cast

import aiohttp
import pytest
from kubernetes_asyncio import client as generated
from kubernetes_asyncio.watch import Watch

from dynamo_operator.apiserver import ApiServer, HttpsServer, UserInfo
from dynamo_operator.runtime.builtin_kinds import ConfigMap
from dynamo_operator.runtime.client import (
    Client,
    ClientConfig,
    ConfigError,
    ConflictError,
    DeadlineExceededError,
    DecodeError,
    NotFoundError,
    UncachedReader,
)
from dynamo_operator.runtime.client import kubernetes_asyncio_bridge as bridge
from dynamo_operator.runtime.client.codec import decode, resource_type_of
from dynamo_operator.runtime.client.discovery import Discovery
from dynamo_operator.runtime.client.errors import NotLeadingError
from dynamo_operator.runtime.controller import Controller
from dynamo_operator.runtime.reconciler import Result
from dynamo_operator.testing import Cluster, InProcessTransport
from informers.objects import ObjectKey
from tests.dynamo_operator.runtime.client.scripted_server import ScriptedServer, hang

KEY = ObjectKey("default", "a")
ADMIN = UserInfo("root", groups=("system:masters",))


@pytest.fixture
async def https(tmp_path):
    server = ApiServer(static_tokens={"t1": ADMIN, "t2": ADMIN})
    async with HttpsServer(server, directory=tmp_path) as https:
        https.write_kubeconfig(tmp_path / "kubeconfig")
        (tmp_path / "ca.crt").write_bytes(https.ca_certificate)
        yield https


@pytest.fixture
async def client(https, tmp_path):
    async with Client.connect(ClientConfig.load(tmp_path / "kubeconfig", environ={})) as client:
        yield client


def config_map(name="a", **data):
    return generated.V1ConfigMap(metadata=generated.V1ObjectMeta(name=name), data=data)


async def test_its_api_classes_work_over_our_connections_with_our_credentials(client):
    async with client.api_client() as api:
        core = generated.CoreV1Api(api)
        created = await core.create_namespaced_config_map("default", config_map(k="v"))
        patched = await core.patch_namespaced_config_map("a", "default", {"data": {"l": "w"}})
        listed = await core.list_namespaced_config_map("default", limit=5, watch=False)
        await core.delete_namespaced_config_map("a", "default")

        assert api.rest_client is not None

    assert created.metadata.uid
    assert patched.data == {"k": "v", "l": "w"}
    assert [item.metadata.name for item in listed.items] == ["a"]
    assert await client.find(ConfigMap, KEY) is None


@pytest.mark.parametrize("preload", [True, False])
async def test_a_refusal_is_its_own_exception_with_the_status_also_for_raw_answers(client, preload):
    async with client.api_client() as api:
        core = generated.CoreV1Api(api)
        with pytest.raises(generated.ApiException) as caught:
            await core.read_namespaced_config_map("a", "default", _preload_content=preload)

    assert (caught.value.status, caught.value.reason) == (404, "Not Found")
    body = caught.value.body
    assert json.loads(body if body else b"{}")["reason"] == "NotFound"


async def test_its_watches_and_logs_stream_until_they_are_left(client):
    await client.create(ConfigMap.new("a"))
    seen = []
    async with client.api_client() as api:
        core = generated.CoreV1Api(api)
        async with Watch() as watch:
            async for event in watch.stream(core.list_namespaced_config_map, "default"):
                seen.append((event["type"], event["object"].metadata.name))
                if len(seen) == 2:
                    break
                await client.create(ConfigMap.new("b"))
        raw: Any = await core.list_namespaced_config_map("default", _preload_content=False)
        assert raw.status == 200
        assert raw.reason == "OK"
        assert raw.headers["content-type"] == "application/json"
        assert len(json.loads(await raw.read())["items"]) == 2
        raw.release()
        # Left open on purpose: the end of the context closes it.
        await core.list_namespaced_config_map("default", watch=True, _preload_content=False)

    assert seen == [("ADDED", "a"), ("ADDED", "b")]


async def test_what_its_user_raises_leaves_the_context_as_it_is(client):
    async def watch_and_fail():
        async with client.api_client() as api:
            await generated.CoreV1Api(api).list_namespace(watch=True, _preload_content=False)
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await watch_and_fail()


async def test_its_writes_stand_behind_our_fence(client):
    class Fence:
        def seconds_left(self):
            return 0.0

    async with client.with_fence(Fence()).api_client() as api:
        core = generated.CoreV1Api(api)
        with pytest.raises(NotLeadingError):
            await core.create_namespaced_config_map("default", config_map())

        assert (await core.list_namespaced_config_map("default")).items == []


@pytest.mark.parametrize("timeout", [0.2, (0.1, 0.1), aiohttp.ClientTimeout(total=0.2)])
async def test_its_forms_of_a_time_out_are_understood(timeout):
    async with (
        ScriptedServer([hang]) as server,
        Client.connect(ClientConfig(server.url)) as client,
        client.api_client() as api,
    ):
        with pytest.raises(DeadlineExceededError):
            await generated.CoreV1Api(api).list_node(_request_timeout=timeout)


async def test_its_api_classes_work_without_sockets_too():
    async with Client.over(InProcessTransport(ApiServer())) as client, client.api_client() as api:
        namespaces = await generated.CoreV1Api(api).list_namespace()

    assert "default" in [item.metadata.name for item in namespaces.items]


async def test_its_models_are_read_and_written_as_ours_are(client):
    created = await client.create(config_map(k="v"))
    assert isinstance(created, generated.V1ConfigMap)
    created.data["k"] = "x"
    replaced = await client.replace(created)
    with pytest.raises(ConflictError):
        await client.replace(created)
    applied = await client.with_field_manager("other").apply(config_map(l="w"))
    patched = await client.patch(generated.V1ConfigMap, KEY, {"data": {"m": "y"}})
    reader = UncachedReader(client)

    assert replaced.data == {"k": "x"}
    assert applied.data == {"k": "x", "l": "w"}
    assert patched.data == {"k": "x", "l": "w", "m": "y"}
    assert (await reader.get(generated.V1ConfigMap, KEY)).to_dict() == patched.to_dict()
    assert [o.kind for o in await client.list(generated.V1ConfigMap)] == ["ConfigMap"]
    await client.delete(generated.V1ConfigMap, KEY, uid=patched.metadata.uid)
    assert await client.find(generated.V1ConfigMap, KEY) is None
    with pytest.raises(NotFoundError):
        await reader.get(generated.V1ConfigMap, KEY)


async def test_a_status_may_be_its_model_too(client):
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    job = await client.create(
        generated.V1Job(
            metadata=generated.V1ObjectMeta(name="j"),
            spec=generated.V1JobSpec(template=cast("Any", template)),
        )
    )

    after = await client.apply_status(job, generated.V1JobStatus(active=1))

    assert after.status.active == 1
    assert after.metadata.uid == job.metadata.uid


async def test_its_models_are_served_as_the_server_says(client):
    served = {item.resource_type for item in await Discovery(client).served()}
    kinds = {(item.group, item.version, item.kind) for item in served}

    known = [
        item
        for item in bridge.resource_types().values()
        if (item.group, item.version, item.kind) in kinds
    ]

    assert len(known) > 20
    assert set(known) <= served


async def test_a_controller_is_written_with_its_models_alone():
    """Watched, owned, read from the cache, written, made an owner: V1 models throughout."""

    class Copier:
        def __init__(self, reader, client):
            self._reader, self._client = reader, client

        async def reconcile(self, key):
            found = await self._reader.find(generated.V1ConfigMap, key)
            if found is not None:
                secret = generated.V1Secret(
                    metadata=generated.V1ObjectMeta(name=key.name), string_data=found.data
                )
                await self._client.apply(secret, owner=found)
            return Result.done()

    async with Cluster.start() as cluster:
        controller = Controller(generated.V1ConfigMap, owns=[generated.V1Secret], reconciler=Copier)
        async with cluster.manager(controller) as manager:
            owner = await cluster.client.create(config_map(k="v"))
            manager.events.record(owner, reason="Seen", action="See", note="there it is")
            secret = await cluster.eventually(lambda: cluster.client.get(generated.V1Secret, KEY))
            await cluster.client.delete(generated.V1Secret, KEY, uid=secret.metadata.uid)
            again = await cluster.eventually(lambda: cluster.client.get(generated.V1Secret, KEY))
            (event,) = await cluster.eventually(
                lambda: cluster.client.list(generated.EventsV1Event)
            )

    assert (event.regarding.kind, event.regarding.uid) == ("ConfigMap", owner.metadata.uid)
    (reference,) = again.metadata.owner_references
    assert (reference.uid, reference.kind) == (owner.metadata.uid, "ConfigMap")
    assert (reference.controller, again.data) == (True, {"k": "dg=="})


def test_a_model_of_a_part_is_no_kind():
    with pytest.raises(ConfigError, match="V1PodSpec: no API serves objects of that model"):
        resource_type_of(cast("Any", generated.V1PodSpec))


def test_null_where_a_list_belongs_is_read():
    body = {"metadata": {"name": "x"}, "addressType": "IPv4", "endpoints": None, "ports": None}

    found: Any = decode(generated.V1EndpointSlice, json.dumps(body).encode())

    assert (found.kind, found.endpoints) == ("EndpointSlice", None)


def test_an_object_that_does_not_fit_a_model_is_named():
    with pytest.raises(DecodeError, match=r"pods\.v1 does not fit its model"):
        decode(generated.V1Pod, b'{"spec": {"containers": 5}}')


@pytest.fixture
def configuration(https, tmp_path):
    configuration = generated.Configuration(host=https.url)
    configuration.ssl_ca_cert = str(tmp_path / "ca.crt")
    return configuration


async def test_a_client_is_made_of_a_configuration(configuration):
    configuration.api_key["BearerToken"] = "Bearer t1\n"

    async with Client.connect(ClientConfig.from_configuration(configuration)) as client:
        assert await client.find(ConfigMap, KEY) is None


async def test_a_configurations_hook_renews_its_token(configuration):
    async def renew(configuration):
        configuration.api_key["BearerToken"] = next(tokens)

    tokens = iter(["old", "t2"])
    configuration.api_key["BearerToken"] = "pending"
    configuration.api_key_prefix["BearerToken"] = "Bearer"
    configuration.refresh_api_key_hook = renew

    async with Client.connect(ClientConfig.from_configuration(configuration)) as client:
        assert await client.find(ConfigMap, KEY) is None
    assert list(tokens) == []


async def test_a_configurations_certificate_is_presented(configuration, https, tmp_path):
    certificate = https.issue_certificate("root", organizations=["system:masters"])
    (tmp_path / "tls.crt").write_bytes(certificate.certificate)
    (tmp_path / "tls.key").write_bytes(certificate.key)
    configuration.cert_file = str(tmp_path / "tls.crt")
    configuration.key_file = str(tmp_path / "tls.key")

    async with Client.connect(ClientConfig.from_configuration(configuration)) as client:
        assert await client.find(ConfigMap, KEY) is None


async def test_all_that_a_configuration_says_is_taken(tmp_path):
    configuration = generated.Configuration(host="https://h:1", username="me", password="s3cret")
    configuration.ssl_ca_cert = str(tmp_path / "ca.crt")
    configuration.tls_server_name = "lab"
    configuration.disable_strict_ssl_verification = True
    configuration.proxy = "http://p:1"

    config = ClientConfig.from_configuration(configuration)

    assert (config.server, config.proxy) == ("https://h:1", "http://p:1")
    assert (config.tls.ca_file, config.tls.server_name) == (tmp_path / "ca.crt", "lab")
    assert (config.tls.strict, config.tls.insecure) == ("off", False)
    assert await config.credentials.authorization() == "Basic bWU6czNjcmV0"
    assert "s3cret" not in repr(config)
    configuration.verify_ssl = False
    assert ClientConfig.from_configuration(configuration).tls.insecure


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"proxy_headers": {"x": "y"}}, "proxy_headers: not supported"),
        ({"cert_file": "/nowhere/tls.crt"}, "client certificate /nowhere/tls.crt: No such file"),
    ],
)
def test_what_of_a_configuration_cannot_be_used_is_said(settings, message):
    configuration = generated.Configuration(host="https://h:1")
    for name, value in settings.items():
        setattr(configuration, name, value)

    with pytest.raises(ConfigError, match=message):
        ClientConfig.from_configuration(configuration)


async def test_nothing_of_the_bridge_runs_on_after_its_context():
    before = asyncio.all_tasks()
    async with Client.over(InProcessTransport(ApiServer())) as client, client.api_client() as api:
        core = generated.CoreV1Api(api)
        await core.list_namespaced_config_map("default", watch=True, _preload_content=False)
        assert len(asyncio.all_tasks() - before) == 1

    assert asyncio.all_tasks() == before
