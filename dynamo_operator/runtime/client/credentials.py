"""Who we are to the API server: tokens, token files, passwords; secrets are never shown."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from dynamo_operator.runtime.client.errors import ConfigError
from informers.clock import Clock, SystemClock

FILE_MAX_AGE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A certificate chain and its key, both PEM."""

    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)


def bearer(token: str) -> str:
    """Return the Authorization header's value for a token.

    Raises:
        ConfigError: no header can hold it; the message does not show it.
    """
    token = header_value(token)
    if not token:
        raise ConfigError("token: it is empty")
    return f"Bearer {token}"


def header_value(text: str) -> str:
    """Return text as a header can hold it, without the space around it.

    Raises:
        ConfigError: no header can hold it; the message does not show it.
    """
    text = text.strip()
    if not (text.isascii() and (text.isprintable() or not text)):
        raise ConfigError("token: must be one line of printable ASCII characters")
    return text


class Credentials(Protocol):
    """What proves our identity; asked before every request."""

    @property
    def client_certificate(self) -> ClientCertificate | None:
        """The pair to present in TLS handshakes, as of the last `authorization()`."""

    async def authorization(self) -> str:
        """Return the Authorization header's value, or "" for none.

        Raises:
            ConfigError: the credentials cannot be had.
        """

    def rejected(self, authorization: str) -> bool:
        """Note that the server answered 401; return whether asking again may give another answer.

        Args:
            authorization: the value that was sent, so that one refused long ago changes nothing.
        """


class StaticCredentials:
    """Credentials that never change."""

    def __init__(
        self, authorization: str = "", client_certificate: ClientCertificate | None = None
    ) -> None:
        self._authorization = authorization
        self._client_certificate = client_certificate

    @classmethod
    def token(
        cls, token: str, client_certificate: ClientCertificate | None = None
    ) -> StaticCredentials:
        """Make credentials of a bearer token.

        Raises:
            ConfigError: it is no token.
        """
        return cls(bearer(token), client_certificate)

    @classmethod
    def basic(
        cls, username: str, password: str, client_certificate: ClientCertificate | None = None
    ) -> StaticCredentials:
        """Make credentials of a name and a password."""
        pair = base64.b64encode(f"{username}:{password}".encode()).decode()
        return cls(f"Basic {pair}", client_certificate)

    @property
    def client_certificate(self) -> ClientCertificate | None:
        """The pair given."""
        return self._client_certificate

    async def authorization(self) -> str:
        """Return the value given."""
        return self._authorization

    def rejected(self, authorization: str) -> bool:
        """Return False: nothing else can be offered."""
        return False

    def __repr__(self) -> str:
        return f"StaticCredentials({self._authorization.partition(' ')[0] or 'no header'})"


class TokenFileCredentials:
    """A bearer token in a file that somebody else renews, e.g. the kubelet.

    The file is read again when the last reading is a minute old, and at once after a 401.
    """

    def __init__(
        self,
        path: Path,
        client_certificate: ClientCertificate | None = None,
        *,
        clock: Clock | None = None,
    ) -> None:
        self._path = path
        self._client_certificate = client_certificate
        self._clock = clock or SystemClock()
        self._authorization = ""
        self._read_at: float | None = None

    @property
    def client_certificate(self) -> ClientCertificate | None:
        """The pair given."""
        return self._client_certificate

    async def authorization(self) -> str:
        """Return the header for the token, read anew where it may have changed.

        Raises:
            ConfigError: the file cannot be read and no token was read before.
        """
        now = self._clock.monotonic()
        if self._read_at is not None and now - self._read_at < FILE_MAX_AGE_SECONDS:
            return self._authorization
        try:
            text = await asyncio.to_thread(self._path.read_text, "utf-8")
            self._authorization = bearer(text)
        except (OSError, UnicodeDecodeError, ConfigError) as error:
            if self._authorization:
                # A file that is being replaced is missing or empty for a moment; the old token may
                # still do.
                return self._authorization
            raise ConfigError(f"token file {self._path}: {error}") from None
        self._read_at = now
        return self._authorization

    def rejected(self, authorization: str) -> bool:
        """Have the file read again."""
        if authorization == self._authorization:
            self._read_at = None
        return True

    def __repr__(self) -> str:
        return f"TokenFileCredentials({str(self._path)!r})"


class FileCertificateCredentials:
    """Other credentials, beside a client certificate in files that somebody else renews.

    The files are read again when the last reading is a minute old, and at once after a 401. A pair
    that is renewed at the moment, or does not fit together, leaves the one before in use.

    Args:
        others: what else proves our identity.
        certificate: what the files hold now.
        read: reads them again; raises ConfigError where they hold no pair.
        clock: decides when.
    """

    def __init__(
        self,
        others: Credentials,
        certificate: ClientCertificate,
        read: Callable[[], ClientCertificate],
        *,
        clock: Clock | None = None,
    ) -> None:
        self._others = others
        self._read = read
        self._clock = clock or SystemClock()
        self._certificate = certificate
        self._read_at: float | None = self._clock.monotonic()

    @property
    def client_certificate(self) -> ClientCertificate | None:
        """The pair of the others, else that of the files."""
        return self._others.client_certificate or self._certificate

    async def authorization(self) -> str:
        """Return the header of the others, after a look at the files where it is time.

        Raises:
            ConfigError: the others have none.
        """
        now = self._clock.monotonic()
        if self._read_at is None or now - self._read_at >= FILE_MAX_AGE_SECONDS:
            self._read_at = now
            with suppress(ConfigError):
                certificate = await asyncio.to_thread(self._read)
                if certificate != self._certificate:
                    self._certificate = certificate
        return await self._others.authorization()

    def rejected(self, authorization: str) -> bool:
        """Have the files read again."""
        self._read_at = None
        self._others.rejected(authorization)
        return True

    def __repr__(self) -> str:
        return f"FileCertificateCredentials({self._others!r})"
