"""The built-in resources: a table of what is served."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from dynamo_operator.apiserver import events_conversion
from dynamo_operator.apiserver.builtin_validation import builtin_strategy
from dynamo_operator.apiserver.resources import ALL_VERBS, Resource, ScalePaths

_CREATE = ("create",)
_REPLICAS = ScalePaths(".spec.replicas", ".status.replicas", ".spec.selector")
_CLUSTER = False

# group, version, kind, plural, namespaced, short names, subresources
_TABLE: tuple[tuple[str, str, str, str, bool, str, str], ...] = (
    ("", "v1", "Namespace", "namespaces", _CLUSTER, "ns", "status finalize"),
    ("", "v1", "Node", "nodes", _CLUSTER, "no", "status"),
    (
        "",
        "v1",
        "Pod",
        "pods",
        True,
        "po",
        "status log binding eviction exec attach portforward ephemeralcontainers resize",
    ),
    ("", "v1", "ConfigMap", "configmaps", True, "cm", ""),
    ("", "v1", "Secret", "secrets", True, "", ""),
    ("", "v1", "Service", "services", True, "svc", "status"),
    ("", "v1", "ServiceAccount", "serviceaccounts", True, "sa", "token"),
    ("", "v1", "Event", "events", True, "ev", ""),
    ("", "v1", "Endpoints", "endpoints", True, "ep", ""),
    ("", "v1", "PersistentVolume", "persistentvolumes", _CLUSTER, "pv", "status"),
    ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True, "pvc", "status"),
    ("", "v1", "ReplicationController", "replicationcontrollers", True, "rc", "status scale"),
    ("", "v1", "ResourceQuota", "resourcequotas", True, "quota", "status"),
    ("", "v1", "LimitRange", "limitranges", True, "limits", ""),
    ("", "v1", "PodTemplate", "podtemplates", True, "", ""),
    ("", "v1", "Binding", "bindings", True, "", ""),
    ("apps", "v1", "Deployment", "deployments", True, "deploy", "status scale"),
    ("apps", "v1", "ReplicaSet", "replicasets", True, "rs", "status scale"),
    ("apps", "v1", "StatefulSet", "statefulsets", True, "sts", "status scale"),
    ("apps", "v1", "DaemonSet", "daemonsets", True, "ds", "status"),
    ("apps", "v1", "ControllerRevision", "controllerrevisions", True, "", ""),
    ("batch", "v1", "Job", "jobs", True, "", "status"),
    ("batch", "v1", "CronJob", "cronjobs", True, "cj", "status"),
    ("rbac.authorization.k8s.io", "v1", "Role", "roles", True, "", ""),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", True, "", ""),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", _CLUSTER, "", ""),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRoleBinding",
        "clusterrolebindings",
        _CLUSTER,
        "",
        "",
    ),
    ("coordination.k8s.io", "v1", "Lease", "leases", True, "", ""),
    ("events.k8s.io", "v1", "Event", "events", True, "ev", ""),
    ("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", True, "", ""),
    ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", True, "pdb", "status"),
    (
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        _CLUSTER,
        "crd crds",
        "status",
    ),
    ("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", _CLUSTER, "", ""),
    ("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", _CLUSTER, "", ""),
    (
        "authorization.k8s.io",
        "v1",
        "SubjectAccessReview",
        "subjectaccessreviews",
        _CLUSTER,
        "",
        "",
    ),
    (
        "authorization.k8s.io",
        "v1",
        "LocalSubjectAccessReview",
        "localsubjectaccessreviews",
        True,
        "",
        "",
    ),
    (
        "authorization.k8s.io",
        "v1",
        "SelfSubjectAccessReview",
        "selfsubjectaccessreviews",
        _CLUSTER,
        "",
        "",
    ),
    (
        "authorization.k8s.io",
        "v1",
        "SelfSubjectRulesReview",
        "selfsubjectrulesreviews",
        _CLUSTER,
        "",
        "",
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        _CLUSTER,
        "",
        "",
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        _CLUSTER,
        "",
        "",
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        _CLUSTER,
        "",
        "status",
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        _CLUSTER,
        "",
        "",
    ),
    ("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", True, "netpol", ""),
    ("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", _CLUSTER, "pc", ""),
    ("storage.k8s.io", "v1", "StorageClass", "storageclasses", _CLUSTER, "sc", ""),
)
_IN_ALL = frozenset(
    {
        ("", "pods"),
        ("", "services"),
        ("", "replicationcontrollers"),
        ("apps", "deployments"),
        ("apps", "replicasets"),
        ("apps", "statefulsets"),
        ("apps", "daemonsets"),
        ("batch", "jobs"),
        ("batch", "cronjobs"),
    }
)
_KEPT_ELSEWHERE: dict[tuple[str, str], dict[str, Any]] = {
    ("events.k8s.io", "events"): {
        "storage_group": "",
        "storage_api_version": "v1",
        "to_storage": events_conversion.to_core,
        "from_storage": events_conversion.from_core,
    }
}
_CREATE_ONLY_GROUPS = frozenset({"authentication.k8s.io", "authorization.k8s.io"})


@cache
def builtin_resources() -> tuple[Resource, ...]:
    """Return every built-in resource; they hold no state, so all servers share them."""
    return tuple(_resources())


_VERBS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", "namespaces"): tuple(verb for verb in ALL_VERBS if verb != "deletecollection")
}
_DEPRECATED: Mapping[tuple[str, str], str] = {
    ("", "endpoints"): (
        "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
    )
}


def is_builtin(group: str) -> bool:
    """Whether the server itself serves something in the group."""
    return any(resource.group == group for resource in builtin_resources())


def _resources() -> Iterator[Resource]:
    for group, version, kind, plural, namespaced, short_names, subresources in _TABLE:
        create_only = group in _CREATE_ONLY_GROUPS or plural == "bindings"
        yield Resource(
            group,
            version,
            kind,
            plural,
            builtin_strategy(group, kind),
            singular=kind.lower(),
            short_names=tuple(short_names.split()),
            categories=("all",) if (group, plural) in _IN_ALL else (),
            namespaced=namespaced,
            verbs=_CREATE if create_only else _VERBS.get((group, plural), ALL_VERBS),
            subresources=frozenset(subresources.split()),
            deprecation_warning=_DEPRECATED.get((group, plural), ""),
            scale=_REPLICAS if "scale" in subresources.split() else None,
            **_KEPT_ELSEWHERE.get((group, plural), {}),
        )
