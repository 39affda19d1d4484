import asyncio
import json
import stat

import pytest

from dynamo_operator.runtime.client import ConfigError
from dynamo_operator.runtime.client.credentials import StaticCredentials, TokenFileCredentials
from dynamo_operator.runtime.client.exec_plugin import ExecPlugin
from dynamo_operator.runtime.client.kubeconfig import Entry
from dynamo_operator.runtime.client.renewed_credentials import RenewedCredentials
from dynamo_operator.runtime.client.user_credentials import user_credentials
from tests.dynamo_operator.runtime.client.manual_clock import ManualClock

V1 = "client.authentication.k8s.io/v1"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----"
KEY = "-----BEGIN PRIVATE KEY-----\nMC4C\n-----END PRIVATE KEY-----"


async def test_a_token_is_stripped_and_never_shown():
    credentials = StaticCredentials.token(" t0ken\n")

    assert await credentials.authorization() == "Bearer t0ken"
    assert repr(credentials) == "StaticCredentials(Bearer)"
    assert not credentials.rejected("Bearer t0ken")


async def test_a_password_is_sent_as_basic():
    credentials = StaticCredentials.basic("me", "pässword")

    assert await credentials.authorization() == "Basic bWU6cMOkc3N3b3Jk"


async def test_a_token_file_is_read_again_each_minute(tmp_path):
    clock, file = ManualClock(), tmp_path / "token"
    file.write_text("one\n")
    credentials = TokenFileCredentials(file, clock=clock)

    seen = [await credentials.authorization()]
    file.write_text("two\n")
    for clock.seconds in (59, 60):
        seen.append(await credentials.authorization())

    assert seen == ["Bearer one", "Bearer one", "Bearer two"]


async def test_a_token_file_is_read_at_once_after_a_rejection(tmp_path):
    file = tmp_path / "token"
    file.write_text("one")
    credentials = TokenFileCredentials(file, clock=ManualClock())
    old = await credentials.authorization()
    file.write_text("two")

    assert credentials.rejected(old)

    assert await credentials.authorization() == "Bearer two"


@pytest.mark.parametrize("between", [None, b"", b"\xff", b"t\nw"])
async def test_a_token_file_that_is_being_replaced_leaves_the_old_token(tmp_path, between):
    clock, file = ManualClock(), tmp_path / "token"
    file.write_text("one")
    credentials = TokenFileCredentials(file, clock=clock)
    await credentials.authorization()
    if between is None:
        file.unlink()
    else:
        file.write_bytes(between)
    clock.seconds = 61

    assert await credentials.authorization() == "Bearer one"

    file.write_text("two")
    assert await credentials.authorization() == "Bearer two"


@pytest.mark.parametrize(
    "token", ["s3cret\nX-Other: y", "s3cret\x00", "s3cret\x7f", "s3cret\u20ac"]
)
async def test_a_token_that_no_header_can_hold_is_refused_without_showing_it(token, tmp_path):
    user = Entry("u1", "user", {"token": token}, tmp_path / "config")
    cluster = Entry("c1", "cluster", {}, tmp_path / "config")

    with pytest.raises(ConfigError) as caught:
        user_credentials(user, cluster, environ={})

    assert str(caught.value).endswith(
        "config: user 'u1': token: must be one line of printable ASCII characters"
    )


@pytest.mark.parametrize(("content", "message"), [(None, "No such file"), (" \n", "is empty")])
async def test_a_token_file_that_cannot_be_used_is_named(tmp_path, content, message):
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)

    with pytest.raises(ConfigError, match=f"{file}.*{message}"):
        await TokenFileCredentials(file).authorization()


