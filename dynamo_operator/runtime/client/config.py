"""Where the cluster is, and how we prove to it who we are."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import quote, urlsplit

from dynamo_operator.runtime.client import kubeconfig as kubeconfig_files
from dynamo_operator.runtime.client.credentials import (
    Credentials,
    StaticCredentials,
    TokenFileCredentials,
)
from dynamo_operator.runtime.client.errors import ConfigError
from dynamo_operator.runtime.client.kubeconfig import Entry
from dynamo_operator.runtime.client.proxies import proxy_for
from dynamo_operator.runtime.client.tls import TlsConfig
from informers.clock import Clock

if TYPE_CHECKING:
    from kubernetes_asyncio.client import Configuration

SERVICE_ACCOUNT_DIRECTORY = Path("/var/run/secrets/kubernetes.io/serviceaccount")

_POD = "the Pod's ServiceAccount"
USER_AGENT = f"operator-runtime (Python {platform.python_version()}; {platform.system().lower()})"


@dataclass(frozen=True, slots=True)
class Impersonation:
    """On whose behalf we ask; empty for our own."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def headers(self) -> Iterator[tuple[str, str]]:
        """Yield the headers, one per value."""
        if self.user:
            yield "Impersonate-User", self.user
        if self.uid:
            yield "Impersonate-Uid", self.uid
        for group in self.groups:
            yield "Impersonate-Group", group
        for name, values in self.extra.items():
            for value in values:
                yield f"Impersonate-Extra-{_escaped(name)}", value


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """One cluster and one identity.

    Its representation shows no secret.

    Attributes:
        server: the API server's URL, possibly with a path.
        namespace: where objects without a namespace belong.
        tls: how the server is checked.
        credentials: how we prove who we are.
        impersonation: on whose behalf we ask.
        proxy: URL of an HTTP proxy, or "".
        compression: whether answers may come compressed; costs time where the network is near.
        user_agent: how we introduce ourselves.
        requests_per_second: how many requests are sent in the long run; 0 for no limit, because
            API servers look after themselves (priority and fairness).
        burst: how many at once after a pause, where there is a limit.
        source: where this was found, for people.
    """

    server: str
    namespace: str = "default"
    tls: TlsConfig = field(default_factory=TlsConfig)
    credentials: Credentials = field(default_factory=StaticCredentials)
    impersonation: Impersonation = Impersonation()
    proxy: str = field(default="", repr=False)
    compression: bool = False
    user_agent: str = USER_AGENT
    requests_per_second: float = 0.0
    burst: int = 10
    source: str = ""

    @property
    def is_in_cluster(self) -> bool:
        """Whether it is that of the Pod that we run in."""
        return self.source == _POD

    @property
    def host(self) -> str:
        """Host and port of the server."""
        return urlsplit(self.server).netloc

    def static_headers(self) -> Iterator[tuple[str, str]]:
        """Yield the headers that are the same in every request."""
        yield "User-Agent", self.user_agent
        yield "Accept-Encoding", "gzip" if self.compression else "identity"
        yield from self.impersonation.headers()

    @classmethod
    def load(
        cls,
        kubeconfig: str | Path | None = None,
        context: str | None = None,
        *,
        environ: Mapping[str, str],
        clock: Clock | None = None,
    ) -> Self:
        """Find the cluster as kubectl does.

        In this order: `kubeconfig`, $KUBECONFIG (a list of files, merged), the ServiceAccount of
        the Pod that we run in, ~/.kube/config.

        Args:
            kubeconfig: a kubeconfig file.
            context: another context than the current one.
            environ: the environment; also for proxies and exec plugins.
            clock: decides when credentials are renewed.

        Raises:
            ConfigError: nothing was found, or what was found cannot be used.
        """
        if kubeconfig:
            paths = [Path(kubeconfig)]
            if not paths[0].exists():
                raise ConfigError(f"kubeconfig {kubeconfig}: no such file")
        else:
            paths = kubeconfig_files.paths_in(environ)
        if not paths and environ.get("KUBERNETES_SERVICE_HOST") and context is None:
            return cls.in_cluster(environ=environ, clock=clock)
        if not paths:
            home = environ.get("HOME") or environ.get("USERPROFILE") or ""
            paths = [Path(home, ".kube", "config")] if home else []
        return cls._from_kubeconfig(paths, context, environ, clock)

    @classmethod
    def in_cluster(
        cls,
        *,
        environ: Mapping[str, str],
        directory: Path = SERVICE_ACCOUNT_DIRECTORY,
        clock: Clock | None = None,
    ) -> Self:
        """Use the ServiceAccount of the Pod that we run in.

        Args:
            environ: holds KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT.
            directory: where the token, the authority and the namespace are mounted.
            clock: decides when the token is read again.

        Raises:
            ConfigError: we are not in a Pod, or it has no ServiceAccount token.
        """
        host = environ.get("KUBERNETES_SERVICE_HOST", "")
        port = environ.get("KUBERNETES_SERVICE_PORT") or "443"
        if not host:
            raise ConfigError("not in a Pod: KUBERNETES_SERVICE_HOST is not set")
        for name in ("token", "ca.crt"):
            if not (directory / name).is_file():
                raise ConfigError(
                    f"{directory / name} is missing: the Pod mounts no ServiceAccount token"
                )
        namespace_file = directory / "namespace"
        namespace = namespace_file.read_text("utf-8").strip() if namespace_file.is_file() else ""
        return cls(
            server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
            namespace=namespace or "default",
            tls=TlsConfig(ca_file=directory / "ca.crt"),
            credentials=TokenFileCredentials(directory / "token", clock=clock),
            source=_POD,
        )

    @classmethod
    def from_configuration(cls, configuration: Configuration) -> ClientConfig:
        """Take what a Configuration of kubernetes_asyncio says.

        Its token is asked for before each request, so its `refresh_api_key_hook` is run as that
        library runs it.

        Raises:
            ConfigError: a file cannot be read, or a setting has no equal here.
        """
        from dynamo_operator.runtime.client.kubernetes_asyncio_bridge import config_of

        return config_of(configuration)

    @classmethod
    def _from_kubeconfig(
        cls,
        paths: list[Path],
        context: str | None,
        environ: Mapping[str, str],
        clock: Clock | None,
    ) -> Self:
        selection = kubeconfig_files.select(paths, context)
        cluster, user = selection.cluster, selection.user
        server = cluster.text("server").rstrip("/")
        if urlsplit(server).scheme not in ("http", "https") or not urlsplit(server).netloc:
            raise ConfigError(f"{cluster.where}: server: must be an http:// or https:// URL")
        if urlsplit(server).username is not None:
            raise ConfigError(f"{cluster.where}: server: must hold no user name: use a user entry")
        credentials = _credentials(selection, environ, clock)
        if urlsplit(server).scheme == "http":
            # As kubectl has it: a secret never goes over a connection that anybody can read.
            credentials = StaticCredentials()
        proxy = proxy_for(
            server,
            configured=cluster.text("proxy-url"),
            where=cluster.where,
            environ=environ,
        )
        return cls(
            server=server,
            namespace=selection.namespace or "default",
            tls=_tls(cluster),
            credentials=credentials,
            impersonation=_impersonation(user) if user else Impersonation(),
            proxy=proxy,
            compression=not cluster.flag("disable-compression"),
            source=f"context {selection.context!r} of {cluster.file}",
        )


