"""OpenAPI documents: v3 for each group and version, and v2 for everything."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from dynamo_operator.apiserver import openapi_protobuf, status
from dynamo_operator.apiserver.messages import JSON_TYPE, Response, to_json
from dynamo_operator.apiserver.negotiation import negotiate_media_type
from dynamo_operator.apiserver.resources import Resource, ResourceRegistry
from dynamo_operator.apiserver.schema import OBJECT_META_SCHEMA

_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_OBJECT_META = f"{_META}.ObjectMeta"
_LIST_META = f"{_META}.ListMeta"
_LIST_META_SCHEMA = {
    "type": "object",
    "properties": {
        "continue": {"type": "string"},
        "remainingItemCount": {"type": "integer", "format": "int64"},
        "resourceVersion": {"type": "string"},
        "selfLink": {"type": "string"},
    },
}
_API_VERSION = {
    "type": "string",
    "description": "APIVersion defines the versioned schema of this representation of an object.",
}
_KIND = {"type": "string", "description": "Kind names the REST resource this object represents."}
_V3_ONLY = frozenset({"nullable", "oneOf", "anyOf", "allOf", "not"})
_WRITE_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation")
_WRITES = {"post": "post", "put": "put", "patch": "patch"}


class OpenApiDocuments:
    """Answers requests for documents, each made once for as long as the same things are served."""

    def __init__(self, registry: ResourceRegistry, git_version: str) -> None:
        self._registry = registry
        self._git_version = git_version
        self._revision = -1
        self._made: dict[str, bytes] = {}

    def answer(self, path: str, accept: str) -> Response | None:
        """Answer a request, or return None where the path is not one of a document.

        Raises:
            StatusError: 404 for a group and version that is not served, 406.
        """
        if self._revision != self._registry.revision:
            self._revision = self._registry.revision
            self._made.clear()
        match [part for part in path.split("/") if part]:
            case ["openapi", "v2"]:
                return self._answer_v2(accept)
            case ["openapi", "v3"]:
                negotiate_media_type(accept, (JSON_TYPE,))
                return _json(self._once("v3", self._v3_index))
            case ["openapi", "v3", *rest]:
                negotiate_media_type(accept, (JSON_TYPE,))
                group = "/".join(rest)
                if group not in self._groups():
                    raise status.no_such_path()
                return _json(self._v3_document(group))
        return None

    def _answer_v2(self, accept: str) -> Response:
        media_type = negotiate_media_type(accept, (JSON_TYPE, *openapi_protobuf.MEDIA_TYPES))
        if media_type == JSON_TYPE:
            return _json(self._once("v2", lambda: to_json(self._v2())))
        data = self._once("v2 protobuf", lambda: openapi_protobuf.encode_document(self._v2()))
        # Asked for with an "@", which no Content-Type may contain; answered without.
        return Response(200, {"content-type": openapi_protobuf.MEDIA_TYPES[0]}, data)

    def _v2(self) -> dict[str, Any]:
        return _v2(list(self._registry), self._git_version)

    def _v3_index(self) -> bytes:
        paths = {}
        for group in self._groups():
            digest = hashlib.sha256(self._v3_document(group)).hexdigest().upper()
            paths[group] = {"serverRelativeURL": f"/openapi/v3/{group}?hash={digest}"}
        return to_json({"paths": paths})

    def _v3_document(self, group: str) -> bytes:
        chosen = [r for r in self._registry if _group_path(r) == group]
        return self._once(f"v3/{group}", lambda: to_json(_v3(chosen, self._git_version)))

    def _groups(self) -> list[str]:
        return list(dict.fromkeys(_group_path(resource) for resource in self._registry))

    def _once(self, name: str, make: Callable[[], bytes]) -> bytes:
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]


def _json(data: bytes) -> Response:
    return Response(200, {"content-type": JSON_TYPE}, data)


def _v3(resources: list[Resource], git_version: str) -> dict[str, Any]:
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": git_version},
        "paths": _paths(resources, v3=True),
        "components": {"schemas": _definitions(resources, "#/components/schemas/")},
    }


def _v2(resources: list[Resource], git_version: str) -> dict[str, Any]:
    definitions = _definitions(resources, "#/definitions/")
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": git_version},
        "paths": _paths(resources, v3=False),
        "definitions": {name: _as_v2(schema) for name, schema in definitions.items()},
    }


def _definitions(resources: list[Resource], prefix: str) -> dict[str, Any]:
    schemas: dict[str, Any] = {
        _OBJECT_META: OBJECT_META_SCHEMA,
        _LIST_META: _LIST_META_SCHEMA,
    }
    for resource in resources:
        name = schema_name(resource)
        schemas[name] = _object_schema(resource, prefix)
        schemas[f"{name}List"] = _list_schema(resource, name, prefix)
    return schemas


def _object_schema(resource: Resource, prefix: str) -> dict[str, Any]:
    schema = resource.strategy.schema
    source: Mapping[str, Any] = schema.source if schema is not None else {"type": "object"}
    properties = {
        **(source.get("properties") or {}),
        "apiVersion": _API_VERSION,
        "kind": _KIND,
        "metadata": {"allOf": [{"$ref": prefix + _OBJECT_META}], "default": {}},
    }
    return {
        **source,
        "properties": properties,
        "x-kubernetes-group-version-kind": [_gvk(resource)],
    }


def _list_schema(resource: Resource, name: str, prefix: str) -> dict[str, Any]:
    kind = resource.list_kind or f"{resource.kind}List"
    return {
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": _API_VERSION,
            "kind": _KIND,
            "metadata": {"allOf": [{"$ref": prefix + _LIST_META}], "default": {}},
            "items": {"type": "array", "items": {"allOf": [{"$ref": prefix + name}]}},
        },
        "x-kubernetes-group-version-kind": [{**_gvk(resource), "kind": kind}],
    }


def schema_name(resource: Resource) -> str:
    """Return the name of a kind's schema."""
    if resource.custom:
        reverse = ".".join(reversed(resource.group.split(".")))
        return f"{reverse}.{resource.version}.{resource.kind}"
    group = resource.group.split(".")[0] or "core"
    return f"io.k8s.api.{group}.{resource.version}.{resource.kind}"