@pytest.fixture
def plugin(tmp_path):
    """A plugin that notes each run and prints what the test put beside it."""
    script = tmp_path / "plug"
    script.write_text(
        f"#!/bin/sh\necho run >> {tmp_path}/runs\n"
        f'printf "%s" "$KUBERNETES_EXEC_INFO" > {tmp_path}/info\n'
        f'echo "$@ $EXTRA" > {tmp_path}/arguments\ncat {tmp_path}/answer\n'
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return FakePlugin(tmp_path)


class FakePlugin:
    def __init__(self, directory):
        self.directory = directory

    def answers(self, *, api_version=V1, **status):
        credential = {"apiVersion": api_version, "kind": "ExecCredential", "status": status}
        self.prints(json.dumps(credential))

    def prints(self, text):
        (self.directory / "answer").write_text(text)

    @property
    def runs(self):
        file = self.directory / "runs"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def credentials(self, clock=None, **fields):
        plugin = ExecPlugin(
            where="config: user 'u1'",
            command=str(self.directory / "plug"),
            api_version=V1,
            environment={"PATH": "/usr/bin:/bin"},
            **fields,
        )
        return RenewedCredentials(plugin.run, name="plug", clock=clock or ManualClock())


async def test_a_plugin_without_an_expiry_runs_once(plugin):
    plugin.answers(token="t1\n")
    credentials = plugin.credentials()

    for _ in range(3):
        assert await credentials.authorization() == "Bearer t1"

    assert plugin.runs == 1


async def test_a_plugin_runs_again_before_its_token_expires(plugin):
    clock = ManualClock()
    plugin.answers(token="t1", expirationTimestamp="2030-01-01T00:10:00Z")
    credentials = plugin.credentials(clock)
    await credentials.authorization()
    plugin.answers(token="t2", expirationTimestamp="2030-01-01T00:20:00Z")

    clock.seconds = 580
    before = await credentials.authorization()
    clock.seconds = 591
    after = await credentials.authorization()

    assert (before, after, plugin.runs) == ("Bearer t1", "Bearer t2", 2)


async def test_a_token_that_comes_expired_does_not_run_the_plugin_for_every_request(plugin):
    plugin.answers(token="t1", expirationTimestamp="2020-01-01T00:00:00Z")
    credentials = plugin.credentials()

    for _ in range(5):
        await credentials.authorization()

    assert plugin.runs == 1


async def test_many_requests_at_once_run_the_plugin_once(plugin):
    plugin.answers(token="t1")
    credentials = plugin.credentials()

    async with asyncio.TaskGroup() as tasks:
        found = [tasks.create_task(credentials.authorization()) for _ in range(20)]

    assert {task.result() for task in found} == {"Bearer t1"}
    assert plugin.runs == 1


async def test_many_requests_that_wait_for_a_failing_plugin_run_it_once_and_later_ones_again(
    plugin,
):
    credentials = plugin.credentials()  # without an answer it fails

    async def ask():
        with pytest.raises(ConfigError, match="exit code 1"):
            await credentials.authorization()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(20):
            tasks.create_task(ask())
    assert plugin.runs == 1
    plugin.answers(token="t1")

    assert await credentials.authorization() == "Bearer t1"
    assert plugin.runs == 2


async def test_a_rejected_token_runs_the_plugin_again_but_not_in_a_hot_loop(plugin):
    clock = ManualClock()
    plugin.answers(token="t1")
    credentials = plugin.credentials(clock)
    await credentials.authorization()

    assert credentials.rejected("Bearer t1")
    await credentials.authorization()
    clock.seconds = 1
    again = credentials.rejected("Bearer t1")
    clock.seconds = 60
    later = credentials.rejected("Bearer t1")

    assert (again, later, plugin.runs) == (False, True, 2)


async def test_a_rejection_of_an_older_token_does_not_run_the_plugin(plugin):
    plugin.answers(token="t1")
    credentials = plugin.credentials()
    await credentials.authorization()

    assert credentials.rejected("Bearer t0")
    await credentials.authorization()

    assert plugin.runs == 1


async def test_a_plugin_may_answer_with_a_client_certificate_alone(plugin):
    plugin.answers(clientCertificateData=CERTIFICATE, clientKeyData=KEY)
    credentials = plugin.credentials()

    assert await credentials.authorization() == ""
    pair = credentials.client_certificate
    assert (pair.certificate.decode(), pair.key.decode()) == (CERTIFICATE, KEY)


async def test_a_certificate_of_the_kubeconfig_goes_with_a_plugins_token(plugin, tmp_path):
    plugin.answers(token="t1")
    fields = {
        "client-certificate-data": "Q0VSVA==",
        "client-key-data": "S0VZ",
        "exec": {
            "apiVersion": V1,
            "command": "./plug",
            "interactiveMode": "Never",
            "env": [{"name": "EXTRA"}],
        },
    }
    user = Entry("u1", "user", fields, tmp_path / "config")
    cluster = Entry("c1", "cluster", {}, tmp_path / "config")

    credentials = user_credentials(user, cluster, environ={"PATH": "/usr/bin:/bin"})

    assert await credentials.authorization() == "Bearer t1"
    assert credentials.client_certificate is not None
    assert credentials.client_certificate.certificate == b"CERT"


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ({"clientCertificateData": CERTIFICATE}, "go together"),
        ({"clientKeyData": KEY}, "go together"),
        ({}, "neither a token nor a client certificate"),
        ({"token": "t", "api_version": f"{V1}beta1"}, f"configured {V1}, got {V1}beta1"),
        ({"token": "s3cret", "expirationTimestamp": "soon"}, "no RFC 3339 time"),
        ({"token": "s3cret\nX-Other: y"}, "must be one line"),
    ],
)
async def test_an_answer_that_is_no_credential_is_refused_without_showing_it(
    plugin, status, message
):
    plugin.answers(**status)

    with pytest.raises(ConfigError, match=message) as caught:
        await plugin.credentials().authorization()

    assert str(caught.value).startswith("config: user 'u1': exec plugin ")
    assert not {"s3cret", "MC4C"} & set(str(caught.value).split())


