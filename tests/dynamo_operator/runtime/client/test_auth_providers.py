"""The auth-providers of kubeconfig files; how kubectl takes them is in test_kubectl_oracle."""

import asyncio
import base64
import json
import ssl
from datetime import UTC, datetime
from urllib.parse import parse_qs

import pytest
import trustme
from ruamel.yaml import YAML

from dynamo_operator.runtime.client import ConfigError
from dynamo_operator.runtime.client.kubeconfig import Entry, store_provider_config
from dynamo_operator.runtime.client.user_credentials import user_credentials
from tests.dynamo_operator.runtime.client.manual_clock import ManualClock
from tests.dynamo_operator.runtime.client.scripted_server import ScriptedServer, reply, reset
from tests.dynamo_operator.runtime.client.test_kubectl_oracle import token_of

NOW = datetime(2030, 1, 1, tzinfo=UTC)
OLD = token_of("old", NOW.timestamp() - 1)
NEW = token_of("new", NOW.timestamp() + 3600)
NEWER = token_of("newer", NOW.timestamp() + 7200)
CLUSTER = Entry("c", "cluster", {}, None)  # type: ignore[arg-type] # no part of this


@pytest.fixture
def authority():
    return trustme.CA()


@pytest.fixture
async def issuer(authority):
    """An issuer that answers with what the test adds, after the address of its tokens."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    async with ScriptedServer([], tls=tls) as server:
        server.answers.append(reply(200, {"token_endpoint": f"{server.url}/token?tenant=a"}))
        yield server


@pytest.fixture
def credentials_of(tmp_path):
    def load(name, clock=None, **config):
        fields = {"auth-provider": {"name": name, "config": config}}
        users = {"users": [{"name": "u", "user": fields}]}
        with (tmp_path / "config").open("w") as file:
            YAML().dump(users, file)
        user = Entry("u", "user", fields, tmp_path / "config")
        environ = {"PATH": "/usr/bin:/bin"}
        return user_credentials(user, CLUSTER, environ=environ, clock=clock or ManualClock())

    return load


@pytest.fixture
def oidc(authority, credentials_of, issuer):
    def load(clock=None, **tokens):
        data = base64.b64encode(authority.cert_pem.bytes()).decode()
        config = {
            "idp-issuer-url": f"{issuer.url}/",
            "idp-certificate-authority-data": data,
            "client-id": "me",
            "client-secret": "s:3cret",
            **tokens,
        }
        return credentials_of("oidc", clock, **config)

    return load


async def test_an_id_token_is_sent_until_it_expires_and_renewed_once(oidc, issuer):
    clock = ManualClock()
    issuer.answers.append(reply(200, {"id_token": NEWER}))
    credentials = oidc(clock, **{"id-token": NEW, "refresh-token": "r"})

    first = await credentials.authorization()
    assert issuer.received == []
    clock.seconds = 3595
    async with asyncio.TaskGroup() as tasks:
        later = [tasks.create_task(credentials.authorization()) for _ in range(5)]

    assert first == f"Bearer {NEW}"
    assert {task.result() for task in later} == {f"Bearer {NEWER}"}
    found, asked = issuer.received
    assert found.target == "/.well-known/openid-configuration"
    assert asked.target == "/token?tenant=a"
    assert parse_qs(asked.body.decode()) == {
        "grant_type": ["refresh_token"],
        "refresh_token": ["r"],
    }
    assert base64.b64decode(asked.headers["authorization"].split()[1]) == b"me:s%3A3cret"


async def test_a_client_without_a_secret_names_itself_in_the_form(oidc, issuer):
    issuer.answers.append(reply(200, {"id_token": NEW}))

    await oidc(**{"refresh-token": "r", "client-secret": ""}).authorization()

    assert "authorization" not in issuer.received[1].headers
    assert parse_qs(issuer.received[1].body.decode())["client_id"] == ["me"]


async def test_a_renewed_refresh_token_is_used_next_and_stored(oidc, issuer, tmp_path):
    config = tmp_path / "config"
    first, second = {"id_token": NEW, "refresh_token": "r2"}, {"id_token": NEWER}
    issuer.answers += [reply(200, first), issuer.answers[0], reply(200, second)]
    clock = ManualClock()
    credentials = oidc(clock, **{"id-token": OLD, "refresh-token": "r1"})
    config.write_text(f"# mine\n{config.read_text()}")
    config.chmod(0o640)

    await credentials.authorization()
    stored = config.read_text()
    clock.seconds = 3600
    await credentials.authorization()

    assert "# mine" in stored
    assert (f"id-token: {NEW}" in stored, "refresh-token: r2" in stored) == (True, True)
    assert config.stat().st_mode & 0o777 == 0o640
    assert parse_qs(issuer.received[3].body.decode())["refresh_token"] == ["r2"]
    assert [path.name for path in tmp_path.iterdir()] == ["config"]


async def test_a_file_that_somebody_else_writes_is_left_alone(oidc, issuer, tmp_path):
    issuer.answers.append(reply(200, {"id_token": NEW, "refresh_token": "r2"}))
    credentials = oidc(**{"refresh-token": "r1"})
    (tmp_path / "config.lock").touch()
    before = (tmp_path / "config").read_text()

    assert await credentials.authorization() == f"Bearer {NEW}"

    assert (tmp_path / "config").read_text() == before
    with pytest.raises(FileExistsError):
        store_provider_config(tmp_path / "config", "u", {"id-token": NEW})


async def test_a_rejected_token_is_renewed(oidc, issuer):
    issuer.answers.append(reply(200, {"id_token": NEWER}))
    credentials = oidc(**{"id-token": NEW, "refresh-token": "r"})

    assert credentials.rejected(await credentials.authorization())
    assert await credentials.authorization() == f"Bearer {NEWER}"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (reply(400, {"error": "invalid_grant"}), "answered 400 invalid_grant; log in anew"),
        (reply(502, b"<html>"), "answered 502; log in anew"),
        (reply(200, b"s3cret"), "answered 200; log in anew"),
        (reply(200, {"access_token": "s3cret"}), "answered without an id_token"),
        (reply(200, {"id_token": "s3cret\nX: y"}), "must be one line"),
        (reset, "POST /token"),
    ],
)
async def test_an_issuer_that_issues_nothing_is_an_error_in_one_line(oidc, issuer, answer, message):
    issuer.answers.append(answer)
    credentials = oidc(**{"refresh-token": "s3cret"})

    with pytest.raises(ConfigError, match=message) as caught:
        await credentials.authorization()

    assert "\n" not in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("endpoint", [None, "http://127.0.0.1/token"])
async def test_tokens_are_only_asked_for_over_tls(oidc, issuer, endpoint):
    issuer.answers[:] = [reply(200, {"token_endpoint": endpoint})]

    with pytest.raises(ConfigError, match="names no https:// token_endpoint"):
        await oidc(**{"refresh-token": "r"}).authorization()


async def test_an_issuer_of_another_authority_is_told_nothing(oidc, issuer):
    data = base64.b64encode(trustme.CA().cert_pem.bytes()).decode()
    credentials = oidc(**{"refresh-token": "r", "idp-certificate-authority-data": data})

    with pytest.raises(ConfigError, match="is not trusted"):
        await credentials.authorization()

    assert issuer.received == []


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"client-id": "me"}, "idp-issuer-url must be specified"),
        ({"idp-issuer-url": "https://i"}, "client-id must be specified"),
        ({"idp-issuer-url": "http://i", "client-id": "me"}, "must be an https:// URL"),
    ],
)
def test_an_issuer_that_is_not_described_is_refused(credentials_of, config, message):
    with pytest.raises(ConfigError, match=message):
        credentials_of("oidc", **config)


def gcloud(directory, *answers):
    """A program that prints one answer after the other."""
    for number, answer in enumerate(answers):
        (directory / f"answer{number}").write_text(json.dumps(answer))
    program = directory / "gcloud"
    program.write_text(
        f'#!/bin/sh\ncd {directory}\necho "$@" >> asked\ncat answer$(( $(wc -l < asked) - 1 ))\n'
    )
    program.chmod(0o755)
    return {
        "cmd-path": str(program),
        "cmd-args": "config 'config helper'",
        "token-key": "{.credential.access_token}",
        "expiry-key": "{.credential.token_expiry}",
    }


async def test_a_gcp_token_is_sent_until_it_expires_and_then_the_program_runs(
    credentials_of, tmp_path
):
    clock = ManualClock()
    answer = {"credential": {"access_token": "t2", "token_expiry": "2030-01-01T02:00:00Z"}}
    config = gcloud(tmp_path, answer)
    standing = {"access-token": "t1", "expiry": "2030-01-01T01:00:00Z"}
    credentials = credentials_of("gcp", clock, **standing, **config)

    first = await credentials.authorization()
    clock.seconds = 3600
    second = [await credentials.authorization() for _ in range(3)]

    assert (first, set(second)) == ("Bearer t1", {"Bearer t2"})
    assert (tmp_path / "asked").read_text() == "config config helper\n"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "use the exec plugin gke-gcloud-auth-plugin"),
        ({"cmd-path": "/nowhere/gcloud"}, "/nowhere/gcloud: No such file"),
        ({"cmd-path": "false"}, "false: ended with exit code 1"),
        ({"cmd-path": "true", "cmd-args": "'"}, "true: No closing quotation"),
        ({"cmd-path": "echo", "cmd-args": "s3cret"}, "echo: its answer is no JSON"),
        ({"cmd-path": "echo", "cmd-args": "'{}'"}, r"echo: its answer has no \{.access_token\}"),
        ({"access-token": "s3cret", "expiry": "soon"}, "its expiry is no RFC 3339 time"),
        ({"access-token": "s3cret", "expiry": "2020-01-01T00:00:00Z"}, "no cmd-path is given"),
    ],
)
async def test_a_gcp_provider_that_gives_no_token_says_why(credentials_of, config, message):
    with pytest.raises(ConfigError, match=message) as caught:
        await credentials_of("gcp", **config).authorization()

    assert "s3cret" not in str(caught.value)


def test_a_provider_that_is_no_object_is_refused(tmp_path):
    user = Entry("u", "user", {"auth-provider": "oidc"}, tmp_path / "config")

    with pytest.raises(ConfigError, match="must be an object with a config"):
        user_credentials(user, CLUSTER, environ={})
