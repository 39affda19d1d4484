import asyncio
import gzip
import json
import ssl
import tracemalloc
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from dynamo_operator.runtime.builtin_kinds import ConfigMap, Pod
from dynamo_operator.runtime.client import (
    Client,
    ClientCertificate,
    ClientConfig,
    ConfigError,
    DeadlineExceededError,
    HttpRequest,
    Impersonation,
    TlsConfig,
    TransportError,
    UnknownOutcomeError,
)
from dynamo_operator.runtime.client.credentials import StaticCredentials
from dynamo_operator.runtime.client.kubeconfig import Entry
from dynamo_operator.runtime.client.transport import HttpTransport, fetch_text
from dynamo_operator.runtime.client.user_credentials import user_credentials
from informers.errors import ConnectionLostError
from informers.objects import ObjectKey
from tests.dynamo_operator.runtime.client.manual_clock import ManualClock
from tests.dynamo_operator.runtime.client.scripted_server import (
    ScriptedServer,
    chunked,
    hang,
    reply,
    reset,
    status,
    truncated,
)

KEY = ObjectKey("lab", "a")
STORED = {"metadata": {"name": "a", "namespace": "lab", "resourceVersion": "7"}}
GET = HttpRequest("GET", "/x")
POST = HttpRequest("POST", "/x", body=b"{}")


def client_of(server, **config):
    return Client.connect(ClientConfig(server.url, **config))


async def closed_port():
    async with ScriptedServer([hang]) as server:
        return server.port


async def test_a_request_reaches_the_server_as_it_was_meant():
    async with ScriptedServer([reply(200, STORED)]) as server, client_of(server) as client:
        await client.request(
            "PUT", "/p/a%20b", query=[("x", "1 &=/ü"), ("x", "2")], body=b"{}", accept="a/b"
        )

        (received,) = server.received

    assert (received.method, received.body) == ("PUT", b"{}")
    assert received.target == "/p/a%20b?x=1+%26%3D%2F%C3%BC&x=2"
    assert received.headers["accept"] == "a/b"
    assert received.headers["content-type"] == "application/json"
    assert received.headers["user-agent"].startswith("operator-runtime ")
    assert received.headers["accept-encoding"] == "identity"


async def test_the_servers_own_path_comes_before_ours():
    async with ScriptedServer([reply(200, STORED)]) as server:
        config = ClientConfig(f"{server.url}/k8s/clusters/c-7x/")
        async with Client.connect(config) as client:
            await client.get(ConfigMap, KEY)

        path = server.received[0].path

    assert path == "/k8s/clusters/c-7x/api/v1/namespaces/lab/configmaps/a"


async def test_impersonation_sends_one_header_for_each_value():
    impersonation = Impersonation("jane", "u-1", ("devs", "ops"), {"scopes": ("a", "b")})
    async with (
        ScriptedServer([reply(200, STORED)]) as server,
        client_of(server, impersonation=impersonation) as client,
    ):
        await client.get(ConfigMap, KEY)

        headers = server.received[0].headers

    assert headers["impersonate-user"] == "jane"
    assert headers["impersonate-uid"] == "u-1"
    assert headers["impersonate-group"] == "devs|ops"
    assert headers["impersonate-extra-scopes"] == "a|b"


async def test_compressed_answers_are_read_where_compression_is_on():
    body = gzip.compress(json.dumps(STORED).encode())
    async with (
        ScriptedServer([reply(200, body, content_encoding="gzip")]) as server,
        client_of(server, compression=True) as client,
    ):
        found = await client.get(ConfigMap, KEY)

        asked = server.received[0].headers["accept-encoding"]

    assert asked == "gzip"
    assert found.resource_version == "7"


async def test_a_compressed_answer_that_is_none_is_a_transport_error():
    async with (
        ScriptedServer([reply(200, b"no gzip", content_encoding="gzip")]) as server,
        client_of(server) as client,
    ):
        with pytest.raises(UnknownOutcomeError):
            await client.create(ConfigMap.new("a"))


