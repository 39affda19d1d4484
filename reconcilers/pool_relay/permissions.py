"""What the PoolRelay controller may do, rule by rule; the shipped role is made from this."""

from __future__ import annotations

from dynamo_operator.api.labels import GROUP
from dynamo_operator.runtime.permissions import Permission
from reconcilers.pool_relay.graphs import ServedComponent, ServedGraph

_READ = ("get", "list", "watch")
_RBAC = "rbac.authorization.k8s.io"

PERMISSIONS = (
    Permission(GROUP, ("dynamopoolrelays",), _READ),
    Permission(GROUP, ("dynamopoolrelays/status",), ("patch",)),
    # A child that blocks its owner's deletion needs this where that is enforced.
    Permission(GROUP, ("dynamopoolrelays/finalizers",), ("update",)),
    Permission(GROUP, ("dynamographdeployments",), _READ),
    Permission(GROUP, ("dynamocomponentdeployments",), ("list", "watch")),
    # Another operator's kinds: to see when they come and go.
    Permission(
        "apiextensions.k8s.io",
        ("customresourcedefinitions",),
        ("list", "watch"),
        names=tuple(
            f"{kind.resource_type.plural}.{kind.resource_type.group}"
            for kind in (ServedGraph, ServedComponent)
        ),
        cluster_wide=True,
    ),
    Permission("apps", ("deployments",), (*_READ, "create", "patch")),
    # A Service is what is withdrawn.
    Permission("", ("services",), (*_READ, "create", "patch", "delete")),
    Permission("policy", ("poddisruptionbudgets",), (*_READ, "create", "patch", "delete")),
    Permission("", ("configmaps", "serviceaccounts"), (*_READ, "create", "patch")),
    # What a binding binds cannot be changed, only replaced.
    Permission(_RBAC, ("roles", "rolebindings"), (*_READ, "create", "patch")),
    Permission(_RBAC, ("rolebindings",), ("delete",)),
    Permission("", ("pods",), _READ),
    # Only to be able to grant it: with `get` on pods these are the rules of the relays' Role.
    Permission(GROUP, ("dynamoworkermetadatas",), (*_READ, "create", "patch", "delete")),
    Permission("discovery.k8s.io", ("endpointslices",), _READ),
)
