"""Credentials that somebody issues for a while: kept, renewed in time, fetched once at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from dynamo_operator.runtime.client.credentials import ClientCertificate
from dynamo_operator.runtime.client.errors import ConfigError
from informers.clock import Clock, SystemClock

_EXPIRY_MARGIN = timedelta(seconds=10)
_SHORTEST_LIFE = timedelta(seconds=1)
_LEAST_BETWEEN_REJECTIONS_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Issued:
    """What was issued.

    Attributes:
        authorization: value of the Authorization header, or "".
        client_certificate: the pair to present, or None.
        expires: when it becomes worthless, as far as the issuer says.
    """

    authorization: str = field(repr=False)
    client_certificate: ClientCertificate | None = None
    expires: datetime | None = None


class RenewedCredentials:
    """Has credentials issued when there are none yet, before they expire, and after a 401.

    However many requests wait, they are issued once, and a failure fails all that waited for it.

    Args:
        issue: has new ones issued; raises ConfigError where that fails.
        name: who issues them, for people.
        client_certificate: the pair to present where none is issued.
        clock: decides when they expire.
    """

    def __init__(
        self,
        issue: Callable[[], Awaitable[Issued]],
        *,
        name: str,
        client_certificate: ClientCertificate | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._issue = issue
        self._name = name
        self._client_certificate = client_certificate
        self._clock = clock or SystemClock()
        self._lock = asyncio.Lock()
        self._issued: Issued | None = None
        self._renew_at: datetime | None = None
        self._rejected_at: float | None = None
        self._failures = 0
        self._failure = ""

    @property
    def client_certificate(self) -> ClientCertificate | None:
        """The pair that was issued, else the one given."""
        issued = self._issued.client_certificate if self._issued else None
        return issued or self._client_certificate

    async def authorization(self) -> str:
        """Return the header, having it issued where needed.

        Raises:
            ConfigError: it was not issued.
        """
        failures = self._failures
        async with self._lock:
            if self._issued is not None and not self._must_renew():
                return self._issued.authorization
            if self._failures != failures:
                raise ConfigError(self._failure)
            try:
                issued = await self._issue()
            except ConfigError as error:
                self._failures += 1
                self._failure = str(error)
                raise
            self._issued = issued
            self._renew_at = self._time_to_renew(issued.expires)
            return issued.authorization

    def rejected(self, authorization: str) -> bool:
        """Have them issued again, though not in a hot loop."""
        if self._issued is None or authorization != self._issued.authorization:
            return True
        now = self._clock.monotonic()
        last, self._rejected_at = self._rejected_at, now
        if last is not None and now - last < _LEAST_BETWEEN_REJECTIONS_SECONDS:
            return False
        self._renew_at = self._clock.now()
        return True

    def __repr__(self) -> str:
        return f"RenewedCredentials({self._name})"

    def _must_renew(self) -> bool:
        return self._renew_at is not None and self._clock.now() >= self._renew_at

    def _time_to_renew(self, expires: datetime | None) -> datetime | None:
        if expires is None:
            return None
        return max(expires - _EXPIRY_MARGIN, self._clock.now() + _SHORTEST_LIFE)
