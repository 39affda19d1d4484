"""A certificate that a server makes for itself, for clients that do not verify it."""

from __future__ import annotations

import asyncio
import ssl
from typing import Final

from dynamo_operator.certificates import CertificateAuthority
from dynamo_operator.runtime.serving_certificate import (
    CertificateObserver,
    server_context,
    use_pair,
)
from informers.clock import Clock, SystemClock

_HOST: Final = "localhost"
_VALID_DAYS: Final = 365
_RENEWAL_SECONDS: Final = 90 * 86400.0


class SelfSignedCertificate:
    """A certificate of an authority that nobody keeps, made at each start and every 90 days.

    It hides what is sent from whoever listens, and proves nothing. Needs the `webhooks` extra.

    Args:
        clock: dates it.
    """

    def __init__(self, *, clock: Clock | None = None) -> None:
        self.context: ssl.SSLContext = server_context()
        self.pem: bytes = b""
        self._clock = clock or SystemClock()
        self._observer: CertificateObserver | None = None

    def observe(self, observer: CertificateObserver) -> None:
        """Tell of each one that is made from now on."""
        self._observer = observer

    async def prepare(self) -> None:
        """Make one."""
        now = self._clock.now()
        made = CertificateAuthority.create(now, common_name=_HOST).issue(
            _HOST, now, hosts=[_HOST], valid_days=_VALID_DAYS
        )
        use_pair(self.context, made.certificate, made.key)
        self.pem = made.certificate
        if self._observer is not None:
            self._observer(True)

    async def keep_fresh(self) -> None:
        """Make another one long before the last one ends, until cancelled."""
        while True:
            await asyncio.sleep(_RENEWAL_SECONDS)
            await self.prepare()
