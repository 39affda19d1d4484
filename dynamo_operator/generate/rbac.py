"""The operator's roles, from the permissions that its parts declare."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from dynamo_operator.app import (
    leader_election_permissions,
    metrics_permissions,
    permissions,
    webhook_configuration_permissions,
    webhook_secret_permissions,
)
from dynamo_operator.generate.layout import (
    LEADER_ELECTION,
    MANAGER,
    METRICS,
    NAME,
    NAMESPACE,
    WEBHOOK_CERTIFICATE,
    labels,
)
from dynamo_operator.hardware.discovery import GPU_DISCOVERY_ROLE
from dynamo_operator.hardware.discovery import PERMISSIONS as DISCOVERY_PERMISSIONS
from dynamo_operator.runtime.permissions import Permission

_RBAC_GROUP: Final = "rbac.authorization.k8s.io"
_VERBS: Final = ("get", "list", "watch", "create", "update", "patch", "delete")


def role_rules(declared: Iterable[Permission]) -> list[dict[str, Any]]:
    """Return the smallest list of rules that grants exactly what was declared."""
    verbs_of: dict[tuple[str, str, tuple[str, ...]], set[str]] = defaultdict(set)
    for permission in declared:
        for resource in permission.resources:
            names = tuple(sorted(permission.names))
            verbs_of[permission.group, resource, names].update(permission.verbs)

    resources_of: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = defaultdict(list)
    for (group, resource, names), verbs in sorted(verbs_of.items()):
        resources_of[group, names, tuple(sorted(verbs, key=_verb_order))].append(resource)
    return [
        {
            "apiGroups": [group],
            "resources": resources,
            **({"resourceNames": list(names)} if names else {}),
            "verbs": list(verbs),
        }
        for (group, names, verbs), resources in resources_of.items()
    ]


def service_account() -> dict[str, Any]:
    """Return the operator's ServiceAccount."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": labels("rbac")},
    }


def manager_role(*, image_pull_secrets: Sequence[str] = ()) -> dict[str, Any]:
    """Return the role of the operator itself.

    Args:
        image_pull_secrets: as in the operator's settings; the shipped role is for none.
    """
    return _cluster_role(MANAGER, permissions(image_pull_secrets=image_pull_secrets))


def namespaced_manager_role() -> dict[str, Any]:
    """Return the role of an operator that works in its own namespace only."""
    return _own_role(MANAGER, namespaced(permissions()))


def namespaced_manager_role_binding() -> dict[str, Any]:
    """Return the binding of that role to the operator's ServiceAccount."""
    return _own_role_binding(MANAGER)


def namespaced(declared: Iterable[Permission]) -> list[Permission]:
    """Return what of it a Role can grant, and an operator of a few namespaces needs."""
    return [permission for permission in declared if not permission.cluster_wide]


def metrics_role() -> dict[str, Any]:
    """Return the role by which the operator asks who may see its metrics."""
    return _cluster_role(METRICS, metrics_permissions())


def metrics_reader_role() -> dict[str, Any]:
    """Return the role of those who may see them; nobody is bound to it."""
    return {
        "apiVersion": f"{_RBAC_GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": f"{METRICS}-reader", "labels": labels("rbac")},
        "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    }


def gpu_discovery_role() -> dict[str, Any]:
    """Return the read-only role that discovers GPUs; without it a Request must name its own."""
    return _cluster_role(GPU_DISCOVERY_ROLE, DISCOVERY_PERMISSIONS)


def leader_election_role() -> dict[str, Any]:
    """Return the role for the Lease, in the operator's own namespace only."""
    return _own_role(LEADER_ELECTION, leader_election_permissions())


def leader_election_role_binding() -> dict[str, Any]:
    """Return the binding of that role to the operator's ServiceAccount."""
    return _own_role_binding(LEADER_ELECTION)


def webhook_certificate_roles() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the roles of webhooks of mode auto: for their Secret, and for their configurations."""
    return (
        _own_role(WEBHOOK_CERTIFICATE, webhook_secret_permissions()),
        _cluster_role(WEBHOOK_CERTIFICATE, webhook_configuration_permissions()),
    )


def webhook_certificate_role_bindings() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the bindings of these roles to the operator's ServiceAccount."""
    return _own_role_binding(WEBHOOK_CERTIFICATE), role_binding(WEBHOOK_CERTIFICATE)


def role_binding(role: str) -> dict[str, Any]:
    """Return the binding of a cluster role to the operator's ServiceAccount."""
    return {
        "apiVersion": f"{_RBAC_GROUP}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": role, "labels": labels("rbac")},
        "roleRef": {"apiGroup": _RBAC_GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}],
    }


def _own_role(name: str, declared: Iterable[Permission]) -> dict[str, Any]:
    return {
        "apiVersion": f"{_RBAC_GROUP}/v1",
        "kind": "Role",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels("rbac")},
        "rules": role_rules(declared),
    }


def _own_role_binding(name: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{_RBAC_GROUP}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels("rbac")},
        "roleRef": {"apiGroup": _RBAC_GROUP, "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}],
    }


def _cluster_role(name: str, declared: Iterable[Permission]) -> dict[str, Any]:
    return {
        "apiVersion": f"{_RBAC_GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": labels("rbac")},
        "rules": role_rules(declared),
    }


def _verb_order(verb: str) -> tuple[int, str]:
    return (_VERBS.index(verb) if verb in _VERBS else len(_VERBS), verb)
