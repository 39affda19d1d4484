"""Admission: who may set owner references, as strict clusters (OpenShift) have it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dynamo_operator.apiserver import status
from dynamo_operator.apiserver.calls import Call
from dynamo_operator.apiserver.resources import Object
from dynamo_operator.apiserver.routes import RequestInfo


class OwnerReferencePermissions:
    """Setting owners needs delete on the object; blocking one needs update of its finalizers."""

    def admit(self, call: Call, new: Object, old: Object | None) -> Object:
        """Check what changes in the owner references."""
        owners = new["metadata"].get("ownerReferences", [])
        before = old["metadata"].get("ownerReferences", []) if old else []
        if owners == before:
            return new
        if old is not None and not call.allowed(replace(call.info, verb="delete", subresource="")):
            raise _forbidden(
                call, new, "cannot set an ownerRef on a resource you can't delete: , <nil>"
            )
        blocking_before = {owner["uid"] for owner in before if owner.get("blockOwnerDeletion")}
        for owner in owners:
            if owner.get("blockOwnerDeletion") and owner.get("uid") not in blocking_before:
                self._check_blocking(call, new, owner)
        return new

    def _check_blocking(self, call: Call, new: Object, owner: Mapping[str, Any]) -> None:
        api_version, kind = owner.get("apiVersion", ""), owner.get("kind", "")
        group, _, version = api_version.rpartition("/")
        resource = call.world.registry.find_kind(group, version, kind)
        if resource is None:
            raise _forbidden(
                call,
                new,
                "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for "
                f'APIVersion {api_version} Kind {kind}: no matches for kind "{kind}" in version '
                f'"{api_version}"',
            )
        wanted = RequestInfo(
            "update",
            "",
            is_resource=True,
            group=group,
            version=version,
            plural=resource.plural,
            namespace=call.namespace if resource.namespaced else "",
            name=owner.get("name", ""),
            subresource="finalizers",
        )
        if not call.allowed(wanted):
            raise _forbidden(
                call,
                new,
                "cannot set blockOwnerDeletion if an ownerReference refers to a resource you "
                "can't set finalizers on: , <nil>",
            )


def _forbidden(call: Call, new: Object, detail: str) -> status.StatusError:
    resource = call.resource
    return status.forbidden(
        resource.group, resource.plural, new["metadata"].get("name", ""), detail
    )
