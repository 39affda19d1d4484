"""Credentials from an exec plugin: a program that prints a token or a client certificate."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from dynamo_operator.runtime.client import codec
from dynamo_operator.runtime.client.credentials import ClientCertificate, bearer
from dynamo_operator.runtime.client.errors import ConfigError
from informers.clock import Clock, SystemClock

PLUGIN_TIMEOUT_SECONDS = 30.0

_EXPIRY_MARGIN_SECONDS = 10.0
_SHORTEST_LIFE_SECONDS = 1.0
_LEAST_BETWEEN_REJECTIONS_SECONDS = 5.0
_LARGEST_OUTPUT = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """How to run the program.

    Attributes:
        where: the kubeconfig entry that asks for it, for errors.
        command: program, absolute or looked for in PATH.
        arguments: its arguments.
        environment: the whole environment to run it in.
        api_version: the version of ExecCredential that it must answer in.
        cluster: what it is told of the cluster, or None.
        install_hint: shown when the program does not exist.
    """

    where: str
    command: str
    api_version: str
    arguments: Sequence[str] = field(default=(), repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    cluster: Mapping[str, Any] | None = field(default=None, repr=False)
    install_hint: str = ""


@dataclass(frozen=True, slots=True)
class _Answer:
    authorization: str = field(repr=False)
    client_certificate: ClientCertificate | None
    renew_at: datetime | None


class ExecCredentials:
    """Runs the plugin when there is no answer yet, when it is about to expire, and after a 401.

    However many requests wait, the program runs once at a time, for at most 30 seconds.

    Args:
        plugin: how to run the program.
        client_certificate: the pair to present where the program answers with none.
        clock: decides when an answer expires.
    """

    def __init__(
        self,
        plugin: ExecPlugin,
        client_certificate: ClientCertificate | None = None,
        *,
        clock: Clock | None = None,
    ) -> None:
        self._plugin = plugin
        self._client_certificate = client_certificate
        self._clock = clock or SystemClock()
        self._lock = asyncio.Lock()
        self._answer: _Answer | None = None
        self._is_stale = True
        self._rejected_at: float | None = None

    @property
    def client_certificate(self) -> ClientCertificate | None:
        """The pair that the plugin answered with, else the one given."""
        answered = self._answer.client_certificate if self._answer else None
        return answered or self._client_certificate

    async def authorization(self) -> str:
        """Return the header for the plugin's token, running it where needed.

        Raises:
            ConfigError: the plugin failed.
        """
        async with self._lock:
            answer = self._answer
            if answer is None or self._is_stale or self._must_renew(answer):
                answer = self._answer = await self._run()
                self._is_stale = False
            return answer.authorization

    def rejected(self, authorization: str) -> bool:
        """Have the plugin run again, though not in a hot loop."""
        if self._answer is None or authorization != self._answer.authorization:
            return True
        now = self._clock.monotonic()
        last, self._rejected_at = self._rejected_at, now
        if last is not None and now - last < _LEAST_BETWEEN_REJECTIONS_SECONDS:
            return False
        self._is_stale = True
        return True

    def __repr__(self) -> str:
        return f"ExecCredentials({self._plugin.command!r})"

    def _must_renew(self, answer: _Answer) -> bool:
        return answer.renew_at is not None and self._clock.now() >= answer.renew_at

    async def _run(self) -> _Answer:
        plugin = self._plugin
        spec: dict[str, Any] = {"interactive": False}
        if plugin.cluster is not None:
            spec = {"cluster": dict(plugin.cluster), **spec}
        info = {"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": spec}
        environment = {**plugin.environment, "KUBERNETES_EXEC_INFO": codec.encode(info).decode()}
        try:
            process = await asyncio.create_subprocess_exec(
                plugin.command,
                *plugin.arguments,
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            hint = f"; {' '.join(plugin.install_hint.split())}" if plugin.install_hint else ""
            raise self._failure(f"{error.strerror}{hint}") from None
        try:
            async with asyncio.timeout(PLUGIN_TIMEOUT_SECONDS):
                output, _ = await process.communicate()
        except TimeoutError:
            raise self._failure(f"no answer in {PLUGIN_TIMEOUT_SECONDS:g} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0:
            raise self._failure(f"ended with exit code {process.returncode}")
        if len(output) > _LARGEST_OUTPUT:
            raise self._failure("its answer is too long")
        return self._parse(output)

    def _parse(self, output: bytes) -> _Answer:
        try:
            credential = codec.decode_json(output)
        except codec.MalformedJsonError:
            raise self._failure("its answer is no JSON") from None
        if not isinstance(credential, dict) or credential.get("kind") != "ExecCredential":
            raise self._failure("its answer is no ExecCredential")
        version = credential.get("apiVersion")
        if version != self._plugin.api_version:
            raise self._failure(f"configured {self._plugin.api_version}, got {version}")
        status = credential.get("status")
        status = status if isinstance(status, dict) else {}
        token = _text(status, "token")
        certificate, key = _text(status, "clientCertificateData"), _text(status, "clientKeyData")
        if bool(certificate) != bool(key):
            raise self._failure("clientCertificateData and clientKeyData go together")
        if not token and not certificate:
            raise self._failure("its answer holds neither a token nor a client certificate")
        pair = ClientCertificate(certificate.encode(), key.encode()) if certificate else None
        try:
            authorization = bearer(token) if token else ""
        except ConfigError as error:
            raise self._failure(str(error)) from None
        return _Answer(authorization, pair, self._renew_at(_text(status, "expirationTimestamp")))

    def _renew_at(self, expiration: str) -> datetime | None:
        if not expiration:
            return None
        try:
            expires = datetime.fromisoformat(expiration)
        except ValueError:
            raise self._failure("expirationTimestamp is no RFC 3339 time") from None
        now = self._clock.now().timestamp()
        renew = max(expires.timestamp() - _EXPIRY_MARGIN_SECONDS, now + _SHORTEST_LIFE_SECONDS)
        return datetime.fromtimestamp(renew, UTC)

    def _failure(self, what: str) -> ConfigError:
        return ConfigError(f"{self._plugin.where}: exec plugin {self._plugin.command}: {what}")


def _text(status: Mapping[str, Any], name: str) -> str:
    value = status.get(name)
    return value.strip() if isinstance(value, str) else ""
