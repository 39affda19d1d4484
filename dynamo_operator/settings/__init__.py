"""What whoever installs the operator decides: one schema for flags, environment and a file."""

from __future__ import annotations

from dynamo_operator.settings.leader_election import LEASE_NAME, LeaderElectionSettings
from dynamo_operator.settings.logging import LogFormat, LoggingSettings, LogLevel
from dynamo_operator.settings.operator import (
    DiscoverySettings,
    FeatureGates,
    GpuSettings,
    OperatorSettings,
    WebhookMode,
)
from dynamo_operator.settings.server import (
    WEBHOOK_CONFIGURATION,
    WEBHOOK_SECRET,
    WEBHOOK_SERVICE,
    HealthProbeSettings,
    MetricsSettings,
    ServerSettings,
    WebhookSettings,
)

__all__ = [
    "LEASE_NAME",
    "WEBHOOK_CONFIGURATION",
    "WEBHOOK_SECRET",
    "WEBHOOK_SERVICE",
    "DiscoverySettings",
    "FeatureGates",
    "GpuSettings",
    "HealthProbeSettings",
    "LeaderElectionSettings",
    "LogFormat",
    "LogLevel",
    "LoggingSettings",
    "MetricsSettings",
    "OperatorSettings",
    "ServerSettings",
    "WebhookMode",
    "WebhookSettings",
]
