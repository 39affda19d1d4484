"""The self-made certificate: made once, renewed in time, trusted throughout."""

import asyncio
import base64
import ssl
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.x509 import verification

from dynamo_operator.apiserver import UserInfo
from dynamo_operator.certificates import CertificateAuthority
from dynamo_operator.runtime.builtin_kinds import (
    CustomResourceDefinition,
    MutatingWebhookConfiguration,
    Secret,
)
from dynamo_operator.runtime.client.errors import ForbiddenError, TransportError
from dynamo_operator.runtime.http_server import HttpServer
from dynamo_operator.runtime.webhooks.certificates import CertificateError, SecretCertificate
from dynamo_operator.runtime.webhooks.key_material import KeyMaterial, Lifetimes, renewed
from dynamo_operator.testing.cluster import Cluster
from informers.objects import ObjectKey
from tests.dynamo_operator.runtime.webhooks.gadgets import gadget_crd

NOW = datetime(2030, 1, 1, tzinfo=UTC)
HOSTS = ("webhook.system.svc", "127.0.0.1")
SECRET = ObjectKey("default", "webhook-server-cert")
DAY = timedelta(days=1)


def material(now=NOW, hosts=HOSTS, lifetimes=None):
    return renewed(None, hosts=hosts, now=now, is_trusted=False, lifetimes=lifetimes or Lifetimes())


def later(current, days, *, is_trusted=True, hosts=HOSTS):
    return renewed(
        current,
        hosts=hosts,
        now=NOW + days * DAY,
        is_trusted=is_trusted,
        lifetimes=Lifetimes(),
    )


def trusts(bundle, leaf, moment):
    """Whether a client that trusts the bundle takes the certificate."""
    store = verification.Store(x509.load_pem_x509_certificates(bundle))
    builder = verification.PolicyBuilder().store(store).time(moment)
    try:
        builder.build_server_verifier(x509.DNSName(HOSTS[0])).verify(
            x509.load_pem_x509_certificate(leaf), []
        )
    except verification.VerificationError:
        return False
    return True


# What is due


def test_what_is_made_first_is_a_certificate_of_its_own_authority():
    made = material()

    assert trusts(made.ca_bundle, made.certificate, NOW)
    assert KeyMaterial.of_secret(made.to_secret()) == made


def test_nothing_is_done_while_nothing_is_due():
    made = material()

    assert later(made, 200) is not None
    assert later(made, 200) == made


def test_a_certificate_is_renewed_before_its_end_by_the_same_authority():
    made = material()

    again = later(made, 250)

    assert again.authorities == made.authorities
    assert again.certificate != made.certificate
    assert trusts(made.ca_bundle, again.certificate, NOW + 400 * DAY)


def test_a_new_authority_is_published_before_it_signs_and_the_old_one_stays():
    lived = later(material(), 2900)

    published = later(lived, 2930)
    waiting = later(published, 2931, is_trusted=False)
    signed = later(published, 2931)

    assert len(published.authorities) == 2
    assert published.authorities[1:] == lived.authorities
    assert published.certificate == lived.certificate
    assert waiting == published
    assert signed.authorities == published.authorities
    moment = NOW + 2932 * DAY
    assert trusts(signed.authorities[0], signed.certificate, moment)
    # Whoever has the bundle takes what either replica serves.
    assert trusts(published.ca_bundle, published.certificate, moment)
    assert trusts(published.ca_bundle, signed.certificate, moment)


def test_an_authority_leaves_the_bundle_when_it_has_ended():
    published = later(later(material(), 2900), 2930)
    assert len(published.authorities) == 2

    assert len(later(published, 3651).authorities) == 1


def test_what_has_expired_is_replaced_at_once():
    made = material()

    after_a_year = later(made, 366, is_trusted=False)
    after_a_decade = later(made, 3660, is_trusted=False)

    assert after_a_year.authorities == made.authorities
    assert trusts(made.ca_bundle, after_a_year.certificate, NOW + 367 * DAY)
    assert made.authorities[0] not in after_a_decade.authorities
    assert trusts(after_a_decade.ca_bundle, after_a_decade.certificate, NOW + 3661 * DAY)


