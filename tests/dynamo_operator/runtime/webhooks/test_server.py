"""The server: what is no review, what takes too long, what breaks, and who is let in."""

import asyncio
import io
import json
import ssl
from datetime import UTC, datetime, timedelta

import aiohttp
import pytest
import structlog
import trustme

from dynamo_operator.runtime.builtin_kinds import ConfigMap
from dynamo_operator.runtime.manager import Manager, ManagerStateError
from dynamo_operator.runtime.metrics import Metrics
from dynamo_operator.runtime.serving_certificate import ServingCertificate
from dynamo_operator.runtime.webhooks.conversion import FunctionConversion
from dynamo_operator.runtime.webhooks.server import Webhooks, WebhookServerError
from dynamo_operator.runtime.webhooks.webhook import Webhook
from dynamo_operator.testing.cluster import Cluster
from dynamo_operator.testing.polling import eventually
from tests.dynamo_operator.runtime.webhooks.reviews import (
    MUTATE,
    VALIDATE,
    ask,
    post,
    review,
    serving,
    widget,
)
from tests.dynamo_operator.runtime.widgets import HeldWatches, Widget


def unchanged(obj, admission):
    return obj


def allowed(obj, admission):
    return None


def asking(**request):
    """A review whose request says that, too."""
    whole = review("CREATE")
    return {**whole, "request": {**whole["request"], **request}}


@pytest.mark.parametrize(
    ("body", "headers", "text"),
    [
        (b"", None, "empty body: must be a AdmissionReview"),
        (b"{", None, "not JSON"),
        (b"[" * 100_000, None, "not JSON"),
        (b"[]", None, "body: must be a AdmissionReview"),
        ({"kind": "Pod"}, None, "body: must be a AdmissionReview"),
        ({"kind": "AdmissionReview"}, None, "request must be an object with a uid"),
        ({"kind": "AdmissionReview", "request": {}}, None, "request must be an object with a uid"),
        (review("CREATE", []), None, "object must be an object or null"),
        (asking(kind="Widget"), None, "kind must be an object or null"),
        (asking(requestResource=["x"]), None, "requestResource must be an object or null"),
        (asking(userInfo="jane"), None, "userInfo must be an object or null"),
        (asking(userInfo={"extra": "x"}), None, "userInfo.extra must be an object or null"),
        ({**review("CREATE"), "apiVersion": "admission.k8s.io/v2"}, None, "AdmissionReview of"),
        (review("CREATE"), {"content-type": "text/plain"}, "content type 'text/plain'"),
        (review("CREATE"), {}, "content type ''"),
    ],
)
async def test_what_is_no_review_is_a_bad_request_in_one_line(body, headers, text):
    webhooks = serving(Webhook(Widget, default=unchanged))

    answer = await post(webhooks, MUTATE, body, headers=headers)

    assert answer.status == 400
    assert text in answer.body.decode()
    assert answer.body.count(b"\n") == 1


@pytest.mark.parametrize(
    ("given", "echoed"),
    [
        ("admission.k8s.io/v1", "admission.k8s.io/v1"),
        ("admission.k8s.io/v1beta1", "admission.k8s.io/v1beta1"),
        (None, "admission.k8s.io/v1"),
    ],
)
async def test_the_answer_has_the_version_of_the_question(given, echoed):
    webhooks = serving(Webhook(Widget, validate_create=allowed))

    answer = await post(webhooks, VALIDATE, {**review("CREATE", widget()), "apiVersion": given})

    document = json.loads(answer.body)
    assert (document["apiVersion"], document["kind"]) == (echoed, "AdmissionReview")
    assert document["response"] == {"uid": "0a1b", "allowed": True, "status": {"code": 200}}