async def test_an_answer_that_breaks_http_is_an_error_in_one_line():
    async with (
        ScriptedServer([reply(200, b"{}", x="a\rb", content_length="7")]) as server,
        client_of(server) as client,
    ):
        with pytest.raises(UnknownOutcomeError) as caught:
            await client.create(ConfigMap.new("a"))

    assert "\n" not in str(caught.value)


async def test_headers_that_come_twice_are_joined():
    async def answer(connection):
        head = b"HTTP/1.1 200 x\r\ncontent-length: 2\r\n"
        warnings = b'Warning: 299 - "one"\r\nwarning: 299 - "two"\r\n'
        await connection.write(head + warnings + b"\r\n{}")

    seen: list[str] = []
    async with ScriptedServer([answer]) as server, client_of(server) as client:
        await client.with_warning_observer(seen.append).request("GET", "/x")

    assert seen == ["one", "two"]


async def test_connections_are_used_again():
    async with ScriptedServer([reply(200, STORED)]) as server, client_of(server) as client:
        for _ in range(3):
            await client.get(ConfigMap, KEY)

        assert server.connections == 1


async def test_a_redirect_is_not_followed():
    async with (
        ScriptedServer([reply(307, b"", location="http://127.0.0.1:1/")]) as server,
        client_of(server) as client,
    ):
        with pytest.raises(Exception, match="check the server's URL"):
            await client.create(ConfigMap.new("a"))


async def test_a_header_that_cannot_be_sent_is_a_transport_error():
    async with (
        ScriptedServer([reply(200, b"{}")]) as server,
        client_of(server, impersonation=Impersonation(user="jane\r\nX-Other: y")) as client,
    ):
        with pytest.raises(TransportError, match="GET /api/v1/namespaces/"):
            await client.get(ConfigMap, ObjectKey("default", "a"))

    assert server.received == []


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_refused_connection_was_never_sent(scheme):
    port = await closed_port()
    transport = HttpTransport(ClientConfig(f"{scheme}://127.0.0.1:{port}"))

    with pytest.raises(TransportError) as caught:
        await transport.send(POST, timeout_seconds=5)
    await transport.close()

    assert not caught.value.sent
    assert str(caught.value) == (f"POST /x: cannot connect to 127.0.0.1:{port}: Connection refused")


async def test_a_server_that_hangs_ends_in_a_deadline_after_sending():
    async with ScriptedServer([hang]) as server:
        transport = HttpTransport(ClientConfig(server.url))

        with pytest.raises(DeadlineExceededError) as caught:
            await transport.send(POST, timeout_seconds=0.1)
        await transport.close()

    assert caught.value.sent


@pytest.mark.parametrize(
    "fault",
    [
        reset,
        truncated(201, b'{"metadata": {"na'),
        chunked(b'{"metadata":', then=reset),
        chunked(b'{"metadata":', then=hang),
    ],
    ids=["reset", "truncated", "reset in the body", "stalled in the body"],
)
async def test_a_write_whose_answer_breaks_off_has_an_unknown_outcome(fault):
    async with ScriptedServer([fault]) as server, client_of(server) as client:
        with pytest.raises(UnknownOutcomeError):
            await client.request("POST", "/x", body=b"{}", timeout_seconds=0.3)

        assert len(server.received) == 1


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_the_http_library_repeats_no_write_of_its_own(method):
    async with (
        ScriptedServer([reply(200, STORED), reset, reply(200, STORED)]) as server,
        client_of(server) as client,
    ):
        await client.request("GET", "/x")

        with pytest.raises(UnknownOutcomeError):
            await client.request(method, "/x", body=b"{}")

        assert len(server.received) == 2


async def test_a_read_goes_on_over_a_reset_connection():
    async with ScriptedServer([reset, reply(200, STORED)]) as server, client_of(server) as client:
        found = await client.get(ConfigMap, KEY)

    assert found.resource_version == "7"