def _credentials(
    selection: kubeconfig_files.Selection, environ: Mapping[str, str], clock: Clock | None
) -> Credentials:
    if selection.user is None:
        return StaticCredentials()
    # Imported here: in a cluster there is neither a plugin to run nor an issuer to ask.
    from dynamo_operator.runtime.client.user_credentials import user_credentials

    return user_credentials(selection.user, selection.cluster, environ=environ, clock=clock)


def _escaped(name: str) -> str:
    """Percent-encode what the name of a header cannot hold, as API servers decode it."""
    return quote(name, safe="!#$&'*+-.^_`|~")


def _tls(cluster: Entry) -> TlsConfig:
    insecure = cluster.flag("insecure-skip-tls-verify")
    ca_data, ca_file = (
        cluster.data("certificate-authority-data"),
        cluster.path("certificate-authority"),
    )
    if ca_data is not None and ca_file is not None:
        raise ConfigError(
            f"{cluster.where}: certificate-authority and certificate-authority-data are both "
            "given: leave one out"
        )
    if insecure and (ca_data is not None or ca_file is not None):
        raise ConfigError(
            f"{cluster.where}: a certificate authority and insecure-skip-tls-verify exclude each "
            "other: leave one out"
        )
    return TlsConfig(ca_data, ca_file, insecure, cluster.text("tls-server-name"))


def _impersonation(user: Entry) -> Impersonation:
    extra = user.fields.get("as-user-extra") or {}
    if not isinstance(extra, Mapping):
        raise ConfigError(f"{user.where}: as-user-extra: must be an object of lists")
    entry = Entry(user.name, "as-user-extra of user", extra, user.file)
    found = Impersonation(
        user=user.text("as"),
        uid=user.text("as-uid"),
        groups=user.texts("as-groups"),
        extra={name: entry.texts(name) for name in extra},
    )
    if not found.user and (found.uid or found.groups or found.extra):
        raise ConfigError(f"{user.where}: as-uid, as-groups and as-user-extra need as")
    return found