async def test_a_defect_is_a_500_in_the_review_and_counted():
    def broken(obj, admission):
        return obj.spec["absent"]

    webhooks, metrics = serving(Webhook(Widget, validate_create=broken)), Metrics()
    webhooks.count_in(metrics)

    with structlog.testing.capture_logs() as logs:
        answer = await ask(webhooks, VALIDATE, review("CREATE", widget()))

    assert answer["allowed"] is False
    assert answer["status"]["code"] == 500
    assert answer["status"]["message"] == "panic: KeyError: 'absent' [recovered]"
    assert [(log["event"], log["path"]) for log in logs] == [("webhook failed", VALIDATE)]
    text = metrics.render().decode()
    assert "controller_runtime_webhook_panics_total 1.0" in text
    assert f'webhook_requests_total{{code="200",webhook="{VALIDATE}"}} 1.0' in text


async def test_a_handler_that_is_cancelled_inside_is_a_500():
    def cancelled(obj, admission):
        raise asyncio.CancelledError

    webhooks = serving(Webhook(Widget, validate_create=cancelled))

    answer = await ask(webhooks, VALIDATE, review("CREATE", widget()))

    assert answer["status"]["code"] == 500


async def test_series_exist_before_the_first_call():
    webhooks, metrics = serving(Webhook(Widget, default=unchanged)), Metrics()

    webhooks.count_in(metrics)

    text = metrics.render().decode()
    for line in (
        f'controller_runtime_webhook_requests_total{{code="200",webhook="{MUTATE}"}} 0.0',
        f'controller_runtime_webhook_requests_total{{code="500",webhook="{MUTATE}"}} 0.0',
        f'controller_runtime_webhook_requests_in_flight{{webhook="{MUTATE}"}} 0.0',
        f'controller_runtime_webhook_latency_seconds_count{{webhook="{MUTATE}"}} 0.0',
        "controller_runtime_webhook_panics_total 0.0",
        "controller_runtime_conversion_webhook_panics_total 0.0",
        "certwatcher_read_certificate_total 0.0",
        "certwatcher_read_certificate_errors_total 0.0",
    ):
        assert line in text


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("query", "seconds"),
    [((), 7), ([("timeout", "2s")], 1.8), ([("timeout", "7s")], 6.5), ([("timeout", "30s")], 7)],
)
async def test_a_handler_has_the_shorter_of_both_time_limits(query, seconds):
    ended = []

    async def slow(obj, admission):
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(asyncio.get_running_loop().time())

    webhooks = serving(Webhook(Widget, validate_create=slow, timeout_seconds=7))
    started = asyncio.get_running_loop().time()

    answer = await ask(webhooks, VALIDATE, review("CREATE", widget()), query=query)

    assert answer["status"]["code"] == 504
    assert answer["status"]["message"] == f"no verdict in {seconds} s"
    assert ended == [started + seconds]


# Over TLS


@pytest.fixture
def authority():
    return trustme.CA()


@pytest.fixture
def certificate(authority, tmp_path):
    return served_pair(authority, tmp_path, "localhost", "127.0.0.1")


def served_pair(authority, directory, *names, **options):
    issued = authority.issue_cert(*names, **options)
    issued.private_key_pem.write_to_path(directory / "tls.key")
    issued.cert_chain_pems[0].write_to_path(directory / "tls.crt")
    return ServingCertificate(directory / "tls.crt", directory / "tls.key")


async def send(webhooks, authority, path, body, client=None):
    context = ssl.create_default_context()
    authority.configure_trust(context)
    if client is not None:
        client.configure_cert(context)
    headers = {"content-type": "application/json"}
    url = f"https://localhost:{webhooks.port}{path}"
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, data=io.BytesIO(body), ssl=context, headers=headers) as answer,
    ):
        return answer.status, await answer.read()


def padded(size):
    body = json.dumps(review("CREATE", widget())).encode()
    return body + b" " * (size - len(body))