def test_another_host_is_another_certificate():
    made = material()

    assert later(made, 1, hosts=[*HOSTS, "more.test"]).certificate != made.certificate
    assert later(made, 1, hosts=HOSTS[:1]) == made


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("ca.key", b"", "ca.key missing"),
        ("tls.crt", b"x", "PEM"),
        ("tls.key", CertificateAuthority.create(NOW).key_pem, "tls.key: must be the key of"),
        ("ca.key", CertificateAuthority.create(NOW).key_pem, "must be that of its certificate"),
    ],
)
def test_a_secret_that_holds_something_else_is_named_so(name, value, text):
    with pytest.raises(ValueError, match=text):
        KeyMaterial.of_secret({**material().to_secret(), name: value})


# On a cluster


@asynccontextmanager
async def certificates(count=1, *, crds=(), **options):
    async with Cluster.start(crds=crds) as cluster:
        options = {"clock": cluster.clock, "random": cluster.random, **options}
        yield (
            cluster,
            [
                SecretCertificate(
                    cluster.client_of(f"replica-{n}", ["system:masters"]),
                    SECRET,
                    hosts=HOSTS,
                    **options,
                )
                for n in range(count)
            ],
        )


async def bundle_of(cluster):
    crd = await cluster.client.get(CustomResourceDefinition, ObjectKey("", "gadgets.lab.test"))
    config = crd.spec["conversion"]["webhook"]["clientConfig"]
    return base64.b64decode(config.get("caBundle", ""))


def converted_crd():
    webhook = {
        "conversionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://127.0.0.1:1/convert"},
    }
    return gadget_crd({"strategy": "Webhook", "webhook": webhook})


async def test_replicas_that_start_at_once_serve_one_certificate():
    async with certificates(5) as (cluster, replicas), asyncio.TaskGroup() as group:
        for replica in replicas:
            group.create_task(replica.prepare())

    assert len({replica.pem for replica in replicas}) == 1
    creates = [e for e in cluster.audit.writes() if e.resource == "secrets"]
    assert [e.code for e in creates].count(201) == 1


async def test_replicas_that_renew_at_once_serve_one_certificate():
    calendar = Calendar()
    async with certificates(5, clock=calendar) as (cluster, replicas):
        for replica in replicas:
            await replica.prepare()
        first = replicas[0].pem
        calendar.moment += 250 * DAY

        async with asyncio.TaskGroup() as group:
            for replica in replicas:
                group.create_task(replica.check())

        (renewed_once,) = {replica.pem for replica in replicas}
        assert renewed_once != first
        assert (await secret_data(cluster))["tls.crt"] == renewed_once


async def test_a_certificate_is_renewed_although_a_configuration_cannot_be_patched():
    calendar = Calendar()
    async with certificates(clock=calendar, mutating=["theirs"]) as (cluster, [replica]):
        await replica.prepare()
        first = replica.pem
        calendar.moment += 250 * DAY
        handle = cluster.server.handle

        async def refusing_configurations(request):
            if "webhookconfigurations" in request.path:
                request = replace(request, user=UserInfo("nobody"))
            return await handle(request)

        made = {"metadata": {"name": "theirs"}, "webhooks": []}
        await cluster.client.create(MutatingWebhookConfiguration.model_validate(made))
        cluster.server.handle = refusing_configurations

        with pytest.raises(ForbiddenError):
            await replica.check()

        assert replica.pem != first


async def test_the_bundle_is_written_into_configurations_and_again_when_it_is_lost():
    async with certificates(crds=[converted_crd()], converted=["gadgets.lab.test"]) as (
        cluster,
        [replica],
    ):
        await replica.prepare()
        first = await bundle_of(cluster)
        await cluster.client.patch(
            CustomResourceDefinition,
            ObjectKey("", "gadgets.lab.test"),
            {"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": None}}}}},
        )
        lost = await bundle_of(cluster)
        await replica.check()
        again = await bundle_of(cluster)
        before = len(cluster.audit.writes())
        await replica.check()

        assert (lost, again) == (b"", first)
        assert first in (await secret_data(cluster))["ca.crt"]
        assert len(cluster.audit.writes()) == before


