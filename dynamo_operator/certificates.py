"""Certificates: an authority of our own, and what it signs for servers and clients."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LONGEST_COMMON_NAME = 64
"""Of a user or a server; X.509 allows no more."""

_VALID_DAYS = 365
_BACKDATED_HOURS = 1


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes


class CertificateAuthority:
    """Signs certificates that strict verifiers accept (key identifiers, key usage, SANs)."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._certificate = certificate
        self._key = key

    @classmethod
    def create(
        cls,
        now: datetime,
        *,
        common_name: str = "kubernetes-ca",
        valid_days: int = 10 * _VALID_DAYS,
    ) -> CertificateAuthority:
        """Make a fresh authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(common_name, ())
        builder = _builder(name, name, key.public_key(), now, days=valid_days)
        builder = builder.add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        ).add_extension(_key_usage(signs_certificates=True), critical=True)
        return cls(builder.sign(key, hashes.SHA256()), key)

    @classmethod
    def load_or_create(cls, directory: Path, now: datetime) -> CertificateAuthority:
        """Return the authority kept in a directory, made there the first time."""
        certificate_path, key_path = directory / "ca.crt", directory / "ca.key"
        if certificate_path.exists() and key_path.exists():
            return cls.load(certificate_path.read_bytes(), key_path.read_bytes())
        authority = cls.create(now)
        authority.save(certificate_path, key_path)
        return authority

    @classmethod
    def load(cls, certificate: bytes, key: bytes) -> CertificateAuthority:
        """Return the authority of these PEM halves.

        Raises:
            ValueError: they are not a certificate and its key, which must be an elliptic curve's.
        """
        loaded = x509.load_pem_x509_certificate(certificate)
        private = serialization.load_pem_private_key(key, password=None)
        if not isinstance(private, ec.EllipticCurvePrivateKey):
            raise ValueError("the authority's key: must be an elliptic curve's")
        if loaded.public_key() != private.public_key():
            raise ValueError("the authority's key: must be that of its certificate")
        return cls(loaded, private)

    def save(self, certificate_path: Path, key_path: Path) -> None:
        """Write both halves; only the owner can read the key."""
        key_path.touch(mode=0o600)
        key_path.write_bytes(_key_pem(self._key))
        certificate_path.write_bytes(self.pem)

    @property
    def pem(self) -> bytes:
        """The authority's certificate."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """The authority's private key."""
        return _key_pem(self._key)

    def issue(
        self,
        common_name: str,
        now: datetime,
        *,
        organizations: Sequence[str] = (),
        hosts: Sequence[str] = (),
        valid_days: int = _VALID_DAYS,
    ) -> Certificate:
        """Sign a certificate: for a server when it names hosts, else for a client.

        Args:
            common_name: the user's name, or the server's.
            now: when it is made; it is valid from an hour before.
            organizations: the user's groups.
            hosts: DNS names and IP addresses of a server.
            valid_days: for how long.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(
            _name(common_name, organizations),
            self._certificate.subject,
            key.public_key(),
            now,
            days=valid_days,
        )
        usage = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = (
            builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Certificate(certificate.public_bytes(serialization.Encoding.PEM), _key_pem(key))


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    now: datetime,
    *,
    days: int,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=_BACKDATED_HOURS))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _name(common_name: str, organizations: Sequence[str]) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