async def test_a_review_of_seven_mebibytes_is_judged_and_a_larger_one_is_not(
    authority, certificate
):
    webhooks = Webhooks(
        [Webhook(Widget, validate_create=allowed)], certificate=certificate, address="localhost:0"
    )
    async with webhooks:
        fits, _ = await send(webhooks, authority, VALIDATE, padded(7 * 1024 * 1024))
        over, _ = await send(webhooks, authority, VALIDATE, padded(7 * 1024 * 1024 + 1))
        elsewhere, _ = await send(webhooks, authority, "/validate", b"{}")

    assert (fits, over, elsewhere) == (200, 413, 404)


async def test_clients_without_a_certificate_are_turned_away_where_one_is_required(
    authority, tmp_path
):
    clients = trustme.CA()
    clients.cert_pem.write_to_path(tmp_path / "clients.crt")
    served_pair(authority, tmp_path, "localhost")
    certificate = ServingCertificate(
        tmp_path / "tls.crt", tmp_path / "tls.key", client_ca=tmp_path / "clients.crt"
    )
    webhooks = Webhooks(
        [Webhook(Widget, validate_create=allowed)], certificate=certificate, address="localhost:0"
    )
    body = json.dumps(review("CREATE", widget())).encode()
    async with webhooks:
        await webhooks.check()
        known, _ = await send(
            webhooks, authority, VALIDATE, body, clients.issue_cert("api.server.test")
        )
        with pytest.raises(aiohttp.ClientError):
            await send(webhooks, authority, VALIDATE, body)

    assert known == 200


async def test_tls_before_1_2_and_plain_text_are_turned_away(authority, certificate):
    context = ssl.create_default_context()
    authority.configure_trust(context)
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = ssl.TLSVersion.TLSv1_1
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    webhooks = Webhooks(
        [Webhook(Widget, validate_create=allowed)], certificate=certificate, address="localhost:0"
    )
    async with webhooks:
        with pytest.raises(ssl.SSLError):
            await asyncio.open_connection("localhost", webhooks.port, ssl=context)
        reader, writer = await asyncio.open_connection("localhost", webhooks.port)
        writer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        answer = await reader.read()
        writer.close()

    assert b"HTTP/" not in answer


async def test_readiness_is_a_valid_certificate_served(authority, tmp_path):
    certificate = served_pair(authority, tmp_path, "localhost")
    webhooks = Webhooks(
        [Webhook(Widget, default=unchanged)], certificate=certificate, address="localhost:0"
    )
    with pytest.raises(WebhookServerError, match="not serving yet"):
        await webhooks.check()

    async with webhooks:
        await webhooks.check()
        yesterday = datetime.now(UTC) - timedelta(days=1)
        served_pair(authority, tmp_path, "localhost", not_after=yesterday)
        await certificate.load()

        with pytest.raises(WebhookServerError, match="expired"):
            await webhooks.check()


async def test_a_manager_serves_webhooks_before_its_caches_are_filled(authority, certificate):
    async with Cluster.start() as cluster:
        watches = HeldWatches(cluster, plural="configmaps")
        watches.hold()
        manager = Manager(
            watches.client, health_address="127.0.0.1:0", clock=cluster.clock, random=cluster.random
        )
        manager.cache.declare(ConfigMap)
        webhooks = Webhooks(
            [Webhook(Widget, validate_create=allowed)],
            certificate=certificate,
            address="localhost:0",
        )
        manager.add(webhooks)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(manager.run())
            await eventually(lambda: watches.count("configmaps"))
            body = json.dumps(review("CREATE", widget())).encode()
            status, _ = await send(webhooks, authority, VALIDATE, body)
            unsynced = manager.cache.unsynced()
            with pytest.raises(ManagerStateError):
                manager.add(webhooks)
            running.cancel()
        await watches.client.close()

    assert status == 200
    assert unsynced
    assert manager.addresses["localhost:0"] == webhooks.port


async def ready(manager):
    port = manager.addresses["127.0.0.1:0"]
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/readyz?verbose") as answer,
    ):
        return answer.status, (await answer.text()).splitlines()


