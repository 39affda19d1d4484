"""The DynamoPoolRelay controller: relays beside the DynamoGraphDeployment of the same name.

Example:
    >>> from dynamo_operator.runtime import Manager
    >>> def embed(manager: Manager) -> None:
    ...     add_to(manager, PoolRelaySettings(discovery_backend="kubernetes"))
"""

from __future__ import annotations

from reconcilers.pool_relay.permissions import PERMISSIONS
from reconcilers.pool_relay.reconciler import PoolRelayReconciler
from reconcilers.pool_relay.settings import PoolRelaySettings, RelaySettings
from reconcilers.pool_relay.setup import add_to

__all__ = ["PERMISSIONS", "PoolRelayReconciler", "PoolRelaySettings", "RelaySettings", "add_to"]
