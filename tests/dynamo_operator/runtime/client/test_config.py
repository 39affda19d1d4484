import base64
import codecs
import os
from pathlib import Path
from textwrap import dedent

import pytest

from dynamo_operator.runtime.client import ClientConfig, ConfigError, Impersonation
from dynamo_operator.runtime.client.proxies import proxy_for

CA = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
CA_DATA = base64.b64encode(CA.encode()).decode()

PLAIN = dedent(
    """\
    apiVersion: v1
    kind: Config
    current-context: lab
    clusters: [{name: c1, cluster: {server: "https://127.0.0.1:6443"}}]
    contexts:
    - {name: lab, context: {cluster: c1, user: u1, namespace: team-a}}
    - {name: other, context: {cluster: c1, user: u1}}
    users: [{name: u1, user: {token: abc}}]
    """
)


def one(cluster='server: "https://127.0.0.1:6443"', user="token: abc"):
    """A kubeconfig of one context, with those fields of its cluster and user."""
    return dedent(
        f"""\
        current-context: lab
        clusters: [{{name: c1, cluster: {{{cluster}}}}}]
        contexts: [{{name: lab, context: {{cluster: c1, user: u1}}}}]
        users: [{{name: u1, user: {{{user}}}}}]
        """
    )


@pytest.fixture
def load(tmp_path):
    def load_text(text, context=None, **environ):
        file = tmp_path / "config"
        if isinstance(text, bytes):
            file.write_bytes(text)
        else:
            file.write_text(text)
        return ClientConfig.load(file, context, environ=environ)

    return load_text


async def test_a_plain_kubeconfig_gives_its_current_context(load):
    config = load(PLAIN)

    assert (config.server, config.host) == ("https://127.0.0.1:6443", "127.0.0.1:6443")
    assert config.namespace == "team-a"
    assert config.source.startswith("context 'lab' of /")
    assert await config.credentials.authorization() == "Bearer abc"


def test_another_context_can_be_asked_for(load):
    assert load(PLAIN, "other").namespace == "default"


async def test_files_are_merged_as_kubectl_does_it(tmp_path):
    (tmp_path / "sub").mkdir()
    a, missing, b = tmp_path / "a.yaml", tmp_path / "missing.yaml", tmp_path / "sub" / "b.yaml"
    a.write_text("{apiVersion: v1, kind: Config, current-context: lab, preferences: {}}\n")
    b.write_text(
        dedent(
            """\
            apiVersion: v1
            kind: Config
            current-context: other
            clusters:
            - name: c1
              cluster:
                server: https://127.0.0.1:1/k8s/clusters/c-7x/
                certificate-authority: pki/ca.crt
            contexts: [{name: lab, context: {cluster: c1, user: u1, namespace: team-a}}]
            users: [{name: u1, user: {token: abc}}]
            """
        )
    )

    config = ClientConfig.load(environ={"KUBECONFIG": os.pathsep.join(map(str, [a, missing, b]))})

    assert config.source == f"context 'lab' of {b}"
    assert config.server == "https://127.0.0.1:1/k8s/clusters/c-7x"
    assert config.namespace == "team-a"
    assert config.tls.ca_file == tmp_path / "sub" / "pki" / "ca.crt"


async def test_the_first_file_that_has_an_entry_wins_and_entries_are_not_mixed(tmp_path):
    first, second = tmp_path / "1", tmp_path / "2"
    first.write_text("users: [{name: u1, user: {username: me, password: pw}}]\n")
    second.write_text(PLAIN)

    config = ClientConfig.load(environ={"KUBECONFIG": f"{first}{os.pathsep}{second}"})

    assert (await config.credentials.authorization()).startswith("Basic ")


def test_a_file_asked_for_goes_before_the_environment(load, tmp_path):
    decoy = tmp_path / "decoy"
    decoy.write_text(PLAIN.replace("6443", "1"))

    config = load(PLAIN, KUBECONFIG=str(decoy), KUBERNETES_SERVICE_HOST="10.0.0.1")

    assert config.host == "127.0.0.1:6443"


