"""The DynamoGraphDeploymentRun controller: one frozen Job for every Run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from dynamo_operator.api.conditions import CompletedReason
from dynamo_operator.api.labels import RUN_UID_LABEL
from dynamo_operator.api.v1beta2 import (
    DynamoGraphDeploymentCandidate,
    DynamoGraphDeploymentRequest,
    DynamoGraphDeploymentRun,
)
from dynamo_operator.hardware import HardwareUnknownError
from dynamo_operator.runtime import Controller, Manager, Watch
from dynamo_operator.runtime.builtin_kinds import ConfigMap, Job, Pod, Role, RoleBinding, ServiceAccount
from dynamo_operator.runtime.client import Discovery
from informers.events import ObjectEvent
from reconcilers.run.children import Children
from reconcilers.run.errors import WaitingError
from reconcilers.run.execution import ContainerImage, PlannerSettings, PodSecurity, PublisherSettings
from reconcilers.run.freeze import Freezer
from reconcilers.run.permissions import PERMISSIONS
from reconcilers.run.reconciler import RunReconciler
from reconcilers.run.settings import RunSettings

__all__ = [
    "PERMISSIONS",
    "ContainerImage",
    "PlannerSettings",
    "PodSecurity",
    "PublisherSettings",
    "RunReconciler",
    "RunSettings",
    "add_to",
]