async def secret_data(cluster):
    secret = await cluster.client.get(Secret, SECRET)
    return {name: base64.b64decode(value) for name, value in secret.data.items()}


class Calendar:
    """A clock whose days the test turns."""

    def __init__(self):
        self.moment = NOW

    def now(self):
        return self.moment

    def monotonic(self):
        return self.moment.timestamp()


async def test_over_the_years_every_certificate_is_trusted_before_it_is_served():
    """Two replicas that look in turn, once a day each: at no time is one of them untrusted."""
    calendar = Calendar()
    async with certificates(
        2,
        crds=[converted_crd()],
        converted=["gadgets.lab.test"],
        lifetimes=Lifetimes(100, 45, 40, 15),
        clock=calendar,
    ) as (cluster, replicas):
        for replica in replicas:
            await replica.prepare()
        seen: set[bytes] = set()
        for day in range(300):
            calendar.moment += DAY / 2
            await replicas[day % 2].check()
            bundle = await bundle_of(cluster)
            assert all(trusts(bundle, replica.pem, calendar.moment) for replica in replicas)
            seen.update(replica.pem for replica in replicas)
        authorities = x509.load_pem_x509_certificates((await secret_data(cluster))["ca.crt"])

    assert len(seen) >= 150 // 40
    assert len(authorities) == 2


@pytest.mark.virtual_time
async def test_it_waits_for_an_api_server_that_is_away():
    async with certificates() as (cluster, [replica]):
        handle, cluster.server.handle = cluster.server.handle, refusing
        async with asyncio.TaskGroup() as group:
            preparing = group.create_task(replica.prepare())
            await asyncio.sleep(300)
            assert not preparing.done()
            cluster.server.handle = handle

    assert replica.pem


async def refusing(request):
    raise TransportError("away", sent=False)


async def test_a_secret_of_someone_else_is_left_alone():
    async with certificates() as (cluster, [replica]):
        data = {"tls.crt": base64.b64encode(b"theirs").decode()}
        await cluster.client.create(Secret.new(SECRET.name, namespace="default", data=data))

        with pytest.raises(CertificateError, match="holds a certificate of someone else"):
            await replica.check()

        assert (await cluster.client.get(Secret, SECRET)).data == data


@pytest.mark.parametrize("data", [{}, {"ca.key": "eA==", "tls.crt": "eA=="}], ids=["empty", "bad"])
async def test_a_secret_that_holds_nothing_of_use_is_filled(data):
    async with certificates() as (cluster, [replica]):
        await cluster.client.create(Secret.new(SECRET.name, namespace="default", data=data))

        await replica.prepare()

        assert (await secret_data(cluster))["tls.crt"] == replica.pem


async def test_a_right_that_is_missing_is_named():
    async with Cluster.start() as cluster:
        certificate = SecretCertificate(cluster.client_of("nobody"), SECRET, hosts=HOSTS)

        with pytest.raises(ForbiddenError, match="secrets"):
            await certificate.check()


async def test_a_renewed_certificate_is_served_from_the_next_handshake_on():
    async with (
        certificates() as (cluster, [replica]),
        HttpServer("127.0.0.1:0", certificate=replica) as server,
    ):
        first = await served(server, replica)
        await cluster.client.delete(Secret, SECRET)
        await replica.check()
        second = await served(server, replica)

    assert first != second
    assert ssl.DER_cert_to_PEM_cert(second).encode() == replica.pem


async def served(server, replica):
    context = ssl.create_default_context(cadata=replica.pem.decode())
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
    certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return certificate


async def test_a_certificate_needs_hosts():
    async with Cluster.start() as cluster:
        with pytest.raises(ValueError, match="needs hosts"):
            SecretCertificate(cluster.client, SECRET, hosts=())