def test_the_home_directory_comes_last(tmp_path):
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text(PLAIN)

    assert ClientConfig.load(environ={"HOME": str(tmp_path)}).namespace == "team-a"


@pytest.mark.parametrize(
    "content",
    [
        codecs.BOM_UTF8 + PLAIN.replace("\n", "\r\n").encode(),
        PLAIN.encode("utf-16"),
        codecs.BOM_UTF16_BE + PLAIN.encode("utf-16-be"),
    ],
    ids=["bom and crlf", "utf-16", "utf-16 big-endian"],
)
def test_files_written_on_windows_are_read(load, content):
    assert load(content).namespace == "team-a"


@pytest.mark.parametrize("bom", [b"", codecs.BOM_UTF8], ids=["plain", "bom"])
def test_an_undecodable_file_is_named_with_the_byte(load, bom, tmp_path):
    content = bom + b"# caf\xe9\n" + PLAIN.encode()

    with pytest.raises(ConfigError) as caught:
        load(content)

    assert str(caught.value) == f"{tmp_path / 'config'}: byte {len(bom) + 5} is not utf-8"


EXEC = "exec: {apiVersion: client.authentication.k8s.io/v1, command: plug"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no current-context is set; contexts: there is none"),
        ("[1, 2]", "not a kubeconfig: an object is expected"),
        ("kind: Pod", "not a kubeconfig: its kind is 'Pod'"),
        ("a: [1", "line "),
        ("clusters: {}\ncurrent-context: x", "no context 'x'; contexts: there is none"),
        ("clusters: 5", "clusters: must be a list"),
        ("users: [{user: {}}]", r"users\[0\]: has no name"),
        ("users: [{name: u, user: 5}]", r"users\[0\].user: must be an object"),
        ("current-context: 5", "current-context: must be text"),
        (PLAIN.replace("current-context: lab", ""), "contexts: lab, other"),
        (PLAIN.replace("user: u1", "user: gone"), "context 'lab': user 'gone' does not exist"),
        (PLAIN.replace("cluster: c1", "cluster: gone"), "cluster 'gone' does not exist"),
        (PLAIN.replace("cluster: c1,", ""), "context 'lab': names no cluster"),
        (
            'clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}},'
            ' {name: c, cluster: {server: "https://127.0.0.1:2"}}]',
            "clusters: duplicate name 'c'",
        ),
        (one(cluster=""), "cluster 'c1': server: must be an http"),
        (one(cluster="server: '127.0.0.1:6443'"), "server: must be an http"),
        (one(cluster="server: 'https://me:pw@h'"), "server: must hold no user name"),
        (
            one(
                cluster="server: 'https://127.0.0.1:1', insecure-skip-tls-verify: true, "
                f"certificate-authority-data: {CA_DATA}"
            ),
            "cluster 'c1': a certificate authority and insecure-skip-tls-verify exclude",
        ),
        (
            one(
                cluster="server: 'https://127.0.0.1:1', certificate-authority: ca.crt, "
                f"certificate-authority-data: {CA_DATA}"
            ),
            "are both given",
        ),
        (
            one(cluster="server: 'https://h', certificate-authority-data: '***'"),
            "certificate-authority-data: not base64",
        ),
        (one(cluster="server: 'https://h', insecure-skip-tls-verify: 'yes'"), "true or false"),
        (one(cluster="server: 'https://h', proxy-url: 'socks5://p:1'"), "scheme 'socks5'"),
        (one(user="token: 123"), "user 'u1': token: must be text; quote it"),
        (one(user="token: a, username: b"), "token and username are both given"),
        (one(user="client-certificate-data: QQ=="), "client-certificate needs client-key too"),
        (one(user="client-key-data: QQ=="), "client-key needs client-certificate too"),
        (one(user="client-key: /nowhere/key"), "client-key /nowhere/key: No such file"),
        (one(user="auth-provider: {name: lab}"), "auth-provider 'lab' is not supported"),
        (one(user="auth-provider: {name: gcp}, exec: {}"), "needs access-token or cmd-path"),
        (one(user="as-groups: [a]"), "need as"),
        (one(user="as: a, as-groups: b"), "as-groups: must be a list of texts"),
        (one(user=EXEC + "}"), "interactiveMode must be specified"),
        (one(user=EXEC + ", interactiveMode: Always}"), "there is no terminal"),
        (one(user=EXEC + ", interactiveMode: Never, args: [1]}"), "args: must be a list of texts"),
        (one(user=EXEC + ", interactiveMode: Never, env: [{name: a, value: 1}]}"), "env: every"),
        (one(user="exec: {apiVersion: client.authentication.k8s.io/v1}"), "command must be"),
        (one(user="exec: {command: a, apiVersion: v1}"), "apiVersion must be one of"),
        (one(user="exec: yes"), "exec: must be an object"),
    ],
)
def test_what_kubectl_refuses_is_refused_in_one_line_that_names_file_and_entry(
    load, text, message, tmp_path
):
    with pytest.raises(ConfigError, match=message) as caught:
        load(text)

    assert "\n" not in str(caught.value)
    assert str(tmp_path / "config") in str(caught.value)