async def test_five_hundred_watches_do_not_take_the_connections_of_requests():
    opened = chunked(b"x", then=hang)
    async with (
        ScriptedServer([*[opened] * 500, reply(200, STORED)]) as server,
        client_of(server) as client,
        AsyncExitStack() as stack,
    ):
        for _ in range(500):
            await stack.enter_async_context(client.stream("GET", "/watch"))

        async with asyncio.timeout(1):
            found = await client.get(ConfigMap, KEY)

        assert found.resource_version == "7"
        assert server.connections == 501


def event_line(size):
    filler = "x" * size
    event = {"type": "ADDED", "object": {"metadata": {"name": "big"}, "data": {"k": filler}}}
    return json.dumps(event).encode() + b"\n"


async def test_a_watch_line_of_16_mib_arrives_within_three_times_its_memory():
    size = 16 * 1024 * 1024
    line = event_line(size)
    pieces = [line[start : start + 65536] for start in range(0, len(line), 65536)]
    async with ScriptedServer([chunked(*pieces)]) as server, client_of(server) as client:
        list_watch = client.list_watch(Pod)
        async with list_watch.watch(resource_version="", timeout_seconds=9) as batches:
            tracemalloc.start()
            events = [event async for batch in batches for event in batch]
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()

    assert len(events[0].object.data) > size
    assert peak < 3 * size


async def names_watched(client, names):
    list_watch = client.list_watch(Pod)
    async with (
        list_watch.watch(resource_version="", timeout_seconds=9) as batches,
        asyncio.timeout(0.2),
    ):
        async for batch in batches:
            names += [event.object.key.name for event in batch]


@pytest.mark.parametrize(
    ("fault", "error"), [(reset, ConnectionLostError), (hang, TimeoutError)], ids=["reset", "hang"]
)
async def test_a_watch_delivers_what_came_before_it_broke(fault, error):
    line = b'{"type":"ADDED","object":{"metadata":{"name":"a"}}}\n'
    async with (
        ScriptedServer([chunked(line, line[:10], then=fault)]) as server,
        client_of(server) as client,
    ):
        names: list[str] = []
        with pytest.raises(error):
            await names_watched(client, names)

    assert names == ["a"]


async def test_a_watch_that_is_refused_says_why_in_one_line():
    async with (
        ScriptedServer([status(500, "Internal", "etcd\nis away")]) as server,
        client_of(server) as client,
    ):
        with pytest.raises(Exception, match="500 Internal: etcd is away"):
            async with client.list_watch(Pod).watch(resource_version="", timeout_seconds=9):
                pass


async def test_a_watch_that_is_refused_in_text_is_refused():
    async with (
        ScriptedServer([reply(429, b"Too many requests\n", retry_after="1")]) as server,
        client_of(server) as client,
    ):
        with pytest.raises(Exception, match="429: Too many requests"):
            async with client.list_watch(Pod).watch(resource_version="", timeout_seconds=9):
                pass


async def test_a_closed_client_says_so_and_may_be_closed_again():
    async with ScriptedServer([reply(200, STORED)]) as server:
        client = client_of(server)
        await client.get(ConfigMap, KEY)
        await client.close()
        await client.close()

        with pytest.raises(TransportError, match="closed"):
            await client.create(ConfigMap.new("a"))


async def test_requests_go_through_the_proxy_that_the_configuration_names():
    async with ScriptedServer([reply(200, STORED)]) as proxy:
        config = ClientConfig("http://lab.test:8080", proxy=f"http://me:x@127.0.0.1:{proxy.port}")
        async with Client.connect(config) as client:
            await client.get(ConfigMap, KEY)

        (received,) = proxy.received

    assert received.target == "http://lab.test:8080/api/v1/namespaces/lab/configmaps/a"
    assert received.headers["proxy-authorization"] == "Basic bWU6eA=="


