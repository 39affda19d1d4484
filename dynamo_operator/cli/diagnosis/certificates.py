"""What a serving certificate says; needs the extra `webhooks`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature


@dataclass(frozen=True, slots=True)
class WebhookCertificate:
    """A certificate and those that were sent with it, leaf first."""

    chain: tuple[x509.Certificate, ...]

    @classmethod
    def read(cls, pem: bytes) -> WebhookCertificate:
        """Return what PEM holds.

        Raises:
            ValueError: it holds no certificate.
        """
        try:
            return cls(tuple(x509.load_pem_x509_certificates(pem)))
        except ValueError:
            raise ValueError("holds no certificate") from None

    @property
    def not_before(self) -> datetime:
        """When it begins to be valid."""
        return self.chain[0].not_valid_before_utc

    @property
    def not_after(self) -> datetime:
        """When it ends."""
        return self.chain[0].not_valid_after_utc

    @property
    def hosts(self) -> tuple[str, ...]:
        """The DNS names that it is for."""
        try:
            names = self.chain[0].extensions.get_extension_for_class(x509.SubjectAlternativeName)
        except x509.ExtensionNotFound:
            return ()
        return tuple(names.value.get_values_for_type(x509.DNSName))

    def is_trusted_by(self, bundle: bytes) -> bool:
        """Whether an authority of the bundle signed it, itself or through the others sent."""
        try:
            authorities = x509.load_pem_x509_certificates(bundle)
        except ValueError:
            return False
        current = self.chain[0]
        for _ in self.chain:
            if current in authorities or _signer(current, authorities) is not None:
                return True
            above = _signer(current, self.chain[1:])
            if above is None:
                return False
            current = above
        return False


def _signer(
    certificate: x509.Certificate, authorities: Sequence[x509.Certificate]
) -> x509.Certificate | None:
    for authority in authorities:
        try:
            certificate.verify_directly_issued_by(authority)
        except (ValueError, TypeError, InvalidSignature):
            continue
        return authority
    return None