def test_a_syntax_error_shows_nothing_of_the_file(load):
    with pytest.raises(ConfigError) as caught:
        load("users:\n- token: s3cret\n  other: [s3cret\n")

    assert "s3cret" not in f"{caught.value}"


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({}, "no kubeconfig: nowhere to look"),
        ({"HOME": "/nowhere"}, "no kubeconfig: /nowhere/.kube/config does not exist"),
        ({"KUBECONFIG": "/nowhere/a"}, "no kubeconfig: /nowhere/a does not exist"),
    ],
)
def test_nothing_found_is_said_with_where_was_looked(environ, message):
    with pytest.raises(ConfigError, match=message):
        ClientConfig.load(environ=environ)


def test_a_missing_file_that_was_asked_for_is_an_error():
    with pytest.raises(ConfigError, match="/nowhere/config: no such file"):
        ClientConfig.load("/nowhere/config", environ={})


def test_impersonation_is_read(load):
    user = "token: a, as: jane, as-uid: u-1, as-groups: [devs], as-user-extra: {scopes: [a, b]}"

    config = load(one(user=user))

    assert config.impersonation == Impersonation("jane", "u-1", ("devs",), {"scopes": ("a", "b")})


async def test_a_token_file_goes_before_a_token(load, tmp_path):
    (tmp_path / "token").write_text("from-file\n")

    config = load(one(user="token: direct, tokenFile: token"))

    assert await config.credentials.authorization() == "Bearer from-file"


def test_a_client_certificate_is_read_from_data_and_file(load, tmp_path):
    (tmp_path / "key.pem").write_bytes(b"KEY")

    config = load(one(user="client-certificate-data: Q0VSVA==, client-key: key.pem"))

    pair = config.credentials.client_certificate
    assert pair is not None
    assert (pair.certificate, pair.key) == (b"CERT", b"KEY")


def test_a_context_without_a_user_is_anonymous(load):
    config = load(PLAIN.replace("user: u1, ", ""))

    assert repr(config.credentials) == "StaticCredentials(no header)"


@pytest.mark.parametrize(
    ("cluster", "compression"),
    [("server: 'https://h'", True), ("server: 'https://h', disable-compression: true", False)],
)
def test_compression_is_on_unless_it_is_disabled(load, cluster, compression):
    assert load(one(cluster=cluster)).compression is compression


def test_tls_settings_are_read(load):
    cluster = f"server: 'https://h', tls-server-name: lab, certificate-authority-data: {CA_DATA}"

    tls = load(one(cluster=cluster)).tls

    assert (tls.server_name, tls.ca_data, tls.insecure) == ("lab", CA.encode(), False)


@pytest.mark.parametrize(
    "user",
    [
        "token: c4nary",
        "username: me, password: c4nary",
        "client-certificate-data: YzRuYXJ5, client-key-data: YzRuYXJ5",
        EXEC + ", interactiveMode: Never, args: [c4nary], env: [{name: A, value: c4nary}]}",
    ],
)
def test_no_secret_shows_in_a_representation(load, user):
    cluster = "server: 'https://h', proxy-url: 'http://me:c4nary@p:1'"

    config = load(one(cluster=cluster, user=user), CANARY="c4nary")

    shown = f"{config}{config!r}{config.credentials!r}{config.credentials.client_certificate!r}"
    assert "c4nary" not in shown


