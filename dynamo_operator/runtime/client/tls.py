"""TLS contexts: whom we trust and what we present, without leaving keys on disk."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from dynamo_operator.runtime.client.credentials import ClientCertificate
from dynamo_operator.runtime.client.errors import ConfigError


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """How the server's certificate is checked.

    `strict` is about RFC 5280 (`VERIFY_X509_STRICT`, which Python switches on from 3.13): `auto`
    means only for public certificate authorities, because those of clusters often fall short of it.
    """

    ca_data: bytes | None = field(default=None, repr=False)
    ca_file: Path | None = None
    insecure: bool = False
    server_name: str = ""
    strict: Literal["auto", "on", "off"] = "auto"


def client_context(
    config: TlsConfig, client_certificate: ClientCertificate | None
) -> ssl.SSLContext:
    """Build the context for connections to the server. Reads files: not for the event loop.

    Raises:
        ConfigError: certificates or key cannot be used.
    """
    context = ssl.create_default_context(cadata=_authorities(config))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    private_ca = config.ca_data is not None or config.ca_file is not None
    if config.strict == "on" or (config.strict == "auto" and not private_ca):
        context.verify_flags |= ssl.VERIFY_X509_STRICT
    else:
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if config.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if client_certificate is not None:
        _load_pair(context, client_certificate)
    return context


def check_pair(pair: ClientCertificate) -> None:
    """Raise ConfigError unless a certificate and its key can be used together."""
    _load_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), pair)


def _authorities(config: TlsConfig) -> str | None:
    if config.insecure:
        return None
    where, data = "certificate-authority-data", config.ca_data
    if data is None and config.ca_file is not None:
        where = f"certificate authority file {config.ca_file}"
        try:
            data = config.ca_file.read_bytes()
        except OSError as error:
            raise ConfigError(f"{where}: {error.strerror}") from None
    if data is None:
        return None
    text = data.decode("utf-8", errors="replace")
    try:
        ssl.create_default_context(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"{where}: no PEM certificates: {error}") from None
    return text


def _load_pair(context: ssl.SSLContext, pair: ClientCertificate) -> None:
    """Load a pair through a file, the only way there is, that is private and gone afterwards."""

    def no_password() -> bytes:
        raise ConfigError("client key: it is encrypted, and there is nobody to ask for a password")

    with private_file(pair.certificate.rstrip() + b"\n" + pair.key) as path:
        try:
            context.load_cert_chain(path, password=no_password)
        except (ssl.SSLError, ValueError) as error:
            reason = getattr(error, "reason", None) or "not a PEM certificate and its key"
            raise ConfigError(f"client certificate and key do not fit: {reason}") from None


@contextmanager
def private_file(data: bytes) -> Iterator[str]:
    """Yield the path of a file that only we can read: in memory on Linux, else removed at once."""
    if hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir():
        with os.fdopen(os.memfd_create("client-certificate"), "wb") as memory:
            memory.write(data)
            memory.flush()
            yield f"/proc/self/fd/{memory.fileno()}"
        return
    descriptor, path = tempfile.mkstemp(prefix="client-certificate-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        yield path
    finally:
        Path(path).unlink()
