"""What the Run controller may do, rule by rule; the shipped role is made from this."""

from __future__ import annotations

from collections.abc import Sequence

from dynamo_operator.api.labels import GROUP
from dynamo_operator.runtime.permissions import Permission

_READ = ("get", "list", "watch")
_RBAC = "rbac.authorization.k8s.io"

PERMISSIONS = (
    Permission(GROUP, ("dynamographdeploymentrequests",), _READ),
    Permission(GROUP, ("dynamographdeploymentruns",), _READ),
    # patch on the status is also what the publisher's Role grants.
    Permission(GROUP, ("dynamographdeploymentruns/status",), ("patch",)),
    # A child that blocks its owner's deletion needs this where that is enforced.
    Permission(GROUP, ("dynamographdeploymentruns/finalizers",), ("update",)),
    # patch removes the finalizer that keeps a Job until its Run names it.
    Permission("batch", ("jobs",), (*_READ, "create", "patch", "delete")),
    Permission("", ("configmaps",), (*_READ, "create")),
    Permission("", ("serviceaccounts",), (*_READ, "create", "patch")),
    Permission(_RBAC, ("roles", "rolebindings"), (*_READ, "create", "patch")),
    Permission("", ("pods",), _READ),
    # The warnings about a Job without a Pod, and about a Pod that does not start.
    Permission("", ("events",), ("list",)),
    # Only to be able to grant it: these are the rules of the publisher's Role.
    Permission(GROUP, ("dynamographdeploymentcandidates",), ("get", "list", "create", "delete")),
    Permission(GROUP, ("dynamographdeploymentcandidates/status",), ("update",)),
)


DISCOVERY_OF_PULL_SECRETS = (Permission("", ("secrets",), ("list",)),)
"""What a Run controller may do beside that when it is told to discover pull secrets."""


def pull_secret_permission(names: Sequence[str]) -> Permission:
    """Return what a Run controller may do beside that when it is told pull secrets, by name."""
    return Permission("", ("secrets",), ("get",), names=tuple(names))