def service_account(directory: Path, **files):
    for name, text in {"token": "t0ken\n", "ca.crt": CA, "namespace": "lab\n", **files}.items():
        if text is not None:
            (directory / name.replace("_", ".")).write_text(text)
    return directory


async def test_in_a_pod_the_service_account_is_used(tmp_path):
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}

    config = ClientConfig.in_cluster(environ=environ, directory=service_account(tmp_path))

    assert (config.server, config.namespace) == ("https://10.0.0.1:6443", "lab")
    assert config.tls.ca_file == tmp_path / "ca.crt"
    assert not config.compression
    assert await config.credentials.authorization() == "Bearer t0ken"


def test_an_ipv6_service_host_is_put_in_brackets(tmp_path):
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1"}

    config = ClientConfig.in_cluster(environ=environ, directory=service_account(tmp_path))

    assert config.server == "https://[fd00::1]:443"


def test_a_pod_without_a_token_says_so(tmp_path):
    directory = service_account(tmp_path, token=None)

    with pytest.raises(ConfigError, match="mounts no ServiceAccount token"):
        ClientConfig.in_cluster(
            environ={"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, directory=directory
        )
    with pytest.raises(ConfigError, match="not in a Pod"):
        ClientConfig.in_cluster(environ={}, directory=directory)


def test_in_a_pod_the_home_directory_is_not_looked_at(tmp_path):
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text(PLAIN)
    environ = {"HOME": str(tmp_path), "KUBERNETES_SERVICE_HOST": "10.0.0.1"}

    with pytest.raises(ConfigError, match="ServiceAccount"):
        ClientConfig.load(environ=environ)


@pytest.mark.parametrize(
    ("server", "environ", "proxy"),
    [
        ("https://lab.test", {}, ""),
        ("https://lab.test", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("https://lab.test", {"https_proxy": "p:1"}, "http://p:1"),
        ("http://lab.test", {"HTTPS_PROXY": "http://p:1"}, ""),
        ("http://lab.test", {"HTTP_PROXY": "http://p:1"}, "http://p:1"),
        ("https://lab.test", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "lab.test"}, ""),
        ("https://a.lab.test", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "lab.test"}, ""),
        ("https://a.lab.test", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": ".lab.test"}, ""),
        ("https://a.lab.test", {"HTTPS_PROXY": "http://p:1", "no_proxy": "x, *.lab.test"}, ""),
        ("https://xlab.test", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "lab.test"}, "http://p:1"),
        ("https://lab.test", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*"}, ""),
        ("https://10.1.2.3", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8"}, ""),
        ("https://11.1.2.3", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8"}, "http://p:1"),
        ("https://[fd00::5]", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "fd00::/8"}, ""),
        ("https://[fd00::5]", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "[fd00::5]"}, ""),
        ("https://lab:6443", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "lab:6443"}, ""),
        ("https://lab:6443", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "lab:443"}, "http://p:1"),
        ("https://lab", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": ", ,bad/net"}, "http://p:1"),
        ("https://127.0.0.1:6443", {"HTTPS_PROXY": "http://p:1"}, ""),
        ("https://localhost:6443", {"HTTPS_PROXY": "http://p:1"}, ""),
    ],
)
def test_the_environment_names_a_proxy_and_its_exceptions(server, environ, proxy):
    assert proxy_for(server, configured="", where="x", environ=environ) == proxy


def test_the_kubeconfigs_proxy_goes_before_the_environment():
    environ = {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*"}

    assert proxy_for("https://h", configured="http://k:2", where="x", environ=environ) == (
        "http://k:2"
    )


def test_a_socks_proxy_is_refused_without_showing_its_password():
    with pytest.raises(ConfigError, match=r"\$HTTPS_PROXY: scheme 'socks5'") as caught:
        proxy_for(
            "https://h", configured="", where="x", environ={"HTTPS_PROXY": "socks5://me:pw@p:1"}
        )

    assert "pw" not in str(caught.value)