async def test_https_goes_through_a_tunnel_of_the_proxy(authority):
    async with ScriptedServer([reply(200, STORED)], server_tls(authority)) as server:

        async def tunnel(connection):
            await connection.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await connection.join("127.0.0.1", server.port)

        async with ScriptedServer([tunnel]) as proxy:
            config = ClientConfig(
                server.url,
                proxy=f"http://me:x@127.0.0.1:{proxy.port}",
                tls=TlsConfig(ca_data=pem(authority)),
                credentials=StaticCredentials.token("t"),
            )
            async with Client.connect(config) as client:
                found = await client.get(ConfigMap, KEY)

        (connect,), (request,) = proxy.received, server.received

    assert found.resource_version == "7"
    assert (connect.method, connect.target) == ("CONNECT", f"127.0.0.1:{server.port}")
    assert connect.headers["proxy-authorization"] == "Basic bWU6eA=="
    assert "authorization" not in connect.headers
    assert "proxy-authorization" not in request.headers


async def test_the_environment_and_netrc_are_not_looked_at(monkeypatch, tmp_path):
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login eve password s3cret\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    async with ScriptedServer([reply(200, STORED)]) as server, client_of(server) as client:
        await client.get(ConfigMap, KEY)

        assert "authorization" not in server.received[0].headers


async def test_a_proxys_password_is_in_no_error():
    async with (
        ScriptedServer([status(407)]) as proxy,
        Client.connect(
            ClientConfig("https://lab.test", proxy=f"http://me:s3cret@127.0.0.1:{proxy.port}")
        ) as client,
    ):
        with pytest.raises(TransportError) as caught:
            await client.create(ConfigMap.new("a"))

        authorization = proxy.received[0].headers["proxy-authorization"]

    assert authorization == "Basic bWU6czNjcmV0"
    assert "s3cret" not in f"{caught.value}{caught.value!r}{caught.value.__cause__}"


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture(scope="module")
def stranger():
    return trustme.CA()


def server_tls(authority, *names, clients=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*(names or ("127.0.0.1",))).configure_cert(context)
    if clients is not None:
        clients.configure_trust(context)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def pem(authority):
    return authority.cert_pem.bytes()


def pair_of(authority, name="jane@lab.test"):
    issued = authority.issue_cert(name)
    certificate = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
    return ClientCertificate(certificate, issued.private_key_pem.bytes())


@pytest.mark.parametrize("form", ["data", "file"])
async def test_a_server_is_trusted_by_its_authority(authority, tmp_path, form):
    (tmp_path / "ca.crt").write_bytes(pem(authority))
    tls = (
        TlsConfig(ca_data=pem(authority))
        if form == "data"
        else TlsConfig(ca_file=tmp_path / "ca.crt")
    )
    async with (
        ScriptedServer([reply(200, STORED)], server_tls(authority)) as server,
        client_of(server, tls=tls) as client,
    ):
        found = await client.get(ConfigMap, KEY)

    assert found.resource_version == "7"


async def test_a_server_of_another_authority_is_not_trusted(authority, stranger):
    async with (
        ScriptedServer([reply(200, STORED)], server_tls(authority)) as server,
        client_of(server, tls=TlsConfig(ca_data=pem(stranger))) as client,
    ):
        with pytest.raises(TransportError, match="not trusted") as caught:
            await client.create(ConfigMap.new("a"))

    assert not caught.value.sent


async def test_a_renewed_authority_file_is_noticed(authority, stranger, tmp_path):
    file = tmp_path / "ca.crt"
    file.write_bytes(pem(stranger))
    async with (
        ScriptedServer([reply(200, STORED)], server_tls(authority)) as server,
        client_of(server, tls=TlsConfig(ca_file=file)) as client,
    ):
        with pytest.raises(TransportError):
            await client.create(ConfigMap.new("a"))
        file.write_bytes(pem(authority))

        assert (await client.create(ConfigMap.new("a"))).resource_version == "7"


