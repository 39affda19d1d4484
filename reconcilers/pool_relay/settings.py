"""What the operator's administrator decides for all relays."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from dynamo_operator.api.relay_contract import HEALTH_SERVICE


class RelaySettings(BaseModel):
    """What every relay is run with, beside what its DynamoPoolRelay asks for.

    Args:
        module: Python module that is the relay. Images of Dynamo 1.6 have dynamo.kv_dc_relay.
        health_service: gRPC service whose health is the relay's.
        run_as_user: UID of the relays; null leaves it to the image and the cluster.
        node_selector: labels of the nodes that may run relays.
        tolerations: of the relays' Pods.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    module: str = Field(default="dynamo.pool_relay", pattern=r"^[A-Za-z_][\w.]*$")
    health_service: str = HEALTH_SERVICE
    run_as_user: int | None = Field(default=1000, ge=1)
    node_selector: dict[str, str] = {}
    tolerations: tuple[dict[str, Any], ...] = ()


class PoolRelaySettings(BaseModel):
    """Settings of the PoolRelay controller.

    Args:
        discovery_backend: of workers whose graph names none.
        relay: of every relay.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    discovery_backend: str = "kubernetes"
    relay: RelaySettings = RelaySettings()
