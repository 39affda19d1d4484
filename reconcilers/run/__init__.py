"""The DynamoGraphDeploymentRun controller: one frozen Job for every Run.

Example:
    >>> from dynamo_operator.runtime import Manager
    >>> def embed(manager: Manager, settings: RunSettings) -> None:
    ...     add_to(manager, settings)
"""

from __future__ import annotations

from reconcilers.run.execution import (
    ContainerImage,
    ContainerResources,
    PlannerSettings,
    PodSecurity,
    PublisherSettings,
)
from reconcilers.run.permissions import (
    DISCOVERY_OF_PULL_SECRETS,
    PERMISSIONS,
    pull_secret_permission,
)
from reconcilers.run.reconciler import RunReconciler
from reconcilers.run.settings import RunSettings
from reconcilers.run.setup import add_to

__all__ = [
    "DISCOVERY_OF_PULL_SECRETS",
    "PERMISSIONS",
    "ContainerImage",
    "ContainerResources",
    "PlannerSettings",
    "PodSecurity",
    "PublisherSettings",
    "RunReconciler",
    "RunSettings",
    "add_to",
    "pull_secret_permission",
]