@pytest.mark.parametrize(
    ("text", "message"),
    [("s3cret", "is no JSON"), ("[]", "no ExecCredential"), ('{"kind": "Pod"}', "no ExecCred")],
)
async def test_other_output_is_refused_without_showing_it(plugin, text, message):
    plugin.prints(text)

    with pytest.raises(ConfigError, match=message) as caught:
        await plugin.credentials().authorization()

    assert "s3cret" not in str(caught.value)


async def test_a_plugin_that_fails_says_its_exit_code(plugin):
    with pytest.raises(ConfigError, match="ended with exit code 1"):
        await plugin.credentials().authorization()


async def test_a_plugin_that_is_not_installed_says_how_to_install_it():
    plugin = ExecPlugin("c: user 'u'", "no-such-plug", V1, install_hint="install\n  plug first")

    with pytest.raises(ConfigError, match="No such file or directory; install plug first"):
        await plugin.run()


async def test_a_plugin_that_hangs_is_ended(plugin):
    script = plugin.directory / "plug"
    script.write_text("#!/bin/sh\nexec sleep 60\n")

    with pytest.raises(ConfigError, match=r"no answer in 0\.2 s"):
        await plugin.credentials(timeout_seconds=0.2).authorization()


async def test_a_plugin_is_told_what_it_needs_of_the_cluster(plugin, tmp_path):
    plugin.answers(token="t1")
    (tmp_path / "ca.crt").write_text("CA")
    cluster = Entry(
        "c1",
        "cluster",
        {
            "server": "https://h:1",
            "certificate-authority": "ca.crt",
            "tls-server-name": "lab",
            "proxy-url": "http://p:1",
            "disable-compression": True,
            "extensions": [
                {"name": "other", "extension": 1},
                {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}},
            ],
        },
        tmp_path / "config",
    )
    fields = {
        "apiVersion": V1,
        "command": "./plug",
        "args": ["a", "b"],
        "env": [{"name": "EXTRA", "value": "c"}],
        "interactiveMode": "IfAvailable",
        "provideClusterInfo": True,
    }
    user = Entry("u1", "user", {"exec": fields}, tmp_path / "config")
    environ = {"PATH": "/usr/bin:/bin", "EXTRA": "overridden"}

    credentials = user_credentials(user, cluster, environ=environ)

    assert await credentials.authorization() == "Bearer t1"
    assert json.loads((tmp_path / "info").read_text()) == {
        "kind": "ExecCredential",
        "apiVersion": V1,
        "spec": {
            "cluster": {
                "server": "https://h:1",
                "tls-server-name": "lab",
                "certificate-authority-data": "Q0E=",
                "proxy-url": "http://p:1",
                "disable-compression": True,
                "config": {"audience": "x"},
            },
            "interactive": False,
        },
    }
    assert (tmp_path / "arguments").read_text() == "a b c\n"


async def test_a_plugin_that_does_not_ask_is_told_nothing_of_the_cluster(plugin):
    plugin.answers(token="t1")

    await plugin.credentials().authorization()

    info = json.loads((plugin.directory / "info").read_text())
    assert info["spec"] == {"interactive": False}
