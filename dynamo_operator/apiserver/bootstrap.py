"""What a fresh cluster holds: system namespaces, default roles and their bindings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dynamo_operator.apiserver.calls import World
from dynamo_operator.apiserver.rbac import GROUP

_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_READ = ["get", "list", "watch"]
_WRITE = ["create", "delete", "deletecollection", "patch", "update"]
_ALL = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}

_CONTENT: Mapping[str, Sequence[str]] = {
    "": (
        "configmaps",
        "endpoints",
        "events",
        "persistentvolumeclaims",
        "pods",
        "pods/log",
        "pods/status",
        "replicationcontrollers",
        "serviceaccounts",
        "services",
    ),
    "apps": ("daemonsets", "deployments", "deployments/scale", "replicasets", "statefulsets"),
    "batch": ("cronjobs", "jobs"),
    "coordination.k8s.io": ("leases",),
    "networking.k8s.io": ("networkpolicies",),
    "policy": ("poddisruptionbudgets",),
}

_PUBLIC_PATHS = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
_DISCOVERY_PATHS = [*_PUBLIC_PATHS, "/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"]


def fill(world: World) -> None:
    """Create all of it; the store must be empty."""
    for name in _NAMESPACES:
        world.storage.put(
            ("", "namespaces"),
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": _metadata(world, name, {"kubernetes.io/metadata.name": name}),
                "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"},
            },
        )
    for name, (rules, subjects) in _roles().items():
        labels = {"kubernetes.io/bootstrapping": "rbac-defaults"}
        role = {
            "apiVersion": f"{GROUP}/v1",
            "kind": "ClusterRole",
            "metadata": _metadata(world, name, labels),
            "rules": rules,
        }
        world.storage.put((GROUP, "clusterroles"), role)
        if subjects:
            binding = {
                "apiVersion": f"{GROUP}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": _metadata(world, name, labels),
                "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
                "subjects": [{"apiGroup": GROUP, "kind": "Group", "name": s} for s in subjects],
            }
            world.storage.put((GROUP, "clusterrolebindings"), binding)


def _roles() -> dict[str, tuple[list[dict[str, Any]], list[str]]]:
    everyone = ["system:authenticated", "system:unauthenticated"]
    view = [_rule(group, resources, _READ) for group, resources in _CONTENT.items()]
    edit = [_rule(group, resources, _READ + _WRITE) for group, resources in _CONTENT.items()]
    edit.append(_rule("", ["secrets"], _READ + _WRITE))
    grants = _rule(GROUP, ["roles", "rolebindings"], _READ + _WRITE)
    reviews = _rule(
        "authorization.k8s.io",
        ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
        ["create"],
    )
    return {
        "cluster-admin": ([_ALL, _paths(["*"], ["*"])], ["system:masters"]),
        "system:basic-user": (
            [reviews, _rule("authentication.k8s.io", ["selfsubjectreviews"], ["create"])],
            ["system:authenticated"],
        ),
        "system:discovery": ([_paths(_DISCOVERY_PATHS, ["get"])], ["system:authenticated"]),
        "system:public-info-viewer": ([_paths(_PUBLIC_PATHS, ["get"])], everyone),
        "system:node": (_node_rules(), ["system:nodes"]),
        "view": (view, []),
        "edit": (edit, []),
        "admin": ([*edit, grants], []),
    }


def _node_rules() -> list[dict[str, Any]]:
    """What nodes may do; a real cluster narrows it further to a node's own objects."""
    return [
        _rule("", ["nodes", "nodes/status"], ["create", *_READ, "patch", "update"]),
        _rule("", ["pods"], ["create", *_READ, "delete"]),
        _rule("", ["pods/status"], ["patch", "update"]),
        _rule("", ["configmaps", "secrets", "services", "persistentvolumeclaims"], _READ),
        _rule("", ["serviceaccounts"], ["get"]),
        _rule("", ["serviceaccounts/token"], ["create"]),
        _rule("", ["events"], ["create", "patch", "update"]),
        _rule("events.k8s.io", ["events"], ["create", "patch", "update"]),
        _rule("coordination.k8s.io", ["leases"], ["create", "get", "patch", "update"]),
        _rule("authentication.k8s.io", ["tokenreviews"], ["create"]),
        _rule("authorization.k8s.io", ["subjectaccessreviews"], ["create"]),
    ]


def _metadata(world: World, name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    return {
        "name": name,
        "uid": world.new_uid(),
        "creationTimestamp": world.timestamp(),
        "labels": dict(labels),
    }


def _rule(group: str, resources: Sequence[str], verbs: Sequence[str]) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}


def _paths(paths: Sequence[str], verbs: Sequence[str]) -> dict[str, Any]:
    return {"nonResourceURLs": list(paths), "verbs": list(verbs)}
