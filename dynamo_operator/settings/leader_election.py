"""How one of several operators is chosen to work."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, model_validator

from dynamo_operator.runtime import LeaderElection

LEASE_NAME: Final = "dynamo-operator.nvidia.com"
"""What every operator takes before it works, unless it is told another."""


class LeaderElectionSettings(BaseModel):
    """How one of several operators is chosen to work.

    Args:
        enabled: whether to work only while holding the Lease.
        id: name of the Lease.
        namespace: namespace of the Lease; default the operator's own, outside a cluster that of
            the shipped manifests, or if that is missing the context's.
        lease_seconds: how long others wait for a renewal before they take over.
        renew_deadline_seconds: how long without a renewal the operator works on.
        retry_seconds: how often the Lease is renewed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = True
    id: str = LEASE_NAME
    namespace: str = ""
    lease_seconds: float = 15.0
    renew_deadline_seconds: float = 10.0
    retry_seconds: float = 2.0

    @model_validator(mode="after")
    def _fit_together(self) -> LeaderElectionSettings:
        self.election(namespace=self.namespace or "default")
        return self

    def election(self, *, namespace: str, identity: str = "") -> LeaderElection:
        """Return what a manager is told.

        Args:
            namespace: where the Lease is if the settings do not say.
            identity: who this operator is; default the host's name.
        """
        return LeaderElection(
            self.id,
            self.namespace or namespace,
            identity=identity,
            lease_seconds=self.lease_seconds,
            renew_deadline_seconds=self.renew_deadline_seconds,
            retry_seconds=self.retry_seconds,
        )
