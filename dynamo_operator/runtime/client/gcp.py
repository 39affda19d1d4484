"""The auth-provider `gcp` of older kubeconfig files: a token, and a program that prints one."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from dynamo_operator.runtime.client import codec
from dynamo_operator.runtime.client.credentials import bearer
from dynamo_operator.runtime.client.errors import ConfigError
from dynamo_operator.runtime.client.kubeconfig import Entry
from dynamo_operator.runtime.client.programs import ProgramError, output_of
from dynamo_operator.runtime.client.renewed_credentials import Issued


@dataclass(slots=True)
class GcpProvider:
    """How to come by access tokens.

    Attributes:
        where: the kubeconfig entry, for errors.
        token: the access token that stands in it, until it is returned; then "".
        expiry: when that expires, in RFC 3339.
        command: the program, or "".
        arguments: its arguments, as a shell would take them apart.
        token_path: where in the program's JSON the token is, e.g. `{.access_token}`.
        expiry_path: where its time of expiry is.
        environment: what the program runs in.
    """

    where: str
    token: str = field(repr=False)
    expiry: str
    command: str
    arguments: str = field(repr=False)
    token_path: str
    expiry_path: str
    environment: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, entry: Entry, environ: Mapping[str, str]) -> GcpProvider:
        """Take what the `config` of an auth-provider says.

        Raises:
            ConfigError: it has neither a token nor a program.
        """
        token, command = entry.text("access-token"), entry.text("cmd-path")
        if not token and not command:
            raise ConfigError(
                f"{entry.where}: auth-provider gcp: needs access-token or cmd-path; newer files "
                "use the exec plugin gke-gcloud-auth-plugin"
            )
        return cls(
            where=entry.where,
            token=token,
            expiry=entry.text("expiry"),
            command=command,
            arguments=entry.text("cmd-args"),
            token_path=entry.text("token-key") or "{.access_token}",
            expiry_path=entry.text("expiry-key") or "{.token_expiry}",
            environment=environ,
        )

    async def issue(self, now: datetime) -> Issued:
        """Return the token, a new one if the one at hand has expired or was returned before.

        Raises:
            ConfigError: there is no program, or it prints no token.
        """
        token, self.token = self.token, ""
        expires = self._time(self.expiry)
        if not token or (expires is not None and expires <= now):
            token, expires = await self._run()
        return Issued(bearer(token), expires=expires)

    async def _run(self) -> tuple[str, datetime | None]:
        if not self.command:
            raise self._failure("the token is of no use any more, and no cmd-path is given")
        try:
            arguments = shlex.split(self.arguments)
            output = await output_of(self.command, arguments, self.environment)
            document = codec.decode_json(output)
        except codec.MalformedJsonError:
            raise self._failure(f"{self.command}: its answer is no JSON") from None
        except FileNotFoundError as error:
            raise self._failure(f"{self.command}: {error.strerror}") from None
        except (ProgramError, ValueError) as error:
            raise self._failure(f"{self.command}: {error}") from None
        token = _text_at(document, self.token_path)
        if not token:
            raise self._failure(f"{self.command}: its answer has no {self.token_path}")
        return token, self._time(_text_at(document, self.expiry_path))

    def _time(self, text: str) -> datetime | None:
        if not text:
            return None
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            raise self._failure("its expiry is no RFC 3339 time") from None
        return time if time.tzinfo else time.replace(tzinfo=UTC)

    def _failure(self, what: str) -> ConfigError:
        return ConfigError(f"{self.where}: auth-provider gcp: {what}")


def _text_at(document: object, path: str) -> str:
    """Return the text at a path like `{.credential.access_token}`, "" where there is none."""
    for name in path.strip("{}").strip(".").split("."):
        document = document.get(name) if isinstance(document, Mapping) else None
    return document if isinstance(document, str) else ""