@pytest.mark.parametrize(("converts", "status"), [(False, 500), (True, 200)])
async def test_readiness_does_not_wait_for_caches_that_conversion_may_hold_up(
    certificate, converts, status
):
    conversions = [FunctionConversion("lab.test", "Widget", lambda obj, version: obj)]
    async with Cluster.start() as cluster:
        watches = HeldWatches(cluster, plural="configmaps")
        watches.hold()
        manager = Manager(
            watches.client, health_address="127.0.0.1:0", clock=cluster.clock, random=cluster.random
        )
        manager.cache.declare(ConfigMap)
        manager.add(
            Webhooks(
                [Webhook(Widget, default=unchanged)],
                conversions=conversions if converts else (),
                certificate=certificate,
                address="localhost:0",
            )
        )
        async with asyncio.TaskGroup() as group:
            running = group.create_task(manager.run())
            await eventually(lambda: watches.count("configmaps"))
            answer = await ready(manager)
            running.cancel()
        await watches.client.close()

    assert answer[0] == status
    assert "[+]webhooks ok" in answer[1]


@pytest.mark.virtual_time
async def test_a_handler_may_wait_for_the_cache_within_its_time_limit():
    async with Cluster.start() as cluster:
        watches = HeldWatches(cluster, plural="configmaps")
        watches.hold()
        manager = Manager(watches.client, clock=cluster.clock, random=cluster.random)
        manager.cache.declare(ConfigMap)

        async def counted(obj, admission):
            config_maps = await manager.reader.list(ConfigMap)
            return [f"there are {len(config_maps)}"]

        webhooks = serving(Webhook(Widget, validate_create=counted, timeout_seconds=5))
        async with asyncio.TaskGroup() as group:
            running = group.create_task(manager.run())
            await asyncio.sleep(1)
            early = await ask(webhooks, VALIDATE, review("CREATE", widget()))
            watches.release()
            late = await ask(webhooks, VALIDATE, review("CREATE", widget()))
            running.cancel()
        await watches.client.close()

    assert early["status"]["message"] == "no verdict in 5 s"
    assert late["warnings"] == ["there are 0"]


async def test_a_review_under_way_is_answered_before_the_server_stops(authority, certificate):
    asked, release = asyncio.Event(), asyncio.Event()

    async def slow(obj, admission):
        asked.set()
        await release.wait()

    webhooks = Webhooks(
        [Webhook(Widget, validate_create=slow)], certificate=certificate, address="localhost:0"
    )
    body = json.dumps(review("CREATE", widget())).encode()
    async with asyncio.TaskGroup() as group:
        serving_task = group.create_task(webhooks.run())
        await eventually(lambda: webhooks.port)
        sending = group.create_task(send(webhooks, authority, VALIDATE, body))
        await asked.wait()
        serving_task.cancel()
        await asyncio.sleep(0.05)
        release.set()

    status, answer = sending.result()
    assert status == 200
    assert json.loads(answer)["response"]["allowed"] is True


async def test_a_used_address_fails_the_start_of_the_manager(certificate):
    async with await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0) as taken:
        port = taken.sockets[0].getsockname()[1]
        async with Cluster.start() as cluster:
            manager = Manager(cluster.client, clock=cluster.clock, random=cluster.random)
            manager.add(
                Webhooks(
                    [Webhook(Widget, default=unchanged)],
                    certificate=certificate,
                    address=f"127.0.0.1:{port}",
                )
            )

            with pytest.raises(OSError, match="in use"):
                await manager.run()


async def test_a_certificate_that_is_not_there_fails_the_start_of_the_manager(tmp_path):
    absent = ServingCertificate(tmp_path / "tls.crt", tmp_path / "tls.key")
    async with Cluster.start() as cluster:
        manager = Manager(cluster.client, clock=cluster.clock, random=cluster.random)
        manager.add(
            Webhooks(
                [Webhook(Widget, default=unchanged)], certificate=absent, address="127.0.0.1:0"
            )
        )

        with pytest.raises(FileNotFoundError, match=r"tls\.crt"):
            await manager.run()
