"""What a webhook server's Secret holds, and what is to be done about it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from dynamo_operator.certificates import CertificateAuthority

AUTHORITIES: Final = "ca.crt"
AUTHORITY_KEY: Final = "ca.key"
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"

_LONGEST_COMMON_NAME: Final = 64


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """How long certificates last, and how long before their end they are replaced, in days.

    The authority must be replaced earlier than a certificate that it signed could still end.
    """

    authority: int = 3650
    authority_renewal: int = 730
    certificate: int = 365
    certificate_renewal: int = 120


@dataclass(frozen=True, slots=True)
class KeyMaterial:
    """PEM: an authority, those before it that are still trusted, and a server's certificate.

    Args:
        authorities: newest first.
        authority_key: of the newest.
        certificate: the server's.
        key: the server's.
    """

    authorities: tuple[bytes, ...]
    authority_key: bytes
    certificate: bytes
    key: bytes

    @classmethod
    def of_secret(cls, data: Mapping[str, bytes]) -> KeyMaterial:
        """Read a Secret's data.

        Raises:
            ValueError: something is missing or is not what it must be; one line.
        """
        missing = [n for n in (AUTHORITIES, AUTHORITY_KEY, CERTIFICATE, KEY) if not data.get(n)]
        if missing:
            raise ValueError(f"{', '.join(missing)} missing")
        try:
            return cls._checked(data)
        except (TypeError, UnsupportedAlgorithm) as error:  # e.g. a key that needs a password
            raise ValueError(str(error)) from error

    @classmethod
    def _checked(cls, data: Mapping[str, bytes]) -> KeyMaterial:
        authorities = tuple(_pem(c) for c in x509.load_pem_x509_certificates(data[AUTHORITIES]))
        material = cls(authorities, data[AUTHORITY_KEY], data[CERTIFICATE], data[KEY])
        CertificateAuthority.load(authorities[0], material.authority_key)
        leaf, private = _leaf(material), load_pem_private_key(material.key, password=None)
        if leaf.public_key() != private.public_key():
            raise ValueError(f"{KEY}: must be the key of {CERTIFICATE}")
        return material

    def to_secret(self) -> dict[str, bytes]:
        """Return the Secret's data."""
        return {
            AUTHORITIES: self.ca_bundle,
            AUTHORITY_KEY: self.authority_key,
            CERTIFICATE: self.certificate,
            KEY: self.key,
        }

    @property
    def ca_bundle(self) -> bytes:
        """What clients must trust: every authority whose certificates may still be served."""
        return b"".join(self.authorities)


def renewed(
    material: KeyMaterial | None,
    *,
    hosts: Sequence[str],
    now: datetime,
    is_trusted: bool,
    lifetimes: Lifetimes,
) -> KeyMaterial:
    """Return what should be kept instead: `material` itself when nothing is to be done.

    A new authority comes first and alone, beside the old one. Certificates of it are not made
    before clients trust it, unless there is no valid one left to go on with; an old authority is
    trusted until it ends, so that every replica's certificate is good until it is replaced.

    Args:
        material: what there is; None for nothing of use.
        hosts: the names and addresses that the certificate must be for.
        now: the present.
        is_trusted: whether the newest authority is known to everyone who calls.
        lifetimes: when what is replaced.
    """
    if material is None or not _is_valid(_newest(material), now):
        return _fresh(hosts, now, lifetimes)
    kept = replace(material, authorities=_still_valid(material.authorities, now))
    if _ends_within(_newest(kept), now, lifetimes.authority_renewal):
        successor = _new_authority(now, lifetimes)
        authorities = (successor.pem, *kept.authorities)
        kept = replace(kept, authorities=authorities, authority_key=successor.key_pem)
        is_trusted = False
    if _needs_certificate(kept, hosts, now, is_trusted, lifetimes):
        return _with_certificate(kept, hosts, now, lifetimes)
    return kept


def _needs_certificate(
    material: KeyMaterial,
    hosts: Sequence[str],
    now: datetime,
    is_trusted: bool,
    lifetimes: Lifetimes,
) -> bool:
    leaf = _leaf(material)
    if not _is_valid(leaf, now) or not any(_signed(leaf, ca) for ca in material.authorities):
        return True
    if not _signed(leaf, material.authorities[0]):
        return is_trusted
    is_ending = _ends_within(leaf, now, lifetimes.certificate_renewal)
    return is_ending or not set(hosts) <= _names(leaf)


def _fresh(hosts: Sequence[str], now: datetime, lifetimes: Lifetimes) -> KeyMaterial:
    authority = _new_authority(now, lifetimes)
    empty = KeyMaterial((authority.pem,), authority.key_pem, b"", b"")
    return _with_certificate(empty, hosts, now, lifetimes)


def _new_authority(now: datetime, lifetimes: Lifetimes) -> CertificateAuthority:
    # Verifiers choose between authorities by name: each has its own.
    name = f"webhook-ca {now:%Y-%m-%dT%H:%M:%SZ}"
    return CertificateAuthority.create(now, common_name=name, valid_days=lifetimes.authority)


def _with_certificate(
    material: KeyMaterial, hosts: Sequence[str], now: datetime, lifetimes: Lifetimes
) -> KeyMaterial:
    authority = CertificateAuthority.load(material.authorities[0], material.authority_key)
    issued = authority.issue(
        hosts[0][:_LONGEST_COMMON_NAME], now, hosts=hosts, valid_days=lifetimes.certificate
    )
    return replace(material, certificate=issued.certificate, key=issued.key)


def _still_valid(authorities: Sequence[bytes], now: datetime) -> tuple[bytes, ...]:
    return tuple(ca for ca in authorities if _is_valid(x509.load_pem_x509_certificate(ca), now))


def _newest(material: KeyMaterial) -> x509.Certificate:
    return x509.load_pem_x509_certificate(material.authorities[0])


def _leaf(material: KeyMaterial) -> x509.Certificate:
    return x509.load_pem_x509_certificate(material.certificate)


def _is_valid(certificate: x509.Certificate, now: datetime) -> bool:
    return certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc


def _ends_within(certificate: x509.Certificate, now: datetime, days: int) -> bool:
    return certificate.not_valid_after_utc <= now + timedelta(days=days)


def _signed(leaf: x509.Certificate, authority: bytes) -> bool:
    try:
        leaf.verify_directly_issued_by(x509.load_pem_x509_certificate(authority))
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _names(leaf: x509.Certificate) -> set[str]:
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {str(name.value) for name in names}


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