async def test_not_one_write_fails_when_the_servers_authority_changes(
    authority, stranger, tmp_path
):
    file = tmp_path / "ca.crt"
    file.write_bytes(pem(authority))
    tls = server_tls(authority)
    async with (
        ScriptedServer([reply(200, STORED, connection="close")], tls) as server,
        client_of(server, tls=TlsConfig(ca_file=file)) as client,
    ):
        await client.create(ConfigMap.new("a"))
        file.write_bytes(pem(stranger))
        stranger.issue_cert("127.0.0.1").configure_cert(tls)

        assert (await client.create(ConfigMap.new("a"))).resource_version == "7"


async def test_the_servers_name_is_checked_against_the_configured_one(authority):
    tls = server_tls(authority, "lab.test")
    async with ScriptedServer([reply(200, STORED)], tls) as server:
        trust = pem(authority)
        async with client_of(server, tls=TlsConfig(trust, server_name="lab.test")) as client:
            assert (await client.get(ConfigMap, KEY)).resource_version == "7"
        async with client_of(server, tls=TlsConfig(trust)) as client:
            with pytest.raises(TransportError, match="not trusted"):
                await client.create(ConfigMap.new("a"))


def sloppy_server(directory):
    """Return a server's TLS and its authority, without the key identifiers of RFC 5280."""
    now = datetime.now(UTC)
    keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("authority", "server")}
    names = {name: x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]) for name in keys}

    def issue(name, extension):
        builder = x509.CertificateBuilder(
            issuer_name=names["authority"],
            subject_name=names[name],
            public_key=keys[name].public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=now - timedelta(hours=1),
            not_valid_after=now + timedelta(hours=1),
        ).add_extension(extension, critical=True)
        certificate = builder.sign(keys["authority"], hashes.SHA256())
        return certificate.public_bytes(serialization.Encoding.PEM)

    address = x509.IPAddress(ip_address("127.0.0.1"))
    file = directory / "server.pem"
    file.write_bytes(
        issue("server", x509.SubjectAlternativeName([address]))
        + keys["server"].private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(file)
    return tls, issue("authority", x509.BasicConstraints(ca=True, path_length=None))


@pytest.mark.parametrize(("strict", "trusted"), [("auto", True), ("off", True), ("on", False)])
async def test_a_clusters_authority_need_not_be_strict(tmp_path, strict, trusted):
    server_context, authority = sloppy_server(tmp_path)
    async with (
        ScriptedServer([reply(200, STORED)], server_context) as server,
        client_of(server, tls=TlsConfig(authority, strict=strict)) as client,
    ):
        if trusted:
            assert (await client.create(ConfigMap.new("a"))).resource_version == "7"
        else:
            with pytest.raises(TransportError, match="not trusted"):
                await client.create(ConfigMap.new("a"))


async def test_an_insecure_configuration_trusts_anybody(authority):
    async with (
        ScriptedServer([reply(200, STORED)], server_tls(authority, "other")) as server,
        client_of(server, tls=TlsConfig(insecure=True)) as client,
    ):
        assert (await client.get(ConfigMap, KEY)).resource_version == "7"


async def test_old_tls_versions_are_not_spoken(authority):
    tls = server_tls(authority)
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        tls.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        tls.maximum_version = ssl.TLSVersion.TLSv1_1
    tls.set_ciphers("ALL:@SECLEVEL=0")
    async with (
        ScriptedServer([reply(200, STORED)], tls) as server,
        client_of(server, tls=TlsConfig(pem(authority))) as client,
    ):
        with pytest.raises(TransportError):
            await client.create(ConfigMap.new("a"))


class ChangingCredentials(StaticCredentials):
    pair: ClientCertificate | None = None

    @property
    def client_certificate(self):
        return self.pair


async def test_a_new_client_certificate_is_presented_and_open_streams_stay(authority):
    tls = server_tls(authority, clients=authority)
    credentials = ChangingCredentials()
    credentials.pair = pair_of(authority, "first@lab.test")
    answers = [chunked(b"one", then=hang), reply(200, STORED)]
    async with (
        ScriptedServer(answers, tls) as server,
        client_of(server, tls=TlsConfig(pem(authority)), credentials=credentials) as client,
        client.stream("GET", "/watch") as chunks,
    ):
        credentials.pair = pair_of(authority, "second@lab.test")
        await client.get(ConfigMap, KEY)

        assert await anext(aiter(chunks)) == b"one"
        names = [cert["subjectAltName"][0][1] for cert in server.peer_certificates]

    assert names == ["first@lab.test", "second@lab.test"]


async def test_a_renewed_certificate_file_is_presented_once_its_key_is_there(authority, tmp_path):
    def write(pair, *, key=True):
        (tmp_path / "tls.crt").write_bytes(pair.certificate)
        if key:
            (tmp_path / "tls.key").write_bytes(pair.key)

    clock = ManualClock()
    write(pair_of(authority, "first@lab.test"))
    fields = {"client-certificate": "tls.crt", "client-key": "tls.key"}
    user = Entry("u", "user", fields, tmp_path / "config")
    credentials = user_credentials(user, user, environ={}, clock=clock)
    tls = server_tls(authority, clients=authority)
    async with (
        ScriptedServer([reply(200, STORED)], tls) as server,
        client_of(server, tls=TlsConfig(pem(authority)), credentials=credentials) as client,
    ):
        await client.get(ConfigMap, KEY)
        renewed = pair_of(authority, "second@lab.test")
        write(renewed, key=False)
        clock.seconds = 61
        await client.get(ConfigMap, KEY)
        write(renewed)
        clock.seconds = 100
        await client.get(ConfigMap, KEY)
        assert server.connections == 1
        clock.seconds = 130
        await client.get(ConfigMap, KEY)

        names = [cert["subjectAltName"][0][1] for cert in server.peer_certificates]

    assert names == ["first@lab.test", "second@lab.test"]
    assert credentials.rejected("")
    assert "BEGIN" not in repr(credentials)


async def test_no_key_is_left_on_disk(authority, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    credentials = StaticCredentials("", pair_of(authority))
    tls = server_tls(authority, clients=authority)
    async with (
        ScriptedServer([reply(200, STORED)], tls) as server,
        client_of(server, tls=TlsConfig(pem(authority)), credentials=credentials) as client,
    ):
        await client.get(ConfigMap, KEY)

        assert server.peer_certificates[0]
        assert list(tmp_path.iterdir()) == []


async def test_a_pair_that_does_not_fit_is_a_configuration_error(authority):
    one, other = pair_of(authority), pair_of(authority)
    credentials = StaticCredentials("", ClientCertificate(one.certificate, other.key))
    config = ClientConfig("https://127.0.0.1:1", credentials=credentials)
    async with Client.connect(config) as client:
        with pytest.raises(ConfigError, match="do not fit"):
            await client.get(ConfigMap, KEY)


async def test_an_authority_file_that_is_missing_is_named():
    config = ClientConfig("https://127.0.0.1:1", tls=TlsConfig(ca_file=Path("/nowhere/ca.crt")))
    async with Client.connect(config) as client:
        with pytest.raises(ConfigError, match=r"/nowhere/ca\.crt: No such file"):
            await client.get(ConfigMap, KEY)


async def test_a_plain_page_is_fetched_without_credentials_and_cut_where_it_is_too_long():
    page = reply(200, b"metric 1\n" * 1000)
    async with ScriptedServer([page]) as server:
        text = await fetch_text(f"{server.url}/metrics", largest=18)

    assert text == "metric 1\nmetric 1\n"
    assert "authorization" not in server.received[0].headers


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(reply(500, {}), "HTTP status 500, expected 200", id="status"),
        pytest.param(hang, "GET http", id="hangs"),
        pytest.param(reset, "GET http", id="reset"),
    ],
)
async def test_a_plain_page_that_is_not_to_be_had_says_so(answer, message):
    async with ScriptedServer([answer]) as server:
        with pytest.raises(TransportError, match=message):
            await fetch_text(f"{server.url}/metrics", timeout_seconds=0.2)
