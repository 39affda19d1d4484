"""No admission call fails while the certificate that it is answered with is replaced."""

import asyncio
import base64
from collections import Counter
from datetime import datetime, timedelta

from dynamo_operator.certificates import CertificateAuthority
from dynamo_operator.runtime.builtin_kinds import Secret, ValidatingWebhookConfiguration
from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.serving_certificate import ServingCertificate
from dynamo_operator.runtime.webhooks.certificates import SecretCertificate
from dynamo_operator.runtime.webhooks.configuration import UrlEndpoint, validating_configuration
from dynamo_operator.runtime.webhooks.key_material import KeyMaterial, Lifetimes
from dynamo_operator.runtime.webhooks.server import Webhooks
from dynamo_operator.runtime.webhooks.webhook import Webhook
from dynamo_operator.testing.cluster import Cluster
from dynamo_operator.testing.in_process_transport import InProcessTransport
from informers.clock import SystemClock
from informers.objects import ObjectKey
from tests.dynamo_operator.runtime.widgets import WIDGET_CRD, Widget, widget

HOST = "127.0.0.1"
CONFIGURATION = "lab"
SECRET = ObjectKey("default", "webhook-server-cert")
CALLS_PER_SECOND = 200
LOOK_SECONDS = 0.2


class Days(SystemClock):
    """The machine's time, some days ago."""

    def __init__(self, ago: int) -> None:
        self.ago = ago

    def now(self) -> datetime:
        return super().now() - timedelta(days=self.ago)


def webhooks_with(certificate):
    """A server that takes every widget."""
    webhook: Webhook[Widget] = Webhook(Widget, validate_create=lambda _widget, _admission: None)
    return Webhooks([webhook], certificate=certificate, address=f"{HOST}:0")


async def install(cluster, webhooks, ca_bundle=b""):
    endpoint = UrlEndpoint(f"https://{HOST}:{webhooks.port}")
    made = validating_configuration(CONFIGURATION, webhooks.webhooks, endpoint, ca_bundle=ca_bundle)
    await cluster.client.create(ValidatingWebhookConfiguration.model_validate(made))


async def admitted_under_load(cluster, certificate, rotate, *, count):
    """Count the calls that were answered with each certificate; one that fails raises.

    Each has the API server call the webhook on a connection of its own. They begin when they are
    due, whether or not those before them have ended. `rotate` is called every twentieth of them.
    """
    client = Client.over(InProcessTransport(cluster.server))
    served: Counter[bytes] = Counter()

    async def call(number):
        await client.create(widget(f"w-{number}"), dry_run=True)
        served[certificate.pem] += 1

    loop = asyncio.get_running_loop()
    loop.set_debug(False)  # which takes longer than the calls
    began = loop.time()
    async with asyncio.TaskGroup() as group:
        fresh = group.create_task(certificate.keep_fresh())
        async with asyncio.TaskGroup() as calls:
            for number in range(count):
                await asyncio.sleep(began + number / CALLS_PER_SECOND - loop.time())
                calls.create_task(call(number))
                if number % (count // 20) == 0:
                    rotate()
        fresh.cancel()
    return served


async def test_no_call_is_dropped_while_authority_and_certificate_of_a_secret_are_replaced():
    clock, count = Days(ago=210), 600
    lifetimes = Lifetimes(
        authority=500, authority_renewal=300, certificate=300, certificate_renewal=100
    )
    async with Cluster.start(mode="http", crds=[WIDGET_CRD]) as cluster:
        certificate = SecretCertificate(
            cluster.client,
            SECRET,
            hosts=[HOST],
            validating=[CONFIGURATION],
            lifetimes=lifetimes,
            check_every_seconds=LOOK_SECONDS,
            clock=clock,
        )
        webhooks = webhooks_with(certificate)
        async with webhooks:
            await install(cluster, webhooks)
            await certificate.check()
            first = certificate.pem

            def rotate():
                if certificate.pem == first and len(cluster.audit.entries) > count / 4:
                    clock.ago = 0

            served = await admitted_under_load(cluster, certificate, rotate, count=count)
        data = (await cluster.client.get(Secret, SECRET)).to_dict()["data"]

    assert served.total() == count
    assert len(served) == 2
    assert min(served.values()) > count / 10
    assert first in served
    assert len(authorities(data)) == 2, "the new one, and the one before it"


def authorities(data):
    return KeyMaterial.of_secret({k: base64.b64decode(v) for k, v in data.items()}).authorities


async def test_no_call_is_dropped_while_the_files_of_a_certificate_are_replaced(tmp_path):
    now = SystemClock().now()
    authority = CertificateAuthority.create(now)
    files = tmp_path / "tls.crt", tmp_path / "tls.key"

    def write():
        made = authority.issue(HOST, now, hosts=[HOST])
        for file, content in zip(files, (made.certificate, made.key), strict=True):
            file.write_bytes(content)  # for a moment they are no pair

    write()
    certificate = ServingCertificate(*files, reload_seconds=LOOK_SECONDS / 2)
    webhooks = webhooks_with(certificate)

    async with Cluster.start(mode="http", crds=[WIDGET_CRD]) as cluster, webhooks:
        await install(cluster, webhooks, authority.pem)
        served = await admitted_under_load(cluster, certificate, write, count=200)

    assert served.total() == 200
    assert len(served) > 5