def _paths(resources: list[Resource], *, v3: bool) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for resource in resources:
        scope = "namespaces/{namespace}/" if resource.namespaced else ""
        collection = f"/{_group_path(resource)}/{scope}{resource.plural}"
        paths[collection] = {
            "get": _operation(resource, "list", v3=v3),
            "post": _operation(resource, "post", v3=v3),
        }
        paths[f"{collection}/{{name}}"] = {
            method: _operation(resource, method, v3=v3)
            for method in ("get", "put", "patch", "delete")
        }
    return paths


def _operation(resource: Resource, action: str, *, v3: bool) -> dict[str, Any]:
    names = _WRITE_PARAMETERS if action in _WRITES else ("dryRun",) if action == "delete" else ()
    parameters = [_parameter(name, v3=v3) for name in names]
    if action == "patch":
        parameters.append(_parameter("force", v3=v3, kind="boolean"))
    return {
        "operationId": f"{action}{resource.version.capitalize()}{resource.kind}",
        "parameters": parameters,
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _gvk(resource),
    }


def _parameter(name: str, *, v3: bool, kind: str = "string") -> dict[str, Any]:
    typed: dict[str, Any] = (
        {"schema": {"type": kind, "uniqueItems": True}} if v3 else {"type": kind}
    )
    return {"name": name, "in": "query", **typed}


def _as_v2(schema: Any) -> Any:
    """Drop what OpenAPI v2 cannot say; a reference wrapped in allOf becomes the bare reference."""
    if isinstance(schema, list):
        return [_as_v2(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    wrapped = schema.get("allOf")
    if wrapped and "$ref" in wrapped[0]:
        return dict(wrapped[0])
    result = {}
    for key, value in schema.items():
        if key in _V3_ONLY:
            continue
        if key == "properties":
            result[key] = {name: _as_v2(item) for name, item in value.items()}
        else:
            result[key] = _as_v2(value)
    return result


def _gvk(resource: Resource) -> dict[str, str]:
    return {"group": resource.group, "kind": resource.kind, "version": resource.version}


def _group_path(resource: Resource) -> str:
    if not resource.group:
        return f"api/{resource.version}"
    return f"apis/{resource.group}/{resource.version}"
