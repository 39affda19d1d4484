"""The built-in admission plugins that need nothing but the store."""

from __future__ import annotations

from dynamo_operator.apiserver import status
from dynamo_operator.apiserver.calls import Call
from dynamo_operator.apiserver.resources import Object

_ALLOWED_IN_TERMINATING = frozenset({("authorization.k8s.io", "localsubjectaccessreviews")})


class NamespaceLifecycle:
    """Refuses new content in a namespace that does not exist or is being deleted."""

    def admit(self, call: Call, new: Object, old: Object | None) -> Object:
        """Check creates of namespaced objects."""
        resource = call.resource
        if old is not None or not resource.namespaced:
            return new
        if (resource.group, resource.plural) in _ALLOWED_IN_TERMINATING:
            return new
        namespace = call.world.storage.get(("", "namespaces"), "", call.namespace)
        if namespace is None:
            raise status.not_found("", "namespaces", call.namespace)
        if namespace.value["metadata"].get("deletionTimestamp"):
            raise _terminating(call, new)
        return new


def _terminating(call: Call, new: Object) -> status.StatusError:
    namespace = call.namespace
    error = status.forbidden(
        call.resource.group,
        call.resource.plural,
        new["metadata"].get("name", ""),
        f"unable to create new content in namespace {namespace} because it is being terminated",
    )
    error.details["causes"] = [
        {
            "reason": "NamespaceTerminating",
            "message": f"namespace {namespace} is being terminated",
            "field": "metadata.namespace",
        }
    ]
    return error
