"""The credentials that a kubeconfig's user entry asks for."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import partial
from typing import Any

from dynamo_operator.runtime.client.credentials import (
    ClientCertificate,
    Credentials,
    FileCertificateCredentials,
    StaticCredentials,
    TokenFileCredentials,
)
from dynamo_operator.runtime.client.errors import ConfigError
from dynamo_operator.runtime.client.exec_plugin import ExecPlugin
from dynamo_operator.runtime.client.gcp import GcpProvider
from dynamo_operator.runtime.client.kubeconfig import Entry, store_provider_config
from dynamo_operator.runtime.client.oidc import OidcProvider
from dynamo_operator.runtime.client.renewed_credentials import Issued, RenewedCredentials
from dynamo_operator.runtime.client.tls import check_pair
from informers.clock import Clock, SystemClock

_EXEC_GROUP = "client.authentication.k8s.io"
_EXEC_VERSIONS = (f"{_EXEC_GROUP}/v1", f"{_EXEC_GROUP}/v1beta1")
_EXEC_EXTENSION = f"{_EXEC_GROUP}/exec"


def user_credentials(
    user: Entry, cluster: Entry, *, environ: Mapping[str, str], clock: Clock | None = None
) -> Credentials:
    """Return the credentials of a user entry.

    A tokenFile goes before a token, either before an exec plugin, as kubectl has it.

    Raises:
        ConfigError: the entry contradicts itself, is incomplete, or needs what we do not have.
    """
    pair = _client_certificate(user)
    if pair is None or not (user.path("client-certificate") or user.path("client-key")):
        return _credentials(user, cluster, pair, environ, clock)
    others = _credentials(user, cluster, None, environ, clock)
    return FileCertificateCredentials(others, pair, partial(_usable_pair, user), clock=clock)


def _credentials(
    user: Entry,
    cluster: Entry,
    pair: ClientCertificate | None,
    environ: Mapping[str, str],
    clock: Clock | None,
) -> Credentials:
    token, token_file = user.text("token"), user.path("tokenFile")
    username, password = user.text("username"), user.text("password")
    plugin = _exec_plugin(user, cluster, environ)
    provider = _auth_provider(user, environ)
    if (token or token_file) and (username or password):
        raise ConfigError(f"{user.where}: token and username are both given: leave one out")
    if plugin is not None and provider is not None:
        raise ConfigError(f"{user.where}: exec and auth-provider are both given: leave one out")
    if token_file is not None:
        return TokenFileCredentials(token_file, pair, clock=clock)
    if token:
        return _token(user, token, pair)
    if username or password:
        return StaticCredentials.basic(username, password, pair)
    if plugin is not None:
        return RenewedCredentials(
            plugin.run,
            name=f"exec plugin {plugin.command}",
            client_certificate=pair,
            clock=clock,
        )
    if provider is not None:
        clock = clock or SystemClock()
        return RenewedCredentials(
            partial(_issue, provider, clock),
            name=f"auth-provider of user {user.name!r}",
            client_certificate=pair,
            clock=clock,
        )
    return StaticCredentials("", pair)


async def _issue(provider: OidcProvider | GcpProvider, clock: Clock) -> Issued:
    return await provider.issue(clock.now())


def _auth_provider(user: Entry, environ: Mapping[str, str]) -> OidcProvider | GcpProvider | None:
    fields = user.fields.get("auth-provider")
    if not fields:
        return None
    if not isinstance(fields, Mapping) or not isinstance(fields.get("config") or {}, Mapping):
        raise ConfigError(f"{user.where}: auth-provider: must be an object with a config")
    name = fields.get("name")
    config = Entry(user.name, "auth-provider of user", fields.get("config") or {}, user.file)
    if name == "oidc":
        store = partial(store_provider_config, user.file, user.name)
        return OidcProvider.of(config, environ, store)
    if name == "gcp":
        return GcpProvider.of(config, environ)
    raise ConfigError(
        f"{user.where}: auth-provider {name!r} is not supported: use an exec plugin or a token"
    )


def _token(user: Entry, token: str, pair: ClientCertificate | None) -> Credentials:
    try:
        return StaticCredentials.token(token, pair)
    except ConfigError as error:
        raise ConfigError(f"{user.where}: {error}") from None


def _client_certificate(user: Entry) -> ClientCertificate | None:
    certificate, key = user.content("client-certificate"), user.content("client-key")
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        given, missing = ("certificate", "key") if key is None else ("key", "certificate")
        raise ConfigError(f"{user.where}: client-{given} needs client-{missing} too")
    return ClientCertificate(certificate, key)


def _usable_pair(user: Entry) -> ClientCertificate:
    pair = _client_certificate(user)
    if pair is None:
        raise ConfigError(f"{user.where}: its client certificate is gone")
    check_pair(pair)
    return pair


def _exec_plugin(user: Entry, cluster: Entry, environ: Mapping[str, str]) -> ExecPlugin | None:
    fields = user.fields.get("exec")
    if not fields:
        return None
    if not isinstance(fields, Mapping):
        raise ConfigError(f"{user.where}: exec: must be an object")
    entry = Entry(user.name, "exec plugin of user", fields, user.file)
    command, version = entry.text("command"), entry.text("apiVersion")
    if not command:
        raise ConfigError(f"{entry.where}: command must be specified")
    if version not in _EXEC_VERSIONS:
        raise ConfigError(f"{entry.where}: apiVersion must be one of {', '.join(_EXEC_VERSIONS)}")
    _check_interactive_mode(entry, version)
    if "/" in command:
        command = str(entry.file.parent / command)
    return ExecPlugin(
        where=user.where,
        command=command,
        api_version=version,
        arguments=entry.texts("args"),
        environment={**environ, **_environment(entry)},
        cluster=_cluster_info(cluster) if entry.flag("provideClusterInfo") else None,
        install_hint=entry.text("installHint"),
    )


def _check_interactive_mode(entry: Entry, version: str) -> None:
    mode = entry.text("interactiveMode")
    if not mode and version.endswith("/v1beta1"):
        return
    if mode not in ("Never", "IfAvailable", "Always"):
        raise ConfigError(
            f"{entry.where}: interactiveMode must be specified: Never, IfAvailable or Always"
        )
    if mode == "Always":
        raise ConfigError(f"{entry.where}: interactiveMode Always: there is no terminal to give it")


def _environment(entry: Entry) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in entry.fields.get("env") or []:
        name = item.get("name") if isinstance(item, Mapping) else None
        value = item.get("value") or "" if isinstance(item, Mapping) else None
        if not isinstance(name, str) or not name or not isinstance(value, str):
            raise ConfigError(f"{entry.where}: env: every item needs a name, and its value is text")
        found[name] = value
    return found


def _cluster_info(cluster: Entry) -> dict[str, Any]:
    """What the plugin is told of the cluster: never a user's secret."""
    info: dict[str, Any] = {"server": cluster.text("server")}
    for name in ("tls-server-name", "proxy-url"):
        if text := cluster.text(name):
            info[name] = text
    for name in ("insecure-skip-tls-verify", "disable-compression"):
        if cluster.flag(name):
            info[name] = True
    if authority := cluster.content("certificate-authority"):
        info["certificate-authority-data"] = base64.b64encode(authority).decode()
    info["config"] = None  # client-go says so, too
    for extension in cluster.fields.get("extensions") or []:
        if isinstance(extension, Mapping) and extension.get("name") == _EXEC_EXTENSION:
            info["config"] = extension.get("extension")
    return info
