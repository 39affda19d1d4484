"""Exec plugins: programs that print a token or a client certificate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from dynamo_operator.runtime.client import codec
from dynamo_operator.runtime.client.credentials import ClientCertificate, bearer
from dynamo_operator.runtime.client.errors import ConfigError
from dynamo_operator.runtime.client.programs import (
    PROGRAM_TIMEOUT_SECONDS,
    ProgramError,
    output_of,
)
from dynamo_operator.runtime.client.renewed_credentials import Issued


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A plugin and how to run it.

    Attributes:
        where: the kubeconfig entry that asks for it, for errors.
        command: program, absolute or looked for in PATH.
        arguments: its arguments.
        environment: the whole environment to run it in.
        api_version: the version of ExecCredential that it must answer in.
        cluster: what it is told of the cluster, or None.
        install_hint: shown when the program does not exist.
        timeout_seconds: how long it may take.
    """

    where: str
    command: str
    api_version: str
    arguments: Sequence[str] = field(default=(), repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    cluster: Mapping[str, Any] | None = field(default=None, repr=False)
    install_hint: str = ""
    timeout_seconds: float = PROGRAM_TIMEOUT_SECONDS

    async def run(self) -> Issued:
        """Run it once and return what it issues.

        Raises:
            ConfigError: it failed, or its answer is no credential; shows nothing of either.
        """
        spec: dict[str, Any] = {"interactive": False}
        if self.cluster is not None:
            spec = {"cluster": dict(self.cluster), **spec}
        info = {"kind": "ExecCredential", "apiVersion": self.api_version, "spec": spec}
        environment = {**self.environment, "KUBERNETES_EXEC_INFO": codec.encode(info).decode()}
        try:
            output = await output_of(
                self.command, self.arguments, environment, timeout_seconds=self.timeout_seconds
            )
        except FileNotFoundError as error:
            hint = f"; {' '.join(self.install_hint.split())}" if self.install_hint else ""
            raise self._failure(f"{error.strerror}{hint}") from None
        except ProgramError as error:
            raise self._failure(str(error)) from None
        return self._parse(output)

    def _parse(self, output: bytes) -> Issued:
        try:
            credential = codec.decode_json(output)
        except codec.MalformedJsonError:
            raise self._failure("its answer is no JSON") from None
        if not isinstance(credential, dict) or credential.get("kind") != "ExecCredential":
            raise self._failure("its answer is no ExecCredential")
        version = credential.get("apiVersion")
        if version != self.api_version:
            raise self._failure(f"configured {self.api_version}, got {version}")
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
        return Issued(authorization, pair, self._expires(_text(status, "expirationTimestamp")))

    def _expires(self, expiration: str) -> datetime | None:
        if not expiration:
            return None
        try:
            expires = datetime.fromisoformat(expiration)
        except ValueError:
            raise self._failure("expirationTimestamp is no RFC 3339 time") from None
        return expires if expires.tzinfo else expires.replace(tzinfo=UTC)

    def _failure(self, what: str) -> ConfigError:
        return ConfigError(f"{self.where}: exec plugin {self.command}: {what}")


def _text(status: Mapping[str, Any], name: str) -> str:
    value = status.get(name)
    return value.strip() if isinstance(value, str) else ""
