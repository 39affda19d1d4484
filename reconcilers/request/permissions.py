"""What the Request controller may do, rule by rule; the shipped role is made from this."""

from __future__ import annotations

from dynamo_operator.api.labels import GROUP
from dynamo_operator.runtime.permissions import Permission

_READ = ("get", "list", "watch")

PERMISSIONS = (
    Permission(GROUP, ("dynamographdeploymentrequests",), _READ),
    Permission(GROUP, ("dynamographdeploymentrequests/status",), ("patch",)),
    # A Run that blocks its Request's deletion needs this where that is enforced.
    Permission(GROUP, ("dynamographdeploymentrequests/finalizers",), ("update",)),
    Permission(GROUP, ("dynamographdeploymentruns",), (*_READ, "create", "delete")),
    Permission(GROUP, ("dynamographdeploymentcandidates",), _READ),
)
