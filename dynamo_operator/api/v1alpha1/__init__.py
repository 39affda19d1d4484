"""The kinds of nvidia.com/v1alpha1."""

from __future__ import annotations

from dynamo_operator.api.v1alpha1.pool_relay import (
    DynamoPoolRelay,
    EnvironmentVariable,
    PoolRelaySpec,
    PoolRelayStatus,
)

__all__ = ["DynamoPoolRelay", "EnvironmentVariable", "PoolRelaySpec", "PoolRelayStatus"]
