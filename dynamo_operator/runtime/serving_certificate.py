"""Certificates to serve with, replaced on the live TLS context."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

import structlog

from dynamo_operator.runtime.client.tls import private_file

RELOAD_SECONDS: Final = 5.0

CertificateObserver = Callable[[bool], None]
"""Told of every attempt to read a certificate: whether it succeeded."""

_log = structlog.get_logger(__name__)


class TlsCertificate(Protocol):
    """What a server serves TLS with."""

    @property
    def context(self) -> ssl.SSLContext:
        """The context of every handshake; the certificate in it changes, it does not."""

    @property
    def pem(self) -> bytes:
        """The certificate that is served now, leaf first."""

    def observe(self, observer: CertificateObserver) -> None:
        """Tell of attempts to read it from now on."""

    async def prepare(self) -> None:
        """Have a certificate in the context before the server listens."""

    async def keep_fresh(self) -> None:
        """Replace it when there is a newer one, until cancelled."""


class ServingCertificate:
    """A certificate and key on disk, served from the next handshake after they change.

    A pair that cannot be loaded is logged once and the one
    before stays in use.

    Args:
        certificate: PEM file, leaf first.
        key: PEM file.
        client_ca: PEM file of the authorities whose client certificates are required; None to
            take every client. One that leaves the file is trusted until the process ends.
        reload_seconds: how often the files are looked at.

    Raises:
        OSError: a file cannot be read (ssl.SSLError: or not used) when the server starts.
    """

    def __init__(
        self,
        certificate: Path,
        key: Path,
        *,
        client_ca: Path | None = None,
        reload_seconds: float = RELOAD_SECONDS,
    ) -> None:
        self._certificate = certificate
        self._key = key
        self._client_ca = client_ca
        self._reload_seconds = reload_seconds
        self.context: ssl.SSLContext = server_context()
        self.pem: bytes = b""
        self._tried: tuple[bytes, ...] | None = None
        self._observer: CertificateObserver = _unobserved

    def observe(self, observer: CertificateObserver) -> None:
        """Tell of attempts to read it from now on."""
        self._observer = observer

    async def prepare(self) -> None:
        """Read it for the first time."""
        await self.load()

    async def load(self) -> bool:
        """Load the files if their content changed; return whether it did."""
        try:
            content = await asyncio.to_thread(self._read)
            changed = self._use(content)
        except OSError:
            self._observer(False)
            raise
        if changed:
            self._observer(True)
        return changed

    async def keep_fresh(self) -> None:
        """Look for a new pair until cancelled."""
        while True:
            await asyncio.sleep(self._reload_seconds)
            try:
                if await self.load():
                    _log.info("serving certificate reloaded", file=str(self._certificate))
            except OSError as error:  # ssl.SSLError is one
                _log.warning(
                    "serving certificate not reloaded",
                    file=str(self._certificate),
                    error=str(error),
                )

    def _read(self) -> tuple[bytes, ...]:
        files = (self._certificate, self._key, *filter(None, (self._client_ca,)))
        return tuple(file.read_bytes() for file in files)

    def _use(self, content: tuple[bytes, ...]) -> bool:
        """Serve with this, in the loop's thread: a handshake must not see half of the change."""
        if content == self._tried:
            return False
        self._tried = content
        try:
            use_pair(self.context, content[0], content[1])
        except ssl.SSLError as error:
            # OpenSSL has no reason for what is no PEM at all.
            reason = f"; {error.reason.replace('_', ' ').lower()}" if error.reason else ""
            raise ssl.SSLError(
                ssl.SSL_ERROR_SSL,
                f"{self._certificate}, {self._key}: must be a certificate and its unencrypted key, "
                f"in PEM{reason}",
            ) from error
        self.pem = content[0]
        if self._client_ca is not None:
            self.context.load_verify_locations(cadata=content[2].decode("ascii", "replace"))
            self.context.verify_mode = ssl.CERT_REQUIRED
        return True


def server_context() -> ssl.SSLContext:
    """Return a context for serving, without a certificate so far."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def use_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Serve with this pair from the next handshake.

    Raises:
        ssl.SSLError: they do not fit each other, or are no PEM; what was served before stays.
    """
    with private_file(certificate.rstrip() + b"\n" + key) as path:
        # The live context would keep a new certificate with an old key: try on another one first.
        server_context().load_cert_chain(path, password=_no_password)
        context.load_cert_chain(path, password=_no_password)


def _no_password() -> str:
    raise ssl.SSLError(
        ssl.SSL_ERROR_SSL, "the key is encrypted, and there is nobody to ask for a password"
    )


def _unobserved(_succeeded: bool) -> None:
    """Note nothing."""
