"""What a check found, and what the checks look at."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from enum import StrEnum

from dynamo_operator.cli.diagnosis.installation import Installation
from dynamo_operator.runtime.client import Client
from informers.clock import Clock


class Severity(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of a diagnosis.

    Args:
        check: what was looked at.
        severity: how it is.
        told: what was seen.
        mend: what to do about it; "" where nothing has to be done.
    """

    check: str
    severity: Severity
    told: str
    mend: str = ""

    def to_dict(self) -> dict[str, str]:
        """Return it as plain values."""
        mend = {"mend": self.mend} if self.mend else {}
        return {"check": self.check, "severity": str(self.severity), "told": self.told, **mend}


@dataclass(frozen=True, slots=True)
class Subject:
    """What is examined.

    Args:
        client: of the person who asks.
        namespace: where Requests are to be made.
        installation: the operator; None: there is none.
        clock: the present.
    """

    client: Client
    namespace: str
    installation: Installation | None
    clock: Clock

    @property
    def searches(self) -> bool:
        """Whether Requests are to work; the feature gate may have switched them off."""
        settings = self.installation.settings if self.installation else None
        return settings is None or settings.feature_gates.dgdr_v1_beta2


Check = Callable[[Subject], AsyncIterator[Finding]]
"""Looks at one part, and yields what it found; what the server refuses ends it."""
