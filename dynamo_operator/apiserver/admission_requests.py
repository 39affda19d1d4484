"""What admission by configuration judges: one request, in the version that is asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from dynamo_operator.apiserver.calls import Call
from dynamo_operator.apiserver.resources import Object, Resource

CREATE, UPDATE, DELETE = "CREATE", "UPDATE", "DELETE"
_OPTIONS = {CREATE: "CreateOptions", UPDATE: "UpdateOptions", DELETE: "DeleteOptions"}


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """One object about to be written or deleted.

    Args:
        resource: whose version `new` and `old` are in: that of the request, or an equivalent one.
        new: the object as it will be; None for a deletion.
        old: the object as it is; None for a creation.
        options: of a deletion.
        part: apiVersion and kind of what is written, where that is no object of the resource: the
            Scale or the Eviction of one.
    """

    call: Call
    operation: str
    resource: Resource
    new: Object | None
    old: Object | None
    options: Object | None = None
    part: tuple[str, str] | None = None

    @classmethod
    def of_write(cls, call: Call, new: Object, old: Object | None) -> AdmissionRequest:
        """Describe a creation or a change."""
        return cls(call, CREATE if old is None else UPDATE, call.resource, new, old)

    @property
    def namespace(self) -> str:
        """Where the object is; its own name for a Namespace."""
        if (self.resource.group, self.resource.plural) == ("", "namespaces"):
            return self.name
        return self.call.namespace

    @property
    def name(self) -> str:
        """The object's name; empty while it has none."""
        if self.operation == DELETE or self.part is not None:
            return self.call.info.name
        return str((self.new or {}).get("metadata", {}).get("name", ""))

    def converted(self, resource: Resource) -> AdmissionRequest:
        """Return the request as if it had been made in an equivalent version."""
        if resource is self.resource or self.part is not None:
            return replace(self, resource=resource)
        return replace(
            self,
            resource=resource,
            new=_converted(self.new, self.resource, resource),
            old=_converted(self.old, self.resource, resource),
        )

    def decoded(self, new: Object) -> Object:
        """Return a new object as the server reads it."""
        return new if self.part is not None else self.resource.strategy.decoded(new)

    def in_own_version(self, new: Object, converted: AdmissionRequest) -> Object:
        """Return an object of the request that this was converted to in this one's version."""
        if self.part is not None:
            return new
        return self.resource.from_version(new, converted.resource)

    def with_new(self, new: Object) -> AdmissionRequest:
        """Return the request with another new object."""
        return replace(self, new=new)

    def to_review(self) -> Object:
        """Return the `request` of a review, without its uid."""
        call, asked = self.call, self.call.resource
        subresource = call.info.subresource
        request: dict[str, Any] = {
            "kind": self._kind(self.resource),
            "resource": _resource(self.resource),
            "requestKind": self._kind(asked),
            "requestResource": _resource(asked),
            "operation": self.operation,
            "userInfo": _user(call),
            "object": self.new,
            "oldObject": self.old,
            "dryRun": call.dry_run,
            "options": self._options(),
        }
        if subresource:
            request |= {"subResource": subresource, "requestSubResource": subresource}
        if self.name:
            request["name"] = self.name
        if self.namespace:
            request["namespace"] = self.namespace
        return request

    def _kind(self, resource: Resource) -> Object:
        group, version, kind = resource.group, resource.version, resource.kind
        if self.part is not None:
            (group, _, version), kind = self.part[0].rpartition("/"), self.part[1]
        return {"group": group, "version": version, "kind": kind}

    def _options(self) -> Object:
        query = self.call.query
        options: Object = {
            "kind": _OPTIONS[self.operation],
            "apiVersion": "meta.k8s.io/v1",
            **(self.options or {}),
        }
        if query.texts("dryRun"):
            options["dryRun"] = list(query.texts("dryRun"))
        if self.operation != DELETE:
            given = {name: query.text(name) for name in ("fieldManager", "fieldValidation")}
            options |= {name: value for name, value in given.items() if value}
        return options


def _converted(obj: Object | None, source: Resource, target: Resource) -> Object | None:
    return None if obj is None else target.from_version(obj, source)


def _resource(resource: Resource) -> Object:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


def _user(call: Call) -> Object:
    user = call.user
    info: Object = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = {name: list(values) for name, values in user.extra.items()}
    return info
