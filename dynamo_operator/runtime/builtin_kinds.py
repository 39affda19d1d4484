"""The built-in kinds as thin models: typed where read, plain JSON elsewhere."""

from __future__ import annotations

from typing import Any, ClassVar

from dynamo_operator.runtime.models import KubeModel
from informers.objects import ResourceType


class Namespace(KubeModel):
    """v1 Namespace."""

    resource_type: ClassVar[ResourceType] = ResourceType(
        "", "v1", "Namespace", "namespaces", namespaced=False
    )
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class Node(KubeModel):
    """v1 Node."""

    resource_type: ClassVar[ResourceType] = ResourceType(
        "", "v1", "Node", "nodes", namespaced=False
    )
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class Pod(KubeModel):
    """v1 Pod."""

    resource_type: ClassVar[ResourceType] = ResourceType("", "v1", "Pod", "pods")
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class ConfigMap(KubeModel):
    """v1 ConfigMap."""

    resource_type: ClassVar[ResourceType] = ResourceType("", "v1", "ConfigMap", "configmaps")
    data: dict[str, str] = {}
    binary_data: dict[str, str] = {}
    immutable: bool = False


class Secret(KubeModel):
    """v1 Secret; `data` values are base64. Its representation never shows them."""

    resource_type: ClassVar[ResourceType] = ResourceType("", "v1", "Secret", "secrets")
    type: str = "Opaque"
    data: dict[str, str] = {}
    immutable: bool = False

    def __repr__(self) -> str:
        return f"Secret({self.key}, keys={sorted(self.data)})"

    __str__ = __repr__


class ServiceAccount(KubeModel):
    """v1 ServiceAccount."""

    resource_type: ClassVar[ResourceType] = ResourceType(
        "", "v1", "ServiceAccount", "serviceaccounts"
    )
    automount_service_account_token: bool = True
    image_pull_secrets: list[dict[str, str]] = []


class Service(KubeModel):
    """v1 Service."""

    resource_type: ClassVar[ResourceType] = ResourceType("", "v1", "Service", "services")
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class Event(KubeModel):
    """events.k8s.io/v1 Event."""

    resource_type: ClassVar[ResourceType] = ResourceType("events.k8s.io", "v1", "Event", "events")
    event_time: str | None = None
    reason: str = ""
    note: str = ""
    type: str = ""
    action: str = ""
    regarding: dict[str, Any] = {}


class Job(KubeModel):
    """batch/v1 Job."""

    resource_type: ClassVar[ResourceType] = ResourceType("batch", "v1", "Job", "jobs")
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class Deployment(KubeModel):
    """apps/v1 Deployment."""

    resource_type: ClassVar[ResourceType] = ResourceType("apps", "v1", "Deployment", "deployments")
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class ReplicaSet(KubeModel):
    """apps/v1 ReplicaSet."""

    resource_type: ClassVar[ResourceType] = ResourceType("apps", "v1", "ReplicaSet", "replicasets")
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class EndpointSlice(KubeModel):
    """discovery.k8s.io/v1 EndpointSlice."""

    resource_type: ClassVar[ResourceType] = ResourceType(
        "discovery.k8s.io", "v1", "EndpointSlice", "endpointslices"
    )
    address_type: str = ""
    endpoints: list[dict[str, Any]] = []
    ports: list[dict[str, Any]] = []


class PodDisruptionBudget(KubeModel):
    """policy/v1 PodDisruptionBudget."""

    resource_type: ClassVar[ResourceType] = ResourceType(
        "policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"
    )
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class Role(KubeModel):
    """rbac.authorization.k8s.io/v1 Role."""

    resource_type: ClassVar[ResourceType] = ResourceType(
        "rbac.authorization.k8s.io", "v1", "Role", "roles"
    )
    rules: list[dict[str, Any]] = []


class RoleBinding(KubeModel):
    """rbac.authorization.k8s.io/v1 RoleBinding."""

    resource_type: ClassVar[ResourceType] = ResourceType(
        "rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings"
    )
    role_ref: dict[str, str] = {}
    subjects: list[dict[str, str]] = []


class ClusterRole(KubeModel):
    """rbac.authorization.k8s.io/v1 ClusterRole."""

    resource_type: ClassVar[ResourceType] = ResourceType(
        "rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False
    )
    rules: list[dict[str, Any]] = []


class ClusterRoleBinding(KubeModel):
    """rbac.authorization.k8s.io/v1 ClusterRoleBinding."""

    resource_type: ClassVar[ResourceType] = ResourceType(
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRoleBinding",
        "clusterrolebindings",
        namespaced=False,
    )
    role_ref: dict[str, str] = {}
    subjects: list[dict[str, str]] = []


class Lease(KubeModel):
    """coordination.k8s.io/v1 Lease."""

    resource_type: ClassVar[ResourceType] = ResourceType(
        "coordination.k8s.io", "v1", "Lease", "leases"
    )
    spec: dict[str, Any] = {}


class CustomResourceDefinition(KubeModel):
    """apiextensions.k8s.io/v1 CustomResourceDefinition."""

    resource_type: ClassVar[ResourceType] = ResourceType(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        namespaced=False,
    )
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class MutatingWebhookConfiguration(KubeModel):
    """admissionregistration.k8s.io/v1 MutatingWebhookConfiguration."""

    resource_type: ClassVar[ResourceType] = ResourceType(
        "admissionregistration.k8s.io",
        "v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        namespaced=False,
    )
    webhooks: list[dict[str, Any]] = []


class ValidatingWebhookConfiguration(KubeModel):
    """admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration."""

    resource_type: ClassVar[ResourceType] = ResourceType(
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        namespaced=False,
    )
    webhooks: list[dict[str, Any]] = []
