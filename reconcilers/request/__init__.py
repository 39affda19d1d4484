"""The DynamoGraphDeploymentRequest controller: one Run for every accepted generation.

Example:
    >>> from dynamo_operator.runtime import Manager
    >>> def embed(manager: Manager) -> None:
    ...     add_to(manager, history_limit=5)
"""

from __future__ import annotations

from reconcilers.request.permissions import PERMISSIONS
from reconcilers.request.reconciler import RequestReconciler
from reconcilers.request.setup import add_to

__all__ = ["PERMISSIONS", "RequestReconciler", "add_to"]
